#!/usr/bin/env python3
"""weir serve with its limits in Redis: what several servers decide together, and what each decides without Redis.

    store_test.py WEIR

Requests to the store are also sent to a server with a table: both must reply alike."""
# Covers: src/server/stores.c, src/store/redis/redis_plan_cache.c, src/store/redis/redis_store.c

import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, bulks, daemon, run
from redis_server import redis
from resp_client import Client, until

WEIR = sys.argv[1]
# Windows are as long as possible, so that none ends during a test.
PATIENT = ("--store_budget", "10s")  # Redis must decide, however slow the machine is

POLICY = """
limits:
  - {name: everyone, limit: 1000/hour}
  - {name: per-ip, key: [ip], limit: 5/hour, overrides: [{when: {plan: gold}, limit: 9/hour}]}
  - {name: slow, key: [ip], match: {path: /slow}, limit: 2/5000day fixed_window}
  - {name: canary, key: [ip], match: {path: /slow}, limit: 1/hour sliding_log, mode: shadow}
  - {name: canary-too, key: [ip], match: {path: /slow}, limit: 3/hour, mode: shadow}
"""

ENVOY = """
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: path
    rate_limit: {unit: year, requests_per_unit: 2}
    shadow_mode: true
"""


def is_up(client, state="up"):
    return client.info()["store_state"] == state


@contextlib.contextmanager
def written(text, name="policy.yaml"):
    with tempfile.TemporaryDirectory(prefix="weir-store-") as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        yield path


@contextlib.contextmanager
def stored(server, *options, is_asked=True, pool=2):
    """A daemon on this Redis, after it has connected, and a client."""
    with daemon(WEIR, "--store", f"{server.url}{'&' if '?' in server.url else '?'}pool={pool}", "--workers", "2", *options, http="127.0.0.1:0") as one, \
            Client(one) as client:
        if is_asked:
            until(lambda: is_up(client), "the store came up")
        yield one, client


@contextlib.contextmanager
def plain(*options):
    with daemon(WEIR, "--workers", "2", *options, http="127.0.0.1:0") as one, Client(one) as client:
        yield one, client


def visit(one, method, target, body=None, headers=()):
    host, port = one.http_at.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        sent = {"Content-Type": "application/json", **dict(headers)} if body is not None else dict(headers)
        connection.request(method, target, body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())


def timeless(value):
    """Replaces what depends on the time of the request."""
    if isinstance(value, dict):
        return {name: timeless(one) for name, one in value.items()
                if name not in ("retry_after_ns", "reset_after_ns", "full_at_ns", "reset_after", "retry_after",
                                "durationUntilReset", "detail", "loaded_at")}
    if isinstance(value, list):
        # Durations are large, and no other number here is.
        return [0 if isinstance(one, int) and one > 10**6 else timeless(one) for one in value]
    return value


def comparable(words, answer):
    """Without the last two numbers of a THROTTLE reply, which are seconds."""
    return answer[:3] if words[0].endswith("THROTTLE") and isinstance(answer, list) else timeless(answer)


# --- as the table ---------------------------------------------------------------------------------------------------

COMMANDS = [
    *[("CL.THROTTLE", "u", "2", "3", "3600")] * 5,
    ("CL.THROTTLE", "u", "2", "3", "3600", "0"),
    ("CL.THROTTLE", "u", "2", "3", "3600", "x"),
    ("CL.THROTTLE", "u", "2", "3", "3600", "-2"),
    ("CL.THROTTLE", "u", "-1", "3", "3600"),
    *[("CL.THROTTLE", "u", "2", "3", "3600")] * 3,
    *[("CL.THROTTLE", "v", *numbers, cost) for numbers in (("9", "10", "86400"), ("2", "3", "86400"), ("99", "7", "3600"),
                                                           ("9", "10", "86400"), ("0", "1", "86400")) for cost in "123"],
    *[("THROTTLE", "u", "3", "10", "3600", "2")] * 3,
    *[("THROTTLE", "v", *numbers, "2") for numbers in (("9", "10", "86400"), ("50", "70", "3600"), ("9", "10", "86400"))],
    ("THROTTLE", "u", "3", "10", "3600", "7"),
    ("THROTTLE", "u", "3", "10", "3600", "-7"),
    *[("WEIR.TAKE", "k", "5/hour", "2")] * 4,
    ("WEIR.PEEK", "k", "5/hour"),
    ("WEIR.UPTO", "k", "5/hour", "7"),
    ("WEIR.UPTO", "k", "5/hour", "7"),
    ("WEIR.REFUND", "k", "5/hour", "3"),
    ("WEIR.INSPECT", "k", "5/hour"),
    ("WEIR.RESET", "k", "5/hour"),
    ("WEIR.RESET", "k", "5/hour"),
    ("WEIR.INSPECT", "k", "5/hour"),
    ("WEIR.TAKE", "k", "5/hour", "6"),
    ("WEIR.ALL", "a", "5/hour", "2", "b", "3/hour", "2"),
    ("WEIR.ALL", "a", "5/hour", "2", "b", "3/hour", "2"),
    ("WEIR.ALL", "a", "5/hour", "1", "a", "5/hour", "2"),
    ("WEIR.PEEK", "a", "5/hour"),
    ("WEIR.HOLD", "h1", "k", "100/hour", "10", "600000"),
    ("WEIR.HOLD", "h1", "k", "100/hour", "10", "600000"),
    ("WEIR.HOLD", "h1", "k", "100/hour", "11", "600000"),
    ("WEIR.HOLD", "h2", "k", "100/hour", "95", "600000"),
    ("WEIR.SETTLE", "h2", "1"),
    ("WEIR.SETTLE", "h1", "4"),
    ("WEIR.SETTLE", "h1", "4"),
    ("WEIR.SETTLE", "h1", "5"),
    ("WEIR.HOLD", "h3", "k", "100/hour", "10", "600000"),
    ("WEIR.SETTLE", "h3", "200"),
    ("WEIR.HOLD", "h4", "m", "100/hour", "10", "600000"),
    ("WEIR.RELEASE", "h4"),
    ("WEIR.PEEK", "m", "100/hour"),
    ("WEIR.TAKE", "k", "nonsense"),
    ("WEIR.TAKE", "k", "@per-ip"), # not an address
    ("WEIR.TAKE", "ip=9.9.9.9", "@per-ip"),
    ("WEIR.INSPECT", "::ffff:9.9.9.9", "@per-ip"),
    ("WEIR.TAKE", "k", "@missing"),
    *[("WEIR.CHECK", "ip", "1.1.1.1", "path", "/slow")] * 4,
    *[("WEIR.CHECK", "COST", "3", "ip", "2.2.2.2", "plan", "gold")] * 4,
    ("WEIR.CHECK", "ip"),
    ("PING",),
    *[("WEIR.TAKE", f"window{i % 2}", "3/5000day fixed_window") for i in range(8)],
    *[("WEIR.TAKE", f"log{i % 2}", "3/hour sliding_log") for i in range(8)],
    *[("WEIR.TAKE", "sliding", "3/5000day sliding_counter")] * 4,
]


NAMES = ("k", "u", "m", "a", "b", "h1", "h2", "h3", "h4")


def every_command_answers_as_with_a_table():
    with written(POLICY) as path, redis() as server, plain("--policy", path) as (_, table), \
            stored(server, *PATIENT, "--policy", path) as (_, client):
        for words in COMMANDS:
            expected, got = table.answer(*words), client.answer(*words)
            assert comparable(words, got) == comparable(words, expected), (words, got, expected)
        for turn in ("one", "two"):  # then all of them in one pipeline, with other keys and holds
            requests = [tuple(word + turn if word in NAMES else word for word in words) for words in COMMANDS]
            expected, got = table.pipeline(requests), client.pipeline(requests)
            for words, one, other in zip(requests, expected, got):
                assert comparable(words, other) == comparable(words, one), (words, other, one)
    return f"{3 * len(COMMANDS)} answers"


ROUTES = [
    *[("GET", "/v1/check?ip=1.1.1.1&path=%2Fslow", None)] * 4,
    ("GET", "/v1/check?ip=%zz", None),
    ("POST", "/v1/check", {"attributes": {"ip": "3.3.3.3"}, "cost": 2}),
    ("POST", "/v1/check", [{"attributes": {"ip": "4.4.4.4", "path": "/slow"}}] * 4),
    ("POST", "/v1/check", []),
    ("POST", "/v1/take", {"limit": "5/hour", "key": "a b", "cost": 2}),
    *[("POST", "/v1/take", {"limit": "5/hour", "key": "t", "cost": 3, "mode": mode})
      for mode in ("take", "take", "peek", "upto", "refund")],
    ("POST", "/v1/take", {"all": [{"limit": "5/hour", "key": "x"}, {"limit": "@per-ip", "key": "9.9.9.9"}]}),
    ("POST", "/v1/take", [{"limit": "2/hour", "key": "y"}] * 3),
    ("POST", "/v1/hold", {"id": "h1", "key": "u", "limit": "10/hour", "cost": 4, "ttl_ms": 60000}),
    ("POST", "/v1/settle", {"id": "h1", "actual": 2}),
    ("POST", "/v1/hold", {"id": "h2", "key": "u", "limit": "10/hour", "cost": 4, "ttl_ms": 60000}),
    ("POST", "/v1/release", {"id": "h2"}),
    ("POST", "/v1/release", {"id": "h9"}),
    ("GET", "/v1/keys/10%2Fhour/u", None),
    ("DELETE", "/v1/keys/10%2Fhour/u", None),
    ("DELETE", "/v1/keys/10%2Fhour/u", None),
    *[("POST", "/throttle", {"key": "u", "max_burst": 2, "count_per_period": 3, "period": 3600})] * 3,
    ("GET", "/readyz", None),
]


def every_route_answers_as_with_a_table():
    proxied = {"X-Forwarded-For": "7.7.7.7", "X-Original-URI": "/slow?x=1", "X-Original-Host": "SHOP.example:80"}
    with written(POLICY) as path, redis() as server, plain("--policy", path) as (table, _), \
            stored(server, *PATIENT, "--policy", path) as (one, _):
        for method, target, body in ROUTES:
            sent = None if body is None else json.dumps(body)
            expected, got = visit(table, method, target, sent), visit(one, method, target, sent)
            assert got[0] == expected[0], (target, got, expected)
            if got[1].startswith(("{", "[")):
                assert timeless(json.loads(got[1])) == timeless(json.loads(expected[1])), (target, got, expected)
        for _ in range(4):
            expected = visit(table, "GET", "/v1/authorize?deny=403", headers=proxied)
            got = visit(one, "GET", "/v1/authorize?deny=403", headers=proxied)
            assert got[0] == expected[0], (got, expected)
    return f"{len(ROUTES) + 4} answers"


def descriptors_are_decided_as_with_a_table():
    request = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]},
                                                 {"entries": [{"key": "path", "value": "/a"}]}]}
    given = {"domain": "shop", "descriptors": [{"entries": [{"key": "other", "value": "x"}],
                                                "limit": {"requestsPerUnit": 2, "unit": "YEAR"}}]}
    with written(ENVOY) as path, redis() as server, plain("--policy", path) as (table, _), \
            stored(server, *PATIENT, "--policy", path) as (one, _):
        for body in [request] * 5 + [given] * 3:
            expected, got = (visit(each, "POST", "/json", json.dumps(body)) for each in (table, one))
            assert got[0] == expected[0] and timeless(json.loads(got[1])) == timeless(json.loads(expected[1])), \
                (got, expected)


# --- together -------------------------------------------------------------------------------------------------------


def transactions_answer_as_with_a_table():
    """The commands of EXEC are decided in turn: a settlement finds a hold of the same transaction."""
    requests = [("MULTI",), ("WEIR.TAKE", "t", "5/hour", "2"), ("PING", "x"), ("WEIR.HOLD", "t1", "t", "5/hour", "2", "60000"),
                ("WEIR.SETTLE", "t1", "1"), ("WEIR.RESET", "t", "5/hour"), ("WEIR.TAKE", "t", "5/hour"), ("EXEC",),
                ("MULTI",), ("WEIR.TAKE", "t", "nonsense"), ("EXEC",), ("WEIR.PEEK", "t", "5/hour"),
                ("MULTI",), ("NOTHING",), ("EXEC",), ("MULTI",), ("WEIR.TAKE", "t", "5/hour"), ("DISCARD",),
                ("WEIR.PEEK", "t", "5/hour")]
    with redis() as server, plain() as (_, table), stored(server, *PATIENT) as (_, client):
        expected, got = table.pipeline(requests), client.pipeline(requests)
        assert [timeless(one) for one in got] == [timeless(one) for one in expected], (got, expected)
        assert got[7][3][0] == 2 and got[7][5][2] == 4, got


def a_long_pipeline_takes_effect_in_order():
    """More claims than fit one call, over several connections: each RESET forgets exactly what came before it."""
    requests = [request for _ in range(400) for request in
                (("WEIR.TAKE", "k", "5/hour"), ("WEIR.TAKE", "k", "5/hour", "2"), ("WEIR.PEEK", "k", "5/hour"),
                 ("WEIR.TAKE", "k", "bad"), ("WEIR.RESET", "k", "5/hour"))]
    with redis() as server, stored(server, *PATIENT, pool=4) as (_, client):
        for i, answer in enumerate(client.pipeline(requests)):
            expected = [lambda: answer[2] == 4, lambda: answer[2] == 2, lambda: answer[2] == 2,
                        lambda: answer.startswith("ERR the limit"), lambda: answer == 1][i % 5]
            assert expected(), (i, requests[i], answer)


def who_one_is_is_decided_in_order():
    """AUTH and RESET take effect between the commands before and after them."""
    with redis() as server, written("users:\n  default: {password: secret, role: admin}\n", "weir.yaml") as path:
        with daemon(WEIR, "--config", path, "--store", server.url, *PATIENT) as one, Client(one) as client:
            client.ask("AUTH", "secret")
            until(lambda: is_up(client), "Redis decides")
            got = client.pipeline([("WEIR.TAKE", "k", "5/hour"), ("RESET",), ("WEIR.TAKE", "k", "5/hour"), ("AUTH", "secret"),
                                   ("WEIR.TAKE", "k", "5/hour"), ("HELLO", "3"), ("WEIR.TAKE", "k", "5/hour"),
                                   ("WEIR.REPLIES", "MAP"), ("WEIR.TAKE", "k", "5/hour")])
            assert got[0][2] == 4 and got[1] == "RESET" and got[2].startswith("NOAUTH") and got[3] == "OK", got
            assert got[4][2] == 3 and got[5]["proto"] == 3 and got[6][2] == 2, got
            assert got[7] == "OK" and got[8]["remaining"] == 1, got


def two_servers_share_a_limit_exactly():
    """With pipelines on many connections to both."""
    limit, each, admitted = 500, 200, []

    def ask(one):
        with Client(one) as client:
            answers = client.pipeline([("WEIR.TAKE", "shared", f"{limit}/day")] * each)
            admitted.append(sum(answer[0] for answer in answers))

    with redis() as server, stored(server, *PATIENT) as (first, _), stored(server, *PATIENT) as (second, client):
        threads = [threading.Thread(target=ask, args=(one,)) for one in (first, second) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
        assert len(admitted) == len(threads) and sum(admitted) == limit, admitted
        info = client.info()
        assert int(info["store_calls"]) < 3 * each, info  # many requests share a call
    return f"{admitted}"


def a_large_batch_is_decided_whole():
    items = [{"attributes": {"user": f"u{i}", "path": "/slow"}} for i in range(900)]
    policy = POLICY.replace("1000/hour", "100000/hour").replace("[ip]", "[user]")
    with written(policy) as path, redis() as server, \
            stored(server, *PATIENT, "--policy", path) as (one, client):
        status, body, _ = visit(one, "POST", "/v1/check", json.dumps(items))
        answers = json.loads(body)
        assert status == 200 and len(answers) == 900 and all(answer["allowed"] for answer in answers), body[:300]
        left = [client.ask("WEIR.PEEK", user, limit)[2] for user, limit in (("u750", "@slow"), ("u0", "@canary"))]
        assert left == [1, 0], left  # each was charged once
        status, body, _ = visit(one, "POST", "/v1/check", json.dumps(items))
        denied = [answer["shadow_denied"] for answer in json.loads(body)]
        assert denied == [1] * 900, body[:300]


def a_hold_that_two_ask_for_is_charged_once():
    with redis() as server, stored(server, *PATIENT) as (one, client):
        twice = [("WEIR.HOLD", "twice", "t", "100/day", "30", "600000")] * 2 + [("WEIR.SETTLE", "twice", "10")] * 2
        answers = client.pipeline(twice + [("WEIR.PEEK", "t", "100/day")])
        assert answers[0] == answers[1] and answers[2] == answers[3] and answers[4][2] == 90, answers

        def hold(answers):
            with Client(one) as other:
                answers.append(other.answer("WEIR.HOLD", "same", "k", "100/day", "30", "600000"))

        answers = []
        server.tell(signal.SIGSTOP)
        threads = [threading.Thread(target=hold, args=(answers,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(answers) == 3, "all but one are told that another asks")
        server.tell(signal.SIGCONT)
        for thread in threads:
            thread.join(TIMEOUT_S)
        assert sorted(str(answer)[:4] for answer in answers) == ["BUSY"] * 3 + ["[1, "], answers
        assert client.ask("WEIR.PEEK", "k", "100/day")[2] == 70
        assert client.ask("WEIR.HOLD", "same", "k", "100/day", "30", "600000")[:3] == [1, 100, 70]
        server.tell(signal.SIGSTOP)
        answers.clear()

        def settle():
            with Client(one) as other:
                answers.append(other.answer("WEIR.SETTLE", "same", "10"))

        threads = [threading.Thread(target=settle) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: len(answers) == 1, "one is told that another asks")
        server.tell(signal.SIGCONT)
        for thread in threads:
            thread.join(TIMEOUT_S)
        assert sorted(str(answer)[:4] for answer in answers) == ["BUSY", "[30,"], answers
        assert client.ask("WEIR.PEEK", "k", "100/day")[2] == 90


# --- without --------------------------------------------------------------------------------------------------------

RULES = """
limits:
  - {name: share, key: [user], match: {path: /share}, limit: 4/day, on_store_failure: share}
  - {name: unset, key: [user], match: {path: /unset}, limit: 4/day}
  - {name: open, key: [user], match: {path: "/open*"}, limit: 1/day, on_store_failure: open}
  - {name: closed, key: [user], match: {path: "/*closed"}, limit: 100/day, on_store_failure: closed}
  - {name: local, key: [user], match: {path: "/local*"}, limit: 100/day, on_store_failure: {local: 3/day}}
"""


def admitted(client, path, user, n):
    return sum(client.ask("WEIR.CHECK", "path", path, "user", user)[0] for _ in range(n))


def each_limit_says_what_decides_without():
    with written(RULES) as path, redis() as server, \
            stored(server, "--store_budget", "5s", "--policy", path) as (one, client), \
            stored(server, "--store_budget", "5s", "--policy", path) as (_, other):
        until(lambda: all(each.info()["store_nodes"] == "2" and each.info()["store_joining"] == "0" for each in (client, other)),
              "both know of each other")
        server.end()
        for each in (client, other):
            until(lambda each=each: each.ask("WEIR.CHECK", "path", "/open", "user", "x") and not is_up(each), "it is noticed")
        assert visit(one, "GET", "/readyz")[0] == 200 and "degraded" in visit(one, "GET", "/readyz")[1]
        assert admitted(client, "/share", "a", 6) == 2 and admitted(other, "/share", "a", 6) == 2
        assert admitted(client, "/unset", "a", 6) == 2
        assert admitted(client, "/open", "a", 6) == 6
        assert admitted(client, "/closed", "a", 6) == 0
        assert admitted(client, "/local", "a", 6) == 3
        denied = client.ask("WEIR.CHECK", "path", "/closed", "user", "a")
        assert denied[4] == 10**9 and denied[9] == "closed", denied
        status, body, headers = visit(one, "GET", "/v1/check?path=%2Fclosed&user=a")
        assert status == 503 and headers["Retry-After"] == "1" and json.loads(body)["decided_by"] == "closed", body
        # All or nothing: a limit that fails closed charges no other. /local-closed matches two limits.
        assert admitted(client, "/local-closed", "b", 3) == 0 and admitted(client, "/local", "b", 6) == 3
        assert client.pipeline([("WEIR.TAKE", "p", "4/day")] * 6)[-1][:3] == [0, 4, 0]
        assert sum(answer[0] for answer in client.pipeline([("WEIR.TAKE", "q", "4/day")] * 6)) == 2
        # Decided at once, but separately: a limit that fails closed does not affect the next commands.
        taken = client.pipeline([("WEIR.TAKE", "d", "@closed")] + [("WEIR.TAKE", "d", "@local")] * 6)
        assert [answer[0] for answer in taken] == [0, 1, 1, 1, 0, 0, 0], taken
        assert int(client.info()["store_deferred_keys"]) > 0
        server.start()
        for each in (client, other):
            until(lambda each=each: is_up(each), "it is back")
            until(lambda each=each: each.info()["store_deferred_keys"] == "0", "what was admitted meanwhile is paid in")
        until(lambda: client.ask("WEIR.PEEK", "a", "@share")[2] == 0, "both have paid")
        assert client.ask("WEIR.PEEK", "a", "@local")[2] == 97
        assert client.ask("WEIR.PEEK", "a", "@open")[2] == 0
        assert int(client.info()["store_deferred_excess"]) >= 5  # of /open
        assert admitted(client, "/share", "c", 6) == 4
        assert visit(one, "GET", "/readyz")[1] == "ready\n"


def nobody_waits_for_one_that_is_stuck():
    """Redis is stopped while pipelines arrive: all get replies, and Redis decides again when it continues."""
    with redis() as server, stored(server, "--store_budget", "50ms", "--on_store_failure", "open") as (_, client):
        for turn in range(3):
            server.tell(signal.SIGSTOP)
            answers = client.pipeline([("WEIR.TAKE", f"k{turn}", "10/day")] * 200)
            assert all(answer[0] == 1 for answer in answers), answers
            server.tell(signal.SIGCONT)
            until(lambda: is_up(client), "it is back")
        assert client.ask("WEIR.TAKE", "new", "10/day")[1:3] == [10, 9]


def a_store_that_never_was():
    """The server starts, and is ready only if it can decide without Redis."""
    with tempfile.TemporaryDirectory(prefix="weir-store-") as folder:
        url = f"redis+unix://{folder}/nobody"
        with daemon(WEIR, "--store", url, "--store_budget", "20ms", http="127.0.0.1:0") as one, Client(one) as client:
            assert [client.ask("WEIR.TAKE", "k", "2/day")[0] for _ in range(3)] == [1, 1, 0]
            assert visit(one, "GET", "/readyz")[0] == 200
        with daemon(WEIR, "--store", url, "--store_budget", "20ms", "--on_store_failure", "closed",
                    http="127.0.0.1:0") as one, Client(one) as client:
            assert client.ask("WEIR.TAKE", "k", "2/day")[0] == 0
            assert visit(one, "GET", "/readyz")[0] == 503 and visit(one, "GET", "/healthz")[0] == 200
            assert visit(one, "POST", "/v1/take", json.dumps({"limit": "2/day", "key": "k"}))[0] == 503


# --- as it goes -----------------------------------------------------------------------------------------------------


def a_policy_changes_while_it_is_asked():
    def text(limit):
        return f"limits:\n  - {{name: per-user, key: [user], limit: {limit}/day}}\n" \
               f"  - {{name: shade, key: [user], limit: {limit}/day, mode: shadow}}\n"

    with written(text(1000000)) as path, redis() as server, \
            stored(server, *PATIENT, "--policy", path) as (one, client):
        is_over, faults = threading.Event(), []

        def ask(user):
            with Client(one) as other:
                while not is_over.is_set():
                    for answer in other.pipeline([("WEIR.CHECK", "user", user)] * 20):
                        if answer[0] != 1 or answer[1] not in (1000000, 2000000):
                            faults.append(answer)

        threads = [threading.Thread(target=ask, args=(f"u{i}",)) for i in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(6):
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text(2000000 if turn % 2 == 0 else 1000000))
            os.rename(path + ".new", path)
            ticket = client.ask("WEIR.RELOAD")
            until(lambda ticket=ticket: int(client.info("policy")["policy_reloads"]) >= ticket, "it was read")
        is_over.set()
        for thread in threads:
            thread.join(TIMEOUT_S)
        assert not faults and int(client.info()["policy_changes"]) >= 6, faults[:3]
        # The usage stays, and nothing is added.
        assert client.ask("WEIR.CHANGE", "per-user", "10/day") == "OK"
        assert client.ask("WEIR.TAKE", "fresh", "@per-user", "4")[1:3] == [10, 6]
        assert client.ask("WEIR.CHANGE", "per-user", "20/day burst 20") == "OK"
        assert client.ask("WEIR.PEEK", "fresh", "@per-user")[1:3] == [20, 16]
        assert client.ask("WEIR.PEEK", "never-seen", "@per-user")[1:3] == [20, 20]


def per_user(limit):
    return f"limits:\n  - {{name: per-user, key: [user], limit: {limit}}}\n"


def reload(client, path, text):
    """Returns when the server of this client has the new policy."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)
    ticket = client.ask("WEIR.RELOAD")
    until(lambda: int(client.info("policy")["policy_reloads"]) >= ticket, "it was read")


def take(client, user, cost=1):
    return client.ask("WEIR.TAKE", user, "@per-user", str(cost))[:3]


def two_servers_with_different_limits_mint_nothing():
    """A rolling reload that has reached one server: both decide by the limit that was set last."""
    with written(per_user("50/day")) as old, written(per_user("50/day"), "other.yaml") as new, redis() as server, \
            stored(server, *PATIENT, "--policy", old) as (_, behind), \
            stored(server, *PATIENT, "--policy", new) as (_, ahead):
        assert take(behind, "u", 20) == [1, 50, 30]
        assert take(ahead, "u", 20) == [1, 50, 10]
        reload(ahead, new, per_user("5/day"))
        for _ in range(10):
            assert take(ahead, "u") == [0, 5, 0]
            assert take(behind, "u") == [0, 5, 0]
        # A key that only the server with the old limit has seen is cut once, not repeatedly.
        assert take(behind, "v", 3) == [1, 50, 47]
        assert take(ahead, "v") == [1, 5, 1]
        assert take(behind, "v") == [1, 5, 0]
        assert [take(one, "v") for one in (ahead, behind)] == [[0, 5, 0]] * 2
        # The other server follows: the numbers are the same, and nothing changes.
        reload(behind, old, per_user("5/day"))
        assert [take(one, "v") for one in (ahead, behind)] == [[0, 5, 0]] * 2
        # Now it is the first to be raised.
        reload(behind, old, per_user("9/day"))
        assert take(behind, "v") == [1, 9, 3]
        assert take(ahead, "v") == [1, 9, 2]


def a_limit_of_another_kind_and_back():
    """The policy that was loaded last decides, although its limit was used before."""
    with written(per_user("50/day")) as old, written(per_user("50/day"), "other.yaml") as new, redis() as server, \
            stored(server, *PATIENT, "--policy", old) as (_, behind), \
            stored(server, *PATIENT, "--policy", new) as (one, ahead):
        assert take(ahead, "u", 2) == [1, 50, 48]
        reload(ahead, new, per_user("7/5000day fixed_window"))
        assert take(ahead, "u") == [1, 7, 6]
        assert take(behind, "u") == [1, 7, 5]
        reload(ahead, new, per_user("50/day"))
        assert take(ahead, "u") == [1, 50, 49]
        assert take(behind, "u") == [1, 50, 48]
        assert "\nrate_limiter_store_keys_damaged_total 0\n" in visit(one, "GET", "/metrics")[1]


def a_server_that_starts_with_another_limit():
    """Its first decision is by the limit that it was started with. A server that started earlier and could not reach
    Redis does not revert the limit."""
    with written(per_user("50/day")) as old, written(per_user("5/day"), "new.yaml") as new, redis() as server, \
            stored(server, *PATIENT, "--policy", old) as (_, first):
        assert take(first, "u", 20) == [1, 50, 30]
        server.end()
        until(lambda: is_up(first, "down"), "the first server has noticed")
        with stored(server, *PATIENT, "--policy", old, is_asked=False) as (_, waiting):
            assert take(waiting, "u")[0] == 1  # by itself
            server.start()
            until(lambda: is_up(first), "Redis is back")
            assert take(first, "w", 20) == [1, 50, 30]
            with stored(server, *PATIENT, "--policy", new, is_asked=False) as (_, second):
                assert take(second, "w") == [0, 5, 0]
                until(lambda: is_up(waiting), "Redis is back for all")
                for one in (waiting, first, second):
                    assert take(one, "w") == [0, 5, 0]


def a_limit_changes_while_a_policy_waits_for_requests():
    """The old policy stays until Redis has replied to its requests. A change of a limit does not wait for that."""
    with written(POLICY) as path, redis() as server, stored(server, *PATIENT, "--policy", path) as (one, client), \
            contextlib.ExitStack() as stack:
        askers = [stack.enter_context(Client(one)) for _ in range(8)]  # several per worker
        server.tell(signal.SIGSTOP)
        for i, asker in enumerate(askers):
            asker.send("WEIR.CHECK", "ip", f"1.1.1.{i}")
        until(lambda: int(client.info()["store_calls"]) >= 1, "it is asked")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(POLICY.replace("1000/hour", "2000/hour"))
        os.rename(path + ".new", path)
        client.ask("WEIR.RELOAD")
        until(lambda: client.ask("WEIR.LIMITS")[0][3] == "2000/hour", "the new one is in place")
        assert client.ask("WEIR.CHANGE", "everyone", "3000/hour", "HERE") == "OK"
        server.tell(signal.SIGCONT)
        assert [asker.read()[0] for asker in askers] == [1] * 8


def cpu_s(one):
    with open(f"/proc/{one.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def who_sends_more_while_it_waits_is_not_looked_at():
    """The first request waits for the store. Further data from the client, or the end of it, must not keep a worker
    busy."""
    with redis() as server, stored(server, *PATIENT) as (one, client):
        client.ask("WEIR.TAKE", "k", "10/day")
        for ends in (False, True):
            server.tell(signal.SIGSTOP)
            with one.connect() as other:
                other.sendall(bulks("WEIR.TAKE", "k", "10/day"))
                time.sleep(0.1)
                if ends:
                    other.shutdown(socket.SHUT_WR)
                else:
                    other.sendall(bulks("WEIR.TAKE", "k", "10/day"))
                before = cpu_s(one)
                time.sleep(1)
                assert cpu_s(one) - before < 0.5, cpu_s(one) - before
                server.tell(signal.SIGCONT)
                assert other.recv(1) == b"*"
            until(lambda: is_up(client), "it is back")


def who_sends_more_behind_its_last_request_is_answered():
    """Bytes after `Connection: close` are ignored, however many there are. The client reads its response after it has
    sent all."""
    with redis() as server, stored(server, "--store_budget", "300ms") as (one, _):
        server.tell(signal.SIGSTOP)
        text = json.dumps({"limit": "5/day", "key": "k"})
        host, port = one.http_at.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 5) as other:
            other.sendall(b"POST /v1/take HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                          b"Content-Length: %d\r\n\r\n%sGET / HTTP/1.1\r\n" % (len(text), text.encode()))
            for _ in range(200):  # more than the kernel buffers
                other.sendall(b"x: " + b"y" * (1 << 16) + b"\r\n")
            assert other.recv(12) == b"HTTP/1.1 200"
        server.tell(signal.SIGCONT)


def who_leaves_leaves_nothing_behind():
    """Connections that close during a call to Redis do not keep their policy alive."""
    with written(POLICY) as path, redis() as server, stored(server, *PATIENT, "--policy", path) as (one, client):
        server.tell(signal.SIGSTOP)
        for i in range(20):
            with Client(one) as other:
                other.socket.sendall(bulks("WEIR.CHECK", "ip", f"1.1.1.{i}") * 3)
        with open(path, "a", encoding="utf-8") as file:
            file.write("  - {name: another, match: {path: /another}, limit: 7/day}\n")  # not for the clients that have left
        ticket = client.ask("WEIR.RELOAD")
        until(lambda: int(client.info("policy")["policy_reloads"]) >= ticket, "the policy before it is let go of")
        server.tell(signal.SIGCONT)
        took = client.ask("WEIR.TAKE", "", "@another")
        assert took[1:3] == [7, 6], took


def who_leaves_is_not_looked_at():
    """A refund over HTTP records its client, which has left."""
    with redis() as server, stored(server, "--store_budget", "300ms") as (one, client):
        server.tell(signal.SIGSTOP)
        host, port = one.http_at.rsplit(":", 1)
        for body in ({"limit": "5/day", "key": "k", "mode": "refund"}, [{"limit": "5/day", "key": "k", "mode": "refund"}] * 3):
            text = json.dumps(body)
            with socket.create_connection((host, int(port)), TIMEOUT_S) as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as if it had crashed
                other.sendall(b"POST /v1/take HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                              b"Content-Length: %d\r\n\r\n%s" % (len(text), text.encode()))
                time.sleep(0.1)
        until(lambda: one.said().count("key_refunded") == 4, "all are told of")
        server.tell(signal.SIGCONT)


def what_was_asked_is_answered_at_the_end():
    with redis() as server, stored(server, *PATIENT) as (one, client):
        server.tell(signal.SIGSTOP)
        client.socket.sendall(bulks("WEIR.TAKE", "k", "5/day") * 3)
        with Client(one) as other:
            until(lambda: other.info()["store_state"] and int(other.info()["store_calls"]) >= 1, "it is asked")
        one.process.send_signal(signal.SIGTERM)
        server.tell(signal.SIGCONT)
        assert [client.read()[2] for _ in range(3)] == [4, 3, 2]
        assert one.process.wait(TIMEOUT_S) == 0
        one.process.stdout.close()
        one.process = None


def who_has_left_is_not_waited_for_at_the_end():
    """A request whose client has left makes another call, for limits in shadow, while the server shuts down."""
    with written(POLICY) as path, redis() as server, \
            stored(server, "--store_budget", "500ms", "--policy", path) as (one, client):
        client.close()
        server.tell(signal.SIGSTOP)
        with one.connect() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            other.sendall(bulks("WEIR.CHECK", "ip", "1.1.1.1", "path", "/slow"))
            time.sleep(0.1)
        assert one.end() == 0, one.said()


def who_leaves_does_not_wait():
    """A waiting take ends with its client, even if invalid bytes followed it."""
    with plain() as (one, client):
        client.ask("WEIR.TAKE", "k", "1/hour")
        with one.connect() as other:
            other.sendall(bulks("WEIR.TAKE", "k", "1/hour", "1", "WAIT", "7200000") + b"*1\r\nx\r\n")
            until(lambda: client.info()["connected_clients"] == "2", "it waits")
        until(lambda: client.info()["connected_clients"] == "1", "it waits no more")


def passwords_are_not_shown():
    with redis("--requirepass", "s3cret") as server:
        url = server.url.replace("://", "://:s3cret@")
        environment = {**os.environ, "WEIR_STORE": url}
        with daemon(WEIR, http="127.0.0.1:0", env=environment) as one, Client(one) as client:
            until(lambda: is_up(client), "the store came up")
            shown = client.ask("CONFIG", "GET", "store")
            assert shown[0] == "store" and server.path in shown[1] and "s3cret" not in shown[1], shown
            assert "s3cret" not in client.ask("INFO") + one.said() + visit(one, "GET", "/metrics")[1]
        with daemon(WEIR, "--store", server.url.replace("://", "://:wr0ng@"), http="127.0.0.1:0") as one, \
                Client(one) as client:
            until(lambda: client.info()["store_last_error"], "it is told")
            assert "wr0ng" not in client.ask("INFO") + one.said()
    failed = subprocess.run([WEIR, "serve", "--store", "redis://:s3cret@:x"], capture_output=True, timeout=TIMEOUT_S,
                            check=False)
    assert failed.returncode == 2 and b"store" in failed.stderr and b"s3cret" not in failed.stderr, failed


def limits_that_redis_cannot_have_are_refused():
    with redis() as server:
        with written("limits:\n  - {name: big, limit: 2000000/hour sliding_log}\n") as path:
            failed = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", "--arena", "1GiB",
                                     "--store", server.url, "--policy", path], capture_output=True, timeout=TIMEOUT_S,
                                    check=False)
            assert failed.returncode == 1 and b"big" in failed.stderr and b"in Redis" in failed.stderr, failed
        with written(POLICY) as path, stored(server, *PATIENT, "--policy", path) as (one, client):
            assert "in Redis" in client.answer("WEIR.TAKE", "k", "2000000/hour sliding_log")
            assert "in Redis" in client.answer("WEIR.CHANGE", "per-ip", "1/hour burst 999999999999999")
            assert visit(one, "POST", "/v1/take", json.dumps({"limit": "2000000/hour sliding_log", "key": "k"}))[0] == 400


if __name__ == "__main__":
    sys.exit(run([
        ("every command answers as with a table", every_command_answers_as_with_a_table),
        ("every route answers as with a table", every_route_answers_as_with_a_table),
        ("descriptors are decided as with a table", descriptors_are_decided_as_with_a_table),
        ("transactions answer as with a table", transactions_answer_as_with_a_table),
        ("a long pipeline takes effect in order", a_long_pipeline_takes_effect_in_order),
        ("who one is is decided in order", who_one_is_is_decided_in_order),
        ("two servers share a limit exactly", two_servers_share_a_limit_exactly),
        ("a large batch is decided whole", a_large_batch_is_decided_whole),
        ("a hold that two ask for is charged once", a_hold_that_two_ask_for_is_charged_once),
        ("each limit says what decides without", each_limit_says_what_decides_without),
        ("requests do not wait for a worker that is stuck", nobody_waits_for_one_that_is_stuck),
        ("a store that never was", a_store_that_never_was),
        ("a policy changes while it is asked", a_policy_changes_while_it_is_asked),
        ("two servers with different limits mint nothing", two_servers_with_different_limits_mint_nothing),
        ("a limit of another kind and back", a_limit_of_another_kind_and_back),
        ("a server that starts with another limit", a_server_that_starts_with_another_limit),
        ("a limit changes while a policy waits for requests", a_limit_changes_while_a_policy_waits_for_requests),
        ("who sends more while it waits is not looked at", who_sends_more_while_it_waits_is_not_looked_at),
        ("who sends more behind its last request is answered", who_sends_more_behind_its_last_request_is_answered),
        ("who leaves leaves nothing behind", who_leaves_leaves_nothing_behind),
        ("who leaves is not looked at", who_leaves_is_not_looked_at),
        ("what was asked is answered at the end", what_was_asked_is_answered_at_the_end),
        ("who has left is not waited for at the end", who_has_left_is_not_waited_for_at_the_end),
        ("who leaves does not wait", who_leaves_does_not_wait),
        ("passwords are not shown", passwords_are_not_shown),
        ("limits that Redis cannot have are refused", limits_that_redis_cannot_have_are_refused),
    ]))
