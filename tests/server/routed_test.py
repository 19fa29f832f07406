#!/usr/bin/env python3
"""weir serve with some limits in its table and others in Redis.

    routed_test.py WEIR

Each server has its own table, and all share one Redis. The limits do not refill during a test."""
# Covers: src/server/stores.c, src/store/routed_store.c

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, bulks, daemon, receive, run
from redis_server import redis
from resp_client import Client, until

WEIR = sys.argv[1]
PATIENT = ("--store_budget", "10s")  # Redis must decide, however slow the machine is

POLICY = """
limits:
  - {name: edge, key: [ip], limit: 4/1000day, store: table}
  - {name: central, key: [api_key], limit: 6/1000day, store: redis, on_store_failure: closed}
  - {name: otherwise, key: [user], limit: 3/1000day, on_store_failure: open}
  - {name: edge-canary, key: [ip], match: {path: /s}, limit: 2/1000day, mode: shadow, store: table}
  - {name: central-canary, key: [ip], match: {path: /s}, limit: 1/1000day, mode: shadow, store: redis}
  - {name: attempts, key: [ip], match: {path: /a}, limit: 5/1000day fixed_window count all, store: redis}
"""


@contextlib.contextmanager
def written(text):
    with tempfile.TemporaryDirectory(prefix="weir-routed-") as folder:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        yield path


@contextlib.contextmanager
def server_on(redis_server, policy, *options):
    with written(policy) as path, \
            daemon(WEIR, "--store", redis_server.url, "--workers", "2", *PATIENT, "--policy", path, *options, http="127.0.0.1:0") as one, \
            Client(one, protocol=3) as client:
        until(lambda: client.info()["store_state"] == "up", "the store came up")
        one.policy = path
        yield one, client


def visit(one, method, target, body=None, kind="application/json"):
    host, port = one.http_at.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request(method, target, body, {"Content-Type": kind} if body is not None else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def left(client, limit, key):
    return client.ask("WEIR.PEEK", key, "@" + limit)["remaining"]


def check(client, **attributes):
    return client.ask("WEIR.CHECK", *[word for pair in attributes.items() for word in pair])


def two_edges_share_what_is_in_redis():
    with redis() as store, server_on(store, POLICY) as (_, a), server_on(store, POLICY) as (_, b):
        allowed = [check(client, ip="1.1.1.1", api_key="k")["allowed"] for client in (a, b, a, b, a, b, a, b)]
        assert allowed == [1] * 6 + [0] * 2, allowed
        assert left(a, "central", "k") == left(b, "central", "k") == 0
        assert left(a, "edge", "1.1.1.1") == left(b, "edge", "1.1.1.1") == 1, "what Redis denied is charged at no edge"
        denied = check(a, ip="1.1.1.1", api_key="k")
        assert denied["decided_by"] == "central" and denied["limits"] == 2 and denied["retry_after"] > 0, denied


def what_an_edge_denies_does_not_reach_redis():
    with redis() as store, server_on(store, POLICY) as (_, client):
        for _ in range(4):
            assert check(client, ip="1.1.1.1", api_key="k")["allowed"]
        calls = client.info()["store_calls"]
        for _ in range(20):
            denied = check(client, ip="1.1.1.1", api_key="k")
            assert not denied["allowed"] and denied["decided_by"] == "edge", denied
        assert client.info()["store_calls"] == calls
        assert left(client, "central", "k") == 2
        rows = {row["name"]: row for row in client.ask("WEIR.LIMITS")}
        assert (rows["edge"]["allowed"], rows["edge"]["denied"]) == (4, 20), rows["edge"]
        assert (rows["central"]["allowed"], rows["central"]["denied"]) == (4, 0), rows["central"]


def attempts_count_wherever_they_are_denied():
    with redis() as store, server_on(store, POLICY) as (_, client):
        for n in range(5):
            answer = check(client, ip="1.1.1.1", api_key="k", path="/a")
            assert answer["allowed"] == (n < 4), answer
        assert left(client, "attempts", "1.1.1.1") == 0


def shadows_are_counted_in_both():
    with redis() as store, server_on(store, POLICY) as (_, client):
        denied = [check(client, ip="1.1.1.1", api_key="k", path="/s")["shadow_denied"] for _ in range(4)]
        assert denied == [0, 1, 2, 2], denied


def every_limit_says_where_it_is():
    with redis() as store, server_on(store, POLICY) as (one, client):
        said = {row["name"]: row["store"] for row in client.ask("WEIR.LIMITS")}
        assert said == {"edge": "table", "central": "redis", "otherwise": "redis", "edge-canary": "table",
                        "central-canary": "redis", "attempts": "redis"}, said
        rows = json.loads(visit(one, "GET", "/v1/limits")[1])["limits"]
        assert {row["name"]: row["store"] for row in rows} == said, rows
        explained = "\n".join(client.ask("WEIR.EXPLAIN", "ip", "1.1.1.1", "api_key", "k"))
        assert "ip=1.1.1.1, in the table" in explained and "api_key=k, in Redis, if the store fails closed" in explained, explained


AGREED = """limits:
  - {name: leased, key: [ip], limit: 100/s burst 200, consistency: lease}
  - {name: later, key: [ip], limit: 200/s, consistency: {eventual: {sync: 1s, ahead: 2%}}}
  - {name: few, key: [ip], limit: 49/s, consistency: {eventual: {ahead: 2%}}}
"""


def every_limit_says_how_servers_agree():
    with redis() as store, server_on(store, AGREED) as (one, client):
        assert client.ask("WEIR.EXPLAIN", "ip", "1.1.1.1") == [
            "leased: applies: 100/s burst 200, key ip=1.1.1.1, leased with up to 5% stranded",
            "later: applies: 200/s, key ip=1.1.1.1, eventual with up to 2% ahead, pushed every 1000ms",
            "few: applies: 49/s, key ip=1.1.1.1, exact (servers may be ahead by less than 1 unit; raise ahead or the limit)"]
        client.ask("WEIR.CHANGE", "later", "300/s")
        said = json.loads(visit(one, "GET", "/v1/explain?ip=1.1.1.1")[1])["lines"]
        assert [line.partition(" on all servers by ")[0] for line in said[1:2]] == ["later: applies: 200/s, changed to 300/s"], said
        assert said[1].endswith("Z, key ip=1.1.1.1, eventual with up to 2% ahead, pushed every 1000ms"), said
        client.ask("WEIR.CHANGE", "later", "40/s")
        line = client.ask("WEIR.EXPLAIN", "ip", "1.1.1.1")[1]
        assert line.endswith(", exact (servers may be ahead by less than 1 unit; raise ahead or the limit)"), line


# A limit of the table and one of Redis, together and alone. The replies do not depend on where the state is.
COMMANDS = [
    ("WEIR.ALL", "1.1.1.1", "@edge", "1", "k", "@central", "2", "u", "@otherwise", "1"),
    ("WEIR.ALL", "k", "@central", "4", "1.1.1.1", "@edge", "1"),
    ("WEIR.ALL", "k", "@central", "1", "1.1.1.1", "@edge", "1", "1.1.1.1", "@edge", "1"),
    ("WEIR.PEEK", "1.1.1.1", "@edge"), ("WEIR.PEEK", "k", "@central"),
    ("WEIR.UPTO", "1.1.1.1", "@edge", "9"), ("WEIR.UPTO", "k", "@central", "9"),
    ("WEIR.REFUND", "1.1.1.1", "@edge", "2"), ("WEIR.REFUND", "k", "@central", "2"),
    ("WEIR.INSPECT", "1.1.1.1", "@edge"), ("WEIR.INSPECT", "k", "@central"),
    ("WEIR.HOLD", "h1", "1.1.1.1", "@edge", "2", "600000"), ("WEIR.HOLD", "h2", "k", "@central", "2", "600000"),
    ("WEIR.HOLD", "h1", "1.1.1.1", "@edge", "2", "600000"), ("WEIR.HOLD", "h3", "1.1.1.1", "@edge", "2", "600000"),
    ("WEIR.SETTLE", "h1", "1"), ("WEIR.RELEASE", "h2"), ("WEIR.SETTLE", "h1", "1"),
    ("WEIR.PEEK", "1.1.1.1", "@edge"), ("WEIR.PEEK", "k", "@central"),
    ("WEIR.RESET", "1.1.1.1", "@edge"), ("WEIR.RESET", "k", "@central"), ("WEIR.RESET", "1.1.1.1", "@edge"),
    ("WEIR.PEEK", "1.1.1.1", "@edge"), ("WEIR.PEEK", "k", "@central"),
    ("WEIR.ALL", "1.1.1.2", "@edge", "5", "k", "@central", "1"),
    ("WEIR.ALL", "1.1.1.2", "@edge", "1", "k", "@central", "7"),
    ("WEIR.PEEK", "1.1.1.2", "@edge"),
    ("WEIR.CHECK", "ip", "1.1.1.3", "api_key", "k", "user", "u"), ("WEIR.CHECK", "ip", "1.1.1.3", "api_key", "k", "user", "u"),
    ("WEIR.CHECK", "ip", "1.1.1.3", "api_key", "k", "user", "u"), ("WEIR.CHECK", "COST", "3", "ip", "1.1.1.3"),
]


def timeless(answer):
    if isinstance(answer, dict):
        return {name: value for name, value in answer.items() if name not in ("reset_after", "retry_after", "full_at")}
    return answer


def every_command_answers_as_with_a_table():
    in_table = POLICY.replace("store: redis", "store: table")
    with redis() as store, server_on(store, POLICY) as (_, client), written(in_table) as path, \
            daemon(WEIR, "--workers", "2", "--policy", path) as plain, Client(plain, protocol=3) as other:
        for words in COMMANDS:
            answer, expected = timeless(client.answer(*words)), timeless(other.answer(*words))
            assert answer == expected, (words, answer, expected)
        batch = [("WEIR.TAKE", f"1.1.2.{n % 3}", "@edge") if n % 2 else ("WEIR.TAKE", f"x{n % 3}", "@central") for n in range(60)]
        answers, expected = client.pipeline(batch), other.pipeline(batch)
        assert [timeless(answer) for answer in answers] == [timeless(answer) for answer in expected]


def without_redis_the_table_decides_on():
    with redis() as store, server_on(store, POLICY, "--store-budget", "500ms") as (one, client):
        assert check(client, ip="1.1.1.1", api_key="k")["allowed"]
        store.tell(signal.SIGSTOP)
        assert check(client, ip="1.1.1.1")["allowed"]
        denied = check(client, ip="1.1.1.1", api_key="k")
        assert not denied["allowed"] and denied["decided_by"] == "central", denied
        assert left(client, "edge", "1.1.1.1") == 2, "what was denied for lack of Redis is charged at no edge"
        assert check(client, ip="1.1.1.1", user="u")["allowed"]  # which fails open
        assert left(client, "edge", "1.1.1.1") == 1
        store.tell(signal.SIGCONT)
        assert visit(one, "GET", "/healthz")[0] == 200


def who_leaves_is_charged_everywhere_or_nowhere():
    with redis() as store, server_on(store, POLICY) as (one, client):
        for n in range(20):
            with one.connect() as other:
                other.sendall(bulks("WEIR.CHECK", "ip", f"1.1.3.{n}", "api_key", f"k{n}") * 8)
                receive(other, 1)  # so the rest was read, too
            until(lambda n=n: left(client, "edge", f"1.1.3.{n}") == 0 and left(client, "central", f"k{n}") == 2, "four of both")


def reload(one, client, text):
    """Returns when the server has the new policy."""
    with open(one.policy + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(one.policy + ".new", one.policy)
    ticket = client.ask("WEIR.RELOAD")
    until(lambda: int(client.info("policy")["policy_reloads"]) >= ticket, "it was read")


def a_limit_moves_from_one_to_the_other():
    """The limit starts with the other store's usage of its keys. A hold is settled where it was made."""
    with redis() as store, server_on(store, POLICY) as (one, client):
        assert check(client, ip="1.1.1.1", api_key="k")["allowed"]
        assert client.ask("WEIR.HOLD", "h", "1.1.1.1", "@edge", 2, 600000)["allowed"]
        reload(one, client, POLICY.replace("limit: 4/1000day, store: table", "limit: 4/1000day, store: redis"))
        assert left(client, "edge", "1.1.1.1") == 4
        assert client.ask("WEIR.TAKE", "1.1.1.1", "@edge", 3)["remaining"] == 1
        client.ask("WEIR.SETTLE", "h", 0)
        assert left(client, "edge", "1.1.1.1") == 1, "Redis gives back nothing that it was not charged"
        reload(one, client, POLICY)
        assert left(client, "edge", "1.1.1.1") == 1, "the table has what Redis last said, for its fallback"


def redis_must_be_there():
    right = "--store redis://"
    with written(POLICY) as path:
        failed = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", "--policy", path], capture_output=True,
                                timeout=TIMEOUT_S, check=False, text=True)
        assert failed.returncode == 1 and '"central": store: redis' in failed.stderr and right in failed.stderr, failed
        assert subprocess.run([WEIR, "check-config", path], timeout=TIMEOUT_S, check=False).returncode == 0, "it may get --store"
    with written("keys: 1000\n" + POLICY) as path:
        failed = subprocess.run([WEIR, "check-config", path], capture_output=True, timeout=TIMEOUT_S, check=False, text=True)
        assert failed.returncode == 1 and '"central": store: redis' in failed.stderr and right in failed.stderr, failed
    with written("store: redis://127.0.0.1:6379\n" + POLICY) as path:
        assert subprocess.run([WEIR, "check-config", path], timeout=TIMEOUT_S, check=False).returncode == 0
    with written(POLICY.replace("store: redis", "store: table")) as path, \
            daemon(WEIR, "--policy", path, http="127.0.0.1:0") as one, Client(one, protocol=3) as client:
        assert {row["store"] for row in client.ask("WEIR.LIMITS")} == {"table"}
        status, body = visit(one, "PUT", "/v1/policy", POLICY, "application/yaml")
        assert status == 422 and "store: redis" in body, (status, body)
        assert check(client, ip="1.1.1.1", api_key="k")["allowed"]


def the_table_holds_what_redis_cannot():
    big = "limits:\n  - {name: big, limit: 2000000/hour sliding_log, store: table}\n"
    with redis() as store, server_on(store, big, "--arena", "64MiB") as (one, client):
        assert check(client, ip="1.1.1.1")["remaining"] == 1999999
        assert client.ask("WEIR.CHANGE", "big", "1999999/hour sliding_log", "HERE") == "OK"


TESTS = [two_edges_share_what_is_in_redis, what_an_edge_denies_does_not_reach_redis, attempts_count_wherever_they_are_denied,
         shadows_are_counted_in_both, every_limit_says_where_it_is, every_limit_says_how_servers_agree, every_command_answers_as_with_a_table,
         without_redis_the_table_decides_on, who_leaves_is_charged_everywhere_or_nowhere, a_limit_moves_from_one_to_the_other,
         redis_must_be_there, the_table_holds_what_redis_cannot]

if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
