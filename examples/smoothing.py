#!/usr/bin/env python3
"""smoothing.py: bursts from many producers, written to a database at a constant rate.

Eight producers send 25 orders each, all at once. A leaky queue releases 400 a second, in order, and one thread writes them
to SQLite. SQLite stands for what you have: in `write`, call your Kafka producer, Kinesis or another database instead.

    PYTHONPATH=bindings/python WEIR_LIBRARY=build/src/libweir.so python3 examples/smoothing.py"""

import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

import weir

PRODUCERS, ORDERS = 8, 25
RATE = 400
WINDOW = 0.1  # seconds


def produce(orders, number):
    for order in range(ORDERS):
        orders.push(f"order {number}-{order}")  # blocks while the queue is full: back pressure


def write(orders, path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("CREATE TABLE orders (name TEXT, written_at REAL)")
    for order in orders:  # ends when the queue is closed and empty
        database.execute("INSERT INTO orders VALUES (?, ?)", (order, time.monotonic()))
    database.close()


def most_in_a_window(times):
    return max(sum(start <= at < start + WINDOW for at in times) for start in times)


def main():
    orders = weir.Queue(f"{RATE}/s leaky queue 1000")  # 1000 places
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.db"
        writer = threading.Thread(target=write, args=(orders, path))
        producers = [threading.Thread(target=produce, args=(orders, number)) for number in range(PRODUCERS)]
        began = time.monotonic()
        for thread in [writer, *producers]:
            thread.start()
        for thread in producers:
            thread.join()
        pushed_s = time.monotonic() - began
        orders.close()  # queued orders still leave, at the rate
        writer.join()
        database = sqlite3.connect(path)
        times = [at for (at,) in database.execute("SELECT written_at FROM orders ORDER BY written_at")]
        database.close()
    took, most = times[-1] - times[0], most_in_a_window(times)
    print(f"{PRODUCERS} producers pushed {len(times)} orders in {pushed_s:.3f} s")
    print(f"the database got them in {took:.3f} s, at most {most} in any {WINDOW} s")
    # A departure may be late and the next one on time, and the writer may note its time late. So a window may have 3 more.
    return 0 if len(times) == PRODUCERS * ORDERS and most <= RATE * WINDOW + 3 else 1


if __name__ == "__main__":
    sys.exit(main())
