#!/usr/bin/env python3
"""Requests that no limit of the policy matches: counted, logged with a hint, and allowed or denied as the policy says.

    unmatched_test.py WEIR"""
# Covers: src/engine/unmatched.c

import contextlib
import http.client
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from metrics_page import Page  # noqa: E402
from resp_client import Client, until  # noqa: E402

WEIR = sys.argv[1]
LIMITS = """limits:
  - {name: per-user, key: [user], limit: 100/s}
  - {name: public, match: {path: /public}, limit: 1/s, mode: off}
  - {name: trial, match: {path: /trial}, limit: 100/s, mode: shadow}
"""
ENVOY = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: second, requests_per_unit: 100}}\n"


class Asking:
    def __init__(self, server):
        self.server, self.resp = server, Client(server, protocol=3)

    def http(self, method, target, body=None, **headers):
        with contextlib.closing(http.client.HTTPConnection(self.server.http_at, timeout=TIMEOUT_S)) as connection:
            connection.request(method, target, body and json.dumps(body),
                               {"Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()

    def counted(self):
        """Unmatched and denied requests, as every interface reports them."""
        page = Page(self.http("GET", "/metrics")[2])
        live = json.loads(self.http("GET", "/v1/live")[2])["unmatched"]
        info = self.resp.info()
        found = {(page.get("rate_limiter_unmatched_total"), page.get("rate_limiter_unmatched_rejected_total")),
                 (live["total"], live["rejected_total"]), (int(info["unmatched"]), int(info["unmatched_denied"]))}
        assert len(found) == 1, found
        return found.pop()

    def decided(self):
        info = self.resp.info()
        return int(info["allowed"]), int(info["denied"])

    def lines(self):
        return [line for line in self.server.said().split("\n") if line.startswith("weir serve: unmatched ")]


@contextlib.contextmanager
def serving(policy, *options):
    with tempfile.TemporaryDirectory(prefix="weir-unmatched-") as folder:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(policy)
        with daemon(WEIR, "--policy", path, "--workers", "2", *options, http="127.0.0.1:0") as server:
            asking = Asking(server)
            try:
                yield asking
            finally:
                asking.resp.close()


def every_way_counts():
    with serving(LIMITS) as ask:
        assert ask.counted() == (0, 0)
        answer = ask.resp.ask("WEIR.CHECK", "usr", "ann")
        assert answer["allowed"] and answer["limits"] == 0 and answer["decided_by"] == "", answer
        status, _, body = ask.http("GET", "/v1/check?usr=ann")
        assert status == 200 and json.loads(body)["limits"] == 0 and json.loads(body)["decided_by"] is None, body
        assert ask.http("POST", "/v1/check", {"attributes": {"usr": "ann"}})[0] == 200
        assert ask.http("GET", "/v1/authorize", X_Original_URI="/other")[0] == 200
        body = [{"attributes": {"usr": "a"}}, {"attributes": {"user": "a"}}, {"attributes": {}}]
        assert ask.http("POST", "/v1/check", body)[0] == 200
        assert ask.counted() == (6, 0)
        assert ask.decided() == (7, 0)


def what_matches_does_not_count():
    with serving(LIMITS) as ask:
        for attributes in ("user", "ann"), ("path", "/public"), ("path", "/trial"):
            assert ask.resp.ask("WEIR.CHECK", *attributes)["allowed"]
        assert ask.counted() == (0, 0)
        # They still count as traffic.
        assert ask.decided() == (3, 0)
        # Inline limits are not part of the policy, and a peek decides nothing.
        ask.resp.ask("WEIR.TAKE", "k", "5/s")
        ask.resp.ask("WEIR.EXPLAIN", "usr", "ann")
        assert ask.http("GET", "/v1/live/key?usr=ann")[0] == 200
        assert ask.counted() == (0, 0) and ask.lines() == []


def one_line_with_a_hint():
    with serving(LIMITS) as ask:
        for i in range(20):
            ask.resp.ask("WEIR.CHECK", "usr", f"secret-{i}", "path", "/x\n")
        until(ask.lines, "a line")
        line, = ask.lines()
        assert re.fullmatch(r'weir serve: unmatched time=\S+ requests=1 result=allowed '
                            r'hint="did you mean user= instead of usr=\?" peer=\S+ '
                            r'attributes="usr=#[0-9a-f]{16} path=#[0-9a-f]{16}"', line), line
        assert "secret" not in ask.server.said()
        assert ask.counted() == (20, 0)


def values_as_keys_are_logged():
    with serving(LIMITS, "--log-denials", "key") as ask:
        ask.resp.ask("WEIR.CHECK", "path", "/x\ny", "more", "z" * 100, *(word for i in range(20) for word in (f"n{i}", "v" * 60)))
        until(ask.lines, "a line")
        line, = ask.lines()
        assert r'attributes="path=/x\x0ay more=' + 64 * "z" + "... n0=" in line and line.endswith(' ..."'), line
        assert "hint" not in line and len(line) < 1100, line


def denied_if_the_policy_says_so():
    with serving(LIMITS + "unmatched: deny\n") as ask:
        answer = ask.resp.ask("WEIR.CHECK", "usr", "ann")
        assert answer == {"allowed": False, "limit": 0, "remaining": 0, "granted": 0, "retry_after": -1, "reset_after": 0, "delay": 0,
                          "limits": 0, "shadow_denied": 0, "decided_by": "(unmatched)"}, answer
        status, headers, body = ask.http("GET", "/v1/check?usr=ann")
        said = json.loads(body)
        assert status == said["status"] == 429 and said["decided_by"] == "(unmatched)" and said["retry_after_ns"] is None, body
        assert "unmatched: deny" in said["detail"] and "Retry-After" not in headers and "RateLimit" not in headers, headers
        assert ask.http("GET", "/v1/authorize", X_Original_URI="/other")[0] == 429
        status, headers, body = ask.http("GET", "/v1/authorize?deny=403", X_Original_URI="/other")
        assert status == 403 and headers["Weir-Problem"] + "\n" == body, headers
        items = json.loads(ask.http("POST", "/v1/check", [{"attributes": {"usr": "a"}}, {"attributes": {"user": "a"}}])[2])
        assert [item["allowed"] for item in items] == [False, True], items
        for attributes in ("user", "ann"), ("path", "/public"), ("path", "/trial"):
            assert ask.resp.ask("WEIR.CHECK", *attributes)["allowed"], attributes
        assert ask.counted() == (5, 5) and ask.decided() == (4, 5)
        assert '"allowed":false' in ask.http("GET", "/v1/live/key?usr=ann")[2]
        assert '"allowed":true' in ask.http("GET", "/v1/live/key?user=ann")[2]
        explained = ask.resp.ask("WEIR.EXPLAIN", "usr", "ann")
        assert explained[0] == ("no limit applies: denied, because the policy says unmatched: deny; "
                                "did you mean user= instead of usr=?"), explained
        until(ask.lines, "a line")
        assert "result=denied" in ask.lines()[0], ask.lines()


def envoys_requests_without_a_limit_are_normal():
    with serving(ENVOY) as ask:
        assert ask.resp.ask("WEIR.CHECK", "domain", "shop", "usr", "ann")["allowed"]
        body = {"domain": "shop", "descriptors": [{"entries": [{"key": "usr", "value": "ann"}]}]}
        assert ask.http("POST", "/json", body)[0] == 200
        assert ask.counted() == (0, 0) and ask.lines() == []


TESTS = (every_way_counts, what_matches_does_not_count, one_line_with_a_hint, values_as_keys_are_logged,
         denied_if_the_policy_says_so, envoys_requests_without_a_limit_are_normal)

if __name__ == "__main__":
    sys.exit(run([(test.__name__.replace("_", " "), test) for test in TESTS]))
