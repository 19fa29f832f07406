#!/usr/bin/env python3
"""Servers that lease a limit in one Redis never allow more than the limit, and exceed an eventual one by no more than its bound.

    lease_test.py WEIR [SECONDS]

Clients note when they sent each request and when its reply came. For any two instants, the requests that were sent and
replied to between them are at most `burst + rate x length`, for a window at most its count. For an eventual limit, `ahead`
is added for each server but one, and for each that was killed. ROUNDING is for the two
clocks that are read. A sliding counter is compared with its own estimate, exactly. Servers are stopped with SIGSTOP and killed with SIGKILL
meanwhile, and then Redis is stopped, and connections break. With SECONDS, each load with such faults lasts that long."""
# Covers: src/store/lease_store.c, src/store/lease_background.c, src/store/lease.c, src/store/lease_eventual.c, src/store/lease_split.c, src/store/eventual.c, src/server/stores.c, src/engine/limit_row.c

import bisect
import contextlib
import http.client
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, daemon, run
from redis_server import redis
from resp_client import Client, Refused, until

WEIR = sys.argv[1]
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 3
PATIENT = ("--store_budget", "10s")  # Redis must decide, however slow the machine is
ROUNDING = 1
SECOND = 10**9

POLICY = """
limits:
  - {name: once, key: [once], limit: 600/1000day fixed_window, consistency: {lease: {stranded: 20%%}}, on_store_failure: closed}
  - {name: bucket, key: [bucket], limit: 300/s burst 400, consistency: {lease: {stranded: 50%%}}, on_store_failure: closed}
  - {name: window, key: [window], limit: 50/s fixed_window, consistency: {lease: {stranded: 40%%}}, on_store_failure: closed}
  - {name: counter, key: [counter], limit: 50/s sliding_counter, consistency: {lease: {stranded: 40%%}}, on_store_failure: closed}
  - {name: exact, key: [exact], limit: 20/1000day}
  - {name: later, key: [later], limit: 300/s burst 400, consistency: {eventual: {ahead: 5%%}}, on_store_failure: closed}
  - {name: total, key: [total], limit: 2000/1000day fixed_window, consistency: {eventual: {ahead: 2%%, sync: 30ms}}, on_store_failure: closed}
  - {name: moved, key: [moved], limit: %s/1000day, consistency: {lease: {stranded: 30%%}}, on_store_failure: closed}
"""


@contextlib.contextmanager
def servers(store, n, *options, policy=POLICY % 300, **places):
    """Runs n servers on one Redis that know of each other."""
    with tempfile.TemporaryDirectory(prefix="weir-lease-") as folder, contextlib.ExitStack() as stack:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(policy)
        ones = [stack.enter_context(daemon(WEIR, "--store", store.url, "--workers", "2", "--policy", path, *PATIENT, *options, **places))
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


def left_of(client):
    return client.ask("WEIR.PEEK", "k", "@once")["remaining"]


def a_refund_goes_back_into_its_lot():
    with redis() as store, servers(store, 1) as (one,), Client(one, protocol=3) as client:
        def goes_back():
            lease_some(client)
            before, spent, expired = info(client, "lease_held"), info(client, "lease_allowed"), info(client, "lease_expired")
            if before < 2 or check(client, before, once="k") < before or info(client, "lease_allowed") < spent + before:
                return False  # more was drawn meanwhile
            left, held = left_of(client), info(client, "lease_held")
            after = client.ask("WEIR.REFUND", "k", "@once", before)["remaining"]
            if info(client, "lease_expired") > expired or info(client, "lease_held") != held + before:
                return False
            assert after == left + before, (left, after, before)
            return True

        until(goes_back, "what was spent here is held again, unless the lot was replaced")


def holds_refunds_and_resets_work():
    """Redis gives back at most what it has charged. The first request charges enough there, so that all numbers are exact,
    unless a lease ends because the machine is slow: its units count as used."""
    with redis() as store, servers(store, 1) as (one,), Client(one, protocol=3) as client:
        assert client.ask("WEIR.TAKE", "k", "@once", 100)["allowed"]
        total, ids = 100 + lease_some(client), itertools.count()

        def goes_back():
            name, before = next(ids), info(client, "lease_held")
            assert client.ask("WEIR.HOLD", name, "k", "@once", 2, 60000)["allowed"] == 1
            between = info(client, "lease_held")
            client.ask("WEIR.RELEASE", name)
            return info(client, "lease_held") == before == between + 2

        until(goes_back, "a released hold is held again, unless it may be of an earlier lot")
        assert client.ask("WEIR.HOLD", "last", "k", "@once", 2, 60000)["allowed"] == 1
        client.ask("WEIR.SETTLE", "last", 1)
        left = 600 - total - 1  # 1 of the hold was used
        held_is_gone(client)
        until(lambda: left_of(client) + info(client, "lease_expired") >= left, "all is given back")
        ended = info(client, "lease_expired")
        assert left - ended <= left_of(client) <= left, (left_of(client), left, ended)
        assert left + 3 - ended <= client.ask("WEIR.REFUND", "k", "@once", 3)["remaining"] <= left + 3
        lease_some(client)
        assert client.ask("WEIR.RESET", "k", "@once") == 1
        assert info(client, "lease_held") == 0
        assert left_of(client) == 600


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


SWAPPED = """
limits:
  - {name: swap, key: [swap], limit: %d/1000day fixed_window%s, on_store_failure: closed}
"""
LEASED, MORE_LEASED = (", consistency: {lease: {stranded: %d%%}}" % part for part in (20, 50))


def swap_to(ones, clients, count, consistency):
    for one, client in zip(ones, clients):
        with open(one.policy, "w", encoding="utf-8") as file:
            file.write(SWAPPED % (count, consistency))
        ticket = client.ask("WEIR.RELOAD")
        until(lambda client=client, ticket=ticket: int(client.info("policy")["policy_reloads"]) >= ticket, "the policy was read")


def policies_are_swapped_while_leased():
    """Leased, exact, and leased again with a lower limit. What a server holds at a swap counts as used, and is lent until its
    lease ends: more than that must be lent afterwards."""
    with redis() as store, servers(store, 2, policy=SWAPPED % (600, LEASED)) as ones, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one, protocol=3)) for one in ones]

        def take(n):
            return sum(check(client, n, swap="k") for client in clients)

        def here():
            return sum(info(client, "lease_allowed") for client in clients)

        leased = sum(take(5) for _ in range(10))
        assert leased == 100 and here() > 0, (leased, here())
        swap_to(ones, clients, 600, "")
        before = here()
        exact = sum(take(5) for _ in range(10))
        assert exact == 100 and here() == before, "nothing is spent here"
        swap_to(ones, clients, 400, MORE_LEASED)
        total, end = leased + exact, time.monotonic() + 60
        while total < 400 - 120 and time.monotonic() < end:  # 20 % of 600 may have been held at the swap
            total += take(1)
        for _ in range(100):
            total += take(2)
        assert 400 - 120 <= total <= 400 and here() > before, (total, here(), before)
        return f"{total} of 400"


WAITED = """
limits:
  - {name: wait, key: [wait], limit: 50/s burst 40, consistency: {lease: {stranded: 50%}}, on_store_failure: closed}
"""


def waits_end_when_the_limit_allows():
    with redis() as store, servers(store, 2, policy=WAITED) as ones:
        requests, refused = [], []

        def wait(one):
            with Client(one, protocol=3) as client:
                for _ in range(50):
                    sent = time.time_ns()
                    if client.ask("WEIR.TAKE", "k", "@wait", 1, "WAIT", 60000)["allowed"]:
                        requests.append((sent, time.time_ns()))
                    else:
                        refused.append(sent)

        threads = [threading.Thread(target=wait, args=(one,)) for one in ones]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        here = sum(map(allowed_from_leases, ones))
        assert len(requests) == 100 and not refused, (len(requests), len(refused))
        assert most_over(requests, 50, 40) <= ROUNDING
        assert here > 0, "nothing was leased"
        return f"{here} of 100 from held units"


def redis_is_killed(*options, forgotten=0):
    """Of 600, at most 120 are lent at a time: they may be spent although Redis forgot them, or never, if a reply was lost."""
    with redis(*options) as store, servers(store, 2) as ones, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one, protocol=3)) for one in ones]

        def take(n):
            return sum(check(client, n, once="k") for client in clients)

        before = take(20)
        while sum(info(client, "lease_held") for client in clients) == 0:
            before += take(1)
            assert before < 300, before
        store.end()
        held = [min(2, info(client, "lease_held")) for client in clients]
        meanwhile = sum(check(client, n, once="k") for client, n in zip(clients, held))
        assert meanwhile == sum(held), "what is held is spent without Redis"
        store.start()
        total, end = before + meanwhile, time.monotonic() + 60
        least, most = (600 - 120, 600) if forgotten == 0 else (before + forgotten - 120, before + 120 + forgotten)
        while total < least and time.monotonic() < end:
            total += take(5)
        for _ in range(100):
            total += take(2)
        assert least <= total <= most, (before, meanwhile, total)
        return f"{before} before, {meanwhile} meanwhile, {total - before - meanwhile} after"


def redis_is_killed_and_keeps_its_data():
    return redis_is_killed("--appendonly", "yes", "--appendfsync", "always")


def redis_is_killed_and_loses_its_data():
    """It forgets what it allowed, and what it lent: one limit more."""
    return redis_is_killed(forgotten=600)


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
        sent = time.time_ns()
        answers = client.pipeline([("WEIR.CHECK", limit, key)] * n)
        got = time.time_ns()
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
                    worst = max(worst, n - burst - rate * (got - start) / SECOND)
    return worst


def most_over_a_counter(requests, count):
    """By how much a sliding counter of one second has allowed more than its estimate: what it allowed in this second, and of
    the second before as much as of it still counts. Seconds are of Redis's clock, which is the clock of the machine.
    A request counts for sure as much as it does at its reply, if it was sent in the second before."""
    worst = 0
    for second in {got // SECOND for _, got in requests}:
        start, end = second * SECOND, (second + 1) * SECOND
        recent = sorted((got, sent >= start) for sent, got in requests if sent >= start - SECOND and got < end)
        now = before = 0
        for got, is_now in recent:
            now, before = now + is_now, before + (not is_now)
            if got >= start:
                worst = max(worst, now + before * (end - got) // SECOND - count)
    return worst


def the_oracles_see_one_too_many():
    ms = SECOND // 1000

    def at(*instants):
        return [(instant * ms, instant * ms) for instant in instants]

    second = at(*[1900] * 50)
    assert most_over_a_counter(second + at(*[2500] * 25), 50) == 0, "half of the second before counts"
    assert most_over_a_counter(second + at(*[2500] * 26), 50) == 1
    assert most_over_a_counter(second + at(*[2999] * 50), 50) == 0
    assert most_over_a_counter(at(*[1000] * 51), 50) == 1
    assert most_over_a_counter([(1999 * ms, 2001 * ms)] * 51, 50) == 0, "it may have been allowed in either second"
    assert most_over_a_counter(second + [(1999 * ms, 2001 * ms)] * 2, 50) == 1
    assert most_over(at(*[1000] * 400, *[1100] * 30), 300, 400) < 0.001
    assert most_over(at(*[1000] * 400, *[1100] * 32), 300, 400) > 1


def info_of(one, name):
    with Client(one, protocol=3) as client:
        return info(client, name)


def allowed_from_leases(one):
    return info_of(one, "lease_allowed")


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
    keys = [("bucket", "a"), ("bucket", "b"), ("counter", "a"), ("once", "a"), ("once", "b"), ("later", "a"), ("total", "a"), ("total", "b")]
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
        elif limit == "total":
            over = len(requests) - 2000 - (len(ones) - 1 + done["killed"]) * 40
        elif limit == "bucket":
            over = most_over(requests, 300, 400)
        elif limit == "later":
            over = most_over(requests, 300, 400 + (len(ones) - 1 + done["killed"]) * 20)
        else:
            over = most_over_a_counter(requests, 50)
        assert requests and over <= (ROUNDING if limit in ("bucket", "later") else 0), f"seed {seed}: {limit} {key}: {over:.3f} over, of {len(requests)}"
        report.append(f"{limit} {key}: {len(requests)}")
    assert done["from held units"] > 0, "nothing was leased"
    return f"seed {seed}, {done}; {', '.join(report)}"


HUNG = """
limits:
  - {name: once, key: [once], limit: 600/1000day fixed_window, consistency: {lease: {stranded: 20%}}}
  - {name: bucket, key: [bucket], limit: 300/s burst 400, consistency: {lease: {stranded: 50%}}}
  - {name: later, key: [later], limit: 300/s burst 400, consistency: {eventual: {ahead: 5%}}}
  - {name: total, key: [total], limit: 2000/1000day fixed_window, consistency: {eventual: {ahead: 2%, sync: 30ms}}}
""".replace("}}}", "}}, on_store_failure: closed, store_budget: 50ms}")


def never_over_the_limit_whatever_redis_does():
    """Redis hangs, and connections break, but it loses no data. Requests that time out may take effect later."""
    seed = random.randrange(1 << 32)
    rng, keys, faults_made = random.Random(seed), [("once", "a"), ("bucket", "a"), ("later", "a"), ("total", "a")], 0
    with redis() as store, servers(store, 3, policy=HUNG) as ones:
        loads, end = [Load(one, keys, seed + i) for i, one in enumerate(ones)], time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                time.sleep(rng.random() * 0.5)
                if rng.random() < 0.6:
                    store.tell(signal.SIGSTOP)
                    time.sleep(rng.random() ** 2)
                    store.tell(signal.SIGCONT)
                else:
                    with store.connect() as client:
                        client.sendall(b"CLIENT KILL TYPE normal SKIPME yes\r\n")
                        assert client.recv(1) == b":"
                faults_made += 1
        finally:
            for load in loads:
                load.stop()
    requests = {limit: [request for load in loads for request in load.allowed[limit, key]] for limit, key in keys}
    over = {
        "once": len(requests["once"]) - 600,
        "bucket": most_over(requests["bucket"], 300, 400) - ROUNDING,
        "later": most_over(requests["later"], 300, 400 + 2 * 20) - ROUNDING,
        "total": len(requests["total"]) - 2000 - 2 * 40,
    }
    assert all(requests.values()) and max(over.values()) <= 0, (seed, over)
    return f"seed {seed}, {faults_made} faults, allowed " + ", ".join(f"{limit} {len(of)}" for limit, of in requests.items())


def eventual_limits_stay_within_their_bound():
    with redis() as store, servers(store, 3) as ones, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one, protocol=3)) for one in ones]
        total = sum(check(client, 20, total="k") for _ in range(60) for client in clients)
        assert 2000 <= total <= 2000 + 2 * 40, total
        until(lambda: all(info(client, "eventual_waiting") == 0 for client in clients), "all is pushed")
        here, calls = (sum(info(client, name) for client in clients) for name in ("eventual_allowed", "store_calls"))
        assert here > 500 and calls < total, (here, calls)
        return f"{total} of 2000 and 80 ahead, {here} of them without Redis"


WAITED_LATER = """
limits:
  - {name: wait, key: [wait], limit: 50/s burst 40, consistency: {eventual: {ahead: 10%}}, on_store_failure: closed}
"""


def waits_for_an_eventual_limit_end_when_it_allows():
    """Requests wait over RESP at one server and over HTTP at the other. Each may be ahead by 4 units."""
    def by_resp(one, ask):
        with Client(one, protocol=3) as client:
            ask(lambda: client.ask("WEIR.TAKE", "k", "@wait", 1, "WAIT", 60000)["allowed"])

    def by_http(one, ask):
        host, port = one.http_at.rsplit(":", 1)
        body = json.dumps({"limit": "@wait", "key": "k", "cost": 1, "wait": "60s"})
        with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)) as client:
            def take():
                client.request("POST", "/v1/take", body, {"Content-Type": "application/json"})
                answer = client.getresponse()
                return answer.read() and answer.status == 200

            ask(take)

    with redis() as store, servers(store, 2, policy=WAITED_LATER, http="127.0.0.1:0") as ones:
        requests, refused = [], []

        def ask(take):
            for _ in range(50):
                sent = time.time_ns()
                if take():
                    requests.append((sent, time.time_ns()))
                else:
                    refused.append(sent)

        threads = [threading.Thread(target=way, args=(one, ask)) for way, one in zip((by_resp, by_http), ones)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        here = sum(info_of(one, "eventual_allowed") for one in ones)
        assert len(requests) == 100 and not refused, (len(requests), len(refused))
        assert most_over(requests, 50, 40 + 4) <= ROUNDING
        assert here > 0, "all were decided by Redis"
        return f"{here} of 100 without Redis"


QUEUED = """
limits:
  - {name: total, key: [total], limit: 2000/1000day fixed_window, consistency: {eventual: {ahead: 2%%, sync: %s}}, on_store_failure: closed}
  - {name: queue, key: [queue], limit: 1/hour leaky queue 5}
"""


def a_check_waits_for_a_queue_beside_an_eventual_limit():
    """Redis decides for the queue, and the same call pushes what waits of the other limit. A check that is given up, or
    denied, takes nothing. Redis reserves units during the call, so the mirror is right only after the next push."""
    with redis() as store, servers(store, 1, policy=QUEUED % "50ms") as (one,), Client(one, protocol=3) as client:
        def has_left(n, what):
            until(lambda: total_left(client) == n, what)

        assert check(client, 20, total="k") == 20
        reply = client.ask("WEIR.CHECK", "WAIT", 60000, "total", "k", "queue", "q")
        assert reply["allowed"], reply
        has_left(2000 - 21, "the first one departs at once")
        reply = client.ask("WEIR.CHECK", "WAIT", 60000, "total", "k", "queue", "q")
        assert not reply["allowed"] and reply["waited"] == 0, reply
        has_left(2000 - 21, "the second one would wait an hour")
        assert check(client, 5, total="k") == 5
        with Client(one, protocol=3) as gone:
            gone.send("WEIR.CHECK", "WAIT", 86400000, "total", "k", "queue", "q")
            has_left(2000 - 27, "it is charged, and waits an hour")
        has_left(2000 - 26, "it is given up, and what it was charged is given back")
        assert check(client, 3, total="k") == 3
        denied = client.ask("WEIR.CHECK", "COST", 1990, "WAIT", 60000, "total", "k")
        assert not denied["allowed"] and denied["waited"] == 0, denied
        has_left(2000 - 29, "a check does not wait for a limit that denies")


def a_hold_of_an_eventual_limit_goes_back_wherever_it_is():
    """Units of a hold that were not pushed yet go back to the server, others to Redis. The same holds for the rest after a
    settle."""
    with redis() as store, servers(store, 1, policy=QUEUED % "10s") as (one,), Client(one, protocol=3) as client:
        def hold(name, n):
            assert client.ask("WEIR.HOLD", name, "k", "@total", n, 60000)["allowed"]

        assert check(client, 1, total="k") == 1  # by Redis
        hold("here", 10)
        until(lambda: info(client, "eventual_waiting") == 10, "it waits")
        client.ask("WEIR.RELEASE", "here")
        until(lambda: info(client, "eventual_waiting") == 0 and total_left(client) == 1999, "it does not wait any more")
        pushes = info(client, "eventual_pushes")
        hold("part", 10)
        client.ask("WEIR.SETTLE", "part", 4)
        until(lambda: info(client, "eventual_waiting") == 4 and total_left(client) == 1995, "what was used waits")
        assert info(client, "eventual_pushes") == pushes
        hold("pushed", 25)  # more than half of what may wait
        until(lambda: info(client, "eventual_waiting") == 0, "it is pushed")
        client.ask("WEIR.RELEASE", "pushed")
        until(lambda: total_left(client) == 1995, "Redis gave it back")
        hold("more", 10)
        client.ask("WEIR.SETTLE", "more", 17)
        until(lambda: total_left(client) == 1978, "more was used than held")


def total_left(client):
    return client.ask("WEIR.PEEK", "k", "@total")["remaining"]


def an_eventual_limit_knows_holds_refunds_and_resets():
    with redis() as store, servers(store, 2) as ones, Client(ones[0], protocol=3) as one, Client(ones[1], protocol=3) as other:
        for _ in range(5):
            assert one.ask("WEIR.TAKE", "k", "@total", 1)["allowed"]
        assert total_left(one) == 1995
        assert one.ask("WEIR.HOLD", "h", "k", "@total", 10, 60000)["allowed"]
        one.ask("WEIR.SETTLE", "h", 4)
        until(lambda: total_left(other) == 1991, "what was pushed and settled is in Redis")
        assert one.ask("WEIR.REFUND", "k", "@total", 3)["remaining"] == 1994
        until(lambda: total_left(other) == 1994, "the refund is in Redis")
        for _ in range(3):
            assert one.ask("WEIR.TAKE", "k", "@total", 1)["allowed"]
        one.ask("WEIR.RESET", "k", "@total")
        assert total_left(one) == 2000
        until(lambda: total_left(other) == 2000, "the reset is in Redis")
        assert check(one, 20, total="k", exact="e") == 20 and check(one, 1, total="k", exact="e") == 0
        until(lambda: total_left(other) == 1980, "all or nothing")


def an_eventual_limit_without_redis_is_decided_by_on_store_failure():
    with redis() as store, servers(store, 1) as ones, Client(ones[0], protocol=3) as client:
        assert check(client, 3, total="k") == 3
        store.end()
        until(lambda: check(client, 1, total="k") == 0, "on_store_failure: closed")
        store.start()
        until(lambda: check(client, 1, total="k") == 1, "Redis is back")


def a_server_that_stops_pushes_what_waits():
    with redis() as store, servers(store, 2) as ones, Client(ones[1], protocol=3) as other:
        with Client(ones[0], protocol=3) as one:
            assert check(one, 30, total="k") == 30
            waits = info(one, "eventual_waiting")
        ones[0].end(signal.SIGTERM)
        assert total_left(other) == 1970
        return f"{waits} units waited"


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
        ("a refund goes back into its lot", a_refund_goes_back_into_its_lot),
        ("holds, refunds and resets work", holds_refunds_and_resets_work),
        ("held units are spent while Redis is gone", held_units_are_spent_while_redis_is_gone),
        ("a change counts what was leased", a_change_counts_what_was_leased),
        ("policies are swapped while leased", policies_are_swapped_while_leased),
        ("waits end when the limit allows", waits_end_when_the_limit_allows),
        ("Redis is killed and keeps its data", redis_is_killed_and_keeps_its_data),
        ("Redis is killed and loses its data", redis_is_killed_and_loses_its_data),
        ("eventual limits stay within their bound", eventual_limits_stay_within_their_bound),
        ("an eventual limit knows holds, refunds and resets", an_eventual_limit_knows_holds_refunds_and_resets),
        ("an eventual limit without Redis is decided by on_store_failure", an_eventual_limit_without_redis_is_decided_by_on_store_failure),
        ("waits for an eventual limit end when it allows", waits_for_an_eventual_limit_end_when_it_allows),
        ("a check waits for a queue beside an eventual limit", a_check_waits_for_a_queue_beside_an_eventual_limit),
        ("a hold of an eventual limit goes back wherever it is", a_hold_of_an_eventual_limit_goes_back_wherever_it_is),
        ("a server that stops pushes what waits", a_server_that_stops_pushes_what_waits),
        ("each window has its count", each_window_has_its_count),
        ("the oracles see one too many", the_oracles_see_one_too_many),
        ("never over the limit, whatever stops", never_over_the_limit_whatever_stops),
        ("never over the limit, whatever Redis does", never_over_the_limit_whatever_redis_does),
    ], at_once=4))
