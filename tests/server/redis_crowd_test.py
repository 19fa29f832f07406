#!/usr/bin/env python3
"""Four servers on one Redis and many clients use the same 1,000 keys: each key is allowed exactly its limit.

    redis_crowd_test.py WEIR [--requests N] [--faketime]

Tests all algorithms, one limit at a time and two together. For each key the test knows when it was first charged, what
clients were allowed, and what Redis says is left in the end. Given the limit and two readings of Redis's clock, only
that number can be left. With --faketime the same runs with servers whose clocks are hours apart."""

import argparse
import contextlib
import glob
import os
import random
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import bulks, daemon, run
from redis_server import redis
from resp_client import Client, until

SERVERS, CLIENTS, KEYS, PIPELINE, GROUP = 4, 8, 1000, 32, 50
US, DAY_US = 10**6, 86400 * 10**6
TOGETHER = 10  # keys that share a second limit


class Limit:
    """A limit, and what it has left after a number of units and microseconds."""

    def __init__(self, text, count, period_us=DAY_US, burst=None, is_bucket=False):
        self.text, self.count, self.period_us = text, count, period_us
        self.burst = count if burst is None else burst
        self.is_bucket = is_bucket

    def left(self, admitted, us):
        """For a bucket that was never full again since its first charge. Others refill nothing within a day."""
        leaked = self.count * us // self.period_us if self.is_bucket else 0
        return self.burst + leaked - admitted

    def may_be_whole(self, us):
        return self.is_bucket and self.count * us >= self.burst * self.period_us


def limits_of(count):
    """Each limit runs out. The second one leaks meanwhile; it is emptied first, or it would be full too soon."""
    return [
        Limit(f"{count}/day", count, is_bucket=True),
        Limit("1/s burst 300", 1, US, 300, is_bucket=True),
        Limit(f"{count}/day leaky burst {count}", count, is_bucket=True),
        Limit(f"{count}/day refill interval", count),
        Limit(f"{count}/day fixed_window", count),
        Limit(f"{count}/day sliding_log", count),
        Limit(f"{count}/day sliding_counter", count),
        Limit(f"{count}/day sliding_counter segments 4", count),
    ]


class Key:
    """A key, its limits and its results: units, and the earliest and latest time of the first charge."""

    def __init__(self, name, limit, wide=None):
        self.name, self.limit, self.wide = name, limit, wide
        self.words = ("WEIR.ALL", name, limit.text, 1, wide.name, wide.limit.text, 1) if wide else \
                     ("WEIR.TAKE", name, limit.text)
        self.request = bulks(*self.words)
        self.admitted = 0
        self.first_from = self.first_until = 0

    def count(self, units):
        self.admitted += units
        if self.wide:
            self.wide.admitted += units


def keys_of(each):
    """1,000 keys, half of them in groups with a second limit."""
    limits, keys, wides = limits_of(2 * each // 5), [], []
    for i in range(KEYS // 2):
        keys.append(Key(f"alone:{i}", limits[i % len(limits)]))
    for i in range(KEYS // 2):
        if i % TOGETHER == 0:  # 10 keys that get 2/5 of their requests, together 3/10
            count = TOGETHER * each * 3 // 10
            wides.append(Key(f"group:{i // TOGETHER}", Limit(f"{count}/day fixed_window", count)))
        keys.append(Key(f"member:{i}", limits[0], wides[-1]))
    return keys, wides


def redis_us(client):
    seconds, microseconds = map(int, client.ask("TIME"))
    return seconds * US + microseconds


def in_groups(keys):
    return [keys[i:i + GROUP] for i in range(0, len(keys), GROUP)]


def charge_first(keys, client, clock):
    """Takes all of a bucket that leaks fast, one unit of others."""
    for group in in_groups(keys):
        since = redis_us(clock)
        costs = [key.limit.burst if key.limit.period_us == US else 1 for key in group]
        answers = client.pipeline([(*key.words, cost) if cost > 1 else key.words for key, cost in zip(group, costs)])
        now = redis_us(clock)
        for key, cost, answer in zip(group, costs, answers):
            assert answer[0] == 1, (key.words, answer)
            key.count(cost)
            for one in (key, key.wide) if key.wide else (key,):
                one.first_from, one.first_until = since, now


def ask(server, share, admitted):
    """A client: adds what it was allowed to `admitted`, by key."""
    with Client(server) as client:
        for i in range(0, len(share), PIPELINE):
            keys = share[i:i + PIPELINE]
            client.socket.sendall(b"".join(key.request for key in keys))
            for key in keys:
                if client.read()[0]:
                    admitted[key] = admitted.get(key, 0) + 1


def ask_all(servers, keys, each):
    asked = [key for key in keys for _ in range(each - 1)]
    random.Random(9).shuffle(asked)
    told = [{} for _ in range(CLIENTS)]
    faults = []

    def guarded(i):
        try:
            ask(servers[i % len(servers)], asked[i::CLIENTS], told[i])
        except Exception as fault:  # report any error of a thread
            faults.append(f"{type(fault).__name__}: {fault}")

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    for admitted in told:
        for key, n in admitted.items():
            key.count(n)
    return len(asked) + len(keys)


def check(keys, client, clock):
    """Compares each key with what Redis has left."""
    for group in in_groups(keys):
        since = redis_us(clock)
        answers = client.pipeline([("WEIR.PEEK", key.name, key.limit.text) for key in group])
        now = redis_us(clock)
        for key, answer in zip(group, answers):
            if key.first_from // DAY_US != now // DAY_US and not key.limit.is_bucket:
                assert key.admitted <= 2 * key.limit.burst, (key.name, key.admitted)
                continue
            most = key.limit.left(key.admitted, now - key.first_from)
            least = key.limit.left(key.admitted, since - key.first_until)
            assert most >= 0, (key.name, key.limit.text, key.admitted, "more than the limit")
            assert key.limit.may_be_whole(now - key.first_from) or max(least, 0) <= answer[2] <= most, \
                (key.name, key.limit.text, key.admitted, least, answer, most)


def check_all_are_used_up(keys, wides):
    """Otherwise the test would prove nothing."""
    for key in keys:
        if not key.wide:
            assert key.admitted >= key.limit.burst, (key.name, key.limit.text, key.admitted)
    for wide in wides:
        assert wide.admitted >= wide.limit.count, (wide.name, wide.admitted)


@contextlib.contextmanager
def servers_on(store, weir, clocks):
    """A server for each clock: its offset for faketime, or None. Each must reach the store."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(daemon(weir, "--store", store.url, "--store_budget", "10s", "--workers", "1",
                                              env=environment(clock))) for clock in clocks]
        for server in servers:
            client = stack.enter_context(Client(server))
            until(lambda client=client: client.info()["store_state"] == "up", "a store that is up")
            server.client = client
        yield servers


def environment(clock):
    if clock is None:
        return None
    library = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    assert library, "libfaketime is not there: install faketime"
    return {**os.environ, "LD_PRELOAD": library[0], "FAKETIME": clock, "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1"}


def all_of_redis(servers):
    for server in servers:
        info = server.client.info()
        assert info["store_unreached"] == info["store_unanswered"] == "0", info


def crowd(weir, requests, clocks):
    each = requests // KEYS
    keys, wides = keys_of(each)
    with redis() as store, Client(store) as clock, servers_on(store, weir, clocks) as servers:
        check_clocks(servers, clocks, clock)
        charge_first(keys, servers[0].client, clock)
        n = ask_all(servers, keys, each)
        all_of_redis(servers)
        check(keys + wides, servers[-1].client, clock)
        check_all_are_used_up(keys, wides)
        return f"{n} requests, {sum(key.admitted for key in keys)} units admitted"


def check_clocks(servers, clocks, clock):
    """Checks the offsets: an instant in a reply is by the server's own clock."""
    for server, offset in zip(servers, clocks):
        server.client.ask("WEIR.TAKE", f"clock{offset}", "60/hour")
        full_at = server.client.ask("WEIR.INSPECT", f"clock{offset}", "60/hour")[3]
        off_us = full_at // 1000 - redis_us(clock)
        expected = 0 if offset is None else int(offset.rstrip("h")) * 3600 * US
        assert abs(off_us - expected) < 1800 * US, (offset, off_us)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--faketime", action="store_true")
    given = parser.parse_args()
    tests = [("four servers", lambda: crowd(given.weir, given.requests, [None] * SERVERS))]
    if given.faketime:
        tests.append(("four servers whose clocks are hours apart",
                      lambda: crowd(given.weir, given.requests, [None, "+3h", "-2h", "+1h"])))
    return run(tests)


if __name__ == "__main__":
    sys.exit(main())
