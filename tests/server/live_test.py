#!/usr/bin/env python3
"""The live document: GET /v1/live and WEIR.LIVE report the requests so far. /v1/live/key reports what would be decided,
and charges nothing.

    live_test.py WEIR"""
# Covers: src/server/http/http_live.c, src/server/live.c

import concurrent.futures
import contextlib
import http.client
import json
import os
import sys
import tempfile
import time
import urllib.parse

sys.dont_write_bytecode = True

import toy  # noqa: E402
from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client  # noqa: E402

WEIR = sys.argv[1]
POLICY = """attributes:
  ip: {type: ip}
limits:
  - name: per-client
    key: [ip]
    limit: 10/hour
  - name: per-pair
    key: [api_key, net]
    limit: 1000/hour
  - name: canary
    key: [path]
    limit: 1/hour
    mode: shadow
  - name: shaped
    key: [queue]
    limit: 1/hour leaky queue 5
  - name: quiet
    key: [nobody]
    limit: 1/s
"""
ENVOY = """domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
"""


class Asker:
    def __init__(self, one, token=None):
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = http.client.HTTPConnection("127.0.0.1", int(one.http_at.rsplit(":", 1)[1]), timeout=TIMEOUT_S)

    def __call__(self, path, /, **query):
        """(status, JSON)"""
        self.client.request("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""), headers=self.headers)
        answer = self.client.getresponse()
        return answer.status, json.loads(answer.read())

    def good(self, path, /, **query):
        status, answer = self(path, **query)
        assert status == 200, (path, query, status, answer)
        return answer

    def bad(self, status, said, path, /, **query):
        got, answer = self(path, **query)
        assert got == status and said in answer["detail"], (path, query, got, answer)

    def check(self, times=1, /, **attributes):
        return [self("/v1/check", **attributes)[0] for _ in range(times)]

    def until(self, holds, /, **query):
        """The first document for which `holds` is true. A second is reported when it is over."""
        deadline = time.monotonic() + TIMEOUT_S
        while not holds(live := self.good("/v1/live", **query)):
            assert time.monotonic() < deadline, live
            time.sleep(0.02)
        return live


@contextlib.contextmanager
def serving(policy, *options, workers=1, settings=None):
    with tempfile.TemporaryDirectory(prefix="weir-live-") as folder:
        words = list(options)
        for name, text in (("policy", policy), ("config", settings)):
            if text:
                with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as file:
                    file.write(text)
                words += [f"--{name}", file.name]
        with daemon(WEIR, "--keys", "10000", "--workers", str(workers), *words, http="127.0.0.1:0") as one:
            one.policy = os.path.join(folder, "policy.yaml")
            yield one, Asker(one)


def named(live, name):
    return next(limit for limit in live["limits"] if limit["name"] == name)


def total(limit, which):
    return sum(limit["series"][which]) if limit["series"] else 0


def keys(limit, which):
    """The counts by key. They are exact, because there are few keys."""
    assert all(key["error"] == 0 for key in limit["top"][which]), limit
    return {key["key"]: key["count"] for key in limit["top"][which]}


# --- reported requests
# --------------------------------------------------------------------------------------------------

def test_limits():
    with serving(POLICY) as (_, ask):
        began = time.time()
        before = ask.good("/v1/live")
        assert [limit["name"] for limit in before["limits"]] == ["(inline)", "per-client", "per-pair", "canary", "shaped", "quiet"]
        assert all(limit["series"] is limit["fill"] is limit["top"] is None for limit in before["limits"]), before
        assert ask.check(12, ip="10.0.0.1") == [200] * 10 + [429] * 2
        assert ask.check(3, ip="2001:db8::7") == [200] * 3
        ask.check(4, path="/x\n\x1b[31m")
        assert ask.check(3, queue="q") == [200] * 3
        live = ask.until(lambda live: all(total(named(live, name), "allowed") == n for name, n in
                                          (("per-client", 13), ("canary", 1), ("shaped", 3))))
        client, canary, shaped = (named(live, name) for name in ("per-client", "canary", "shaped"))
        assert live["limits"][0] == client and live["left_out"] == 0 and live["seconds"] == 120
        assert (client["mode"], client["algorithm"], client["limit"], client["key"]) == ("enforce", "token_bucket", "10/hour", "ip")
        assert (client["allowed_total"], client["rejected_total"]) == (13, 2) and total(client, "rejected") == 2
        assert all(len(client["series"][which]) == 120 for which in ("allowed", "rejected", "delayed"))
        # 9 to 0 of 10 are left, then 0 twice, then 9 to 7; 15 decisions.
        assert live["at"] - began > 9 or abs(client["fill"] - (45 + 24) / 10 / 15) < 0.001, client["fill"]
        assert keys(client, "busy") == {"ip=10.0.0.1": 12, "ip=2001:db8::/64": 3}
        assert keys(client, "denied") == {"ip=10.0.0.1": 2}
        assert client["top"]["busy"][0]["raw"] == "040a000001"
        assert live["at"] - min(60.001, live["uptime_s"] + 2) <= client["top"]["since"] <= live["at"], live
        assert canary["mode"] == "shadow" and total(canary, "rejected") == 3 and canary["rejected_total"] == 3
        assert keys(canary, "denied") == {"path=/x\\x0a\\x1b[31m": 3}
        assert total(shaped, "delayed") == shaped["delayed_total"] == 2, shaped
        assert named(live, "quiet")["series"] is None
        # 13 of clients, 3 of the queue, and 4 with the canary only; 2 were denied.
        whole = live["all"]
        assert [sum(whole[which]) for which in ("allowed", "rejected", "delayed")] == [20, 2, 2], whole
        assert (whole["allowed_total"], whole["rejected_total"], whole["delayed_total"]) == (20, 2, 2), whole
        assert len(whole["allowed"]) == 120 and live["policy"]["refused"] is False
        # Only decisions that the store completes at once are timed. The toy may complete all of them later.
        assert (live["latency"]["decision"]["n"] > 0 or toy.IS_TOY) and live["latency"]["throttled"]["n"] >= 4, live["latency"]
        for span in live["latency"].values():
            assert span["p50"] is None if span["n"] == 0 else 0 < span["p50"] <= span["p99"] <= span["p999"], live
        assert live["connections"]["http"] == 1 and live["requests_total"]["http"] >= 22
        assert live["policy"]["limits"] == 5 and live["store"] is None and live["table"]["capacity_keys"] >= 10000


def test_inline():
    with serving(None) as (one, ask), Client(one) as client:
        for key, n in ((b"ann", 3), (b"\xff\x00b", 2), (b"k" * 100, 1)):
            for _ in range(n):
                client.ask("WEIR.TAKE", key, "2/hour")
        live = ask.until(lambda live: total(live["limits"][0], "rejected") == 1)
        limit = live["limits"][0]
        assert (limit["name"], limit["algorithm"], limit["allowed_total"]) == ("(inline)", "any", 5), limit
        assert keys(limit, "busy") == {"ann": 3, "\\xff\\x00b": 2, "k" * 64 + "...": 1}
        assert [key["raw"] for key in limit["top"]["busy"]] == ["616e6e", "ff0062", None]
        client.ask("WEIR.TAKE", b"k" * 100 + b"x", "2/hour")  # looks the same, but has another hash
        live = ask.until(lambda live: total(live["limits"][0], "allowed") == 6)
        assert sorted(key["key"] for key in live["limits"][0]["top"]["busy"])[2:] == ["k" * 64 + "..."] * 2, live
        assert len({key["hash"] for key in live["limits"][0]["top"]["busy"]}) == 4, live
        assert live["policy"] is None
        ask.bad(409, "no policy", "/v1/live", limit="other")
        ask.bad(409, "no policy", "/v1/live/key", ip="10.0.0.1")
        assert ask.good("/v1/live", limit="(inline)")["limits"][0]["name"] == "(inline)"


def test_repeated_holds():
    """A repeated hold is one decision."""
    with serving(None) as (one, ask), Client(one) as client:
        for _ in range(5):
            assert client.ask("WEIR.HOLD", "id", "ann", "10/hour", 3, 60000)[2] == 7
        client.ask("WEIR.TAKE", "ann", "10/hour", 8)
        live = ask.until(lambda live: total(live["limits"][0], "rejected") == 1)
        assert total(live["limits"][0], "allowed") == live["limits"][0]["allowed_total"] == 1, live


def test_requests_as_wholes():
    """Each request has three limits, one of which denies: that counts as one request."""
    policy = "limits:\n  - {name: all, limit: 1000/hour}\n  - {name: some, key: [ip], limit: 4/hour}\n" \
        "  - {name: dark, key: [ip], limit: 1/hour, mode: shadow}\n"
    with serving(policy) as (_, ask):
        assert ask.check(10, ip="10.0.0.1") == [200] * 4 + [429] * 6
        live = ask.until(lambda live: sum(live["all"]["rejected"]) == 6)
        assert sum(live["all"]["allowed"]) == 4 and total(named(live, "dark"), "rejected") == 3, live
        assert len(ask.good("/v1/live", seconds=3, limit="all")["all"]["allowed"]) == 3


def test_refused_policy():
    """The document reports an invalid policy for as long as the newest version is invalid."""
    with serving(POLICY) as (one, ask):
        for text, is_refused in ((POLICY + "  - {name: quiet, limit: 1/s}\n", True), (POLICY + "\n", False)):
            with open(one.policy + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(file.name, one.policy)
            policy = ask.until(lambda live: live["policy"]["refused"] == is_refused)["policy"]
            assert policy["failures"] == 1, policy


def test_workers_add_up():
    with serving(POLICY, workers=4) as (one, ask):
        for number in range(24):
            other = Asker(one)
            other.check(3, api_key="k", net=number % 2)
            other.client.close()
        live = ask.until(lambda live: total(named(live, "per-pair"), "allowed") == 72)
        assert keys(named(live, "per-pair"), "busy") == {"api_key=k net=0": 36, "api_key=k net=1": 36}


def test_envoy():
    with serving(ENVOY) as (_, ask):
        assert ask.check(3, domain="shop", user="ann b") == [200, 200, 429]
        live = ask.until(lambda live: any(total(limit, "rejected") for limit in live["limits"]))
        assert keys(live["limits"][0], "denied") == {"domain=shop user=ann b": 1}
        view = ask.good("/v1/live/key", domain="shop", user="ann b")
        assert view["limits"][0]["key"] == "domain=shop user=ann b" and view["limits"][0]["denied"] and not view["allowed"]


def test_many_limits():
    """200 limits, the busiest first; fewer if the document is full."""
    rows = "".join(f"  - name: {'n' * 30}{number:03}\n    key: [k]\n    match: {{n: '{number}'}}\n    limit: 5/s\n" for number in range(300))
    with serving("limits:\n" + rows) as (one, ask), Client(one) as client:
        assert ask.good("/v1/live")["left_out"] == 101
        for number in (250, 299):
            ask.check(number - 245, n=number, k="k")
        live = ask.until(lambda live: total(live["limits"][0], "allowed") and total(live["limits"][1], "allowed"))
        assert [limit["name"][-3:] for limit in live["limits"][:2]] == ["299", "250"]
        assert len(live["limits"]) == 200 and live["left_out"] == 101
        found = ask.good("/v1/live", filter="N299", keys=0)
        assert [limit["name"][-3:] for limit in found["limits"]] == ["299"] and found["left_out"] == 0, found
        assert ask.good("/v1/live", filter="n2")["left_out"] == 0 and not ask.good("/v1/live", filter="n300")["limits"]
        assert len(json.loads(client.ask("WEIR.LIVE", 1, "FILTER", "nn"))["limits"]) + \
            json.loads(client.ask("WEIR.LIVE", 1, "FILTER", "nn"))["left_out"] == 300
        assert [limit["name"] for limit in ask.good("/v1/live", filter="inl")["limits"]] == ["(inline)"]
        for number in range(300):  # long keys, in all of them
            ask.check(1, n=number, k=f"{number}" + "\x01" * 70)
        for _ in range(2):
            whole = json.loads(client.ask("WEIR.LIVE"))
            assert 0 < len(whole["limits"]) <= 200 and whole["left_out"] == 301 - len(whole["limits"]), whole["left_out"]
        assert len(json.loads(client.ask("WEIR.LIVE", 1, "KEYS", 0))["limits"]) == 200
        assert len(ask.good("/v1/live")["limits"]) == 200


# --- what is asked for --------------------------------------------------------------------------------------------------

def test_query():
    with serving(POLICY) as (one, ask), Client(one) as client:
        for number in range(20):
            ask.check(1, ip=f"10.0.0.{number}")
        ask.until(lambda live: total(named(live, "per-client"), "allowed") == 20)
        for seconds in (1, 7, 120):
            live = ask.good("/v1/live", seconds=seconds)
            assert live["seconds"] == seconds
            assert all(len(limit["series"]["allowed"]) == seconds for limit in live["limits"] if limit["series"])
        for n, query in ((10, {}), (20, {"limit": "per-client"}), (3, {"keys": 3}), (2, {"limit": "per-client", "keys": 2})):
            assert len(named(ask.good("/v1/live", **query), "per-client")["top"]["busy"]) == n, query
        assert named(ask.good("/v1/live", keys=0), "per-client")["top"] is None
        assert [limit["name"] for limit in ask.good("/v1/live", limit="canary")["limits"]] == ["canary"]
        for query in ({"seconds": 0}, {"seconds": 121}, {"seconds": "x"}, {"seconds": ""}, {"seconds": "99999999999999999999"}):
            ask.bad(400, "seconds: use a whole number, 1 to 120", "/v1/live", **query)
        ask.bad(400, "keys: use a whole number, 0 to 64", "/v1/live", keys=65)
        ask.bad(400, "unknown option; use seconds, keys, limit or filter", "/v1/live", other=1)
        ask.bad(400, "hexadecimal", "/v1/live?seconds=%")
        ask.bad(404, "@other", "/v1/live", limit="other")
        live = json.loads(client.ask("WEIR.LIVE", 5, "keys", 1, "LIMIT", "per-client"))
        assert live["seconds"] == 5 and len(live["limits"][0]["top"]["busy"]) == 1 and live["connections"]["resp"] == 1
        assert live.keys() == ask.good("/v1/live").keys()
        assert json.loads(client.ask("WEIR.LIVE"))["seconds"] == 120
        for words, said in (((0,), "1 to 120"), ((5, "KEYS"), "unknown option"), (("KEYS", 65), "0 to 64"), (("LIMIT", "x"), "NOLIMIT"),
                            ((5, "K" * 60000, 1), "unknown option"), (("9" * 60000,), "1 to 120"), ((1, 2, 3, 4, 5, 6, 7, 8), "wrong number")):
            assert said in client.answer("WEIR.LIVE", *words), words


def test_roles():
    settings = "users:\n  app: {role: decide, token: app-token-1}\n  ops: {role: admin, token: ops-token-1}\n"
    with serving(POLICY, settings=settings) as (one, ask):
        for path in ("/v1/live", "/v1/live/key"):
            assert ask(path)[0] == 401
            assert Asker(one, "app-token-1")(path, ip="::1")[0] == 403, path
        assert Asker(one, "ops-token-1").good("/v1/live")["seconds"] == 120
        with Client(one) as client:
            assert client.answer("WEIR.LIVE").startswith("NOAUTH")


def test_observe_off():
    with serving(POLICY, "--observe", "off") as (_, ask):
        assert ask.check(2, ip="10.0.0.1", path="/x") == [200] * 2
        live = ask.good("/v1/live")
        client = named(live, "per-client")
        assert live["all"] is live["latency"] is client["series"] is client["fill"] is client["top"] is None and client["allowed_total"] == 2
    with serving(POLICY, "--top_keys", "0") as (_, ask):
        ask.check(2, ip="10.0.0.1")
        live = ask.until(lambda live: total(named(live, "per-client"), "allowed") == 2)
        assert named(live, "per-client")["top"] == {"busy": [], "denied": [], "since": named(live, "per-client")["top"]["since"]}


# --- what would be said -------------------------------------------------------------------------------------------------

def expect_views(ask):
    ask.check(12, ip="10.0.0.1", path="/x")
    for _ in range(3):  # charges nothing
        view = ask.good("/v1/live/key", ip="10.0.0.1", path="/x")
        client, canary = view["limits"]
        assert (client["name"], client["key"], client["capacity"], client["remaining"]) == ("per-client", "ip=10.0.0.1", 10, 0), view
        assert client["denied"] and 0 < client["retry_after_s"] <= 360 and 3240 < client["reset_after_s"] <= 3600, view
        assert (canary["mode"], canary["denied"], canary["key"]) == ("shadow", True, "path=/x") and not view["allowed"], view
    other = ask.good("/v1/live/key", ip="10.0.0.2")
    assert other["allowed"] and other["limits"][0]["remaining"] == 10 and other["limits"][0]["retry_after_s"] == 0, other
    assert ask.good("/v1/live/key", ip="10.0.0.2", cost=11)["limits"][0]["retry_after_s"] is None
    assert ask.good("/v1/live/key", unknown="x") == {"limits": [], "allowed": True}
    assert ask.check(1, ip="10.0.0.2") == [200]


def test_views():
    with serving(POLICY) as (_, ask):
        expect_views(ask)


def expect_pointed(ask):
    """A key in the document is found by its bytes, although its limit does not match the known attributes."""
    assert ask.check(4, user="ann", net="a b", path="/login") == [200] * 2 + [429] * 2
    live = ask.until(lambda live: named(live, "logins")["top"] and named(live, "logins")["top"]["denied"])
    key = named(live, "logins")["top"]["denied"][0]
    view = ask.good("/v1/live/key", limit="logins", raw=key["raw"])["limits"]
    assert [(one["name"], one["applies"]) for one in view] == [("everyone", True), ("logins", False)], view
    assert (view[1]["key"], view[1]["denied"], view[1]["remaining"]) == ("user=ann net=a b", True, 0) and view[1]["retry_after_s"] > 0
    view = ask.good("/v1/live/key", user="ann", net="a b", path="/login", limit="logins", raw=key["raw"].upper())
    assert [one["applies"] for one in view["limits"]] == [True, True] and not view["allowed"], view


LOGINS = "limits:\n  - {name: everyone, limit: 1000/hour}\n" \
    "  - {name: logins, key: [user, net], match: {path: /login}, limit: 2/hour}\n"


def test_pointed_at():
    with serving(LOGINS) as (_, ask):
        expect_pointed(ask)
        ask.bad(400, "hexadecimal", "/v1/live/key", limit="logins", raw="0x")
        ask.bad(400, "two hexadecimal digits", "/v1/live/key", limit="logins", raw="012")
        ask.bad(400, "up to 64", "/v1/live/key", limit="logins", raw="00" * 65)
        ask.bad(400, "needs limit, the name of the limit", "/v1/live/key", raw="00")
        ask.bad(404, "@other", "/v1/live/key", limit="other", raw="00")
    with serving(ENVOY) as (_, ask):
        ask.check(3, domain="shop", user="ann b")
        live = ask.until(lambda live: any(total(limit, "rejected") for limit in live["limits"]))
        limit = live["limits"][0]
        view = ask.good("/v1/live/key", limit=limit["name"], raw=limit["top"]["denied"][0]["raw"])["limits"]
        assert [(one["key"], one["denied"]) for one in view] == [("domain=shop user=ann b", True)], view


def test_pointed_at_in_a_store():
    with redis() as server, serving(LOGINS, "--store", server.url, "--store_budget", "10s") as (_, ask):
        ask.until(lambda live: live["store"]["state"] == "up")
        expect_pointed(ask)


def test_consistency():
    policy = ("limits:\n  - {name: leased, limit: 100/s burst 1000, consistency: lease}\n  - {name: few, limit: 5/min, consistency: lease}\n"
              "  - {name: usual, limit: 100/s}\n")
    with redis() as server, serving(policy, "--store", server.url) as (_, ask):
        of = lambda live: {limit["name"]: (limit["consistency"], limit["lease_bound"]) for limit in live["limits"]}
        assert of(ask.good("/v1/live")) == {"leased": ("lease", 50), "few": ("exact", 0), "usual": ("exact", 0), "(inline)": ("exact", 0)}
        assert of(ask.good("/v1/live", limit="leased")) == {"leased": ("lease", 50)}
    with serving(policy) as (_, ask):
        assert set(of(ask.good("/v1/live")).values()) == {("exact", 0)}


def test_eventual():
    """Both servers may be ahead by 30 units of `later`, which are pushed at last when 15 wait."""
    policy = ("limits:\n  - {name: later, key: [user], limit: 600/3000day fixed_window, consistency: {eventual: {sync: 10s, ahead: 5%}}}\n"
              "  - {name: few, match: {path: /}, limit: 99/s, consistency: eventual}\n"
              "  - {name: own, match: {path: /}, limit: 1000/s, store: table}\n")
    words = (policy, "--store_budget", "10s")
    of = lambda live: {limit["name"]: (limit["consistency"], limit["eventual_bound"]) for limit in live["limits"]}
    with redis() as server, serving(*words, "--store", server.url) as (_, ask), serving(*words, "--store", server.url) as (_, other):
        for one in (ask, other):
            live = one.until(lambda live: live["store"]["nodes"] == 2)
            assert of(live) == {"later": ("eventual", 30), "few": ("exact", 0), "own": ("exact", 0), "(inline)": ("exact", 0)}, of(live)
            assert live["store"]["eventual_waiting"] == 0
        ask.check(11, user="ann")  # the first one goes to Redis
        ask.until(lambda live: live["store"]["eventual_waiting"] == 10)
        assert other.good("/v1/live")["store"]["eventual_waiting"] == 0
        ask.check(5, user="ann")
        ask.until(lambda live: live["store"]["eventual_waiting"] == 0)
    with serving(policy) as (_, ask):
        assert set(of(ask.good("/v1/live")).values()) == {("exact", 0)}


def test_views_of_a_store():
    with redis() as server, serving(POLICY, "--store", server.url, "--store_budget", "10s") as (_, ask):
        deadline = time.monotonic() + TIMEOUT_S
        while ask.good("/v1/live")["store"]["state"] != "up":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        expect_views(ask)
        ask.until(lambda live: keys(named(live, "per-client"), "denied") == {"ip=10.0.0.1": 2} if named(live, "per-client")["top"] else False)


if __name__ == "__main__":
    # Each test has its own server, and mostly waits for the next second.
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        tests = [(name.removeprefix("test_"), test) for name, test in list(globals().items()) if name.startswith("test_")]
        sys.exit(run([(name, toy.skips(name) or pool.submit(test).result) for name, test in tests]))
