#!/usr/bin/env python3
"""decided_by of weir serve: which limit it names, and that all numbers beside it are that limit's.

    decided_test.py WEIR

Every test runs with a table and with a Redis, and expects the same of both. Limits have periods of days, and windows
begin with their first request, so that none ends during the test."""
# Covers: src/store/table/decision.h

import contextlib
import functools
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, daemon, run
from redis_server import redis
from resp_client import Client, until

WEIR = sys.argv[1]
DAY = 86400 * 10**9
SLACK = 3600 * 10**9  # no test takes an hour
WINDOW = "1/30day fixed_window align first count all"

POLICY = f"""
limits:
  - {{name: counting, key: [user], match: {{path: /counted}}, limit: {WINDOW}}}
  - {{name: short, key: [user], limit: 1/2day, match: {{path: [/counted, /short]}}}}
  - {{name: few, key: [user], match: {{path: /many}}, limit: 4/10day, cost: 1}}
  - {{name: many, key: [user], match: {{path: /many}}, limit: 10/2day}}
"""

ENVOY = """
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: path
    rate_limit: {unit: year, requests_per_unit: 1}
"""


@contextlib.contextmanager
def policy_file(text):
    with tempfile.TemporaryDirectory(prefix="weir-decided-") as folder:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        yield path


@contextlib.contextmanager
def server_of(store, *options, policy=POLICY):
    """A server on this store (table or redis), and a client."""
    with contextlib.ExitStack() as stack:
        if store == "redis":
            url = stack.enter_context(redis()).url
            options = ("--store", url, "--store_budget", "10s", *options)
        path = stack.enter_context(policy_file(policy))
        one = stack.enter_context(daemon(WEIR, "--workers", "1", "--policy", path, *options, http="127.0.0.1:0"))
        client = stack.enter_context(Client(one, protocol=3))
        if store == "redis":
            until(lambda: client.info()["store_state"] == "up", "the store came up")
        yield one, client


def days(found, expected):
    """Whether a duration is this many days, minus the time since the request."""
    return expected * DAY - SLACK < found <= expected * DAY


def is_verdict(found, by, limit, remaining, retry, reset, allowed=False):
    """Compares a RESP or JSON reply. retry and reset are in days; a retry of None: never."""
    waits = found["retry_after_ns"] if "retry_after_ns" in found else found["retry_after"]
    resets = found["reset_after_ns"] if "reset_after_ns" in found else found["reset_after"]
    assert (found["allowed"], found["decided_by"], found["limit"], found["remaining"]) == \
        (allowed, by, limit, remaining), found
    assert waits in (None, -1) if retry is None else days(waits, retry), found
    assert days(resets, reset), found


def visit(one, method, target, body=None, headers=()):
    host, port = one.http_at.rsplit(":", 1)
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)) as connection:
        connection.request(method, target, body, {"Content-Type": "application/json", **dict(headers)})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())


def json_of(one, method, target, body=None, headers=(), status=429):
    found = visit(one, method, target, None if body is None else json.dumps(body), headers)
    assert found[0] == status, found
    return json.loads(found[1]), {name.lower(): value for name, value in found[2].items()}


# --- several limits of the request ---------------------------------------------------------------------------------

# What is used before, the request, and the reply: which limit, its limit, remaining, and days.
ALL = [
    ("of one that denies, though another has less left",
     ["2/30day", 1, "10/2day", 8], ["2/30day", 1, "10/2day", 8], (2, 10, 2, 1.2, 1.6)),
    ("the longest retry", ["1/day", 1, "1/30day", 1, "1/2day", 1], ["1/day", 1, "1/30day", 1, "1/2day", 1],
     (2, 1, 0, 30, 30)),
    ("of equal retries the first", ["3/6day", 3, "1/2day", 1], ["9/day", 1, "3/6day", 1, "1/2day", 1],
     (2, 3, 0, 2, 6)),
    ("never before any retry", ["1/30day", 1], ["1/30day", 1, "5/2day", 6], (2, 5, 5, None, 0)),
    ("of nevers the first", [], ["9/2day", 1, "6/2day", 7, "5/2day", 6], (2, 6, 6, None, 0)),
    ("not the one that allowed and counted", ["1/2day", 1], [WINDOW, 1, "1/2day", 1], (2, 1, 0, 2, 2)),
    ("the one that counts and denies", ["1/2day", 1, WINDOW, 1], ["1/2day", 1, WINDOW, 1], (2, 1, 0, 30, 30)),
    ("allowed: the least left", [], ["100/30day", 50, "3/6day", 1], (2, 3, 2, 0, 2)),
    ("allowed: of equals the first", [], ["100/40day", 98, "3/6day", 1], (1, 100, 2, 0, 39.2)),
    ("a cost of 0", ["1/30day", 1], ["5/day", 5, "1/30day", 0, "6/day", 0], (1, 5, 0, 0, 1)),
]


def triples(user, limits):
    pairs = list(zip(limits[::2], limits[1::2], strict=True))
    return [word for limit, cost in pairs for word in (user, limit, str(cost))]


def use_before(client, user, before):
    """In one request, so that equal waits stay equal."""
    assert not before or client.ask("WEIR.ALL", *triples(user, before))["allowed"], before


def weir_all_shows_its_own(store):
    with server_of(store) as (_, client):
        for user, (what, before, asked, (by, limit, remaining, retry, reset)) in enumerate(ALL):
            use_before(client, f"u{user}", before)
            found = client.ask("WEIR.ALL", *triples(f"u{user}", asked))
            is_verdict(found, by, limit, remaining, retry, reset, allowed=what.startswith(("allowed", "a cost")))


def v1_take_shows_its_own(store):
    with server_of(store) as (one, client):
        for user, (what, before, asked, (by, limit, remaining, retry, reset)) in enumerate(ALL):
            items = [{"key": key, "limit": of, "cost": int(cost)}
                     for key, of, cost in zip(*[iter(triples(f"u{user}", asked))] * 3)]
            allowed = what.startswith(("allowed", "a cost"))
            use_before(client, f"u{user}", before)
            found, headers = json_of(one, "POST", "/v1/take", {"all": items}, status=200 if allowed else 429)
            assert found["decided_by_item"] == by - 1, (what, found)
            is_verdict(found, items[by - 1]["limit"], limit, remaining, retry, reset, allowed)
            are_headers(headers, items[by - 1]["limit"], limit, remaining, reset if allowed or retry is None else retry)
            assert ("retry-after" in headers) == (not allowed and retry is not None), headers


def are_headers(headers, name, limit, remaining, of_days):
    told = re.fullmatch(r'"(.*)";r=(\d+);t=(\d+)', headers["ratelimit"])
    assert told and told[1] == name and int(told[2]) == remaining, headers
    assert days(int(told[3]) * 10**9 - 10**9, of_days) or int(told[3]) == of_days == 0, headers
    assert headers["ratelimit-policy"].startswith(f'"{name}";q={limit};w='), headers
    if "retry-after" in headers:
        assert headers["retry-after"] == told[3], headers


# --- limits of a policy --------------------------------------------------------------------------------------------

def use_up_short(client, user):
    found = client.ask("WEIR.CHECK", "user", user, "path", "/short")
    is_verdict(found, "short", 1, 0, 0, 2, allowed=True)


def checks(ask, client):
    """The limit `counting` allows and counts the first request, and denies the second."""
    use_up_short(client, "ann")
    is_verdict(ask("ann", "/counted"), "short", 1, 0, 2, 2)
    is_verdict(ask("ann", "/counted"), "counting", 1, 0, 30, 30)
    # `many` has less left when it denies than when `few` decides.
    is_verdict(client.ask("WEIR.CHECK", "COST", 4, "user", "bob", "path", "/many"), "few", 4, 3, 0, 2.5, allowed=True)
    is_verdict(client.ask("WEIR.CHECK", "COST", 5, "user", "bob", "path", "/many"), "many", 10, 1, 0, 1.8, allowed=True)
    is_verdict(client.ask("WEIR.CHECK", "COST", 2, "user", "bob", "path", "/many"), "many", 10, 1, 0.2, 1.8)
    is_verdict(client.ask("WEIR.CHECK", "COST", 11, "user", "bob", "path", "/many"), "many", 10, 1, None, 1.8)


def weir_check_shows_its_own(store):
    with server_of(store) as (_, client):
        checks(lambda user, path: client.ask("WEIR.CHECK", "user", user, "path", path), client)


def v1_check_shows_its_own(store):
    with server_of(store, "--ratelimit_headers", "both") as (one, client):
        def ask(user, path):
            found, headers = json_of(one, "GET", f"/v1/check?user={user}&path={path}")
            name, of_days = found["decided_by"], 2 if found["decided_by"] == "short" else 30
            are_headers(headers, name, 1, 0, of_days)
            assert headers["x-ratelimit-limit"] == "1" and headers["x-ratelimit-remaining"] == "0", headers
            assert headers["x-ratelimit-reset"] == headers["retry-after"], headers
            assert found["violated-policies"] == [name], found
            assert f"the limit {name} denied the request; retry in {headers['retry-after']} s" in found["detail"], found
            return found
        checks(ask, client)


def v1_authorize_shows_its_own(store):
    with server_of(store, "--authorize_headers", "x-user=user") as (one, client):
        def ask(user, path):
            found, headers = json_of(one, "GET", "/v1/authorize", headers=(("X-Original-URI", path), ("X-User", user)))
            are_headers(headers, found["decided_by"], 1, 0, 2 if found["decided_by"] == "short" else 30)
            return found
        checks(ask, client)


def the_log_shows_its_own(store):
    with server_of(store, "--log_denials", "key") as (one, client):
        use_up_short(client, "ann")
        for _ in range(2):
            client.ask("WEIR.CHECK", "user", "ann", "path", "/counted")
        logged = re.compile(r"denied time=\S+ limit=(\w+) .*?retry_after_ns=(\d+)")
        until(lambda: len(logged.findall(one.said())) == 2, "two denials are logged")
        (first, first_ns), (second, second_ns) = logged.findall(one.said())
        assert (first, second) == ("short", "counting"), one.said()
        assert days(int(first_ns), 2) and days(int(second_ns), 30), one.said()


def the_program_shows_its_own(store):
    with server_of(store) as (one, client):
        use_up_short(client, "ann")
        for name, of_days in (("short", 2), ("counting", 30)):
            said = subprocess.run([WEIR, "check", "--at", one.path, "--json", "user=ann", "path=/counted"], check=False,
                                  capture_output=True, text=True, timeout=TIMEOUT_S).stdout
            is_verdict(json.loads(said), name, 1, 0, of_days, of_days)


def counters_are_of_the_limit_that_denied(store):
    with server_of(store) as (one, client):
        use_up_short(client, "ann")
        client.ask("WEIR.CHECK", "user", "ann", "path", "/counted")
        rows = {row["name"]: row for row in json.loads(visit(one, "GET", "/v1/limits")[1])["limits"]}
        assert (rows["short"]["allowed"], rows["short"]["denied"]) == (1, 1), rows
        assert (rows["counting"]["allowed"], rows["counting"]["denied"]) == (0, 0), rows


def descriptors_show_each_its_own(store):
    """Envoy's format: no decided_by, but a status for each descriptor."""
    body = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]},
                                              {"entries": [{"key": "path", "value": "/a"}]}]}
    with server_of(store, "--envoy-counts", "together", policy=ENVOY) as (one, _):
        found, _ = json_of(one, "POST", "/json", body, status=200)
        assert [each.get("limitRemaining", 0) for each in found["statuses"]] == [1, 0], found
        found, _ = json_of(one, "POST", "/json", body)
        assert [each["code"] for each in found["statuses"]] == ["OK", "OVER_LIMIT"], found
        assert [each["currentLimit"]["requestsPerUnit"] for each in found["statuses"]] == [2, 1], found
        assert [each.get("limitRemaining", 0) for each in found["statuses"]] == [1, 0], found


TESTS = [weir_all_shows_its_own, v1_take_shows_its_own, weir_check_shows_its_own, v1_check_shows_its_own,
         v1_authorize_shows_its_own, the_log_shows_its_own, the_program_shows_its_own,
         counters_are_of_the_limit_that_denied, descriptors_show_each_its_own]

if __name__ == "__main__":
    sys.exit(run([(f"{test.__name__.replace('_', ' ')}: {store}", functools.partial(test, store))
                  for test in TESTS for store in ("table", "redis")]))
