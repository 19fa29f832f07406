#!/usr/bin/env python3
"""Clients that cost memory: many that send pipelines and read nothing, or read slowly, with a token or without. The
server stays below its bound, closes the largest, counts that, and serves others meanwhile.

    memory_test.py WEIR plain|sanitized|thread [TEST...]

Memory is measured in plain builds only, because sanitizers keep freed memory."""
# Covers: src/server/worker_memory.c

import contextlib
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, daemon, receive, receive_all, run  # noqa: E402
from resp_client import Client  # noqa: E402

WEIR, IS_PLAIN = sys.argv[1], sys.argv[2] == "plain"
MIB = 1024 * 1024
BOUND = 4 * MIB  # the minimum of the setting
SLACK = 12 * MIB  # one reply that is being built, one block that grows, and the pages of the worker's own buffers
CLIENTS = 100 if IS_PLAIN else 40
LIMITS = 100

POLICY = "limits:\n" + "".join(
    f"  - {{name: limit-{i}, key: [user, ip], match: {{path: /{i}/{'x' * 1000}}}, limit: 1000000/day}}\n" for i in range(LIMITS))
USERS = "users:\n  web: {token: s3cret-of-web, role: admin, password: s3cret-of-web}\n"


def wait_until(holds, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.01)


@contextlib.contextmanager
def serving(*options, settings="", http="127.0.0.1:0", workers=1):
    """A server with a policy that makes replies long, and little memory for clients."""
    with tempfile.TemporaryDirectory(prefix="weir-memory-") as folder:
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(settings + POLICY)
        with daemon(WEIR, "--workers", str(workers), "--keys", "1000", "--client-memory", str(BOUND), "--config", config, *options,
                    http=http) as one:
            yield one


def connect_http(one):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # replies wait in the server, not in the kernel
    client.settimeout(TIMEOUT_S)
    client.connect(("127.0.0.1", int(one.http_at.rsplit(":", 1)[1])))
    return client


def get(path, token=None):
    return b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n" % (
        path.encode(), b"Authorization: Bearer %s\r\n" % token.encode() if token else b"")


def ask(one, path, token=None):
    """One response, over a new connection."""
    with connect_http(one) as client:
        client.sendall(get(path, token).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        return receive_all(client).decode()


def counts(one, token=None):
    page = ask(one, "/metrics", token).split("\r\n\r\n", 1)[1]
    return {name: int(value) for name, value in re.findall(r'^rate_limiter_connections_closed_total\{reason="(\w+)"\} (\d+)$', page, re.M)} | {
        "bytes": int(re.search(r"^rate_limiter_client_memory_bytes (\d+)$", page, re.M)[1])}


class Crowd:
    """Clients that send as many requests as the server accepts, and read `reads` bytes after each piece. The pieces are
    short, because after a long turn the server waits until its replies are read."""

    def __init__(self, clients, request, reads=0):
        self.pipeline, self.reads = request * 8, reads
        self.watch, self.open = selectors.DefaultSelector(), 0
        for client in clients:
            client.setblocking(False)
            self.watch.register(client, selectors.EVENT_WRITE)
            self.open += 1

    def push(self):
        """Sends one more piece from each client that can send. Returns whether any could."""
        ready = self.watch.select(0.01)
        for key, _ in ready:
            try:
                key.fileobj.send(self.pipeline)
                if self.reads:
                    with contextlib.suppress(BlockingIOError):
                        key.fileobj.recv(self.reads)
            except BlockingIOError:
                continue
            except OSError:
                self.watch.unregister(key.fileobj)
                key.fileobj.close()
                self.open -= 1
        return bool(ready)

    def close(self):
        for key in list(self.watch.get_map().values()):
            key.fileobj.close()
        self.watch.close()


def attack(one, clients, request, other, reads=0):
    """Pushes until no client can send, or enough was sent. Returns the largest growth of the server, the largest memory
    it counted, and how many clients are still open."""
    before, most, counted, idle, rounds = one.rss_kib(), 0, 0, 0, 0
    crowd = Crowd(clients, request, reads)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while idle < 20 and rounds < 100 and time.monotonic() < deadline:
            rss, memory = one.rss_kib() - before, int(other.info()["client_memory_bytes"])
            idle = 0 if crowd.push() or rss > most or memory > counted else idle + 1
            most, counted = max(most, rss), max(counted, memory)
            rounds += 1
            verdict = other.ask("WEIR.TAKE", "other", "1000000/5000day fixed_window")
            assert verdict[:3] == [1, 1000000, 1000000 - rounds], verdict
        return most * 1024, counted, crowd.open
    finally:
        crowd.close()


def bounded(one, connect, request, *, token=None, reads=0):
    """An attack by many clients costs no more than the bound, and the server closes some of them."""
    with Client(one) as other:
        if token:
            assert other.ask("AUTH", "web", token) == "OK"
        before = counts(one, token)
        clients = [connect() for _ in range(CLIENTS)]
        grown, counted, left = attack(one, clients, request, other, reads)
        now = counts(one, token)
        told = f"{grown // 1024} KiB, {counted // 1024} counted; {now['memory'] - before['memory']} closed, {left} left"
        assert not IS_PLAIN or grown <= BOUND + SLACK, told
        assert BOUND / 2 < counted <= BOUND, told
        info = other.info()
        assert int(info["clients_closed_memory"]) >= now["memory"], info
    wait_until(lambda: counts(one, token)["bytes"] == 0, lambda: f"{counts(one, token)} when all have gone")
    return now["memory"] - before["memory"], told


def trickling_readers_of_limits():
    with serving() as one:
        return bounded(one, lambda: connect_http(one), get("/v1/limits"), reads=1)[1]


def readers_of_metrics_who_never_read():
    with serving() as one:
        return bounded(one, lambda: connect_http(one), get("/metrics"))[1]


def pipelines_over_resp_that_are_never_read():
    """On Unix sockets replies wait in the server sooner, so back-pressure alone is not enough."""
    with serving() as one:
        closed, told = bounded(one, lambda: one.connect(by_path=True), bulks("COMMAND", "DOCS"))
        line = "client_memory: the clients of a worker used more than 4194304 bytes; closed one of the "
        wait_until(lambda: closed > 0 and line in one.said(), told)
        return told


def clients_that_wait_are_closed_with_their_requests():
    """Each client has unread replies, and after them a request that waits for a limit."""
    wait = bulks("WEIR.TAKE", "k", "1/day", 1, "WAIT", 86400000)
    with serving() as one, Client(one) as other, contextlib.ExitStack() as stack:
        assert other.ask("WEIR.TAKE", "k", "1/day")[0] == 1
        clients = []
        for _ in range(CLIENTS):
            clients.append(stack.enter_context(one.connect(by_path=True)))
            clients[-1].sendall(bulks("COMMAND", "DOCS") * 14)  # the kernel takes most of it; below 16, a turn is not cut short
            other.ask("PING")
            clients[-1].sendall(bulks("COMMAND", "DOCS") * 14 + wait)
        wait_until(lambda: int(other.info()["waiting_here"]) + closed(other, "memory") == CLIENTS, other.info)
        gone = closed(other, "memory")
        assert 0 < gone < CLIENTS, other.info()
        for client in clients:
            client.close()
        wait_until(lambda: (other.info()["waiting_here"], other.info()["client_memory_bytes"]) == ("0", "0"), other.info)
        assert closed(other, "memory") == gone
        return f"{gone} of {CLIENTS} closed"


# --- trickles ---------------------------------------------------------------------------------------------------------

def closed(other, why):
    return int(other.info()[f"clients_closed_{why}"])


def who_reads_a_byte_now_and_then_is_cut_off():
    with serving("--stall", "300ms") as one, Client(one) as other, one.connect(by_path=True) as slow:
        slow.sendall(bulks("COMMAND", "DOCS") * 100)
        deadline = time.monotonic() + TIMEOUT_S
        while closed(other, "slow_reader") == 0:
            assert slow.recv(1) and time.monotonic() < deadline
            time.sleep(0.02)
        wait_until(lambda: int(other.info()["client_memory_bytes"]) == 0, "it keeps memory")


def who_reads_steadily_is_not():
    """It takes several times `stall` until the kernel has room for more."""
    with serving("--stall", "500ms", "--client-memory", "64MiB") as one, Client(one) as other, one.connect() as steady:
        request = bulks("COMMAND", "DOCS")
        with one.connect() as client:
            client.sendall(request + bulks("QUIT"))
            reply = receive_all(client)[:-len("+OK\r\n")]
        n = 1 + 8 * MIB // len(reply)
        for _ in range(n):  # in pieces, so that all run before any is read
            steady.sendall(request)
            other.ask("PING")
        got = b""
        for _ in range(25):
            got += receive(steady, 64 * 1024)
            time.sleep(0.1)
        got += receive(steady, n * len(reply) - len(got))
        assert got == reply * n, len(got)
        assert closed(other, "slow_reader") == 0


def who_sends_a_byte_now_and_then_is_cut_off():
    with serving("--header-time", "300ms") as one, Client(one) as other, one.connect() as slow:
        slow.sendall(bulks("PING") + b"*2\r\n$4\r\nECHO\r\n$60000\r\n")
        slow.settimeout(0.02)
        got, deadline = b"", time.monotonic() + TIMEOUT_S
        while closed(other, "late") == 0:
            assert time.monotonic() < deadline, got
            with contextlib.suppress(TimeoutError):
                slow.sendall(b"x")
                got += slow.recv(1000)
        slow.settimeout(TIMEOUT_S)
        got += receive_all(slow)
        assert got.startswith(b"+PONG\r\n-ERR Protocol error: the request was not complete in time; "), got


def who_waits_for_the_server_is_not_late():
    """A request that waits for its limit is followed by an incomplete one. The server does not read then."""
    with serving("--header-time", "300ms") as one, one.connect() as client:
        take = bulks("WEIR.TAKE", "k", "1/s", 1, "WAIT", 60000)
        client.sendall(take * 3 + bulks("ECHO", "heron")[:-4])
        lines = client.makefile("rb")
        for _ in range(3):
            assert lines.readline() == b"*8\r\n"
            assert [lines.readline() for _ in range(8)][0] == b":1\r\n"
        client.sendall(bulks("ECHO", "heron")[-4:])
        assert lines.readline() + lines.readline() == b"$5\r\nheron\r\n"


# --- clients that have not authenticated -------------------------------------------------------------------------------

def strangers_cost_nothing():
    """Without a token there are no long replies. A client that does not read its errors is closed, over HTTP and
    RESP."""
    with serving(settings=USERS) as one, Client(one) as other:
        assert other.ask("AUTH", "web", "s3cret-of-web") == "OK"
        for path in ("/v1/limits", "/metrics", "/v1/live", "/v1/policy"):
            assert ask(one, path).startswith("HTTP/1.1 401 "), path
        before = one.rss_kib()
        for connect, request in ((connect_http, get("/v1/limits")), (connect_http, get("/openapi.json")), (connect_http, get("/")),
                                 (lambda one: one.connect(by_path=True), bulks("PING"))):
            for _ in range(20):
                with connect(one) as stranger:
                    stranger.sendall(request * 1000)
                    got = receive_all(stranger)
                    assert got.count(b"HTTP/1.1 ") < 10 and got.count(b"-NOAUTH") < 50, len(got)
        grown = (one.rss_kib() - before) * 1024
        assert not IS_PLAIN or grown < BOUND, grown
        assert closed(other, "unauthenticated") == 80, other.info()
        with connect_http(one) as client:
            client.sendall(get("/v1/limits", "s3cret-of-web") * 50 + get("/healthz").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert receive_all(client).count(b"HTTP/1.1 200 OK") == 51
        return f"{grown // 1024} KiB"


def strangers_may_not_send_bodies():
    head = "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}Content-Length: 100000\r\n\r\n"
    known = "Authorization: Bearer s3cret-of-web\r\n"
    with serving(settings=USERS) as one:
        for path, token, status in (("/v1/check", "", 401), ("/v1/check", "Expect: 100-continue\r\n", 401), ("/v1/nothing", "", 404),
                                    ("/healthz", "", 405), ("/v1/check", "Authorization: Bearer guess\r\n", 401),
                                    ("/v1/check", known + "Expect: 100-continue\r\n", 100)):
            with connect_http(one) as client:
                client.sendall(head.format(path, token).encode())
                got = receive(client, 12)
                assert got == f"HTTP/1.1 {status}".encode(), (path, token, got)
                if status != 100:
                    rest = receive_all(client).lower()
                    assert b"connection: close" in rest, rest
        with connect_http(one) as client:  # a client with a token may send it in pieces
            body = b'{"attributes": {"user": "ann", "ip": "192.0.2.1"}}'
            client.sendall(head.format("/v1/check", known + "Content-Type: application/json\r\n").replace("100000", str(len(body))).encode())
            for byte in body:
                client.sendall(bytes([byte]))
            assert receive(client, 12) == b"HTTP/1.1 200"


# --- connections of one address ---------------------------------------------------------------------------------------

HERE, THERE = "192.0.2.1", "192.0.2.2"
IN_NAMESPACE = "one_address_has_so_many_connections"


def connect_from(one, address):
    host, port = one.http_at.rsplit(":", 1)
    client = socket.create_connection((host, int(port)), TIMEOUT_S, (address, 0))
    client.sendall(get("/healthz"))
    return client


def is_served(client):
    with contextlib.suppress(ConnectionError):
        return receive(client, 15) == b"HTTP/1.1 200 OK"
    return False


def one_address_has_so_many_connections():
    """Runs in a network namespace whose loopback interface has two more addresses."""
    with serving("--connections-per-address", "5", settings=USERS, http=f"{HERE}:0", workers=2) as one, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect_from(one, THERE)) for _ in range(5)]
        assert all(is_served(client) for client in clients)
        for _ in range(3):
            with connect_from(one, THERE) as client:
                assert not is_served(client)
        with connect_from(one, HERE) as client:
            assert is_served(client)
        with Client(one) as other:  # from 127.0.0.1 and by Unix socket: exempt
            assert other.ask("AUTH", "web", "s3cret-of-web") == "OK"
            for _ in range(20):
                stack.enter_context(one.connect()).sendall(bulks("QUIT"))
                stack.enter_context(one.connect(by_path=True)).sendall(bulks("QUIT"))
            assert closed(other, "address") == 3
            refused = f"connections_per_address: refused a connection from {THERE}, which has reached the maximum"
            wait_until(lambda: refused in one.said(), "the refusal is not in the log")
            clients[0].close()
            wait_until(lambda: int(other.info()["connected_clients"]) == 1, "others are there")

            def comes_in():
                with connect_from(one, THERE) as client:
                    return is_served(client)
            wait_until(comes_in, "a closed connection makes no room")


def addresses_in_a_namespace():
    set_up = f"ip link set lo up && ip addr add {HERE}/32 dev lo && ip addr add {THERE}/32 dev lo"
    if subprocess.run(["unshare", "-rn", "sh", "-c", set_up], capture_output=True, check=False).returncode != 0:
        return "skipped: network namespaces are not permitted here; address_counts_test.c counts, too"
    result = subprocess.run(["unshare", "-rn", "sh", "-c", set_up + ' && exec "$0" "$@"', sys.executable, os.path.abspath(__file__),
                             *sys.argv[1:3], IN_NAMESPACE], capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False)
    assert result.returncode == 0 and result.stdout.startswith("ok "), result.stdout + result.stderr
    return ""


def requests_that_waited_leave_nothing():
    with serving() as one, Client(one) as other, Client(one) as client:
        client.send("WEIR.TAKE", "k", "10/s burst 1")
        client.send("WEIR.TAKE", "k", "10/s burst 1", 1, "WAIT", 60000)
        assert [client.read()[0], client.read()[0]] == [1, 1]
        wait_until(lambda: other.info()["client_memory_bytes"] == "0", lambda: other.info()["client_memory_bytes"])


OF_MEMORY = [trickling_readers_of_limits, readers_of_metrics_who_never_read]  # long, and single-threaded
TESTS = [*(OF_MEMORY if sys.argv[2] != "thread" else []), pipelines_over_resp_that_are_never_read,
         clients_that_wait_are_closed_with_their_requests, who_reads_a_byte_now_and_then_is_cut_off, who_reads_steadily_is_not, who_sends_a_byte_now_and_then_is_cut_off,
         who_waits_for_the_server_is_not_late, requests_that_waited_leave_nothing, strangers_cost_nothing, strangers_may_not_send_bodies, addresses_in_a_namespace]

if __name__ == "__main__":
    chosen = sys.argv[3:]
    tests = [one_address_has_so_many_connections] if chosen == [IN_NAMESPACE] else TESTS
    sys.exit(run([(test.__name__, test) for test in tests if not chosen or test.__name__ in chosen]))
