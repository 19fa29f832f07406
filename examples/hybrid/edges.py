#!/usr/bin/env python3
"""Two edges, one Redis, and what arrives downstream.

    edges.py WEIR [--seconds S] [--svg FILE]

Starts a Redis and two `weir serve` with policy.yaml. At each edge 12 clients with one API key send requests, each 1.5 a second. In
the middle third of the time one client at each edge floods, with 300 a second. A request that is allowed goes downstream after the
delay that the decision has. The plot shows, for each tenth of a second, how many requests came, how many the edges passed on, and
how many arrived downstream."""

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

CLIENTS, STEADY, FLOOD, RATE, BIN_S = 12, 1.5, 300, 50, 0.1
HERE = os.path.dirname(os.path.abspath(__file__))


class Edge:
    """A connection to one server, for one client."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")
        self.ask("HELLO", "3")
        self.ask("WEIR.REPLIES", "MAP")

    def ask(self, *words):
        encoded = [word.encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded))
        return self.read()

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"-":
            raise ValueError(rest)
        return int(rest) if kind == b":" else rest == "t" if kind == b"#" else rest

    def close(self):
        self.file.close()
        self.socket.close()


class Seen:
    """Requests: when each came, which limit decided, and when it arrives downstream, in seconds. None: denied."""

    def __init__(self):
        self.lock, self.rows = threading.Lock(), []

    def add(self, at, answer):
        arrives = at + answer["delay"] / 1e9 if answer["allowed"] else None
        with self.lock:
            self.rows.append((at, answer["decided_by"], arrives))


def rate_of(is_flooding, at, seconds):
    return FLOOD if is_flooding and seconds / 3 <= at < 2 * seconds / 3 else STEADY


def send(path, name, offset, is_flooding, seconds, began, seen):
    """Sends at an even pace, however long the replies take."""
    edge = Edge(path)
    at = offset / STEADY
    while at < seconds:
        time.sleep(max(0.0, began + at - time.monotonic()))
        seen.add(time.monotonic() - began, edge.ask("WEIR.CHECK", "client", name, "api_key", "shop"))
        at += 1 / rate_of(is_flooding, at, seconds)
    edge.close()


def wait_for(path):
    end = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            return
        if time.monotonic() > end:
            sys.exit(f"edges.py: nothing listens at {path}")
        time.sleep(0.01)


@contextlib.contextmanager
def running(words, path, program=None):
    with subprocess.Popen(words, executable=program, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(path)
            yield
        finally:
            process.terminate()


@contextlib.contextmanager
def edges(weir):
    """Two servers and their Redis."""
    with tempfile.TemporaryDirectory(prefix="weir-edges-") as folder, contextlib.ExitStack() as stack:
        redis, *paths = (os.path.join(folder, name) for name in ("redis", "a", "b"))
        program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        stack.enter_context(running(["redis-server", "--port", "0", "--unixsocket", redis, "--save", "", "--dir", folder], redis, program))
        for path in paths:
            stack.enter_context(running([weir, "serve", "--listen", path, "--http", "none", "--workers", "1", "--store",
                                         f"redis+unix://{redis}", "--store-budget", "5s", "--policy",
                                         os.path.join(HERE, "policy.yaml")], path))
        yield paths


def run(weir, seconds):
    seen = Seen()
    with edges(weir) as paths:
        began = time.monotonic()
        threads = [threading.Thread(target=send, args=(path, f"client-{n}", n / CLIENTS, n == 0, seconds, began, seen))
                   for path in paths for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return seen.rows


def counted(instants, seconds):
    """Requests a second, for each bin."""
    bins = [0] * round(seconds / BIN_S)
    for at in instants:
        if 0 <= at < seconds:
            bins[min(int(at / BIN_S), len(bins) - 1)] += 1
    return [n / BIN_S for n in bins]


def plot(rows, seconds):
    width, height, left, bottom, most = 720, 300, 50, 30, 800
    lines = (("sent by clients", "#999", counted([at for at, _, _ in rows], seconds)),
             ("passed by the edges", "#d80", counted([at for at, by, arrives in rows if arrives is not None or by != "edge"], seconds)),
             ("arrived downstream", "#06c", counted([arrives for _, _, arrives in rows if arrives is not None], seconds)))

    def place(at, rate):
        return f"{left + at / seconds * (width - left - 10):.1f},{height - bottom - min(rate, most) / most * (height - bottom - 10):.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for rate in (0, RATE, 200, 400, 600, 800):
        a, b = place(0, rate), place(seconds, rate)
        dash = "" if rate == RATE else ' stroke-dasharray="2 4"'
        parts.append(f'<polyline points="{a} {b}" stroke="#bbb" fill="none"{dash}/>')
        parts.append(f'<text x="{left - 6}" y="{float(a.split(",")[1]) + 4:.1f}" text-anchor="end">{rate}</text>')
    for n, (name, colour, rates) in enumerate(lines):
        points = " ".join(place((i + 0.5) * BIN_S, rate) for i, rate in enumerate(rates))
        parts.append(f'<polyline points="{points}" stroke="{colour}" stroke-width="2" fill="none"/>')
        parts.append(f'<text x="{left + 20}" y="{24 + 16 * n}" fill="{colour}">{name}, requests a second</text>')
    parts.append(f'<text x="{width - 10}" y="{height - 10}" text-anchor="end">{seconds:g} s</text></svg>\n')
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description="two edges, one Redis, and what arrives downstream")
    parser.add_argument("weir")
    parser.add_argument("--seconds", type=float, default=9.0)
    parser.add_argument("--svg")
    options = parser.parse_args()
    rows = run(options.weir, options.seconds)
    arrived = sorted(arrives for _, _, arrives in rows if arrives is not None)
    print(f"sent: {len(rows)}")
    print(f"denied at the edges, without a call to Redis: {sum(arrives is None and by == 'edge' for _, by, arrives in rows)}")
    print(f"denied by the central limit: {sum(arrives is None and by == 'central' for _, by, arrives in rows)}")
    print(f"arrived downstream: {len(arrived)}")
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(plot(rows, options.seconds))


if __name__ == "__main__":
    main()
