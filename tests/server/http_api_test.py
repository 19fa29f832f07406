#!/usr/bin/env python3
"""weir serve over HTTP beyond checks: take, holds, keys, limits, explain, the policy, and the formats of other rate
limit servers.

    http_api_test.py WEIR"""
# Covers: src/server/http/http_batch.c, src/server/http/http_check.c, src/server/http/http_explain.c,
# src/server/http/http_hold.c, src/server/http/http_json.c, src/server/http/http_keys.c,
# src/server/http/http_limits.c, src/server/http/http_policy.c, src/server/http/http_routes.c,
# src/server/http/http_take.c, src/server/http/http_throttle.c

import contextlib
import http.client
import json
import os
import re
import socket
import sys
import tempfile
import time
import urllib.parse

sys.dont_write_bytecode = True

import toy  # noqa: E402
from daemon import TIMEOUT_S, bulks, daemon, receive, receive_all, run  # noqa: E402
from resp_client import until  # noqa: E402

WEIR = sys.argv[1]
JSON = {"Content-Type": "application/json"}
POLICY = """limits:
  - name: per-client
    key: [ip]
    limit: 100/hour burst 20
  - name: writes
    key: [user]
    match: {method: POST}
    limit: 5/hour
    overrides:
      - when: {user: root}
        limit: 50/hour
"""
ENVOY = """domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: free
    rate_limit: {unlimited: true}
  - key: canary
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: named
    rate_limit: {unit: day, requests_per_unit: 2, name: 'a "name"'}
"""


class Asker:
    """Sends requests over one connection."""

    def __init__(self, one, token=None):
        self.one = one
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = http.client.HTTPConnection("127.0.0.1", int(one.http_at.rsplit(":", 1)[1]), timeout=TIMEOUT_S)

    def raw(self, method, target, body=None, headers=None):
        """(status, content type, text)"""
        body = body.encode() if isinstance(body, str) else body
        self.client.request(method, target, body, {**self.headers, **(headers or {})})
        answer = self.client.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    def __call__(self, method, target, body=None):
        """(status, JSON of the response). Errors must be problems of RFC 9457."""
        text = json.dumps(body) if body is not None and not isinstance(body, str) else body
        status, type_, answer = self.raw(method, target, text, JSON if body is not None else None)
        parsed = json.loads(answer)
        if type_ == "application/problem+json":
            assert parsed["status"] == status and parsed["title"] and parsed["detail"], parsed
        else:
            assert type_ == "application/json", type_
        return status, parsed

    def good(self, method, target, body=None):
        status, answer = self(method, target, body)
        assert status == 200, (method, target, body, status, answer)
        return answer

    def bad(self, status, said, method, target, body=None):
        got, answer = self(method, target, body)
        assert got == status and said in answer["detail"], (method, target, body, got, answer)
        return answer

    def until(self, holds, method, target):
        deadline = time.monotonic() + TIMEOUT_S
        while not holds(answer := self.good(method, target)):
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)
        return answer


@contextlib.contextmanager
def serving(policy=POLICY, settings=None, *options):
    """(daemon, Asker, path of the policy)"""
    with tempfile.TemporaryDirectory(prefix="weir-http-api-") as folder:
        path, words = os.path.join(folder, "policy.yaml"), list(options)
        for name, text in (("policy", policy), ("config", settings)):
            if text is not None:
                write(os.path.join(folder, name + ".yaml"), text)
                words += [f"--{name}", os.path.join(folder, name + ".yaml")]
        with daemon(WEIR, "--keys", "10000", "--workers", "1", *words, http="127.0.0.1:0") as one:
            yield one, Asker(one), path


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


def key_path(limit, key):
    return "/v1/keys/" + urllib.parse.quote(limit, safe="@") + "/" + urllib.parse.quote(key, safe="")


def resp(one, *words):
    with one.connect() as client:
        client.sendall(bulks(*words) + bulks("QUIT"))
        return receive_all(client).removesuffix(b"+OK\r\n")


# --- decisions ---------------------------------------------------------------------------------------------------------

def modes_are_those_of_resp():
    with serving() as (one, ask, _):
        take = {"limit": "10/hour", "key": "a"}
        assert ask.good("POST", "/v1/take", take)["remaining"] == 9
        assert ask.good("POST", "/v1/take", {**take, "cost": 3, "mode": "peek"})["remaining"] == 9
        answer = ask.good("POST", "/v1/take", {**take, "cost": 100, "mode": "upto"})
        assert (answer["granted"], answer["remaining"]) == (9, 0), answer
        status, answer = ask("POST", "/v1/take", {**take, "mode": "take"})
        assert (status, answer["allowed"], answer["decided_by"]) == (429, False, "10/hour"), answer
        assert ask.good("POST", "/v1/take", {**take, "cost": 4, "mode": "refund"})["remaining"] == 4
        assert resp(one, "WEIR.PEEK", "a", "10/hour").startswith(b"*7\r\n:1\r\n:10\r\n:4\r\n")  # RESP and HTTP share the state
        assert ask.good("POST", "/v1/take", {"limit": "@per-client", "key": "10.0.0.1", "cost": 20})["decided_by"] == "per-client"
        for body, status, said in (
                ({"limit": "10/hour"}, 400, "the body.key: missing; use a string"),
                ({"key": "a"}, 400, "the body.limit: missing; use a limit such as"),
                ({**take, "limit": 5}, 400, "the body.limit: found 5; use a limit such as"),
                ({**take, "limit": "10/fortnight"}, 400, "unknown period; use ns"),
                ({**take, "limit": "@other"}, 404, "the policy has no limit named @other"),
                ({**take, "limit": "@per-client"}, 400, 'the body.key: the key: "a" is not a key of @per-client, whose keys are made of ip, as in'),
                ({"all": [take, {**take, "limit": "@per-client"}]}, 400, 'the body.all[1].key: the key: "a" is not a key of'),
                ({**take, "cost": -1}, 400, "the body.cost: found -1; use a whole number"),
                ({**take, "cost": 1.5}, 400, "the body.cost: found a fraction"),
                ({**take, "mode": "give"}, 400, 'the body.mode: found "give"; use "take", "upto"'),
                ({**take, "patience": 1}, 400, 'unknown member "patience"; use limit, key, cost, mode, all and wait'),
                ([take, {**take, "cost": "x"}], 400, 'the body[1].cost: found "x"'),
                ({**take, "all": []}, 400, "the body.all: found other members beside it"),
                ({"all": []}, 400, "the body.all: found an array of 0; use an array of 1 to 16"),
                ({"all": [take] * 17}, 400, "the body.all: found an array of 17; use an array of 1 to 16"),
                ({"all": [take, {**take, "mode": "peek"}]}, 400, 'the body.all[1]: found an unknown member "mode"'),
                ([take, {"all": [take, 5]}], 400, "the body[1].all[1]: found 5; use an object with limit, key and cost"),
                ({"all": [take, {**take, "key": None}]}, 400, "the body.all[1].key: found null"),
                ([take] * 1001, 400, "the body: found an array of 1001; use at most 1000")):
            ask.bad(status, said, "POST", "/v1/take", body)
        for body in ('{"limit": "10/hour", "key": "\\u0000"}', '{"\\u0000": 1}'):
            answer = ask.bad(400, "line 1, column", "POST", "/v1/take", body)
            assert "a string contains a NUL byte (\\u0000)" in answer["detail"] and "ALLOW" not in answer["detail"], answer
        status, _, text = ask.raw("POST", "/v1/take", json.dumps(take), {"Content-Type": "text/plain"})
        assert status == 415 and "application/json" in text, text


def all_charge_or_none():
    with serving() as (_, ask, _):
        both = {"all": [{"limit": "3/hour", "key": "u", "cost": 1}, {"limit": "@writes", "key": "u", "cost": 2}]}
        answers = [ask("POST", "/v1/take", both) for _ in range(3)]
        assert [status for status, _ in answers] == [200, 200, 429], answers
        assert answers[2][1]["decided_by"] == "writes" and answers[2][1]["decided_by_item"] == 1, answers[2]
        assert answers[0][1]["limits"] == 2 and answers[0][1]["decided_by_item"] == 0, answers[0]
        assert ask.good("GET", key_path("3/hour", "u"))["remaining"] == 1  # a denied request is charged nowhere
        same = {"all": [{"limit": "4/hour", "key": "t", "cost": 2}] * 2}  # the same key twice is one claim with both costs
        assert ask.good("POST", "/v1/take", same)["remaining"] == 0


def batches_are_decided_in_order_or_not_at_all():
    with serving() as (_, ask, _):
        one = {"limit": "2/hour", "key": "b"}
        assert [row["allowed"] for row in ask.good("POST", "/v1/take", [one] * 3)] == [True, True, False]
        assert ask.good("POST", "/v1/take", []) == []
        ask.bad(400, "the body[1]", "POST", "/v1/take", [{"limit": "2/hour", "key": "c"}, {}])
        assert ask.good("GET", key_path("2/hour", "c"))["remaining"] == 2
        many = [{"limit": f"{n}/day", "key": "d"} for n in range(1, 1001)]  # more limits than are cached
        answers = ask.good("POST", "/v1/take", many)
        assert [row["remaining"] for row in answers] == list(range(1000)), answers[:3]
        long = [{"limit": "@" + name, "key": key} for name, key in (("per-client", "10.0.0.1"), ("writes", "e"))] * 500
        assert len(ask.good("POST", "/v1/take", long)) == 1000


def holds_are_settled():
    with serving(POLICY, None, "--holds", "3") as (_, ask, _):
        hold = {"id": "h", "key": "u", "limit": "1000/hour", "cost": 400, "ttl_ms": 60000}
        answer = ask.good("POST", "/v1/hold", {**hold, "id": "n", "limit": "@writes", "cost": 3})
        assert (answer["remaining"], answer["decided_by"]) == (2, "writes"), answer
        assert ask.good("POST", "/v1/release", {"id": "n"})["refunded"] == 3
        status, answer = ask("POST", "/v1/hold", {**hold, "cost": 1001})
        assert (status, answer["retry_after_ns"]) == (429, None), answer
        for _ in range(2):  # the second time returns the same, and charges nothing
            assert ask.good("POST", "/v1/hold", hold)["remaining"] == 600
        ask.bad(409, "this id belongs to another hold", "POST", "/v1/hold", {**hold, "cost": 401})
        for _ in range(2):
            answer = ask.good("POST", "/v1/settle", {"id": "h", "actual": 100})
            assert (answer["refunded"], answer["remaining"]) == (300, 900), answer
        ask.bad(409, "settled with another cost", "POST", "/v1/settle", {"id": "h", "actual": 99})
        ask.bad(409, "settled with another cost", "POST", "/v1/release", {"id": "h"})
        ask.good("POST", "/v1/hold", {**hold, "id": "i"})
        ask.bad(404, "@other", "POST", "/v1/hold", {**hold, "limit": "@other"})
        ask.bad(400, 'the body.key: the key: "u" is not a key of @per-client', "POST", "/v1/hold", {**hold, "limit": "@per-client"})
        ask.bad(503, "too many holds", "POST", "/v1/hold", {**hold, "id": "j"})
        assert ask.good("POST", "/v1/release", {"id": "i"})["refunded"] == 400
        ask.bad(404, "no hold has this id", "POST", "/v1/release", {"id": "j"})
        for more, said in (({"id": ""}, "invalid id: use 1 to 64 bytes"), ({"id": 65 * "x"}, "invalid id: use 1 to 64 bytes"),
                           ({"key": 257 * "x"}, "at most 256 bytes"), ({"ttl_ms": 0}, "the body.ttl_ms: found 0; use a whole number, 1 to 86400000"),
                           ({"ttl_ms": 86400001}, "the body.ttl_ms: found 86400001; use a whole number"),
                           ({"limit": "1/fortnight"}, "the body.limit: the limit: at 2: ")):
            ask.bad(400, said, "POST", "/v1/hold", {**hold, **more})
        ask.bad(400, "the body.actual: missing", "POST", "/v1/settle", {"id": "h"})


def a_release_gives_back_what_still_counts():
    """The limits do not refill during the test. Each row has what a release of a hold of 4 gives back."""
    with serving(POLICY) as (_, ask, _):
        for limit, refunded in (("10/1000day", 4), ("10/1000day refill interval", 4), ("10/1000day sliding_log", 4),
                                ("10/1000day fixed_window align first", 4), ("10/1000day sliding_log count all", 0)):
            ask.good("POST", "/v1/hold", {"id": limit, "key": "u", "limit": limit, "cost": 4, "ttl_ms": 60000})
            ask.good("POST", "/v1/take", {"key": "u", "limit": limit, "cost": 5})
            answer = ask.good("POST", "/v1/release", {"id": limit})
            assert (answer["refunded"], answer["remaining"]) == (refunded, 1 + refunded), (limit, answer)


def what_another_took_is_not_given_back():
    """After everything has refilled, nothing is left of a hold to give back, and others may have taken it."""
    with serving(POLICY) as (_, ask, _):
        limit = {"key": "u", "limit": "10/s burst 30"}
        ask.good("POST", "/v1/hold", {**limit, "id": "a", "cost": 20, "ttl_ms": 60000})
        ask.good("POST", "/v1/hold", {**limit, "id": "b", "cost": 10, "ttl_ms": 60000})
        ask.good("POST", "/v1/release", {"id": "a"})
        while ask("POST", "/v1/take", {**limit, "cost": 30})[0] == 429:
            pass
        assert ask.good("POST", "/v1/release", {"id": "b"})["refunded"] == 0


def keys_are_inspected_and_reset():
    with serving() as (one, ask, _):
        ask.good("POST", "/v1/take", {"limit": "10/hour", "key": "a/b c"})
        answer = ask.good("GET", key_path("10/hour", "a/b c"))
        assert answer["is_stored"] and answer["remaining"] == 9 and answer["algorithm"] == "token_bucket", answer
        assert answer["text"] == "10/hour" and answer["full_at_ns"] > time.time_ns(), answer
        assert ask.good("DELETE", key_path("10/hour", "a/b c")) == {"reset": True}
        assert ask.good("DELETE", key_path("10/hour", "a/b c")) == {"reset": False}
        resp(one, "WEIR.TAKE", b"\x00\xff", "@writes", 2)
        assert ask.good("GET", "/v1/keys/@writes/%00%ff")["remaining"] == 3
        assert ask.good("GET", "/v1/keys/@writes/")["remaining"] == 5  # an empty key is valid
        ask.bad(400, "the path: the limit: ", "GET", "/v1/keys/nothing/a")
        ask.bad(404, "@other", "DELETE", "/v1/keys/@other/a")
        ask.bad(404, "unknown path", "GET", "/v1/keys/10%2Fhour")


# --- the policy --------------------------------------------------------------------------------------------------------

def keys_of_the_policy_are_given_as_they_are_shown():
    with serving() as (_, ask, _):
        assert ask("GET", "/v1/check?ip=2001:db8::1&cost=20")[0] == 200
        shown = ask.good("GET", "/v1/live/key?ip=2001:db8::1")["limits"][0]["key"]
        assert shown == "ip=2001:db8::/64", shown
        for key in (shown, "2001:DB8::7", "2001:db8::/64", "ip=2001:db8::1/64"):
            assert ask.good("GET", key_path("@per-client", key))["remaining"] == 0, key
        assert ask("POST", "/v1/take", {"limit": "@per-client", "key": "2001:db8::9"})[0] == 429
        hold = {"id": "h", "key": "2001:db8::9", "limit": "@per-client", "cost": 1, "ttl_ms": 60000}
        assert ask("POST", "/v1/hold", hold)[0] == 429
        assert ask.good("DELETE", key_path("@per-client", "2001:db8::8")) == {"reset": True}
        assert ask.good("DELETE", key_path("@per-client", "2001:db8::8")) == {"reset": False}
        assert ask("GET", "/v1/check?ip=2001:db8::1&cost=20")[0] == 200
        for key in ("somebody", "2001:db8::/48", b"\x04\x0a\x00\x00\x01"):
            ask.bad(400, "is not a key of @per-client, whose keys are made of ip, as in ip=192.0.2.1", "GET", key_path("@per-client", key))


def limits_are_listed_and_changed():
    many = "limits:\n" + "".join(f"  - {{name: l{n}, key: [k{n % 20}], match: {{n: '{n}'}}, limit: {n + 1}/day}}\n"
                                 for n in range(120))
    with serving(many) as (_, ask, _):
        names, first = [], 0
        while first is not None:
            answer = ask.good("GET", f"/v1/limits?first={first}")
            names += [row["name"] for row in answer["limits"]]
            first = answer["next"]
        assert names == [f"l{n}" for n in range(120)], names
        assert ask.good("GET", "/v1/limits?first=120") == {"limits": [], "next": None}
        assert ask.good("GET", "/v1/limits?first=70")["next"] is None  # exactly 50
        for query in ("first=", "first=-1", "first=4294967296", "last=1"):
            ask.bad(400, "use first=N", "GET", "/v1/limits?" + query)
    with serving(ENVOY) as (_, ask, _):
        row = next(row for row in ask.good("GET", "/v1/limits")["limits"] if row["limit"] == "unlimited")
        assert ask.good("GET", "/v1/limits/" + urllib.parse.quote(row["name"], safe="")) == row
    with serving() as (_, ask, _):
        assert ask.good("PUT", "/v1/limits/writes", {"limit": "7/hour"})["limit"] == "7/hour"
        assert ask.good("PUT", "/v1/limits/@writes", {"limit": "8/hour"})["limit"] == "8/hour"
        assert ask.good("GET", "/v1/limits/writes")["limit"] == "8/hour"
        assert ask.good("GET", key_path("@writes", "new"))["limit"] == 8
        for row in ask.good("GET", "/v1/limits")["limits"]:
            assert ask.good("GET", "/v1/limits/" + urllib.parse.quote(row["name"], safe="")) == row
        ask.bad(404, "@other", "PUT", "/v1/limits/other", {"limit": "8/hour"})
        ask.bad(404, "@other", "GET", "/v1/limits/other")
        ask.bad(400, "unknown period", "PUT", "/v1/limits/writes", {"limit": "8/fortnight"})
        ask.bad(400, "keeps its algorithm", "PUT", "/v1/limits/writes", {"limit": "8/hour fixed_window"})


def explained_line_by_line():
    with serving() as (_, ask, _):
        by_query = ask.good("GET", "/v1/explain?user=ann&method=POST")
        assert by_query == ask.good("POST", "/v1/explain", {"attributes": {"user": "ann", "method": "POST"}})
        assert by_query["left_out"] == 0 and len(by_query["lines"]) == 2, by_query
        assert by_query["lines"][0].startswith("writes: applies: 5/hour"), by_query
        ask.bad(400, "the body.attributes: missing", "POST", "/v1/explain", {})
    many = "limits:\n" + "".join(f"  - {{name: l{n}, key: [a], match: {{n: '{n}'}}, limit: 1/day}}\n" for n in range(2000))
    with serving(many) as (_, ask, _):
        answer = ask.good("GET", "/v1/explain?a=b")
        assert answer["lines"][0] == "no limit applies: allowed", answer["lines"][0]
        assert len(answer["lines"]) + answer["left_out"] == 2001 and answer["left_out"] > 0, answer["left_out"]
        answer = ask.good("GET", "/v1/explain?a=b&n=1999")
        assert answer["lines"][:2] == ["l1999: applies: 1/day, key a=b", "l0: does not apply: n is '1999'"], answer
        assert len(answer["lines"]) + answer["left_out"] == 2000, answer["left_out"]


def policies_are_validated():
    with serving() as (_, ask, _):
        before = ask.good("GET", "/v1/policy")
        assert ask.good("POST", "/v1/policy/validate", POLICY) == {"valid": True, "limits": 2, "errors": [], "warnings": []}
        answer = ask.good("POST", "/v1/policy/validate", "limits:\n  - name: a\n    limit: 5/fortnight\n  - limit: 5/s\n")
        assert not answer["valid"], answer
        assert [(row["line"], row["column"]) for row in answer["errors"]] == [(3, 14), (4, 5)], answer
        assert "unknown period" in answer["errors"][0]["detail"], answer
        for text in ("", "a: [", "users: []", "limits: [{name: a, limit: 1/s, key: [u], overrides_from: /etc/passwd}]"):
            answer = ask.good("POST", "/v1/policy/validate", text)
            assert not answer["valid"] and answer["errors"], (text, answer)
        answer = ask.good("POST", "/v1/policy/validate", "limits:\n" + 5000 * "  - {x: 1}\n")
        assert len(answer["errors"]) == 100, len(answer["errors"])
        assert ask.good("GET", "/v1/policy") == before


def policies_are_replaced_whole_or_not():
    with serving() as (one, ask, path):
        first = ask.good("GET", "/v1/policy")
        assert first["files"][0]["text"] == POLICY and first["from"] == "file" and first["limits"] == 2, first
        ask.good("POST", "/v1/take", {"limit": "@per-client", "key": "10.0.0.1", "cost": 5})
        new = "limits:\n  - {name: per-client, key: [ip], limit: 100/hour burst 10}\n  - {name: extra, limit: 5/s}\n"
        answer = ask.good("PUT", "/v1/policy", new)
        assert answer["limits"] == 2 and answer["added"] == {"count": 1, "names": ["extra"]}, answer
        assert answer["changed"] == {"count": 1, "names": ["per-client"]} and answer["removed"]["count"] == 2, answer
        assert answer["anew"] == {"count": 0, "why": []} and answer["warnings"] == [], answer
        shown = ask.good("GET", "/v1/policy")
        assert (shown["version"], shown["from"], shown["files"][0]["text"]) == (answer["version"], "request", new), shown
        assert ask.good("GET", key_path("@per-client", "ip=10.0.0.1"))["limit"] == 10  # its usage is kept
        wrong = ask.bad(422, "nothing was changed", "PUT", "/v1/policy", "limits: [{name: a}]")
        assert wrong["errors"], wrong
        assert ask.good("GET", "/v1/policy") == shown
        windows = new.replace("limit: 5/s", "limit: 5/s fixed_window")
        assert ask.good("PUT", "/v1/policy", windows)["anew"] == {
            "count": 1, "why": ["extra: keys start over, because the algorithm changed: 5/s fixed_window, before 5/s"]}
        until(lambda: "extra: keys start over, because the algorithm changed" in one.said(), "a thread writes the log")
        logs = "limits: [{name: extra, key: [ip], limit: 100000/hour sliding_log}]"
        if not toy.skips_part(toy.ARENA):
            for warnings in (ask.good("POST", "/v1/policy/validate", logs)["warnings"],
                             ask.good("PUT", "/v1/policy", logs)["warnings"]):
                assert len(warnings) == 1 and warnings[0].startswith("extra: an arena of "), warnings
            until(lambda: f"weir serve: the policy: warning: {warnings[0]}\n" in one.said(), "the warning is logged")
        ask.good("PUT", "/v1/policy", new)
        moded = new.replace("limit: 5/s", "limit: 5/s, mode: shadow")
        assert ask.good("PUT", "/v1/policy", moded)["changed"] == {"count": 1, "names": ["extra"]}
        for _ in range(2):
            assert ask.good("PUT", "/v1/policy", "unmatched: deny\n" + moded)["changed"] == {"count": 1, "names": ["(unmatched)"]}
            assert ask.good("PUT", "/v1/policy", "unmatched: allow\n" + moded)["changed"] == {"count": 1, "names": ["(unmatched)"]}
            assert ask.good("PUT", "/v1/policy", moded)["changed"]["count"] == 0
        # Only a change of the file itself replaces an uploaded policy, not a change beside it.
        write(path + ".beside", "nothing")
        os.utime(path)
        resp(one, "WEIR.CHANGE", "extra", "6/s")
        time.sleep(0.3)  # long enough for a reload; if not, the test passes without a check
        assert ask.good("GET", "/v1/policy")["from"] == "request"
        write(path, POLICY + "# changed\n")
        assert ask.until(lambda got: got["from"] == "file", "GET", "/v1/policy")["limits"] == 2
        ask.good("PUT", "/v1/policy", "limits: []")
        resp(one, "WEIR.RELOAD")
        ask.until(lambda got: got["from"] == "file" and got["limits"] == 2, "GET", "/v1/policy")


def many_put_at_once_and_some_leave():
    body = ("limits:\n" + "".join(f"  - {{name: l{n}, limit: {n + 1}/day, match: {{n: '{n}'}}}}\n" for n in range(800))).encode()
    head = b"PUT /v1/policy HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    behind = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving(POLICY) as (one, ask, _):
        port = int(one.http_at.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as client:  # a client that has sent everything
            client.sendall(head + body)
            client.shutdown(socket.SHUT_WR)
            assert receive_all(client).startswith(b"HTTP/1.1 200"), "no answer"
        clients = [socket.create_connection(("127.0.0.1", port), TIMEOUT_S) for _ in range(40)]
        for client in clients:
            client.sendall(head + body + behind)
        for client in clients[::4]:
            client.close()
        statuses = []
        for number, client in enumerate(clients):
            if number % 4:
                text = receive_all(client)
                statuses.append(int(text.split(b" ")[1]))
                assert text.endswith(b"\r\n\r\nok\n") and text.count(b"HTTP/1.1 ") == 2, text[:300]
                client.close()
        assert set(statuses) <= {200, 503} and 200 in statuses, statuses  # at most 16 wait
        assert ask.until(lambda got: got["limits"] == 800, "GET", "/v1/policy")["from"] == "request"


def it_ends_while_policies_are_read():
    body = ("limits:\n" + "".join(f"  - {{name: l{n}, limit: {n + 1}/day, match: {{n: '{n}'}}}}\n" for n in range(800))).encode()
    with serving() as (one, _, _):
        port = int(one.http_at.rsplit(":", 1)[1])
        clients = [socket.create_connection(("127.0.0.1", port), TIMEOUT_S) for _ in range(8)]
        for client in clients:
            client.sendall(b"PUT /v1/policy HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        first = receive(clients[0], 12)  # so the others are being read, or wait for it
        assert first == b"HTTP/1.1 200", first
        assert one.end() == 0, one.said()
        for client in clients[1:]:
            assert receive(client, 12) in (b"HTTP/1.1 200", b"")  # b"": it took longer than the server allows
        for client in clients:
            client.close()


def settings_are_not_shown():
    settings = "users:\n  default: {password: hush, role: admin, token: let-me-see}\n" + POLICY
    with serving(None, settings) as (one, _, _):
        ask = Asker(one, "let-me-see")
        status, _, text = ask.raw("GET", "/v1/policy")
        shown = json.loads(text)
        assert status == 200 and shown["files"] == [] and "configuration file" in shown["hidden"], shown
        assert "hush" not in text and "let-me-see" not in text
        assert ask.good("PUT", "/v1/policy", "limits: []")["removed"]["count"] == 3
        assert ask.good("GET", "/v1/policy")["files"] == [{"name": "body", "text": "limits: []"}]
        ask.bad(422, "nothing was changed", "PUT", "/v1/policy", settings)


def roles_are_kept():
    settings = "users:\n" + "".join(f"  {name}: {{role: {name}, token: {name}-token}}\n"
                                    for name in ("decide", "operate", "read", "admin"))
    take = {"limit": "9/hour", "key": "a"}
    rows = [
        (["decide"], ("POST", "/v1/take", take)), (["decide"], ("POST", "/v1/take", {**take, "mode": "peek"})),
        (["decide"], ("POST", "/v1/take", {"all": [take]})), (["decide"], ("GET", "/v1/check?ip=10.0.0.1", None)),
        (["operate"], ("POST", "/v1/take", {**take, "mode": "refund"})),
        (["operate"], ("POST", "/v1/take", [{**take, "mode": "refund"}])),
        ([], ("POST", "/v1/take", [{**take, "mode": "refund"}, take])),  # only admin may do both
        (["read"], ("GET", "/v1/keys/9%2Fhour/a", None)), (["operate"], ("DELETE", "/v1/keys/9%2Fhour/a", None)),
        (["operate"], ("PUT", "/v1/limits/writes", {"limit": "6/hour"})), (["read"], ("GET", "/v1/explain?ip=10.0.0.1", None)),
        (["read"], ("GET", "/v1/live", None)), (["read"], ("GET", "/v1/live/key?ip=10.0.0.1", None)),
        (["decide", "operate", "read"], ("GET", "/v1/limits", None)),
        (["decide", "operate", "read"], ("POST", "/v1/policy/validate", POLICY)), ([], ("GET", "/v1/policy", None)),
        ([], ("PUT", "/v1/policy", "limits: []"))]
    with serving(POLICY, settings) as (one, stranger, _):
        for may, request in rows:
            stranger.bad(401, "Authorization: Bearer", *request)
            for name in ("decide", "operate", "read", "admin"):
                asker = Asker(one, f"{name}-token")
                if name in may or name == "admin":
                    asker.good(*request)
                else:
                    asker.bad(403, f"and {name} has {name}", *request)
        for name, hold in (("decide", "h1"), ("admin", "h2")):
            Asker(one, f"{name}-token").good("POST", "/v1/hold", {"id": hold, "key": "b", "limit": "9/hour", "cost": 2, "ttl_ms": 60000})
        decide = Asker(one, "decide-token")
        never = decide("POST", "/v1/release", {"id": "never"})
        assert never[0] == 404 and decide("POST", "/v1/release", {"id": "h2"}) == never
        assert decide("POST", "/v1/settle", {"id": "h2", "actual": 1}) == never
        assert decide.good("POST", "/v1/release", {"id": "h1"})["refunded"] == 2
        assert Asker(one, "operate-token").good("POST", "/v1/release", {"id": "h2"})["refunded"] == 2
        for target in ("/health", "/healthcheck", "/healthz", "/readyz", "/openapi.json"):
            assert stranger.raw("GET", target)[0] == 200, target
        for token, status in (("no-token", 401), ("decide-token", 403), ("operate-token", 403), ("read-token", 200)):
            assert Asker(one, token).raw("GET", "/metrics")[0] == status, token


def without_a_policy_that_is_told():
    with serving(None) as (_, ask, _):
        for method, target, body in (("GET", "/v1/limits", None), ("GET", "/v1/policy", None), ("PUT", "/v1/policy", "limits: []"),
                                     ("POST", "/v1/policy/validate", "limits: []"), ("GET", "/v1/explain", None),
                                     ("POST", "/json", "{}"), ("GET", "/v1/keys/@a/b", None),
                                     ("POST", "/v1/take", {"limit": "@a", "key": "b"})):
            ask.bad(409, "no policy is loaded: start weir serve with --policy", method, target, body)
        assert ask.good("POST", "/v1/take", {"limit": "2/s", "key": "b"})["remaining"] == 1


# --- formats of other servers -----------------------------------------------------------------------------------------

def as_throttlecrab():
    with serving(None) as (one, ask, _):
        body = {"key": "k", "max_burst": 3, "count_per_period": 1, "period": 3600}
        answers = [ask.good("POST", "/throttle", body) for _ in range(4)]
        assert [row["allowed"] for row in answers] == [True] * 3 + [False], answers
        assert [row["remaining"] for row in answers] == [2, 1, 0, 0] and answers[0]["limit"] == 3, answers
        assert answers[0]["reset_after"] == 3600 and 3590 <= answers[3]["retry_after"] <= 3600, answers
        assert resp(one, "THROTTLE", "k", 3, 1, 3600).startswith(b"*5\r\n:0\r\n:3\r\n:0\r\n")  # RESP and HTTP share the state
        assert ask.good("POST", "/throttle", {**body, "quantity": 0, "unknown": []})["allowed"]
        assert ask.good("POST", "/throttle", {**body, "key": "l", "quantity": None})["remaining"] == 2
        beyond = ask.good("POST", "/throttle", {**body, "key": "whole", "quantity": 13})
        assert beyond == {"allowed": False, "limit": 3, "remaining": 3, "reset_after": 0, "retry_after": 36000}, beyond
        for more, said in (({"max_burst": 0}, "Rate limit check failed: invalid rate limit parameters"),
                           ({"period": -1}, "Rate limit check failed: invalid rate limit parameters"),
                           ({"count_per_period": 0}, "Rate limit check failed: invalid rate limit parameters"),
                           ({"quantity": -1}, "Rate limit check failed: negative quantity: -1"),
                           ({"count_per_period": 2**62},
                            "rates above one per ns are not supported; lower the count, or raise the period"),
                           ({"period": 2**62},
                            "a key would take more than 6671 days to be full again; lower max_burst or period")):
            got, answer = ask("POST", "/throttle", {**body, **more})
            assert (got, answer) == (500, {"error": "Internal server error: " + said}), (more, got, answer)
        ask.bad(422, "the body.max_burst: use a whole number", "POST", "/throttle", {**body, "max_burst": "3"})
        ask.bad(422, "the body.key: use a string", "POST", "/throttle", [])
        assert ask.raw("GET", "/health")[::2] == (200, "OK")


def descriptors_count_together_or_each():
    policy = """domain: shop
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: b, rate_limit: {unit: year, requests_per_unit: 5}}
"""
    both = {"domain": "shop", "descriptors": [{"entries": [{"key": key, "value": "x"}]} for key in "ab"]}
    for counts, left in (("together", [4, 4, 4]), ("each", [4, 3, 2])):
        with serving(policy, None, "--envoy_counts", counts) as (_, ask, _):
            answers = [ask("POST", "/json", both) for _ in range(3)]
            assert [status for status, _ in answers] == [200, 429, 429], answers
            assert [answer["statuses"][1]["limitRemaining"] for _, answer in answers] == left, (counts, answers)
            ask.good("PUT", "/v1/policy", policy.replace("unit: 5", "unit: 6"))
            _, answer = ask("POST", "/json", both)
            assert answer["statuses"][1]["limitRemaining"] == left[-1] + (1 if counts == "together" else 0), (counts, answer)


def as_envoys_ratelimit():
    def entries(key, value):
        return {"entries": [{"key": key, "value": value}]}

    with serving(ENVOY) as (_, ask, _):
        limit = {"requestsPerUnit": 2, "unit": "YEAR"}
        answer = ask.good("POST", "/json", {"domain": "shop", "descriptors": [entries("user", "a"), entries("other", "b")]})
        status = answer["statuses"][0]
        assert re.fullmatch(r"\d+s", status.pop("durationUntilReset")), answer
        assert answer == {"overallCode": "OK", "statuses": [
            {"code": "OK", "currentLimit": limit, "limitRemaining": 1}, {"code": "OK"}]}, answer
        code, answer = ask("POST", "/json", {"domain": "shop", "hits_addend": "2", "descriptors": [entries("user", "a")]})
        assert code == 429 and answer["overallCode"] == answer["statuses"][0]["code"] == "OVER_LIMIT", answer
        free = ask.good("POST", "/json", {"domain": "shop", "descriptors": [entries("free", "x")]})
        assert free["statuses"] == [{"code": "OK", "limitRemaining": 4294967295}], free
        for _ in range(2):
            canary = ask.good("POST", "/json", {"domain": "shop", "descriptors": [entries("canary", "x")]})
        assert canary["statuses"][0]["code"] == "OK", canary
        given = {**entries("job", "x"), "limit": {"requests_per_unit": 3, "unit": "YEAR"}, "hitsAddend": "2"}
        codes = [ask("POST", "/json", {"domain": "shop", "descriptors": [given]})[0] for _ in range(2)]
        assert codes == [200, 429], codes
        assert ask.raw("POST", "/json", '{"domain":"shop","descriptors":[{"entries":[{"key":"x"}]}]}')[0] == 200  # any type
        for body, said in (({"descriptors": [entries("user", "a")]}, "domain"), ({"domain": "shop"}, "descriptor"),
                           ({"domain": "shop", "x": 1}, 'unknown member "x"'),
                           ({"domain": "shop", "descriptors": [{"entries": {}}]}, "the body.descriptors[0].entries: found an object"),
                           ({"domain": "shop", "descriptors": [{**given, "limit": {"unit": "EON"}}]}, "use SECOND, MINUTE"),
                           ({"domain": "shop", "descriptors": [entries("a", "b")] * 65}, "up to 64"),
                           ({"domain": "shop", "hitsAddend": "x"}, "the body.hitsAddend"),
                           ("{", "line 1, column")):
            ask.bad(400, said, "POST", "/json", body)
        assert ask.raw("GET", "/healthcheck")[::2] == (200, "OK")
        # the name of a limit, a look (0 hits), and hits that are given back
        named = {**entries("named", "x"), "hitsAddend": 0}
        fresh = ask.good("POST", "/json", {"domain": "shop", "descriptors": [named]})["statuses"][0]
        assert fresh["currentLimit"] == {"requestsPerUnit": 2, "unit": "DAY", "name": 'a "name"'}, fresh
        assert fresh["limitRemaining"] == 2 and 0 < int(fresh["durationUntilReset"][:-1]) <= 86400, fresh
        left = []
        for change in {"hitsAddend": 2}, {"hitsAddend": 1, "isNegativeHits": True}, {"hitsAddend": 5, "is_negative_hits": True}:
            left.append(ask.good("POST", "/json", {"domain": "shop", "descriptors": [{**named, **change}]})["statuses"][0].get("limitRemaining"))
        assert left == [None, 1, 2], left
        ask.bad(400, "isNegativeHits: found", "POST", "/json", {"domain": "shop", "descriptors": [{**named, "isNegativeHits": 1}]})
    with serving() as (_, ask, _):
        ask.bad(400, "Weir's format", "POST", "/json", {"domain": "shop", "descriptors": [entries("user", "a")]})


TESTS = [
    ("modes are those of RESP", modes_are_those_of_resp),
    ("all charge, or none", all_charge_or_none),
    ("batches are decided in order, or not at all", batches_are_decided_in_order_or_not_at_all),
    ("holds are settled", holds_are_settled),
    ("a release gives back what still counts", a_release_gives_back_what_still_counts),
    ("what another took is not given back", what_another_took_is_not_given_back),
    ("keys are inspected and reset", keys_are_inspected_and_reset),
    ("keys of the policy are given as they are shown", keys_of_the_policy_are_given_as_they_are_shown),
    ("limits are listed and changed", limits_are_listed_and_changed),
    ("explained line by line", explained_line_by_line),
    ("policies are validated", policies_are_validated),
    ("policies are replaced, whole or not", policies_are_replaced_whole_or_not),
    ("many put at once, and some leave", many_put_at_once_and_some_leave),
    ("it ends while policies are read", it_ends_while_policies_are_read),
    ("settings are not shown", settings_are_not_shown),
    ("roles are kept", roles_are_kept),
    ("without a policy that is told", without_a_policy_that_is_told),
    ("as throttlecrab", as_throttlecrab),
    ("as Envoy's ratelimit", as_envoys_ratelimit),
    ("descriptors count together, or each", descriptors_count_together_or_each),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
