#!/usr/bin/env python3
"""weir serve over HTTP, with http.client, and with raw sockets where bytes matter.

    http_test.py WEIR"""
# Covers: src/server/http/http_connection.c, src/server/http/http_health.c

import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from daemon import TIMEOUT_S, daemon, receive, receive_all, run

WEIR = sys.argv[1]

POLICY = """limits:
  - name: per-client
    key: ip
    limit: 100/hour burst 20
  - name: writes
    key: [user]
    match: {method: POST}
    limit: 5/hour
  - name: fast
    key: [burst]
    limit: 200/s burst 5
"""


class policy_daemon:
    """A daemon with HTTP and a policy."""

    def __init__(self, *options, policy=POLICY, settings=None):
        self.options, self.policy, self.settings = options, policy, settings

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-http-")
        options = list(self.options)
        for name, text in (("policy", self.policy), ("config", self.settings)):
            if text:
                path = os.path.join(self.folder.name, name + ".yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                options += [f"--{name}", path]
        self.context = daemon(WEIR, "--keys", "10000", "--workers", "1", *options, http="127.0.0.1:0")
        return self.context.__enter__()

    def __exit__(self, *what):
        try:
            return self.context.__exit__(*what)
        finally:
            self.folder.cleanup()


def port_of(one):
    return int(one.http_at.rsplit(":", 1)[1])


def raw(one):
    return socket.create_connection(("127.0.0.1", port_of(one)), TIMEOUT_S)


def client_of(one):
    return http.client.HTTPConnection("127.0.0.1", port_of(one), timeout=TIMEOUT_S)


def ask(client, method, target, body=None, headers=None):
    """(status, headers with lower-case names, body)"""
    client.request(method, target, body, headers or {})
    answer = client.getresponse()
    content = answer.read()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


def ask_json(client, method, target, body=None, headers=None):
    status, got, content = ask(client, method, target, body, headers)
    problem = status >= 400
    assert got["content-type"] == ("application/problem+json" if problem else "application/json"), (status, got, content)
    parsed = json.loads(content)
    assert not problem or parsed["status"] == status and parsed["title"] and parsed["detail"], parsed
    return status, got, parsed


def post(client, what):
    return ask_json(client, "POST", "/v1/check", json.dumps(what), {"Content-Type": "application/json"})


def answers(text, n):
    """Parses n responses: a list of (status, body), and the bytes after them."""
    found = []
    for _ in range(n):
        head, _, text = text.partition(b"\r\n\r\n")
        length = int(re.search(rb"\r\nContent-Length: (\d+)", head).group(1))
        found.append((int(head.split(b" ")[1]), text[:length]))
        text = text[length:]
    return found, text


# --- decisions -------------------------------------------------------------------------------------------------------

def a_get_is_decided():
    with policy_daemon() as one:
        client = client_of(one)
        status, headers, answer = ask_json(client, "GET", "/v1/check?ip=203.0.113.7")
        assert status == 200 and answer == {
            "allowed": True, "limit": 20, "remaining": 19, "granted": 1, "retry_after_ns": 0,
            "reset_after_ns": 36000000000, "delay_ns": 0, "limits": 1, "shadow_denied": 0,
            "decided_by": "per-client"}, answer
        assert headers["ratelimit-policy"] == '"per-client";q=20;w=720', headers
        assert headers["ratelimit"] == '"per-client";r=19;t=36', headers
        assert "retry-after" not in headers
        status, headers, answer = ask_json(client, "GET", "/v1/check?ip=203.0.113.7&cost=20")
        assert status == 429 and answer["allowed"] is False and answer["granted"] == 0, answer
        assert answer["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded", answer
        assert answer["violated-policies"] == ["per-client"] == [answer["decided_by"]], answer
        assert 0 < answer["retry_after_ns"] <= 36000000000, answer
        seconds = -(-answer["retry_after_ns"] // 10**9)
        assert headers["retry-after"] == str(seconds) and headers["ratelimit"].endswith(f";r=19;t={seconds}"), headers
        status, headers, answer = ask_json(client, "GET", "/v1/check?ip=203.0.113.7&cost=21")
        assert status == 429 and answer["retry_after_ns"] is None and "no wait will help" in answer["detail"], answer
        assert "retry-after" not in headers, headers


def retry_after_is_never_too_early():
    with policy_daemon() as one:
        client = client_of(one)
        denied = 0
        while denied < 5: # five refill in 25 ms, so an immediate retry is denied
            status, headers, answer = ask_json(client, "GET", "/v1/check?burst=b&cost=5")
            if status == 429:
                denied += 1
                assert 0 < answer["retry_after_ns"] <= 25000000 and headers["retry-after"] == "1", (headers, answer)


def queries_are_decoded():
    with policy_daemon() as one:
        client = client_of(one)
        for target, n in (("ip=10.0.0.1", 19), ("ip=10%2e0.0%2E1", 18), ("%69p=10.0.0.1&", 17), ("&&x&y=&ip=10.0.0.1", 16),
                          ("ip=10.0.0.1&cost=6", 10), ("cost=0&ip=10.0.0.1", 10)):
            status, _, answer = ask_json(client, "GET", "/v1/check?" + target)
            assert status == 200 and answer["remaining"] == n, (target, answer)
        status, headers, answer = ask_json(client, "GET", "/v1/check?nothing=x")
        assert status == 200 and answer["limits"] == 0 and answer["decided_by"] is None, answer
        assert "ratelimit" not in headers, headers
        for target, said in (("ip=%4", "hexadecimal"), ("=a", "a name before"), ("cost=", "whole number"),
                             ("cost=-1", "whole number"), ("cost=9223372036854775808", "9223372036854775807"),
                             ("&".join(f"a{i}=b" for i in range(33)), "too many attributes; use at most 32"),
                             ("ip=10.0.0.1&ip=10.0.0.2", "the query: ip: given twice"),
                             ("ip=10.0.0.1&x=y&%69p=10.0.0.1", "the query: ip: given twice"),
                             ("cost=1&ip=10.0.0.1&cost=1", "the query: cost: given twice"),
                             ("user=a%00b", "the query: user: it contains a NUL byte"), ("a%00=b", "the query: a: it contains a NUL byte"),
                             ("%ff=1&%ff=2", "given twice"), ("cost=1%00", "the query: cost: it contains a NUL byte"), ("x" * 50 + "&" + "x" * 50, "x: given twice")):
            for path in ("/v1/check?", "/v1/explain?", "/v1/live/key?"):
                status, _, answer = ask_json(client, "GET", path + target)
                assert status == 400 and said in answer["detail"], (path, target, answer)
        assert ask_json(client, "GET", "/v1/check?ip=10.0.0.1&cost=0")[2]["remaining"] == 10


def a_post_is_decided():
    with policy_daemon() as one:
        client = client_of(one)
        status, headers, answer = post(client, {"attributes": {"user": "ana", "method": "POST"}, "cost": 2})
        assert status == 200 and answer["remaining"] == 3 and answer["decided_by"] == "writes", answer
        assert headers["ratelimit-policy"] == '"writes";q=5;w=3600', headers
        status, headers, answer = post(client, {"attributes": {"user": "ana", "method": "POST"}, "cost": 4})
        assert status == 429 and answer["violated-policies"] == ["writes"] and "retry-after" in headers, (headers, answer)
        for body in ({"attributes": {}}, {"attributes": {"ip": "10.3.3.3"}, "cost": 0}):
            assert post(client, body)[0] == 200
        chunks = iter([b'{"attributes":', b'{"ip":"10.3.3.3"}', b"}"])
        status, _, answer = ask_json(client, "POST", "/v1/check", chunks, {"Content-Type": "application/json; charset=utf-8"})
        assert status == 200 and answer["remaining"] == 19, answer


def a_batch_is_decided():
    with policy_daemon() as one:
        client = client_of(one)
        one_of = {"attributes": {"ip": "10.4.4.4"}, "cost": 1}
        status, headers, answer = post(client, [one_of] * 1000)
        assert status == 200 and len(answer) == 1000 and "ratelimit" not in headers, headers
        assert [row["allowed"] for row in answer] == [True] * 20 + [False] * 980
        assert all(row["decided_by"] == "per-client" for row in answer)
        assert post(client, [])[::2] == (200, [])
        status, _, answer = post(client, [one_of] * 1001)
        assert status == 400 and answer["detail"] == "the body: found an array of 1001; use at most 1000", answer
        other = {"attributes": {"ip": "10.4.4.5"}}
        status, _, answer = post(client, [other, {"attributes": {"ip": 1}}])
        assert status == 400 and answer["detail"] == "the body[1].attributes: found 1; use strings only", answer
        status, _, answer = post(client, [other])
        assert answer[0]["remaining"] == 19, answer # nothing was charged before


def bodies_that_are_wrong_are_told():
    rows = (
        (b"", "line 1, column 0"), (b"{", "line 1, column 1"), (b"nothing", "line 1, column 7"), (b"{}", ".attributes: missing"),
        (b"1", "line 1, column 1"), (b"[1]", "the body[0]: found 1; use an object with attributes, cost and wait"),
        (b'"\xff"', "the body: line 1"), (b'{"attributes":{"a":"\\u0000"}}', "contains a NUL byte"),
        (b'{"attributes":{"a\xff":"b"}}', "line 1"), (b'{"attributes":{"a":"b","a":"c"}}', "duplicate object key"),
        (b'{"attributes":{"":"b"}}', "an attribute needs a name"), (b'{"attributes":[]}', ".attributes: found an array"),
        (b'{"attributes":{},"cost":-1}', ".cost: found -1; use a whole number, 0 to 9223372036854775807"),
        (b'{"attributes":{},"cost":1.0}', ".cost: found a fraction"), (b'{"attributes":{},"cost":"1"}', '.cost: found "1"'),
        (b'{"attributes":{},"cost":9223372036854775808}', "too big integer"),
        (b'{"attributes":{},"costs":1}', 'found an unknown member "costs"; use attributes, cost and wait'),
        (b'{"attributes":{}} x', "end of file expected"), (b"[" * 100000, "line 1"),
        (json.dumps({"attributes": {f"a{i}": "" for i in range(33)}}).encode(), "use at most 32"))
    with policy_daemon() as one:
        client = client_of(one)
        for body, said in rows:
            status, _, answer = ask_json(client, "POST", "/v1/check", body, {"Content-Type": "application/json"})
            assert status == 400 and said in answer["detail"], (body[:60], answer)
        for kind in (None, "text/plain", "application/jsonp", "application/x-www-form-urlencoded"):
            status, _, answer = ask_json(client, "POST", "/v1/check", b"{}", {"Content-Type": kind} if kind else {})
            assert status == 415 and "application/json" in answer["detail"], (kind, answer)


def headers_can_be_chosen():
    draft, x = {"ratelimit", "ratelimit-policy"}, {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
    for word, names in (("draft11", draft), ("x", x), ("both", draft | x), ("none", set())):
        with policy_daemon("--ratelimit_headers", word) as one:
            client = client_of(one)
            _, headers, _ = ask_json(client, "GET", "/v1/check?ip=10.5.5.5&cost=20")
            assert {name for name in headers if "ratelimit" in name} == names, (word, headers)
            if word == "x":
                assert [headers[name] for name in sorted(x)] == ["20", "0", "720"], headers
            status, headers, _ = ask_json(client, "GET", "/v1/check?ip=10.5.5.5")
            assert status == 429 and int(headers["retry-after"]) in range(1, 37), headers


def without_a_policy_there_is_nothing_to_check():
    with policy_daemon(policy=None) as one:
        status, _, answer = ask_json(client_of(one), "GET", "/v1/check?ip=1.2.3.4")
        assert status == 409 and "--policy" in answer["detail"], answer


# --- who may send requests --------------------------------------------------------------------------------------------

SETTINGS = f"""users:
  web: {{token: s3cret-of-web}}
  ops: {{token_sha256: "{hashlib.sha256(b's3cret/of+ops=').hexdigest()}", role: admin}}
  old: {{password: only-for-resp}}
"""


def tokens_say_who_asks():
    with policy_daemon(settings=SETTINGS) as one:
        told = [one.process.stdout.readline().decode() for _ in range(1)][-1]
        assert told == f"try: curl -H \"Authorization: Bearer $TOKEN\" 'http://{one.http_at}/v1/check?ip=203.0.113.7'\n", told
        client = client_of(one)
        for said, status, error in ((None, 401, ""), ("Basic d2ViOng=", 401, ', error="invalid_token"'),
                                    ("Bearer", 401, ', error="invalid_token"'),
                                    ("Bearer s3cret-of-we", 401, ', error="invalid_token"'),
                                    ("Bearer only-for-resp", 401, ', error="invalid_token"'),
                                    ("Bearer " + "0" * 64, 401, ', error="invalid_token"'),
                                    ("Bearer s3cret-of-web", 200, None), ("bearer s3cret/of+ops=", 200, None)):
            got, headers, answer = ask_json(client, "GET", "/v1/check?ip=10.2.2.2&cost=0",
                                            headers={"Authorization": said} if said else {})
            assert got == status, (said, answer)
            if status == 401:
                assert headers["www-authenticate"] == f'Bearer realm="weir"{error}', (said, headers)
            assert "s3cret" not in json.dumps(answer)
        assert ask(client, "GET", "/healthz")[0] == ask(client, "GET", "/readyz")[0] == 200
        for first, second, status in (("s3cret-of-web", "s3cret/of+ops=", 400), ("s3cret-of-web", "wrong", 400),
                                      ("wrong", "s3cret-of-web", 400), ("s3cret-of-web", "s3cret-of-web", 200)):
            with raw(one) as twice:
                twice.sendall(f"GET /v1/check?cost=0 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {first}\r\n"
                              f"authorization: Bearer {second}\r\nConnection: close\r\n\r\n".encode())
                found = answers(receive_all(twice), 1)[0][0]
                assert found[0] == status and (status == 200 or b"two different Authorization headers" in found[1]), found


def a_place_that_is_taken_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", where], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1, done
    assert done.stderr == f"weir serve: --http: {where}: Address already in use; use another address, or none\n", done


def others_reach_it_only_with_users():
    done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2 and "--http: 0.0.0.0:0: other machines can reach this address" in done.stderr, done


PAGES = ("/", "/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/limits", "/v1/live", "/v1/policy", "/v1/explain?ip=1.2.3.4",
         "/v1/check?ip=1.2.3.4", "/v1/keys/everyone/a")
JSON = {"Content-Type": "application/json"}
POSTS = (("POST", "/v1/check", '{"attributes": {"ip": "1.2.3.4"}}'), ("POST", "/v1/take", '{"limit": "5/day", "key": "k", "cost": 1}'),
         ("POST", "/v1/hold", '{"limit": "5/day", "key": "k", "cost": 1, "ttl_ms": 1000}'), ("POST", "/v1/release", '{"id": "a"}'),
         ("POST", "/throttle", "{}"), ("POST", "/json", "{}"), ("DELETE", "/v1/keys/everyone/a", None),
         ("PUT", "/v1/limits/everyone", '{"limit": "7/s"}'), ("PUT", "/v1/policy", "limits: []"))


def every_route(one, headers):
    """The set of statuses of all routes."""
    requests = [("GET", target, None) for target in PAGES] + list(POSTS)
    return {ask(client_of(one), method, target, body, {**headers, **JSON})[0] for method, target, body in requests}


def names_of_others_reach_nothing():
    """DNS rebinding: a page whose host name resolves to this server sends that name as Host, and is of the same
    origin."""
    with policy_daemon() as one:
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "1.2.3.4x.com"):
            headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
            assert every_route(one, headers) == {403}, host
            assert ask(client_of(one), "GET", "/v1/authorize", headers={**headers, "X-Forwarded-For": "1.2.3.4"})[0] in (200, 429)
        for host in ("127.0.0.1", "127.0.0.1:8080", "LocalHost:99", "[::1]:8080", "weir:8080", "weir.prod.svc", "host.docker.internal"):
            headers = {"Host": host, "Origin": f"http://{host}"}
            assert ask(client_of(one), "GET", "/v1/live", headers=headers)[0] == 200, host
            assert ask(client_of(one), "GET", "/v1/check?ip=1.2.3.4", headers=headers)[0] in (200, 429), host
    with policy_daemon("--allowed-hosts", "weir.example.com", "--allowed-hosts", "*.limits.example") as one:
        for host, is_allowed in (("weir.example.com", True), ("a.limits.example:80", True), ("localhost", True), ("evil.example", False),
                                 ("weir", False)):
            for target in ("/v1/live", "/v1/check?ip=1.2.3.4", "/v1/authorize", "/healthz"):
                status = ask(client_of(one), "GET", target, headers={"Host": host, "X-Forwarded-For": "1.2.3.4"})[0]
                assert (status != 403) == is_allowed, (host, target, status)


def pages_of_others_reach_nothing():
    """Pages of another origin, including another port of the same host."""
    with policy_daemon() as one:
        foreign = ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:3000"},
                   {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
                   {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:8080"})
        for headers in foreign:
            assert every_route(one, {"Host": "localhost:8080", **headers}) == {403}, headers
            assert ask(client_of(one), "GET", "/v1/authorize", headers={**headers, "X-Forwarded-For": "1.2.3.4"})[0] in (200, 429)
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert ask(client_of(one), "GET", "/", headers=link)[0] == 200  # a link to the page
        assert ask(client_of(one), "GET", "/v1/check?ip=1.2.3.4", headers=link)[0] == 403
        for headers in ({"Sec-Fetch-Site": "same-origin", "Origin": "https://weir.example.com"},  # behind a proxy with another name
                        {"Sec-Fetch-Site": "none"}, {"Origin": "http://localhost:8080"}):
            assert ask(client_of(one), "GET", "/v1/live", headers={"Host": "localhost:8080", **headers})[0] == 200, headers
        status, _, answer = ask_json(client_of(one), "GET", "/v1/live", headers={"Sec-Fetch-Site": "cross-site"})
        assert status == 403 and "web page of another origin" in answer["detail"], answer


def bodies_that_pages_can_send_are_refused():
    """Without permission (CORS), a page can only send text and forms. curl -d also sends a form."""
    with policy_daemon() as one:
        for target in ("/json", "/throttle"):
            for kind in ("text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=a"):
                status, _, answer = ask_json(client_of(one), "POST", target, "{}", {"Content-Type": kind})
                assert status == 415, (target, kind, answer)
        assert ask(client_of(one), "POST", "/json", "{}", {"Content-Type": "application/x-www-form-urlencoded"})[0] != 415


# --- the protocol ----------------------------------------------------------------------------------------------------

def it_tells_how_it_is():
    with policy_daemon() as one:
        client = client_of(one)
        status, headers, body = ask(client, "GET", "/healthz")
        assert (status, body) == (200, b"ok\n"), (status, body)
        assert re.fullmatch(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", headers["date"]), headers
        assert ask(client, "GET", "/readyz")[::2] == (200, b"ready\n")
        status, headers, body = ask(client, "HEAD", "/readyz")
        assert (status, headers["content-length"], body) == (200, "6", b""), (status, headers, body)


def what_is_not_there_is_told():
    with policy_daemon() as one:
        client = client_of(one)
        for target in ("/nothing", "/v1", "/v1/check/", "/v1/check/x", "//", "/v1/limits/a/b/c", "*"):
            status, _, answer = ask_json(client, "OPTIONS" if target == "*" else "GET", target)
            assert status == 404 and "/openapi.json" in answer["detail"], (target, status, answer)
        status, headers, _ = ask_json(client, "DELETE", "/healthz")
        assert (status, headers["allow"]) == (405, "GET, HEAD"), headers


def pipelines_are_answered_in_order():
    with policy_daemon() as one, raw(one) as client:
        request = b"GET /v1/check?ip=10.1.1.1 HTTP/1.1\r\nHost: a\r\n\r\n"
        client.sendall(request * 30 + b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + request)
        found, rest = answers(receive_all(client), 31)
        assert rest == b"", rest
        assert [status for status, _ in found] == [200] * 20 + [429] * 10 + [200], found
        assert found[-1][1] == b"ok\n"


def requests_come_in_any_pieces():
    request = b"GET /v1/check?ip=10.1.1.2&cost=0 HTTP/1.1\r\nHost: a\r\n\r\n"
    with policy_daemon() as one:
        for size in (1, 2, 7, 30):
            with raw(one) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                both = request + request.replace(b"Host", b"Connection: close\r\nHost")
                for at in range(0, len(both), size):
                    client.sendall(both[at:at + size])
                found, rest = answers(receive_all(client), 2)
                assert [status for status, _ in found] == [200, 200] and rest == b"", (found, rest)


def what_is_ambiguous_is_refused_and_closed():
    rows = ((b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
            (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501), (b"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 131073\r\n\r\n", 413),
            (b"GET /" + b"a" * 16384, 414), (b"GET / HTTP/1.1\r\nHost: " + b"a" * 16384, 431))
    with policy_daemon() as one:
        for request, status in rows:
            with raw(one) as client:
                client.sendall(request)
                text = receive_all(client)
                found, rest = answers(text, 1)
                assert found[0][0] == status and rest == b"", (request[:80], found, rest)
                assert b"\r\nConnection: close\r\n" in text and json.loads(found[0][1])["status"] == status, text
                assert re.match(r"at byte \d+ of the request: ", json.loads(found[0][1])["detail"]), text


def what_the_parser_found_is_told():
    rows = ((b"Content-Length: 1\r\nTransfer-Encoding: chunked", "Transfer-Encoding"),
            (b"Content-Length: 1\r\nContent-Length: 1", "Content-Length"), (b"Content-Length: x", "Content-Length"))
    with policy_daemon() as one:
        for headers, said in rows:
            with raw(one) as client:
                client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n\r\n")
                detail = json.loads(answers(receive_all(client), 1)[0][0][1])["detail"]
                words = "malformed HTTP/1.1 request (RFC 9112): "
                assert words in detail and said in detail.split(words)[1], detail


def who_sends_too_much_hears_why():
    with policy_daemon() as one:
        for _ in range(20):
            with raw(one) as client:
                client.sendall(b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b" " * 1000000)
                client.shutdown(socket.SHUT_WR)
                found, rest = answers(receive_all(client), 1)
                assert found[0][0] == 413 and rest == b"", found


def who_expects_to_be_told_is_told():
    with policy_daemon() as one, raw(one) as client:
        client.sendall(b"POST /healthz HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        told = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert receive(client, len(told)) == told
        client.sendall(b"{}")
        assert receive(client, 12) == b"HTTP/1.1 405"


def who_is_slow_is_told_and_closed():
    with policy_daemon("--header_time", "300ms") as one:
        for connect in (raw, asked):
            text = b""
            while not text:  # on a busy machine a new connection may time out before it has sent anything
                with connect(one) as slow, contextlib.suppress(ConnectionError):
                    slow.sendall(b"GET / HTTP/1.1\r\nHo")
                    text = receive_all(slow)
            assert answers(text, 1)[0][0][0] == 408, text


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


def is_served(client):
    client.sendall(HEALTH)
    text = b""
    while not text.endswith(b"\r\n\r\nok\n"):
        piece = client.recv(4096)
        assert piece, text
        text += piece


def asked(one):
    """A client that has received a response. Retries if the server closes it as idle before that."""
    while True:
        client = raw(one)
        try:
            is_served(client)
            return client
        except (AssertionError, OSError):
            client.close()


def who_says_nothing_is_closed():
    """A connection that has sent a request is exempt: between requests another timeout applies."""
    with policy_daemon("--header_time", "300ms") as one, asked(one) as other:
        for _ in range(2):
            with raw(one) as silent:
                assert receive_all(silent) == b""
            is_served(other)


def who_asks_no_more_is_closed():
    with policy_daemon("--http_idle", "300ms") as one:
        with asked(one) as silent:
            assert receive_all(silent) == b""
        with one.connect() as resp:  # RESP has its own timeout, by default none
            with asked(one) as silent:
                assert receive_all(silent) == b""
            resp.sendall(b"PING\r\n")
            assert receive(resp, 7) == b"+PONG\r\n"


def the_bound_of_resp_is_not_that_of_http():
    with policy_daemon("--idle", "100ms", "--http_idle", "0") as one, asked(one) as quiet:
        for _ in range(2):
            with one.connect() as silent:
                assert receive_all(silent) == b""
            is_served(quiet)


def who_asks_while_it_ends_is_told():
    """Sends so much without reading that the shutdown begins before the rest is processed."""
    n = 200000
    with policy_daemon("--output", "64KiB") as one, raw(one) as client:
        asking = threading.Thread(target=lambda: suppress_errors(
            lambda: client.sendall(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n" * n)))
        asking.start()
        client.recv(1, socket.MSG_PEEK)
        one.process.send_signal(signal.SIGTERM)
        while accepts(one):
            time.sleep(0.01)
        text = receive_all(client)
        asking.join(TIMEOUT_S)
        assert one.process.wait(TIMEOUT_S) == 0
        ready, ending = text.count(b"HTTP/1.1 200 OK"), text.count(b"HTTP/1.1 503 ")
        assert 0 < ready < n and ending == 1, (ready, ending)
        assert b"\r\nConnection: close\r\n" in text[text.rindex(b"HTTP/1.1 503 "):], text[-500:]
        one.process.stdout.close()
        one.process = None


def the_end_is_announced():
    """A signal makes the server unready. It continues to serve and to accept until the second signal."""
    with policy_daemon("--end-delay", "1hour") as one:
        client = client_of(one)
        assert ask(client, "GET", "/readyz")[0] == ask(client, "GET", "/healthcheck")[0] == 200
        one.process.send_signal(signal.SIGTERM)
        while ask(client, "GET", "/readyz")[0] != 503:
            time.sleep(0.01)
        assert ask(client, "GET", "/healthcheck")[0] == 500
        with raw(one) as other, one.connect() as resp:
            for _ in range(2):
                is_served(other)
            resp.sendall(b"PING\r\n")
            assert receive(resp, 7) == b"+PONG\r\n"
        client.close()
        assert one.end() == 0
    with policy_daemon("--end-delay", "100ms") as one:
        assert one.end() == 0  # by itself


def suppress_errors(run):
    with contextlib.suppress(OSError):
        run()


def accepts(one):
    try:
        raw(one).close()
        return True
    except ConnectionError:
        return False


def old_clients_are_answered():
    with policy_daemon() as one:
        with raw(one) as client:
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert receive_all(client).endswith(b"\r\n\r\nok\n")
        with raw(one) as client:
            client.sendall(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
            client.shutdown(socket.SHUT_WR)
            text = receive_all(client)
            assert text.count(b"\r\nConnection: keep-alive\r\n") == 2 and text.endswith(b"ok\n"), text


def a_path_will_do():
    with tempfile.TemporaryDirectory(prefix="weir-http-") as folder:
        path = os.path.join(folder, "http")
        with daemon(WEIR, "--keys", "1000", http=path) as one:
            assert one.http_at == path, one.http_at
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(TIMEOUT_S)
                client.connect(path)
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert receive_all(client).endswith(b"\r\n\r\nok\n")
        assert not os.path.exists(path)


def paths_have_the_mode_that_was_set():
    with tempfile.TemporaryDirectory(prefix="weir-http-") as folder:
        path = os.path.join(folder, "http")
        for options, umask, mode in (((), 0o027, 0o750), (("--socket_mode", "0660"), 0o077, 0o660),
                                     (("--socket_mode", "600"), 0, 0o600)):
            with daemon(WEIR, "--keys", "1000", *options, http=path, umask=umask) as one:
                assert [os.stat(place).st_mode & 0o7777 for place in (path, one.path)] == [mode, mode], (options, oct(mode))


def help_names_the_protocols():
    done = subprocess.run([WEIR, "--help"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert re.search(r"\n  serve +starts the server, for clients over RESP, HTTP and gRPC\n", done.stdout), done.stdout


TESTS = [
    ("help names the protocols", help_names_the_protocols),
    ("a GET is decided, and headers tell of it", a_get_is_decided),
    ("Retry-After is never too early", retry_after_is_never_too_early),
    ("queries are decoded", queries_are_decoded),
    ("a POST is decided", a_post_is_decided),
    ("a batch is decided", a_batch_is_decided),
    ("bodies that are wrong are told", bodies_that_are_wrong_are_told),
    ("headers can be chosen", headers_can_be_chosen),
    ("without a policy there is nothing to check", without_a_policy_there_is_nothing_to_check),
    ("tokens say who asks", tokens_say_who_asks),
    ("a place that is taken is told", a_place_that_is_taken_is_told),
    ("others reach it only with users", others_reach_it_only_with_users),
    ("names of others reach nothing", names_of_others_reach_nothing),
    ("pages of others reach nothing", pages_of_others_reach_nothing),
    ("bodies that pages can send are refused", bodies_that_pages_can_send_are_refused),
    ("it tells how it is", it_tells_how_it_is),
    ("what is not there is told", what_is_not_there_is_told),
    ("pipelines are answered in order", pipelines_are_answered_in_order),
    ("requests come in any pieces", requests_come_in_any_pieces),
    ("what is ambiguous is refused, and closed", what_is_ambiguous_is_refused_and_closed),
    ("what the parser found is told", what_the_parser_found_is_told),
    ("who sends too much hears why", who_sends_too_much_hears_why),
    ("who expects to be told is told", who_expects_to_be_told_is_told),
    ("who is slow is told, and closed", who_is_slow_is_told_and_closed),
    ("who says nothing is closed", who_says_nothing_is_closed),
    ("who asks no more is closed", who_asks_no_more_is_closed),
    ("RESP and HTTP have bounds of their own", the_bound_of_resp_is_not_that_of_http),
    ("who asks while it ends is told", who_asks_while_it_ends_is_told),
    ("the end is announced", the_end_is_announced),
    ("old clients are answered", old_clients_are_answered),
    ("a path will do", a_path_will_do),
    ("paths have the mode that was set", paths_have_the_mode_that_was_set),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
