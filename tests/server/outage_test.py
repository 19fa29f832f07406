#!/usr/bin/env python3
"""What several servers allow together while their Redis stops, stalls, flaps or is too slow.

    outage_test.py WEIR [--full]

SIGSTOP stops Redis: it does not respond, and processes what was sent when it continues. Windows last longer than a
test."""
# Covers: src/store/fallback_store.c, src/store/redis/redis_log.c

import concurrent.futures
import contextlib
import http.client
import os
import random
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, daemon, run
from redis_server import redis
from resp_client import Client, Refused, until

WEIR = sys.argv[1]
IS_FULL = "--full" in sys.argv
BUDGET = "400ms"

POLICY = """
limits:
  - {name: %s, key: [user], limit: %s}
"""


@contextlib.contextmanager
def servers(store, n, *options, policy=None):
    """Runs n servers on one Redis that know of each other. Yields each with a client."""
    with contextlib.ExitStack() as stack:
        if policy:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-outage-"))
            path = os.path.join(folder, "policy.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(policy)
            options = (*options, "--policy", path)
        ones = [join(stack, store, *options) for _ in range(n)]
        settle([client for _, client in ones], n)
        yield ones


def join(stack, store, *options):
    one = stack.enter_context(daemon(WEIR, "--store", store.url, "--workers", "2", *options, http="127.0.0.1:0"))
    return one, stack.enter_context(Client(one))


def settle(clients, n):
    for client in clients:
        until(lambda client=client: client.info()["store_nodes"] == str(n) and client.info().get("store_joining", "0") == "0",
              "the servers know of each other")


def allowed(client, key, limit, n):
    return sum(answer[0] for answer in client.pipeline([("WEIR.TAKE", key, limit)] * n))


def is_up(client):
    return client.info()["store_state"] == "up"


@contextlib.contextmanager
def outage(store, clients):
    """Redis does not respond, and each server has noticed. Afterwards all deferred charges are made."""
    store.tell(signal.SIGSTOP)
    for client in clients:
        until(lambda client=client: client.ask("WEIR.TAKE", "else", "1000000/day") and not is_up(client), "it is noticed")
    yield
    store.tell(signal.SIGCONT)
    recover(clients)


def recover(clients):
    for client in clients:
        until(lambda client=client: is_up(client) and client.info()["store_deferred_keys"] == "0", "it is back")


# --- scenarios --------------------------------------------------------------------------------------------------------

def what_is_used_up_stays_used_up():
    """Redis stops for a moment. All of ten were used before."""
    with redis() as store, servers(store, 2, "--store_budget", BUDGET) as ((_, one), (_, other)):
        assert allowed(one, "k", "10/day", 20) == 10 and allowed(other, "k", "10/day", 20) == 0
        with outage(store, (one, other)):
            assert allowed(one, "k", "10/day", 20) == 0 and allowed(other, "k", "10/day", 20) == 0
        assert allowed(one, "k", "10/day", 20) == 0


def each_kind_of_limit_remembers():
    """What every server has heard of is shared out once, for each algorithm: together no more than the limit."""
    kinds = ("100/day", "100/1000day fixed_window", "100/1000day sliding_log", "100/1000day sliding_counter", "100/1000day sliding_counter segments 4",
             "100/1000day refill interval", "100/1000day leaky burst 100")
    with redis() as store, servers(store, 2, "--store_budget", BUDGET) as ((_, one), (_, other)):
        for limit in kinds:
            assert allowed(one, limit, limit, 20) == 20 and allowed(other, limit, limit, 20) == 20
            one.ask("WEIR.PEEK", limit, limit)
        with outage(store, (one, other)):
            for limit in kinds:
                shares = [allowed(client, limit, limit, 100) for client in (one, other)]
                assert shares == [30, 30], (limit, shares)
        for limit in kinds:
            assert allowed(one, limit, limit, 100) == 0, limit


def the_next_outage_gives_nothing_anew():
    """One server uses its share in the first outage, the other the rest when Redis is back. The second outage has
    nothing left."""
    with redis() as store, servers(store, 2, "--store_budget", BUDGET) as ((_, one), (_, other)):
        with outage(store, (one, other)):
            assert allowed(one, "k", "100/day", 120) == 50
        assert allowed(other, "k", "100/day", 120) == 50
        for _ in range(2):
            with outage(store, (one, other)):
                assert allowed(one, "k", "100/day", 120) == 0 and allowed(other, "k", "100/day", 120) == 0
        assert allowed(one, "k", "100/day", 120) == 0


def a_change_in_an_outage_gives_nothing_anew():
    """The rate is changed on one server repeatedly. A change must not start with a full share."""
    with redis() as store, servers(store, 1, "--store_budget", BUDGET, policy=POLICY % ("per-user", "15/day")) as ((_, one),):
        with outage(store, (one,)):
            total = 0
            for days in range(2, 8):
                total += sum(answer[0] == 1 for answer in one.pipeline([("WEIR.CHECK", "user", "ann")] * 20))
                assert one.ask("WEIR.CHANGE", "per-user", f"15/{days}day burst 15", "HERE")
            assert total == 15, total


def other_numbers_of_servers_give_nothing_anew():
    """Servers join between outages. A new number of servers must not start with full shares."""
    with redis() as store, contextlib.ExitStack() as stack:
        clients, total = [], 0
        for n in range(1, 4):
            clients.append(join(stack, store, "--store_budget", BUDGET)[1])
            settle(clients, n)
            for client in clients:
                client.ask("WEIR.PEEK", "k", "100/day")
            with outage(store, clients):
                total += sum(allowed(client, "k", "100/day", 10 * n) for client in clients)
        total += sum(allowed(client, "k", "100/day", 120) for client in clients)
        assert total == 100, total


def a_flapping_redis_gives_nothing_anew():
    """Redis stops and continues while requests come. It processes what was sent to it when it continues."""
    limit, dice = "1000/day", random.Random(7)
    with redis() as store, servers(store, 2, "--store_budget", "50ms") as ones:
        clients, total = [client for _, client in ones], 0
        for client in clients:
            client.ask("WEIR.PEEK", "k", limit)
        for _ in range(40 if IS_FULL else 12):
            store.tell(signal.SIGSTOP)
            total += sum(allowed(client, "k", limit, dice.randint(20, 60)) for client in clients)
            if dice.random() < 0.5:
                time.sleep(dice.random() / 4)
            store.tell(signal.SIGCONT)
            total += sum(allowed(client, "k", limit, dice.randint(20, 60)) for client in clients)
        recover(clients)
        while any(took := [allowed(client, "k", limit, 100) for client in clients]):
            total += sum(took)
        # Half of what the other took since a server last heard of the key, at most 120 in a turn, may be allowed twice.
        assert 1000 <= total <= 1120, total
        return f"{total} of 1000 allowed"


# --- who joins -------------------------------------------------------------------------------------------------------

def one_that_joins_is_counted_first():
    """Redis stops just after a second server has joined. The first may not know of it, so the second allows nothing
    yet."""
    with redis() as store, contextlib.ExitStack() as stack:
        first = join(stack, store, "--store_budget", BUDGET)[1]
        settle([first], 1)
        first.ask("WEIR.PEEK", "k", "10/day")
        second = join(stack, store, "--store_budget", BUDGET)[1]
        until(lambda: second.info()["store_nodes"] == "2", "it has come")
        store.tell(signal.SIGSTOP)
        is_joining = second.info().get("store_joining", "1") == "1"
        total = allowed(first, "k", "10/day", 20) + allowed(second, "k", "10/day", 20)
        assert total <= 10 or not is_joining, (total, is_joining)
        store.tell(signal.SIGCONT)


# --- what is charged later -------------------------------------------------------------------------------------------

def a_refund_is_deferred_like_a_charge():
    with redis() as store, servers(store, 1, "--store_budget", BUDGET) as ((_, one),):
        assert allowed(one, "k", "10/day", 8) == 8
        with outage(store, (one,)):
            assert one.ask("WEIR.REFUND", "k", "10/day", "5")[2] == 7
            assert allowed(one, "k", "10/day", 1) == 1
            assert allowed(one, "other", "10/day", 4) == 4
            assert one.ask("WEIR.REFUND", "other", "10/day", "3")[2] == 9
        assert one.ask("WEIR.PEEK", "k", "10/day")[2] == 6
        assert one.ask("WEIR.PEEK", "other", "10/day")[2] == 9


def refused(client, *words):
    try:
        return f"not refused: {client.ask(*words)}"
    except Refused as refusal:
        return str(refusal)


def a_reset_says_that_redis_was_not_reset():
    """This server forgets the key's usage and its deferred charges. Redis keeps its state."""
    with redis() as store, servers(store, 1, "--store_budget", BUDGET) as ((_, one),):
        assert allowed(one, "k", "10/day", 6) == 6
        with outage(store, (one,)):
            assert allowed(one, "k", "10/day", 2) == 2
            answer = refused(one, "WEIR.RESET", "k", "10/day")
            assert answer.startswith("UNSHARED the store cannot be reached, so the key was reset only on this server"), answer
            assert allowed(one, "k", "10/day", 20) == 10
            assert refused(one, "WEIR.RESET", "k", "10/day").startswith("UNSHARED"), "its deferred charges are dropped"
        assert one.ask("WEIR.PEEK", "k", "10/day")[2] == 4
        assert one.ask("WEIR.RESET", "k", "10/day") == 1
        assert one.ask("WEIR.PEEK", "k", "10/day")[2] == 10


def a_reset_over_http_says_so_too():
    with redis() as store, servers(store, 1, "--store_budget", BUDGET, policy=POLICY % ("per-user", "15/day")) as ((server, one),):
        with outage(store, (one,)):
            host, port = server.http_at.rsplit(":", 1)
            with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)) as connection:
                connection.request("DELETE", "/v1/keys/%40per-user/ann")
                answer = connection.getresponse()
                body = answer.read().decode()
            assert answer.status == 503 and "was reset only on this server" in body, (answer.status, body)


def charges_are_bounded_by_bytes():
    """64 KiB have room for some keys. The others are counted, and a log line says so."""
    with redis() as store, servers(store, 1, "--store_budget", BUDGET, "--deferred_memory", "64KiB") as ((server, one),):
        with outage(store, (one,)):
            assert all(answer[0] == 1 for answer in one.pipeline([("WEIR.TAKE", f"key-{i}", "10/day", "3") for i in range(2000)]))
            until(lambda: int(one.info()["store_deferred_dropped"]) > 3000, "they are counted")
            assert 100 < int(one.info()["store_deferred_keys"]) < 1000, one.info()
            until(lambda: "deferred_memory is full; raise it" in server.said(), "a line says so")
        info = one.info()
        assert int(info["store_deferred_charged"]) + int(info["store_deferred_dropped"]) >= 6000, info


# --- slow, gone ------------------------------------------------------------------------------------------------------

def slow_and_gone_are_two_things():
    with redis() as store, servers(store, 1, "--store_budget", "20ms") as ((server, one),):
        before = {name: int(one.info()[name]) for name in ("store_slow", "store_gone")}
        while int(one.info()["store_slow"]) == before["store_slow"]:
            store.tell(signal.SIGSTOP)
            one.ask("WEIR.TAKE", "k", "10/day")
            store.tell(signal.SIGCONT)
            until(lambda: one.ask("WEIR.TAKE", "k", "1000000/day") and is_up(one), "it is back")
        store.end()
        until(lambda: one.ask("WEIR.TAKE", "k", "10/day") and int(one.info()["store_gone"]) > before["store_gone"], "it is gone")
        until(lambda: "Redis is unreachable" in server.said(), "a line says so")
        until(lambda: "Redis is slow" in server.said(), "a line said so")


TESTS = (what_is_used_up_stays_used_up, each_kind_of_limit_remembers, the_next_outage_gives_nothing_anew,
         a_change_in_an_outage_gives_nothing_anew, other_numbers_of_servers_give_nothing_anew, a_flapping_redis_gives_nothing_anew,
         one_that_joins_is_counted_first, a_refund_is_deferred_like_a_charge, a_reset_says_that_redis_was_not_reset,
         a_reset_over_http_says_so_too, charges_are_bounded_by_bytes, slow_and_gone_are_two_things)

if __name__ == "__main__":
    # Each test mostly waits for its own servers.
    with concurrent.futures.ThreadPoolExecutor(len(TESTS)) as pool:
        begun = [(test.__name__.replace("_", " "), pool.submit(test).result) for test in TESTS]
        sys.exit(run(begun))
