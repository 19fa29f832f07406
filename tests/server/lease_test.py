#!/usr/bin/env python3
"""Servers that lease a limit in one Redis never allow more than the limit.

    lease_test.py WEIR [SECONDS]

Clients note when they sent each request and when its reply came. For any two instants, the requests that were sent and
replied to between them are at most `burst + rate x length`, for a window at most its count. ROUNDING is for the two
clocks that are read. Servers are stopped with SIGSTOP and killed with SIGKILL meanwhile. With SECONDS, the load with
such faults lasts that long."""
# Covers: src/store/lease_store.c, src/store/lease_background.c, src/store/lease.c, src/server/stores.c, src/engine/limit_row.c

import bisect
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import daemon, run
from redis_server import redis
from resp_client import Client, Refused, until

WEIR = sys.argv[1]
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 3
PATIENT = ("--store_budget", "10s")  # Redis must decide, however slow the machine is
ROUNDING = 1

POLICY = """
limits:
  - {name: once, key: [once], limit: 600/1000day fixed_window, consistency: {lease: {stranded: 20%%}}, on_store_failure: closed}
  - {name: bucket, key: [bucket], limit: 300/s burst 400, consistency: {lease: {stranded: 50%%}}, on_store_failure: closed}
  - {name: window, key: [window], limit: 50/s fixed_window, consistency: {lease: {stranded: 40%%}}, on_store_failure: closed}
  - {name: counter, key: [counter], limit: 50/s sliding_counter, consistency: {lease: {stranded: 40%%}}, on_store_failure: closed}
  - {name: exact, key: [exact], limit: 20/1000day}
  - {name: moved, key: [moved], limit: %s/1000day, consistency: {lease: {stranded: 30%%}}, on_store_failure: closed}
"""


@contextlib.contextmanager
def servers(store, n, *options, policy=POLICY % 300):
    """Runs n servers on one Redis that know of each other."""
    with tempfile.TemporaryDirectory(prefix="weir-lease-") as folder, contextlib.ExitStack() as stack:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(policy)
        ones = [stack.enter_context(daemon(WEIR, "--store", store.url, "--workers", "2", "--policy", path, *PATIENT, *options))
                for _ in range(n)]
        for one in ones:
            one.policy = path
            with Client(one, protocol=3) as client:
                until(lambda client=client: client.info()["store_nodes"] == str(n), "the servers know of each other")
        yield ones


def check(client, n=1, **attributes):
    words = [str(word) for pair in attributes.items() for word in pair]
    return sum(answer["allowed"] for answer in client.pipeline([["WEIR.CHECK", *words]] * n))


def info(client, name):
    return int(client.info()[name])


def held_is_gone(client):
    """Waits until the server holds nothing."""
    until(lambda: info(client, "lease_held") == 0, "what is not used is given back")


# --- one key at a time ----------------------------------------------------------------------------------------------

def servers_share_exactly_the_limit():
    with redis() as store, servers(store, 3) as ones, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one, protocol=3)) for one in ones]
        total = sum(check(client, 20, once="k") for _ in range(20) for client in clients)
        assert total <= 600, total
        end = time.monotonic() + 60
        while total < 600 and time.monotonic() < end:  # what one holds comes back when it is not used
            total += sum(check(client, 1, once="k") for client in clients)
        assert total == 600, total
        assert sum(info(client, "lease_allowed") for client in clients) > 100
        assert sum(check(client, 20, once="k") for client in clients) == 0
        return f"{sum(info(client, 'lease_allowed') for client in clients)} of 600 from held units"


def a_server_that_ends_gives_back():
    with redis() as store, servers(store, 2) as ones, Client(ones[1], protocol=3) as other:
        with Client(ones[0], protocol=3) as one:
            total = check(one, 20, once="k")
            while total < 500:
                total += check(one, 1, once="k")
                if info(one, "lease_held") > 0:
                    break
            assert info(one, "lease_held") > 0
        assert ones[0].end() == 0
        assert other.ask("WEIR.PEEK", "k", "@once")["remaining"] == 600 - total, "it took nothing with it"


def several_limits_are_all_or_nothing():
    with redis() as store, servers(store, 1) as (one,), Client(one, protocol=3) as client:
        assert check(client, 10, once="k") + check(client, 10, once="k") == 20
        total = check(client, 30, once="k", exact="e")
        assert total == 20, total
        until(lambda: client.ask("WEIR.PEEK", "k", "@once")["remaining"] == 600 - 40, "what is not used is given back")


def lease_some(client):
    """Takes until the server holds some. Returns how many it took."""
    total = check(client, 10, once="k")
    while info(client, "lease_held") == 0:
        total += check(client, 1, once="k")
        assert total < 200
    return total


def holds_refunds_and_resets_work():
    with redis() as store, servers(store, 1) as (one,), Client(one, protocol=3) as client:
        total, ids = lease_some(client), itertools.count()

        def goes_back():
            name, before = next(ids), info(client, "lease_held")
            assert client.ask("WEIR.HOLD", name, "k", "@once", 2, 60000)["allowed"] == 1
            between = info(client, "lease_held")
            client.ask("WEIR.RELEASE", name)
            return info(client, "lease_held") == before == between + 2

        until(goes_back, "a released hold is held again, unless it may be of an earlier lot")
        assert client.ask("WEIR.HOLD", "last", "k", "@once", 2, 60000)["allowed"] == 1
        client.ask("WEIR.SETTLE", "last", 1)
        most = 600 - total - 1  # 1 of the hold was used; what was released at an earlier lot may stay charged
        assert client.ask("WEIR.REFUND", "k", "@once", 3)["remaining"] <= most + 3
        held_is_gone(client)
        least = most - 2 * next(ids)
        until(lambda: least <= client.ask("WEIR.PEEK", "k", "@once")["remaining"] <= most + 3, "all is given back")
        lease_some(client)
        assert client.ask("WEIR.RESET", "k", "@once") == 1
        assert info(client, "lease_held") == 0
        assert client.ask("WEIR.PEEK", "k", "@once")["remaining"] == 600


def held_units_are_spent_while_redis_is_gone():
    with redis() as store, servers(store, 1) as (one,), Client(one, protocol=3) as client:
        while info(client, "lease_held") < 20:
            assert check(client, 10, once="k") > 0
        store.tell(signal.SIGSTOP)
        assert check(client, 5, once="k") == 5
        store.tell(signal.SIGCONT)


def a_change_counts_what_was_leased():
    with redis() as store, servers(store, 2) as ones, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one, protocol=3)) for one in ones]
        total = sum(check(client, 10, moved="k") for _ in range(5) for client in clients)
        assert total <= 100, total
        clients[0].ask("WEIR.CHANGE", "moved", "200/1000day")
        until(lambda: all(client.ask("WEIR.PEEK", "k", "@moved")["limit"] == 200 for client in clients), "both know")
        more = sum(check(client, 10, moved="k") for _ in range(20) for client in clients)
        assert total + more <= 200, (total, more)


# --- load with faults -----------------------------------------------------------------------------------------------

class Load:
    """A client that uses keys of one server until it is told to stop. Connects again when the server was killed."""

    def __init__(self, one, keys, seed):
        self.one, self.keys, self.random, self.allowed = one, keys, random.Random(seed), {key: [] for key in keys}
        self.is_over = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.is_over:
            with contextlib.suppress(OSError, AssertionError, Refused, AttributeError), Client(self.one, protocol=3) as client:
                while not self.is_over:
                    self.ask(client)
            time.sleep(0.01)

    def ask(self, client):
        limit, key = self.random.choice(self.keys)
        n = self.random.choice((1, 1, 2, 8))
        sent = time.monotonic()
        answers = client.pipeline([("WEIR.CHECK", limit, key)] * n)
        got = time.monotonic()
        self.allowed[limit, key] += [(sent, got)] * sum(answer["allowed"] for answer in answers)
        if self.random.random() < 0.05:
            time.sleep(self.random.random() * 0.3)

    def stop(self):
        self.is_over = True
        self.thread.join()


CHUNK = 2000  # requests that are compared with one another


def most_over(requests, rate, burst):
    """The same for many requests: intervals with up to CHUNK / 2 of them."""
    requests = sorted(requests)
    return max((most_in_any_interval(requests[i:i + CHUNK], rate, burst) for i in range(0, max(1, len(requests)), CHUNK // 2)),
               default=0)


def most_in_any_interval(requests, rate, burst):
    """How many more requests than `burst + rate x length` were sent and replied to between two instants, at most."""
    by_reply = sorted(requests, key=lambda request: request[1])
    worst = 0.0
    for start in sorted({sent for sent, _ in requests}):
        n = 0
        for sent, got in by_reply[bisect.bisect_left(by_reply, start, key=lambda request: request[1]):]:
            if sent >= start:
                n += 1
                if n > burst:
                    worst = max(worst, n - burst - rate * (got - start))
    return worst


def allowed_from_leases(one):
    with Client(one, protocol=3) as client:
        return info(client, "lease_allowed")


def faults(ones, seconds, seed):
    """Stops and kills servers at random. A server that was killed counts as one that shares the limit for a minute, and leases get
    smaller, so few are killed."""
    rng, end, n = random.Random(seed), time.monotonic() + seconds, {"stopped": 0, "killed": 0, "from held units": 0}
    while time.monotonic() < end:
        time.sleep(rng.random() * 0.5)
        one = rng.choice(ones)
        if n["killed"] > 0 and rng.random() < 0.93:
            one.process.send_signal(signal.SIGSTOP)
            time.sleep(rng.random() * 0.6)
            one.process.send_signal(signal.SIGCONT)
            n["stopped"] += 1
        else:
            n["from held units"] += allowed_from_leases(one)
            one.end(signal.SIGKILL)
            one.start()
            n["killed"] += 1
    return n


def never_over_the_limit_whatever_stops():
    seed = random.randrange(1 << 32)
    keys = [("bucket", "a"), ("bucket", "b"), ("counter", "a"), ("once", "a"), ("once", "b")]
    with redis() as store, servers(store, 3) as ones:
        loads = [Load(one, keys, seed + i) for i, one in enumerate(ones)]
        try:
            done = faults(ones, SECONDS, seed)
        finally:
            for load in loads:
                load.stop()
        done["from held units"] += sum(map(allowed_from_leases, ones))
    report = []
    for limit, key in keys:
        requests = [request for load in loads for request in load.allowed[limit, key]]
        if limit == "once":
            over = len(requests) - 600
        elif limit == "bucket":
            over = most_over(requests, 300, 400)
        else:  # a sliding counter estimates: two windows together never allow more than two counts and what slides
            over = most_over(requests, 50, 100)
        assert requests and over <= ROUNDING, f"seed {seed}: {limit} {key}: {over:.3f} over, of {len(requests)}"
        report.append(f"{limit} {key}: {len(requests)}")
    assert done["from held units"] > 0, "nothing was leased"
    return f"seed {seed}, {done}; {', '.join(report)}"


def each_window_has_its_count():
    """Windows are of Redis's clock, which is the clock of the machine. A request counts in the window in which it was
    sent and replied to. Those that cross a boundary count in neither."""
    with redis() as store, servers(store, 3) as ones, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one, protocol=3)) for one in ones]
        windows, end = {}, time.time() + 3
        while time.time() < end:
            for client in clients:
                before = time.time()
                n = check(client, 4, window="k")
                if int(before) == int(time.time()):
                    windows[int(before)] = windows.get(int(before), 0) + n
            time.sleep(0.002)
        assert all(n <= 50 for n in windows.values()), windows
        whole = sorted(windows)[1:-1]
        assert sum(info(client, "lease_allowed") for client in clients) > 0
        return f"{[windows[window] for window in whole]} of 50"


if __name__ == "__main__":
    sys.exit(run([
        ("servers share exactly the limit", servers_share_exactly_the_limit),
        ("a server that ends gives back", a_server_that_ends_gives_back),
        ("several limits are all or nothing", several_limits_are_all_or_nothing),
        ("holds, refunds and resets work", holds_refunds_and_resets_work),
        ("held units are spent while Redis is gone", held_units_are_spent_while_redis_is_gone),
        ("a change counts what was leased", a_change_counts_what_was_leased),
        ("each window has its count", each_window_has_its_count),
        ("never over the limit, whatever stops", never_over_the_limit_whatever_stops),
    ]))
