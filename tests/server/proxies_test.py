#!/usr/bin/env python3
"""The configurations in examples/ for nginx, Caddy and HAProxy, run by Debian's versions, in front of a service that
records its requests.

    proxies_test.py WEIR EXAMPLES

Each file is used as it is, except for free ports and a longer timeout for Weir, because the test machine may be
busy."""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from daemon import TIMEOUT_S, Daemon, run
from visitor import changed, check_smooth, check_told, clients, crowd, free_port, visit

WEIR, EXAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
BALANCER = "127.0.0.2"  # stands for an address of 10.0.0.0/8: a load balancer in front of the proxy

UNLIMITED = "    overrides:\n      - when: {path: /unlimited}\n        mode: off\n"
AS_IT_IS = "as it is"  # instead of changes: with the timeouts of the file


# --- a service --------------------------------------------------------------------------------------------------------

class Service(http.server.ThreadingHTTPServer):
    """Replies 200 to everything, 403 to /forbidden, and records (method, target, headers)."""

    daemon_threads = True

    def __init__(self):
        self.seen, self.seen_at = [], []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        """Proxies may close connections at any time."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # a response is one write

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.headers))
        self.server.seen_at.append(time.monotonic_ns())
        self.send_response(403 if self.path == "/forbidden" else 200)
        self.send_header("Content-Length", str(len(body) + 3))
        self.end_headers()
        self.wfile.write(b"ok " + body)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *what):
        pass


# --- proxies ----------------------------------------------------------------------------------------------------------

class Stage:
    """Weir, a service, and a proxy in front of it, all in one folder."""

    def __init__(self, folder, configure, changes=(), users="", policy=None):
        self.folder, self.port, self.service = folder, free_port(), Service()
        with open(os.path.join(EXAMPLES, "proxies/weir.yaml"), encoding="utf-8") as file:
            self.put("weir.yaml", changed(file.read(), ("10.0.0.0/8", BALANCER),
                                          ("examples/proxies/limits.yaml", self.path("limits.yaml"))) + users)
        with open(os.path.join(EXAMPLES, "proxies/limits.yaml"), encoding="utf-8") as file:
            self.put("limits.yaml", policy or changed(file.read(), ("burst 20\n", f"burst 20\n{UNLIMITED}")))
        self.weir_port = free_port()
        self.weir = Daemon(WEIR, folder, ("--keys", "10000", "--workers", "1", "--config", self.path("weir.yaml")),
                           http=f"127.0.0.1:{self.weir_port}", cwd=os.path.dirname(EXAMPLES))
        self.ports = {"8080": self.weir_port, "8000": self.port, "3000": self.service.server_address[1]}
        self.proxy, self.log = None, open(self.path("proxy.log"), "wb+")
        self.configure, self.more_changes = configure, changes

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def take(self, name, *changes):
        """Copies a file of the examples, with the ports of this stage."""
        with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
            text = re.sub(r":(8080|8000|3000)\b", lambda found: f":{self.ports[found[1]]}", file.read())
        return self.put(os.path.basename(name), changed(text, *changes))

    def start(self):
        self.weir.start()
        self.start_proxy()

    def start_proxy(self):
        command = self.configure(self, *self.more_changes)
        self.proxy = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.log,
                                      stderr=subprocess.STDOUT, env={**os.environ, "HOME": self.folder})
        end = time.monotonic() + TIMEOUT_S
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                if self.is_up():
                    return
            assert self.proxy.poll() is None and time.monotonic() < end, f"{command[0]} does not start: {self.said()}"
            time.sleep(0.01)

    def is_up(self):
        with socket.create_connection(("127.0.0.1", self.port), 10):
            return True

    def stop_proxy(self):
        if self.proxy and self.proxy.poll() is None:
            self.proxy.send_signal(signal.SIGTERM)
            try:
                self.proxy.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.proxy.kill()
                self.proxy.wait()

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def close(self):
        self.stop_proxy()
        self.weir.close()
        self.service.shutdown()
        self.service.server_close()
        self.log.close()

    def ask(self, client, *what, **more):
        return visit(self.port, client, *what, **more)


def patient(changes):
    """The changes, and a longer timeout for Weir."""
    if AS_IT_IS in changes:
        return [change for change in changes if change != AS_IT_IS]
    return [("250ms", "30s"), ("500ms", "30s"), *changes]


def nginx(stage, *changes):
    """nginx must write only here, and stay in the foreground, so that its process is known."""
    places = "".join(f"{name}_temp_path {stage.path(name)};\n" for name in
                     ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = stage.take("nginx/nginx.conf", ("http {\n", f"http {{\naccess_log off;\n{places}"),
                      ("events {}", "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {}"), *patient(changes))
    return ["nginx", "-p", stage.folder, "-e", "stderr", "-c", path]


def caddy(stage, *changes, name="Caddyfile"):
    path = stage.take(f"caddy/{name}", ("10.0.0.0/8", BALANCER), *patient(changes))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", path]


def caddy_in_short(stage, *changes):
    return caddy(stage, *changes, name="forward_auth.Caddyfile")


def haproxy(stage, *changes):
    longer = () if AS_IT_IS in changes else (("timeout_ms = 500", "timeout_ms = 120000"),)
    changes = [change for change in changes if change != AS_IT_IS]
    of_lua = [change for change in changes if change[0].startswith("\t")]
    stage.take("haproxy/weir.lua", *longer, *of_lua)
    return ["haproxy", "-db", "-f", stage.take("haproxy/haproxy.cfg", *(one for one in changes if one not in of_lua))]


@contextlib.contextmanager
def staged(configure, *changes, users="", policy=None):
    program = configure.__name__.split("_")[0]
    assert shutil.which(program), f"{program} not found: install the Debian package"
    with tempfile.TemporaryDirectory(prefix="weir-proxies-") as folder:
        stage = Stage(folder, configure, changes, users, policy)
        try:
            stage.start()
            yield stage
        except AssertionError as fault:
            raise AssertionError(f"{fault}\n{stage.said()}") from fault
        finally:
            stage.close()


# --- checks for each proxy --------------------------------------------------------------------------------------------

def clients_are_limited(stage):
    """The limit's number of requests reach the service; the next one gets a 429 with Retry-After."""
    client = next(clients)
    for remaining in range(19, -1, -1):
        status, headers, body = stage.ask(client, target=f"/page?n={remaining}")
        assert (status, body) == (200, b"ok "), (status, body)
        assert headers["ratelimit"].startswith(f'"per-client";r={remaining};t='), headers
        assert headers["ratelimit-policy"] == '"per-client";q=20;w=720', headers
        assert "retry-after" not in headers, headers
    seen = len(stage.service.seen)
    check_told(stage.ask(client), "per-client")
    assert len(stage.service.seen) == seen == 20, stage.service.seen
    assert stage.service.seen[0][:2] == ("GET", "/page?n=19"), stage.service.seen[0]
    assert stage.ask(next(clients))[0] == 200


def nothing_that_a_client_says_helps(stage):
    """No other address, method, path or parameter of /v1/authorize helps a client."""
    client = next(clients)
    for i in range(20):
        assert stage.ask(client)[0] == 200
    for headers in ([("X-Forwarded-For", "203.0.113.7")], [("X-Forwarded-For", "203.0.113.7, 127.0.0.1")],
                    [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-For", "203.0.113.8")],
                    [("X-Real-IP", "203.0.113.7")], [("Forwarded", "for=203.0.113.7")],
                    [("X-Forwarded-For", "nonsense")], [("x-forwarded-for", "\xff\xfe")]):
        check_told(stage.ask(client, headers=headers), "per-client")
    for target in ("/?cost=0", "/?ip=203.0.113.7&cost=0", "/?deny=200", "/?deny=403"):
        check_told(stage.ask(client, target=target), "per-client")


def what_a_request_is_cannot_be_spoofed(stage):
    client = next(clients)
    for _ in range(2):
        status, _, body = stage.ask(client, "POST", "/orders/7", body=b"two socks")
        assert (status, body) == (200, b"ok two socks"), (status, body)
    check_told(stage.ask(client, "POST", "/orders/7", body=b"another"), "orders")
    for name, value in (("Method", "GET"), ("Uri", "/"), ("URL", "http://a/"), ("Host", "other")):
        for begin in ("X-Original-", "X-Forwarded-"):
            answer = stage.ask(client, "POST", "/a/..//%6frders/8?x", [(begin + name, value)], body=b"spoofed")
            check_told(answer, "orders")
    assert stage.ask(client, "GET", "/orders/7")[0] == 200


def templates_are_passed_on(configure):
    """With nginx the client gets the problem instead, because auth_request drops bodies."""
    with tempfile.TemporaryDirectory(prefix="weir-proxies-") as folder:
        path = os.path.join(folder, "denial.json")
        with open(path, "w", encoding="ascii") as file:
            file.write('{"sorry": "{limit}", "again in": {retry_after}}')
        with staged(configure, users=f"\ndenial_body: {path}\ndenial_type: application/json\n") as stage:
            client = next(clients)
            for _ in range(20):
                assert stage.ask(client)[0] == 200
            answer = stage.ask(client)
            if configure is nginx:
                check_told(answer, "per-client")
                return
            status, headers, body = answer
            assert status == 429 and headers["content-type"] == "application/json", answer
            assert json.loads(body) == {"sorry": "per-client", "again in": int(headers["retry-after"])}, answer


def keys_are_limited(stage):
    for key in ("first", "second"):
        for _ in range(5):
            assert stage.ask(next(clients), headers=[("X-Api-Key", key)])[0] == 200
        check_told(stage.ask(next(clients), headers=[("x-api-key", key)]), "per-key")
    status, _, _ = stage.ask(next(clients), headers=[("X-Api-Key", "first"), ("X-Api-Key", "third")])
    assert status != 200, "the first key is used up"
    status, _, _ = stage.ask(next(clients), headers=[("X-Api-Key", "third"), ("X-Api-Key", "first")])
    # Either one header counts, and the service gets only that one, or the request is rejected.
    assert status != 200 or stage.service.seen[-1][2].get_all("X-Api-Key") == ["third"], stage.service.seen[-1]


def chains_lead_to_the_client(stage):
    """Behind a trusted load balancer, the client is the address that the balancer states."""
    for i in range(20):
        line = ["203.0.113.9", f"198.51.100.{i}, 203.0.113.9", "203.0.113.9:4711"][i % 3]
        assert stage.ask(BALANCER, headers=[("X-Forwarded-For", line)])[0] == 200, line
    check_told(stage.ask(BALANCER, headers=[("X-Forwarded-For", "203.0.113.9")]), "per-client")
    assert stage.ask(BALANCER, headers=[("X-Forwarded-For", "203.0.113.10")])[0] == 200
    assert stage.ask(BALANCER, headers=[("X-Forwarded-For", "2001:db8::9")])[0] == 200


def reaches_the_service(stage, client, target):
    status, headers, body = stage.ask(client, target=target)
    assert (status, body) == (200, b"ok "), (status, body)
    assert "ratelimit" not in headers and "ratelimit-policy" not in headers, headers
    assert stage.service.seen[-1][:2] == ("GET", target), stage.service.seen[-1]


def what_no_limit_applies_to_reaches_the_service(stage):
    client = next(clients)
    for i in range(22):
        reaches_the_service(stage, client, "/unlimited")
        assert len(stage.service.seen) == i + 1, stage.service.seen


def what_is_exempt_is_what_the_service_sees(stage):
    """A path that is written to look exempt is limited, or leads only to what is exempt."""
    client = next(clients)
    for _ in range(22):
        reaches_the_service(stage, client, "/health")
    for _ in range(20):
        assert stage.ask(client)[0] == 200
    for target in ("/orders/1/..%2f..%2fhealth", "/orders/1/../../health", "/orders/..%2Fhealth", "/%68ealth", "//health",
                   "/health/", "/health/../orders/1", "/health?/orders/1", "/health;/../orders/1", "/health%2f..%2forders"):
        stage.service.seen.clear()
        status = stage.ask(client, target=target)[0]
        seen = [urllib.parse.unquote(path.split("?")[0]) for _, path, _ in stage.service.seen]
        assert (status, seen) == (200, ["/health"]) or (status >= 400 and not seen), (target, status, seen)


def what_the_service_refuses_is_its_own(stage):
    status, headers, body = stage.ask(next(clients), target="/forbidden")
    assert (status, body) == (403, b"ok ") and "retry-after" not in headers, (status, headers, body)


def large_requests_are_answered(stage):
    """Headers beyond Weir's limits do no harm: the proxy does not forward them, or Weir reports an error."""
    headers = [(f"X-Many-{i}", "v" * 60) for i in range(70)]
    assert stage.ask(next(clients), headers=headers)[0] in (200, 431)
    assert stage.ask(next(clients), headers=[("Cookie", "c" * 7000)])[0] == 200
    assert stage.ask(next(clients), "POST", "/upload", body=b"b" * 300000)[0] == 200
    before = len(stage.service.seen)
    assert stage.ask(next(clients), target="/" + "a" * 9000)[0] >= 400  # Weir cannot decide by such a path
    assert len(stage.service.seen) == before


def browsers_of_visitors_are_limited_like_others(stage):
    """A proxy forwards the browser's Host and Sec-Fetch headers to /v1/authorize."""
    client = next(clients)
    for i in range(20):
        headers = [("Origin", "https://other.example"), ("Sec-Fetch-Site", ("cross-site", "same-site")[i % 2]), ("Sec-Fetch-Mode", "cors")]
        assert stage.ask(client, "POST" if i % 3 else "GET", f"/page/{i}", headers)[0] == 200
    check_told(stage.ask(client, headers=[("Origin", "https://other.example"), ("Sec-Fetch-Site", "cross-site")]), "per-client")


CHECKS = [clients_are_limited, browsers_of_visitors_are_limited_like_others, nothing_that_a_client_says_helps, what_a_request_is_cannot_be_spoofed, keys_are_limited,
          chains_lead_to_the_client, what_no_limit_applies_to_reaches_the_service, what_is_exempt_is_what_the_service_sees,
          what_the_service_refuses_is_its_own, large_requests_are_answered]


def without_weir(stage, status, opened, *open_changes):
    """Without Weir all requests are denied, or allowed with the change that the configuration's comments describe."""
    assert stage.weir.end() == 0
    before = len(stage.service.seen)
    got = stage.ask(next(clients))[0]
    assert got == status and len(stage.service.seen) == before, (got, status)
    stage.stop_proxy()
    stage.more_changes = open_changes
    stage.start_proxy()
    for method, body in (("GET", None), ("POST", b"three")):
        got, _, text = stage.ask(next(clients), method, body=body)
        assert (got, text) == (200, b"ok " + (body or b"")), (got, text)
    assert len(stage.service.seen) == before + 2
    if opened:
        opened(stage)


def still_limits(stage):
    """The change that fails open does not allow everything while Weir runs."""
    stage.weir.start()
    end = time.monotonic() + TIMEOUT_S
    while "ratelimit" not in stage.ask(next(clients))[1]:
        assert time.monotonic() < end, "Weir is not asked again"
        time.sleep(0.02)
    client = next(clients)
    for _ in range(20):
        assert stage.ask(client)[0] == 200
    check_told(stage.ask(client), "per-client")


WITHOUT = {
    nginx: (500, ("            # error_page 500", "            error_page 500")),
    caddy: (502, ("\t# handle_errors", "\thandle_errors"), ("\t#\t", "\t"), ("\t# }", "\t}")),
    haproxy: (503, ("    http-request return", "    # http-request return")),
}


def stopped(configure):
    """If Weir does not respond, the proxy acts as if Weir were down."""
    status, *open_changes = STOPPED[configure]
    with staged(configure, AS_IT_IS) as stage:
        stage.weir.process.send_signal(signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, stage.weir.process.pid, os.WSTOPPED)  # all its threads
            got = stage.ask(next(clients))[0]
            assert got == status and not stage.service.seen, (got, stage.service.seen)
            if not open_changes:
                return
            stage.stop_proxy()
            stage.more_changes = [AS_IT_IS, *open_changes]
            stage.start_proxy()
            for method, body in (("GET", None), ("POST", b"three")):
                got, _, text = stage.ask(next(clients), method, body=body)
                assert (got, text) == (200, b"ok " + (body or b"")), (got, text)
        finally:
            stage.weir.process.send_signal(signal.SIGCONT)


STOPPED = {nginx: WITHOUT[nginx], caddy: (504, *WITHOUT[caddy][1:]), caddy_in_short: (504,), haproxy: WITHOUT[haproxy]}


def hold(stage, checks):
    for check in checks:
        try:
            stage.service.seen.clear()
            check(stage)
        except (AssertionError, OSError, KeyError, ValueError) as fault:
            raise AssertionError(f"{check.__name__}: {type(fault).__name__}: {fault}") from fault


def works(configure):
    with staged(configure) as stage:
        hold(stage, CHECKS)
        status, *changes = WITHOUT[configure]
        without_weir(stage, status, still_limits, *changes)
        return f"{len(CHECKS)} checks, and without Weir"


def works_in_short():
    """Allowed clients do not see RateLimit headers; everything else is the same."""
    checks = [check for check in CHECKS
              if check not in (clients_are_limited, what_is_exempt_is_what_the_service_sees)]
    with staged(caddy_in_short) as stage:
        hold(stage, checks)
        return f"{len(checks)} checks"


def refuses_by_itself():
    """A 403 of nginx itself is not a denial by Weir."""
    with staged(nginx, ("            auth_request /weir;\n", "            deny 127.9.9.9;\n            auth_request /weir;\n")) as stage:
        status, headers, _ = stage.ask("127.9.9.9")
        assert status == 403 and "retry-after" not in headers, (status, headers)
        assert stage.ask(next(clients))[0] == 200


TOKEN = "a-token-of-a-test"
def connections_to_weir(stage):
    """Connections without the one of this request."""
    with urllib.request.urlopen(f"http://127.0.0.1:{stage.weir_port}/metrics", timeout=TIMEOUT_S) as page:
        return int(re.search(r'^rate_limiter_connections\{protocol="http"\} (\d+)', page.read().decode(), re.MULTILINE)[1]) - 1


def keeps_its_connection():
    """The connection to Weir, whether Weir allows or denies."""
    with staged(nginx) as stage:
        client = next(clients)
        assert [stage.ask(client)[0] for _ in range(20)] == [200] * 20 and connections_to_weir(stage) == 1
        check_told(stage.ask(client), "per-client")
        assert connections_to_weir(stage) == 1


USERS = f"users:\n  proxy:\n    token: {TOKEN}\n"

# What a client gets while the proxy has no token, and how the proxy gets one.
WITH_TOKEN = {
    nginx: (401, ('            proxy_set_header Connection        "";\n',
                  f'            proxy_set_header Connection        "";\nproxy_set_header Authorization "Bearer {TOKEN}";\n')),
    caddy: (401, ("\t\t\theader_up -X-Original-*\n",
                  f'\t\t\theader_up -X-Original-*\nheader_up Authorization "Bearer {TOKEN}"\n')),
    haproxy: (401, ('\t\t["x-forwarded-method"]', f'\t\t["authorization"] = {{ "Bearer {TOKEN}" }},\n\t\t["x-forwarded-method"]')),
}


def says_who_it_is(configure):
    """The token is the proxy's. The client's own Authorization goes to the service and does not authenticate it to
    Weir."""
    status, change = WITH_TOKEN[configure]
    own = [("Authorization", "Basic dXNlcjpwYXNzd29yZA==")]
    with staged(configure, users=USERS) as stage:
        assert stage.ask(next(clients), headers=own)[0] == status
        stage.stop_proxy()
        stage.more_changes = [change]
        stage.start_proxy()
        client = next(clients)
        for _ in range(20):
            assert stage.ask(client, headers=own)[0] == 200
        assert stage.service.seen[-1][2].get_all("Authorization") == [own[0][1]], stage.service.seen[-1]
        check_told(stage.ask(client, headers=own), "per-client")


def smooths(configure):
    """15 requests at once reach the service one by one, at the limit's rate."""
    policy = "limits:\n  - {name: smooth, key: [ip], limit: 50/s leaky queue 20, wait: 20s}\n"
    with staged(configure, policy=policy) as stage:
        since, arrivals = crowd(stage.port, next(clients), 15)
        check_smooth(since, arrivals, 20 * 10**6)
        check_smooth(since, stage.service.seen_at, 20 * 10**6)
        assert len(stage.service.seen_at) == 15, len(stage.service.seen_at)


def main():
    tests = [(configure.__name__, lambda configure=configure: works(configure)) for configure in WITHOUT]
    tests += [(f"{configure.__name__} smooths", lambda configure=configure: smooths(configure)) for configure in STOPPED]
    tests += [(f"{configure.__name__}, with Weir stopped", lambda configure=configure: stopped(configure))
              for configure in STOPPED]
    tests += [("nginx, with a deny of its own", refuses_by_itself), ("nginx keeps its connection", keeps_its_connection), ("caddy, in its short form", works_in_short)]
    tests += [(f"{configure.__name__}, with a token", lambda configure=configure: says_who_it_is(configure))
              for configure in WITH_TOKEN]
    tests += [(f"{configure.__name__}, with a template", lambda configure=configure: templates_are_passed_on(configure))
              for configure in WITHOUT]
    return run(tests)


if __name__ == "__main__":
    sys.exit(main())
