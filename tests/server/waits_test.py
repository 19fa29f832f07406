#!/usr/bin/env python3
"""Takes that wait, with their limits in a Redis that two servers share.

    waits_test.py WEIR

The test compares departures by the state in Redis, which has the time at which a key is full, in microseconds."""
# Covers: src/engine/waiting.c, src/store/redis/redis_store.c

import contextlib
import os
import signal
import socket
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, bulks, daemon, run
from redis_server import redis
from resp_client import Client, until

WEIR = sys.argv[1]
QUEUE, HOUR_US, DAY_MS = "1/hour leaky queue 20", 3600 * 10**6, 86400000
POLICY = """limits:
  - {name: named, key: [user], limit: 1/hour}
  - {name: edge, key: [user], limit: 1/hour leaky queue 9, store: table}
"""


@contextlib.contextmanager
def servers(store, n=2, *options, budget="10s"):
    """n servers on one Redis, with one worker each, and a client of each."""
    with tempfile.TemporaryDirectory(prefix="weir-waits-") as folder, contextlib.ExitStack() as stack:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(POLICY)
        ones = [stack.enter_context(daemon(WEIR, "--store", store.url, "--workers", "1", "--store-budget", budget, "--policy", path,
                                           *options)) for _ in range(n)]
        clients = [stack.enter_context(Client(one, protocol=3)) for one in ones]
        for client in clients:
            until(lambda client=client: client.info()["store_state"] == "up", "the store came up")
        yield ones, clients


class Watch:
    """A connection to Redis itself."""

    def __init__(self, store):
        self.client = Client(store)

    def full_at(self):
        """When the only stored key is full, in microseconds; None: nothing is stored."""
        names = [name for name in self.client.ask("KEYS", "*") if not name.endswith(("~servers", "~changes", "~nodes"))]
        if not names:
            return None
        assert len(names) == 1, names
        self.client.send("GET", names[0])
        length = int(self.client.file.readline()[1:])
        value = self.client.file.read(length + 2)
        return int.from_bytes(value[35:42], "little")

    def close(self):
        self.client.close()


@contextlib.contextmanager
def watched(store):
    with contextlib.closing(Watch(store)) as watch:
        yield watch


def waiting_on(one, key, limit, timeout_ms=DAY_MS):
    """A client with a waiting take."""
    client = Client(one, protocol=3)
    client.send("WEIR.TAKE", key, limit, 1, "WAIT", timeout_ms)
    return client


def departures_of_two_servers_are_spaced_by_the_rate():
    with redis() as store, servers(store) as (ones, clients), watched(store) as watch:
        assert clients[0].ask("WEIR.TAKE", "k", QUEUE, 1, "WAIT", 0)["allowed"]
        first = watch.full_at()
        waits = []
        for n in range(1, 9):
            waits.append(waiting_on(ones[n % 2], "k", QUEUE))
            until(lambda n=n: watch.full_at() == first + n * HOUR_US, f"departure {n} is {n} hours after the first")
        for client in clients:
            peek = client.ask("WEIR.PEEK", "k", QUEUE)
            assert peek["allowed"] and 8 * HOUR_US < peek["delay"] / 1000 <= 9 * HOUR_US and peek["remaining"] == 11, peek
            denied = client.ask("WEIR.TAKE", "k", QUEUE, 1, "WAIT", 3600000)
            assert not denied["allowed"] and 8 * HOUR_US < denied["retry_after"] / 1000 <= 9 * HOUR_US, denied
        assert watch.full_at() == first + 8 * HOUR_US, "what was denied is not charged"
        for wait in waits:
            wait.close()


def who_leaves_gives_its_departure_back():
    """Unless later departures depend on it."""
    with redis() as store, servers(store) as (ones, clients), watched(store) as watch:
        clients[0].ask("WEIR.TAKE", "k", QUEUE)
        first = watch.full_at()
        waits = []
        for n in range(1, 5):
            waits.append(waiting_on(ones[n % 2], "k", QUEUE))
            until(lambda n=n: watch.full_at() == first + n * HOUR_US, "it waits")
        waits[1].close()  # two later ones depend on it
        until(lambda: sum(int(client.info()["waiting_here"]) for client in clients) == 3, "it has gone")
        assert watch.full_at() == first + 4 * HOUR_US
        waits[3].close()
        until(lambda: watch.full_at() == first + 3 * HOUR_US, "the last one is given back")
        waits[2].close()
        until(lambda: watch.full_at() == first + 2 * HOUR_US, "and then the one before it")
        waits[0].close()
        until(lambda: sum(int(client.info()["waiting_here"]) for client in clients) == 0, "all have gone")


def other_limits_are_waited_for():
    with redis() as store, servers(store) as (ones, clients):
        for limit in ("20/s burst 1", "1/50ms fixed_window", "1/50ms sliding_log", "20/s leaky queue 5", "1/50ms fixed_window count all"):
            for n in range(5):
                answer = clients[n % 2].ask("WEIR.TAKE", "k", limit, 1, "WAIT", 60000)
                assert answer["allowed"] and answer["delay"] == 0, (limit, answer)
        denied = clients[0].ask("WEIR.TAKE", "k", "1/hour", 2, "WAIT", DAY_MS)
        assert not denied["allowed"] and denied["retry_after"] == -1, denied


def waits_of_a_server_are_in_order():
    """Only the first of them calls Redis; the others follow when it has departed."""
    with redis() as store, servers(store) as (ones, clients):
        assert clients[0].ask("WEIR.TAKE", "u", "@named")["allowed"]
        waits = []
        for n in range(2):
            waits.append(waiting_on(ones[0], "u", "@named"))
            until(lambda n=n: int(clients[0].info()["waiting_here"]) == n + 1, "it waits")
        for n in range(2):  # a named limit is looked up at each try
            clients[1].ask("WEIR.RESET", "u", "@named")
            assert waits[n].read()["allowed"], n
            assert int(clients[0].info()["waiting_here"]) == 1 - n, "the other waits on"
            waits[n].close()


def without_redis_the_fallback_answers():
    for mode, allowed in (("open", True), ("closed", False), ("share", True)):
        with redis() as store, servers(store, 1, "--on-store-failure", mode, budget="500ms") as (ones, clients):
            assert clients[0].ask("WEIR.TAKE", "u", "@named")["allowed"]
            with contextlib.closing(waiting_on(ones[0], "u", "@named")) as named, \
                    contextlib.closing(waiting_on(ones[0], "q", QUEUE)) as first, contextlib.closing(waiting_on(ones[0], "q", QUEUE)) as departs:
                assert first.read()["allowed"]
                until(lambda: int(clients[0].info()["waiting_here"]) == 2, "two wait")
                store.tell(signal.SIGSTOP)
                if mode == "open":  # closed: retry in a second; share: the key is used up; both continue to wait
                    assert named.read()["allowed"], mode
                answer = clients[0].ask("WEIR.TAKE", "fresh", QUEUE, 1, "WAIT", 0)
                assert answer["allowed"] == allowed, (mode, answer)
                departs.close()  # Redis cannot be told
                until(lambda: int(clients[0].info()["waiting_here"]) == (mode != "open"), f"it has gone: {mode}")
            if mode != "share":  # share ends without Redis
                store.tell(signal.SIGCONT)
            assert ones[0].end() == 0, ones[0].said()
            store.tell(signal.SIGCONT)


def sigterm_denies_who_waits():
    with redis() as store, servers(store) as (ones, clients), watched(store) as watch:
        clients[0].ask("WEIR.TAKE", "k", QUEUE)
        first = watch.full_at()
        wait = waiting_on(ones[0], "k", QUEUE)
        until(lambda: watch.full_at() == first + HOUR_US, "it waits")
        edge = waiting_on(ones[0], "u", "@edge")
        assert edge.read()["allowed"]
        edge.send("WEIR.TAKE", "u", "@edge", 1, "WAIT", DAY_MS)
        until(lambda: int(clients[0].info()["waiting_here"]) == 2, "both wait")
        os.kill(ones[0].process.pid, signal.SIGTERM)
        for client in (wait, edge):
            denied = client.read()
            assert not denied["allowed"] and denied["retry_after"] > 0, denied
            client.close()
        assert ones[0].process.wait(TIMEOUT_S) == 0, ones[0].said()
        ones[0].end()
        assert watch.full_at() == first, "its departure was given back"


def who_leaves_at_once_leaves_nothing():
    """Whether Redis has replied by then or not."""
    with redis() as store, servers(store, 1) as (ones, clients):
        for n in range(60):
            clients[0].ask("WEIR.TAKE", f"k{n}", QUEUE)
            with ones[0].connect() as other:
                other.sendall(bulks("WEIR.TAKE", f"k{n}", QUEUE, 1, "WAIT", DAY_MS))
                if n % 2:
                    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes with a reset
                if n % 3 == 0:
                    until(lambda: int(clients[0].info()["waiting_here"]) > 0, "it waits")
        until(lambda: clients[0].info()["connected_clients"] == "1" and clients[0].info()["waiting_here"] == "0", "all have gone")
        for n in range(60):
            assert clients[0].ask("WEIR.PEEK", f"k{n}", QUEUE)["remaining"] == 19, n


TESTS = [departures_of_two_servers_are_spaced_by_the_rate, who_leaves_gives_its_departure_back, other_limits_are_waited_for,
         waits_of_a_server_are_in_order, without_redis_the_fallback_answers, sigterm_denies_who_waits, who_leaves_at_once_leaves_nothing]

if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
