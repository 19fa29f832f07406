#!/usr/bin/env python3
"""/v1/authorize, as proxies call it: the client's address, the attributes and the responses.

    authorize_test.py WEIR"""
# Covers: src/server/http/http_authorize.c

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

from daemon import TIMEOUT_S, daemon, run
from resp_client import until
from http_test import WEIR, ask, ask_json, client_of, policy_daemon

# One limit for each attribute: what its key has left shows what the key was.
POLICY = """limits:
  - {name: clients, key: [ip], limit: 1000/hour, match: {ip: {present: true}}}
  - {name: posts, limit: 900/hour, match: {method: POST}}
  - {name: orders, limit: 800/hour, match: {path: /orders/**}}
  - {name: shop, limit: 700/hour, match: {host: shop.example}}
  - {name: keys, key: [api_key], limit: 2/hour, match: {api_key: {present: true}}}
"""


def authorize(client, headers=(), target="/v1/authorize", method="GET"):
    """(status, headers with lower-case names, JSON of the body)"""
    client.putrequest(method, target)
    for name, value in headers:
        client.putheader(name, value)
    client.endheaders()
    answer = client.getresponse()
    content = answer.read()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, \
        json.loads(content) if content else None


def decided(client, headers=(), **more):
    """The name of the limit that decided, and what it has left."""
    status, _, answer = authorize(client, headers, **more)
    assert status in (200, 429), (status, answer)
    return answer["decided_by"], answer["remaining"]


def left(client, *lines):
    """What the client that X-Forwarded-For names has left."""
    name, remaining = decided(client, [("X-Forwarded-For", line) for line in lines])
    assert name == "clients", name
    return remaining


def parts_are_read_as_proxies_name_them():
    rows = ((("X-Original-Method", "POST"), "posts"), (("X-Forwarded-Method", "POST"), "posts"),
            (("x-original-method", "GET"), "clients"),
            (("X-Original-URI", "/orders/7?x=1"), "orders"), (("X-Forwarded-Uri", "/a/..//%6frders/"), "orders"),
            (("X-Original-URI", "/other?/orders/"), "clients"),
            (("X-Original-URL", "https://shop.example/"), "shop"), (("X-Original-URL", "http://a/orders/7"), "orders"),
            (("X-Original-URL", "http://shop.example"), "shop"), (("X-Original-URL", "http://a?b=/orders/7"), "clients"),
            (("X-Original-URI", "?b=http://shop.example/orders/7"), "clients"), (("X-Original-URI", "://shop.example/"), "clients"),
            (("X-Original-URL", "http:///orders/7"), "orders"),
            (("X-Forwarded-Host", "Shop.Example:8443"), "shop"), (("X-Original-Host", "shop.example."), "shop"),
            (("X-Forwarded-Host", "[::1]:80"), "clients"), (("X-Forwarded-Host", ""), "clients"),
            (("X-Original-URI", ""), "clients"))
    with policy_daemon(policy=POLICY) as one:
        client = client_of(one)
        for header, limit in rows:
            assert decided(client, [header])[0] == limit, (header, limit)


def the_method_of_the_question_is_not_that_of_the_request():
    with policy_daemon(policy=POLICY) as one:
        client = client_of(one)
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"):
            assert decided(client, method=method)[0] == "clients", method
        status, headers, _ = authorize(client, method="HEAD")
        assert status == 200 and headers["ratelimit"], headers


def what_is_said_twice_is_the_same_twice():
    good = ([("X-Original-Method", "POST"), ("X-Forwarded-Method", "POST")],
            [("X-Original-URI", "/a?b"), ("X-Forwarded-Uri", "/a?b"), ("X-Original-URL", "http://x/a?b")],
            [("X-Original-Host", "a:80"), ("X-Forwarded-Host", "A")])
    bad = (([("X-Original-Method", "POST"), ("X-Forwarded-Method", "GET")], "X-Forwarded-Method differ"),
           ([("X-Forwarded-Method", "POST"), ("X-Forwarded-Method", "GET")], "X-Forwarded-Method differ"),
           ([("X-Original-URI", "/a"), ("X-Forwarded-Uri", "/b")], "X-Forwarded-Uri differ"),
           ([("X-Forwarded-Host", "a"), ("X-Original-URL", "http://b/")], "X-Forwarded-Host differ"),
           ([("X-Forwarded-Host", "a, b")], "use one host"), ([("X-Forwarded-Method", "G T")], "use a method"),
           ([("X-Api-Key", "a"), ("X-Api-Key", "b")], "two different values"))
    with policy_daemon("--authorize_headers", "x-api-key=api_key", policy=POLICY) as one:
        client = client_of(one)
        for headers in good:
            assert authorize(client, headers)[0] == 200, headers
        for headers, said in bad:
            status, _, answer = authorize(client, headers)
            assert status == 400 and said in answer["detail"], (headers, answer)


def chains_are_read_from_the_right():
    with policy_daemon("--trusted-proxies", "127.0.0.0/8", "--trusted-proxies", "10.0.0.0/8", policy=POLICY) as one:
        client = client_of(one)
        assert left(client) == 999  # 127.0.0.1 itself
        assert left(client, "203.0.113.7") == 999
        assert left(client, "198.51.100.1, 203.0.113.7") == 998
        assert left(client, "198.51.100.2", "203.0.113.7:4711, 10.1.1.1") == 997
        assert left(client, "::ffff:203.0.113.7") == 996
        assert left(client, "[2001:db8::1]:80") == 999
        assert left(client, "nonsense, 10.7.7.7") == 999
        assert left(client, "10.7.7.7") == 998
        assert left(client, "nonsense") == 998  # 127.0.0.1 again
        assert left(client, "\xff\xfe, ,, [") == 997


def who_is_no_proxy_is_not_believed():
    with policy_daemon("--trusted-proxies", "none", policy=POLICY) as one:
        client = client_of(one)
        assert [left(client, f"203.0.113.{i}") for i in range(3)] == [999, 998, 997]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self.path)


def a_path_is_a_proxy():
    with tempfile.TemporaryDirectory(prefix="weir-authorize-") as folder:
        path, policy = os.path.join(folder, "http"), os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(POLICY)
        for proxies, limit in (("unix", "clients"), ("127.0.0.0/8", None)):
            with daemon(WEIR, "--keys", "1000", "--policy", policy, "--trusted-proxies", proxies, http=path):
                client = UnixConnection(path)
                assert decided(client, [("X-Forwarded-For", "203.0.113.7")])[0] == limit
                assert decided(client)[0] is None  # the client's address is unknown, so no limit by address applies
                client.close()


def addresses_of_ipv6():
    with contextlib.suppress(FileNotFoundError), open("/proc/net/if_inet6", encoding="ascii") as file:
        return file.readlines()
    return []


def callers_may_have_ipv6():
    """A client that connects by IPv4 to an IPv6 listener is known by its IPv4 address."""
    if not socket.has_ipv6 or not any(info.startswith("0" * 31 + "1 ") for info in addresses_of_ipv6()):
        return "this machine has no IPv6"
    with tempfile.TemporaryDirectory(prefix="weir-authorize-") as folder:
        path = os.path.join(folder, "weir.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("users: {proxy: {token: t}}\n" + POLICY)
        with daemon(WEIR, "--keys", "1000", "--config", path, http="[::]:0") as one:
            port = int(one.http_at.rsplit(":", 1)[1])
            remaining = 1000
            for host in ("::1", "127.0.0.1"):
                client = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
                for line in ("203.0.113.7", "2001:db8::7, 203.0.113.7:80"):
                    remaining -= 1
                    got = decided(client, [("Authorization", "Bearer t"), ("X-Forwarded-For", line)])
                    assert got == ("clients", remaining), (host, line, got)
                client.close()
    return None


def headers_are_attributes():
    with policy_daemon("--authorize_headers", "X-API-Key=api_key", policy=POLICY) as one:
        client = client_of(one)
        for key in ("a", "b"):
            for remaining in (1, 0, 0):
                assert decided(client, [("x-api-key", key), ("X-Forwarded-For", "203.0.113.9")]) == ("keys", remaining)
        status, headers, answer = authorize(client, [("X-Api-Key", "a")])
        assert status == 429 and int(headers["retry-after"]) > 0, (status, headers)
        assert answer["violated-policies"] == ["keys"] and headers["ratelimit"].startswith('"keys";r=0;t='), answer
        assert headers["content-type"] == "application/problem+json" and "weir-problem" not in headers, headers


def nginx_is_told_403():
    with policy_daemon("--authorize_headers", "x-api-key=api_key", "--ratelimit_headers", "both", policy=POLICY) as one:
        client = client_of(one)
        statuses = []
        for _ in range(3):
            status, headers, answer = authorize(client, [("X-Api-Key", "a")], target="/v1/authorize?deny=403")
            statuses.append(status)
        assert statuses == [200, 200, 403], statuses
        assert json.loads(headers["weir-problem"]) == answer and answer["status"] == 429, (headers, answer)
        assert int(headers["retry-after"]) > 0 and headers["ratelimit-policy"] == '"keys";q=2;w=3600', headers
        for query in ("?", "?deny=429", "?cost=0&ip=192.0.2.1&deny=403", "?deny=200"):
            assert authorize(client, [("X-Api-Key", "a")], target="/v1/authorize" + query)[0] == 429, query
        for query in ("?deny=403&deny=403", "?deny=429&x=y&deny=403"):
            status, _, answer = authorize(client, [("X-Api-Key", "a")], target="/v1/authorize" + query)
            assert status == 400 and "deny: given twice" in answer["detail"], (query, answer)


def the_longest_names_fit():
    name = "n" * 40
    policy = f"limits: [{{name: {name}, limit: 1/1000day fixed_window}}]"
    overridden = "limits:\n  - name: " + name + "\n    limit: 5/day\n    cost: {attribute: c}\n    overrides:\n" \
        "      - {when: {c: '7'}, limit: 6/1000day sliding_log}\n"
    for text in (policy, overridden):
        with policy_daemon("--authorize_headers", "c", "--ratelimit_headers", "both", policy=text) as one:
            client = client_of(one)
            for _ in range(2):
                status, headers, answer = authorize(client, [("C", "7")], target="/v1/authorize?deny=403")
            assert status == 403 and json.loads(headers["weir-problem"]) == answer, (status, answer)


def without_a_policy_it_says_so():
    with policy_daemon(policy=None) as one:
        status, _, answer = ask_json(client_of(one), "GET", "/v1/authorize")
        assert status == 409 and "--policy" in answer["detail"], answer


def values_that_do_not_fit_are_refused():
    with policy_daemon("--authorize_headers", "x-api-key=api_key", policy=POLICY) as one:
        client = client_of(one)
        for length in (300, 5000, 15000):
            status, _, _ = ask(client, "GET", "/v1/authorize", headers={"X-Api-Key": "k" * length})
            assert status in (200, 400), (length, status)
        status, _, _ = ask(client, "GET", "/v1/authorize", headers={"X-Forwarded-For": "10.0.0.1," * 1600})
        assert status == 200, status


SHADOWED = """limits:
  - {name: decides, key: [ip], limit: 1/5000day fixed_window}
  - {name: secret-shadow, key: [ip], limit: 1/5000day fixed_window, mode: shadow}
  - {name: secret-other, limit: 100/5000day fixed_window}
"""


def visitors_learn_of_the_limit_that_decided():
    """A visitor sees neither other limits nor limits in shadow, unless the configuration says so. Services at /v1/check
    do."""
    secrets = ("secret", "shadow", '"limits"')
    for options, is_all in (((), False), (("--denial-reveals", "decided"), False), (("--denial-reveals", "all"), True)):
        with policy_daemon("--ratelimit_headers", "both", *options, policy=SHADOWED) as one:
            client = client_of(one)
            for target, statuses in (("/v1/authorize", (200, 429)), ("/v1/authorize?deny=403", (403,))):
                for status in statuses:
                    found, headers, answer = authorize(client, target=target)
                    told = json.dumps(headers) + json.dumps(answer)
                    assert found == status and answer["decided_by"] == "decides", (found, answer)
                    assert any(word in told for word in secrets) == is_all, (options, told)
                    assert ("shadow_denied" in answer) == ("limits" in answer) == is_all, answer
            _, _, answer = ask_json(client, "GET", "/v1/check?ip=127.0.0.1")
            assert answer["limits"] == 3 and answer["shadow_denied"] == 1, answer


@contextlib.contextmanager
def with_body(text, *options):
    with tempfile.TemporaryDirectory(prefix="weir-denial-") as folder:
        path = os.path.join(folder, "denial.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        with policy_daemon("--denial-body", path, *options, policy=SHADOWED) as one:
            yield one, path


def bodies_are_made_of_a_template():
    html = "<p>{limit}: {remaining} of {quota} left, in {retry_after} s</p>"
    with with_body(html) as (one, path):
        client = client_of(one)
        assert authorize(client)[0] == 200
        for target, wanted in (("/v1/authorize", 429), ("/v1/authorize?deny=403", 403)):
            status, headers, content = ask(client, "GET", target)
            found = re.fullmatch(r"<p>decides: 0 of 1 left, in (\d+) s</p>", content.decode())
            assert status == wanted and found and found[1] == headers["retry-after"], (status, content)
            assert headers["content-type"] == "text/html; charset=utf-8", headers
        assert json.loads(headers["weir-problem"])["decided_by"] == "decides"  # for nginx, which does not forward the body
        status, headers, content = ask(client, "HEAD", "/v1/authorize")
        assert status == 429 and content == b"" and headers["content-type"] == "text/html; charset=utf-8", headers
        status, headers, _ = ask_json(client, "GET", "/v1/check?ip=127.0.0.1")  # for services
        assert status == 429 and headers["content-type"] == "application/problem+json", headers
        for text, said, content in (("second {quota}", "denial_body changed", b"second 1"), ("{nothing}", "unknown variable {nothing}", b"second 1")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            one.process.send_signal(signal.SIGHUP)
            until(lambda: said in one.said(), said)
            assert ask(client, "GET", "/v1/authorize")[2] == content
    with with_body('{"error": "{limit}", "retry": {retry_after}}', "--denial-type", "application/json") as (one, _):
        client = client_of(one)
        assert authorize(client)[0] == 200
        status, headers, answer = authorize(client)
        assert status == 429 and headers["content-type"] == "application/json" and answer["error"] == "decides", answer


def wrong_templates_are_errors():
    with tempfile.TemporaryDirectory(prefix="weir-denial-") as folder:
        path = os.path.join(folder, "body")
        with open(path, "w", encoding="utf-8") as file:
            file.write("a\n{visitor}\n")
        for options, said in ((("--denial-body", path), f"--denial-body: {path}:2: unknown variable {{visitor}}; use {{limit}}, "),
                              (("--denial-body", path + "x"), f"--denial-body: {path}x: No such file"),
                              (("--denial-type", "html"), "--denial-type: use a media type")):
            done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", *options], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False)
            assert done.returncode == 2 and said in done.stderr, (options, done)


def main():
    return run([(test.__name__.replace("_", " "), test) for test in (
        parts_are_read_as_proxies_name_them, the_method_of_the_question_is_not_that_of_the_request,
        what_is_said_twice_is_the_same_twice, chains_are_read_from_the_right, who_is_no_proxy_is_not_believed,
        a_path_is_a_proxy, callers_may_have_ipv6, headers_are_attributes, nginx_is_told_403, the_longest_names_fit,
        without_a_policy_it_says_so, values_that_do_not_fit_are_refused, visitors_learn_of_the_limit_that_decided,
        bodies_are_made_of_a_template, wrong_templates_are_errors)])


if __name__ == "__main__":
    sys.exit(main())
