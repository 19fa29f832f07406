#!/usr/bin/env python3
"""store_python.py: a policy in front of Redis, for a program in Python. Any number of such programs can share the limits.
If Redis fails, each decides by its share.

    PYTHONPATH=bindings/python WEIR_LIBRARY=build/src/libweir.so python3 examples/store_python.py URL POLICY"""

import sys
from concurrent.futures import ThreadPoolExecutor

import weir

REQUESTS = 200


def main(url, policy):
    with weir.Store(url, on_failure="share") as store, weir.Guard(store, file=policy) as guard, ThreadPoolExecutor(4) as pool:
        store.wait(5)
        answers = list(pool.map(lambda _: guard.check({"ip": "192.0.2.7", "path": "/"}), range(REQUESTS)))
        denied = [answer for answer in answers if not answer]
        by = ", ".join({answer.decided_by for answer in denied})
        print(f"{REQUESTS} requests of one client: {REQUESTS - len(denied)} allowed, {len(denied)} denied by {by}")
        stats = store.stats()
        print(f"{stats.decided} decided by Redis, {stats.by_fallback} by the fallback")


if __name__ == "__main__":
    main(*sys.argv[1:])
