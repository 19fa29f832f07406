#!/usr/bin/env python3
"""HTTP/2: the HTTP API with curl and nghttp, many streams, windows, floods, and the end of a connection.

    http2_test.py WEIR plain|sanitized [--full]

With --full, floods are long, and other clients must be served nearly as fast as without them: their p99, measured by wrk, is at
most twice as long as on a server without floods. Both servers are measured in turn while the flood runs, which needs a
processor itself. The best of several tries counts, because other programs on the machine only add latency.

    http2_test.py WEIR plain --attack NAME HOST:PORT

sends one kind of flood again and again, on new connections."""
# Covers: src/server/h2/h2_connection.c, src/server/http/http_connection.c

import contextlib
import http.client
import itertools
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import h2_frames as h2  # noqa: E402
from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import until  # noqa: E402

WEIR = sys.argv[1]
IS_FULL = "--full" in sys.argv
# By which a flood may make the server grow. AddressSanitizer keeps freed memory.
MOST_KIB = 10 * 1024 if sys.argv[2] == "plain" else 1024 * 1024
TRIES_LEAST, TRIES_MOST, TRY_S, SLOWER_MOST = 5, 30, 1, 2
POLICY = """limits:
  - {name: per-user, key: user, limit: 1000/day fixed_window}
  - {name: shaped, key: slow, limit: 10/s leaky_bucket queue 50, match: {slow: {present: true}}}
"""


@contextlib.contextmanager
def serving(*options, **more):
    with tempfile.TemporaryDirectory(prefix="weir-http2-") as folder:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(POLICY)
        with daemon(WEIR, "--keys", "10000", "--workers", "1", "--policy", path, *options, http="127.0.0.1:0", **more) as one:
            yield one


def curl(one, path, *options):
    """(status, version, headers, body)"""
    got = subprocess.run(["curl", "-sS", "--max-time", str(TIMEOUT_S), "--http2-prior-knowledge", "-i", *options, f"http://{one.http_at}{path}"],
                         capture_output=True, timeout=2 * TIMEOUT_S, check=True).stdout
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    version, status = first.split()[:2]
    return int(status), version, dict(line.split(": ", 1) for line in lines), body


def ask(one, method, path, body=None, **headers):
    client = http.client.HTTPConnection(one.http_at, timeout=TIMEOUT_S)
    client.request(method, path, body, headers)
    response = client.getresponse()
    found = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    client.close()
    return found


def metric(one, name):
    return float(re.search(re.escape(name) + r" ([0-9.e+]+)\n", ask(one, "GET", "/metrics")[2].decode())[1])


def the_same_api():
    """Status, body and headers are those of HTTP/1.1, but for what connections have."""
    rows = [("GET", "/healthz"), ("GET", "/v1/limits"), ("GET", "/v1/check?user=a%20b"), ("GET", "/nothing"), ("POST", "/healthz"),
            ("HEAD", "/v1/limits"), ("GET", "/openapi.json"), ("GET", "/"), ("DELETE", "/v1/keys/per-user/ann"), ("GET", "/v1/check?user=%zz"),
            ("POST", "/v1/take", '{"key": "k", "limit": "5/day fixed_window"}'), ("POST", "/v1/take", "{"), ("PUT", "/v1/policy", "limits: 7"),
            ("POST", "/v1/check", json.dumps([{"attributes": {"user": f"u{i}"}} for i in range(1000)]))]
    with serving() as one, serving() as other:
        for method, path, *body in rows:
            kind = ["-H", "Content-Type: application/json"] if body else []
            options = ["--head"] if method == "HEAD" else ["-X", method]
            status, version, headers, text = curl(one, path, *options, *kind, *(["-d", body[0]] if body else []))
            first = ask(other, method, path, *body, **({"Content-Type": "application/json"} if body else {}))
            text, first_text = (re.sub(rb'(?<="reset_after_ns":)[0-9]+', b"N", each) for each in (text, first[2]))
            assert version == "HTTP/2" and (status, text) == (first[0], first_text), (method, path, status, first[0], text[:300], first[2][:300])
            for name in ("date", "connection", "retry-after", "ratelimit"):
                headers.pop(name, None)
                first[1].pop(name, None)
            assert headers == first[1], (method, path, headers, first[1])


def many_streams_at_once():
    """h2load: 20 connections with 50 streams each. Every request is counted once."""
    with serving() as one:
        for path, n in (("/v1/check?user=ann", 2000), ("/v1/limits", 2000)):
            said = subprocess.run(["h2load", "-c", "20", "-m", "50", "-n", str(n), f"http://{one.http_at}{path}"], capture_output=True,
                                  text=True, timeout=TIMEOUT_S, check=True).stdout
            assert f"{n} total, {n} started, {n} done" in said and " 0 errored, 0 timeout" in said, said
            if "check" in path:
                assert "1000 2xx, 0 3xx, 1000 4xx" in said, said
        assert metric(one, 'rate_limiter_responses_total{protocol="http2"}') == 4000


def slow_requests_do_not_hold_others_back():
    """A check that waits for its departure, and a later stream that is served at once."""
    with serving() as one:
        for _ in range(2):
            ask(one, "GET", "/v1/check?slow=1")
        raw = h2.Connection(one.http_at)
        raw.send(h2.headers(1, path="/v1/check?slow=1&wait=5s") + h2.headers(3))
        order = []
        while len(order) < 2:
            kind, flags, stream, _ = raw.read()
            if stream and kind == h2.DATA and flags & h2.END_STREAM:
                order.append(stream)
        assert order == [3, 1], order
        # a stream that is reset while it waits departs no more
        raw.send(h2.headers(5, path="/v1/check?slow=1&wait=5s") + h2.headers(7, path="/healthz"))
        assert raw.body(7) == b"ok\n"
        raw.send(h2.reset(5) + h2.headers(9))
        assert raw.body(9) == b"ok\n"
        until(lambda: metric(one, "rate_limiter_requests_waiting") == 0, "nobody waits")
        raw.close()


def a_store_that_answers_later():
    with redis() as store, serving("--store", store.url, "--store_budget", "10s") as one:
        said = subprocess.run(["h2load", "-c", "4", "-m", "100", "-n", "2000", f"http://{one.http_at}/v1/check?user=ann"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
        assert "1000 2xx, 0 3xx, 1000 4xx" in said, said
        raw = h2.Connection(one.http_at)
        raw.send(b"".join(h2.headers(number, path="/v1/check?user=bob") + (h2.reset(number) if number % 4 == 1 else b"")
                          for number in range(1, 81, 2)))
        assert raw.body(79) is not None
        raw.close()
        assert json.loads(ask(one, "GET", "/v1/check?user=bob")[2])["remaining"] == 1000 - 20 - 1, "only requests that were not reset"


def small_windows_hold_bodies_back():
    """A body is sent as the client widens its windows. Meanwhile the server holds only that."""
    with serving() as one:
        raw = h2.Connection(one.http_at, (4, 0))
        raw.send(h2.headers(1, path="/openapi.json"))
        assert raw.until(h2.HEADERS, 1)
        raw.send(h2.frame(h2.PING, payload=b"12345678"))
        assert raw.until(h2.PING), "no DATA before"
        got = b""
        for by in (1, 10, 1000, 30000, 2**20):
            raw.send(h2.window(1, by) + h2.window(0, by))
            while len(got) < by:
                kind, flags, _, payload = raw.read()
                if kind != h2.DATA:
                    continue
                got += payload
                if flags & h2.END_STREAM:
                    break
        assert json.loads(got)["openapi"].startswith("3.1")
        raw.close()


def users_over_http2():
    with tempfile.TemporaryDirectory(prefix="weir-http2-") as folder:
        config = os.path.join(folder, "weir.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write("users:\n  ann: {password: p, token: a-token, role: decide}\n")
        with serving("--config", config) as one:
            assert curl(one, "/v1/check?user=x")[0] == 401
            assert curl(one, "/v1/check?user=x", "-H", "Authorization: Bearer a-token")[0] == 200
            assert curl(one, "/v1/policy", "-H", "Authorization: Bearer a-token")[0] == 403
            page = ask(one, "GET", "/metrics", Authorization="Bearer a-token")
            assert page[0] == 403


def the_end_of_the_server():
    """GOAWAY, and the response to what was asked before."""
    with serving() as one:
        raw = h2.Connection(one.http_at)
        raw.send(h2.headers(1))
        assert raw.body(1) == b"ok\n"
        assert one.end() == 0
        goaway = raw.until(h2.GOAWAY)
        assert goaway and struct.unpack(">II", goaway[3][:8]) == (1, 0), goaway
        assert raw.read() is None
        raw.close()


def a_preface_in_pieces():
    with serving() as one:
        raw = h2.Connection.__new__(h2.Connection)
        raw.__dict__.update(input=b"", is_over=False, socket=one_socket(one))
        everything = h2.PREFACE + h2.settings() + h2.headers(1)
        for at in range(len(everything)):
            raw.send(everything[at:at + 1])
        assert raw.body(1) == b"ok\n"
        raw.close()
        raw = h2.Connection.__new__(h2.Connection)
        raw.__dict__.update(input=b"", is_over=False, socket=one_socket(one))
        raw.send(b"PRI * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw.socket.recv(1000).startswith(b"HTTP/1.1 505 ")
        raw.close()


def one_socket(one):
    import socket
    host, _, port = one.http_at.rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def late_requests():
    """A request that stays incomplete is closed after header_time, and so is a connection that sends only pings."""
    with serving("--header-time", "200ms") as one:
        raw = h2.Connection(one.http_at)
        raw.send(h2.headers(1) + h2.headers(3, h2.END_HEADERS, method="POST", path="/v1/take"))
        assert raw.body(1) == b"ok\n"
        assert raw.until(h2.GOAWAY)[3][4:8] == struct.pack(">I", h2.ENHANCE_YOUR_CALM)
        raw.close()
        raw = h2.Connection(one.http_at)
        assert raw.until(h2.GOAWAY)[3][:8] == bytes(8), "no stream, and no error: the client may connect again"
        raw.close()
        raw = h2.Connection(one.http_at)
        raw.send(h2.headers(1, h2.END_HEADERS, method="POST", path="/v1/take"))
        assert raw.until(h2.GOAWAY)[3][4:8] == struct.pack(">I", h2.ENHANCE_YOUR_CALM)
        raw.close()
        assert metric(one, 'rate_limiter_connections_closed_total{reason="late"}') == 3


# --- floods -------------------------------------------------------------------------------------------------------


def flood(one, pieces, *pairs):
    """Sends pieces until the server closes. Meanwhile another client is served. Returns how many were sent."""
    before = one.rss_kib()
    raw = h2.Connection(one.http_at, *pairs)
    n = 0
    for piece in pieces:
        if not raw.send(piece):
            break
        n += 1
        if n % 64 == 0:
            assert ask(one, "GET", "/healthz")[0] == 200
    grown = one.rss_kib() - before
    raw.socket.settimeout(TIMEOUT_S)
    goaway = None
    while (got := raw.read()) is not None:
        if got[0] == h2.GOAWAY:
            goaway = got
    raw.close()
    assert ask(one, "GET", "/healthz")[0] == 200
    assert grown < MOST_KIB, f"the server grew by {grown} KiB"
    return n, goaway and struct.unpack(">I", goaway[3][4:8])[0]


MANY = 100_000 if IS_FULL else 3000


def rapid_reset():
    for number in range(1, 2 * MANY, 2):
        yield h2.headers(number) + h2.reset(number)


def made_you_reset():
    for number in range(1, 2 * MANY, 2):
        yield h2.headers(number, path="/v1/limits") + h2.window(number, 2**31 - 1)


def continuation():
    yield h2.headers(1, 0)
    for _ in range(MANY):
        yield h2.frame(h2.CONTINUATION, 0, 1, h2.literal("x-a", "b" * 100))


def hpack_bomb():
    """One large entry in the table, and references to it."""
    big = b"\x40\x03x-a" + b"\x7f" + bytes([0x80 | (3900 - 127) & 127, (3900 - 127) >> 7]) + b"b" * 3900
    yield h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, 1, h2.block() + big)
    for number in range(3, 2 * MANY, 2):
        yield h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, number, h2.block() + b"\xbe" * 16000)


def hpack_references():
    """Requests of 30 bytes whose headers are 27 KB: too long, but each below the bound of a block."""
    big = b"\x40\x03x-a" + b"\x7f" + bytes([0x80 | (3900 - 127) & 127, (3900 - 127) >> 7]) + b"b" * 3900
    yield h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, 1, h2.block() + big)
    for number in range(3, 2 * MANY, 2):
        yield h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, number, b"\x82\x84\x86\x01\x01h" + b"\xbe" * 7)


def incomplete(n, body=b""):
    return (h2.headers(2 * i + 1, h2.END_HEADERS, method="POST", path="/v1/take") +
            b"".join(h2.frame(h2.DATA, 0, 2 * i + 1, body) for _ in range(4) if body) for i in range(n))


def empty_data():
    yield h2.headers(1, h2.END_HEADERS, method="POST", path="/v1/take")
    for _ in range(MANY):
        yield h2.frame(h2.DATA, 0, 1)


def of_an_ended_stream(piece):
    """nghttp2 reads these frames, and ignores them."""
    yield h2.headers(1) + h2.reset(1)
    for _ in range(MANY):
        yield piece


def padded_data():
    """Frames that carry padding, and no data."""
    yield h2.headers(1, h2.END_HEADERS, method="POST", path="/v1/take")
    for _ in range(MANY):
        yield h2.frame(h2.DATA, h2.PADDED, 1, bytes([199]) + bytes(199))


# Name, what is sent, settings of the client, reason in the metric or None: its requests are late.
FLOODS = [
    ("rapid reset", rapid_reset, (), "flood"),
    ("made you reset", made_you_reset, ((4, 2**31 - 1),), "flood"),
    ("CONTINUATION", continuation, (), "flood"),
    ("PING", lambda: (h2.frame(h2.PING, payload=b"12345678") for _ in range(MANY)), (), "flood"),
    ("SETTINGS", lambda: (h2.settings((4, 1000)) for _ in range(MANY)), (), "flood"),
    ("PRIORITY", lambda: (h2.frame(h2.PRIORITY, 0, 2 * n + 1, b"\0\0\0\0\x10") for n in range(MANY)), (), "flood"),
    ("empty DATA", empty_data, (), "flood"),
    ("padded DATA", padded_data, (), "flood"),
    ("DATA of an ended stream", lambda: of_an_ended_stream(h2.frame(h2.DATA, h2.END_STREAM, 1, b"x")), (), "flood"),
    ("HEADERS of an ended stream", lambda: of_an_ended_stream(h2.headers(1)), (), "flood"),
    ("HPACK bomb of an ended stream",
     lambda: of_an_ended_stream(h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, 1, b"\x82" * 16000)), (), "flood"),
    ("ACKs of PING", lambda: (h2.frame(h2.PING, h2.ACK, 0, b"12345678") for _ in range(MANY)), (), "flood"),
    ("HPACK bomb", hpack_bomb, (), "flood"),
    ("HPACK references", hpack_references, (), "flood"),
    ("streams", lambda: incomplete(MANY), (), None),
    ("bodies", lambda: incomplete(128, b"x" * 16384), (), None),
    ("zero windows", lambda: (h2.headers(2 * n + 1, path="/openapi.json") for n in range(MANY)), ((4, 0),), None),
]


def floods():
    told = []
    with serving("--header-time", "1s") as one:
        for name, pieces, pairs, reason in FLOODS:
            before = metric(one, 'rate_limiter_connections_closed_total{reason="flood"}')
            try:
                n, code = flood(one, pieces(), *pairs)
            except AssertionError as fault:
                raise AssertionError(f"{name}: {fault}") from None
            after = metric(one, 'rate_limiter_connections_closed_total{reason="flood"}')
            assert reason is None or after == before + 1, (name, before, after, n, code)
            told.append(f"{name} {n}")
    return ", ".join(told)


def zero_windows():
    """Bodies that the client never reads take memory for header_time at most."""
    with serving("--header-time", "1s") as one:
        before = one.rss_kib()
        clients = []
        for _ in range(20):
            raw = h2.Connection(one.http_at, (4, 0))
            raw.send(b"".join(h2.headers(number, path="/openapi.json") for number in range(1, 9, 2)))
            clients.append(raw)
        for raw in clients:
            assert raw.until(h2.GOAWAY) is not None
            raw.close()
        until(lambda: metric(one, "rate_limiter_client_memory_bytes") < 100000, "its memory is free again")
        return f"{one.rss_kib() - before} KiB"


def windows_that_open_slowly():
    """A client must take 1 KiB a second, on average over header_time."""
    with serving("--header-time", "1s") as one:
        raw = h2.Connection(one.http_at, (4, 0))
        raw.send(h2.headers(1, path="/openapi.json"))
        for _ in range(20):
            raw.send(h2.window(1, 512) + h2.window(0, 512))
            assert raw.until(h2.DATA), "it is read fast enough"
            time.sleep(0.1)
        raw.socket.settimeout(0.05)
        for _ in range(400):
            raw.send(h2.window(1, 1) + h2.window(0, 1))
            with contextlib.suppress(TimeoutError):
                if raw.until(h2.GOAWAY) or raw.is_over:
                    break
        else:
            raise AssertionError("a byte now and then holds the response")
        raw.close()
        assert metric(one, 'rate_limiter_connections_closed_total{reason="late"}') == 1


def windows_that_open_often():
    """As Go's client does, which opens both windows for each 4 KiB."""
    with serving() as one:
        raw = h2.Connection(one.http_at)
        for number in range(1, 401, 2):
            raw.send(h2.headers(number, path="/openapi.json"))
            taken = 0
            while (got := raw.read()) is not None and not (got[0] == h2.DATA and got[1] & h2.END_STREAM):
                taken += len(got[3]) if got[0] == h2.DATA else 0
                raw.send((h2.window(number, 4096) + h2.window(0, 4096)) * (taken // 4096))
                taken %= 4096
            assert got, f"response {number // 2}: the server has closed"
            raw.send(h2.window(0, taken + len(got[3])))
        raw.close()
        assert metric(one, 'rate_limiter_connections_closed_total{reason="flood"}') == 0


def requests_that_begin_do_not_hold_a_response():
    """A client that takes nothing is closed, although the oldest incomplete request is always a new one."""
    with serving("--header-time", "1s") as one:
        raw = h2.Connection(one.http_at, (4, 0))
        raw.send(h2.headers(1, path="/openapi.json"))
        raw.socket.settimeout(0.05)
        for number in range(3, 403, 2):
            raw.send(h2.headers(number, h2.END_HEADERS, method="POST", path="/v1/take")
                     + (h2.reset(number - 2) if number > 3 else b""))
            with contextlib.suppress(TimeoutError):
                if raw.until(h2.GOAWAY) or raw.is_over:
                    break
        else:
            raise AssertionError("new requests hold the response")
        raw.close()
        assert metric(one, 'rate_limiter_connections_closed_total{reason="late"}') == 1


def responses_that_are_not_read():
    """128 streams with closed windows: requests wait for the client, and are served as it reads."""
    n, path = h2.STREAMS_MAX, "/openapi.json"
    with serving() as one:
        length = len(ask(one, "GET", path)[2])
        raw = h2.Connection(one.http_at, (4, 0))
        before = metric(one, "rate_limiter_client_memory_bytes")
        raw.send(b"".join(h2.headers(2 * i + 1, path=path) for i in range(n)) + h2.frame(h2.PING, payload=b"12345678"))
        assert raw.until(h2.PING)
        until(lambda: metric(one, 'rate_limiter_responses_total{protocol="http2"}') > 1000000 // length, "the first requests are served")
        held = metric(one, "rate_limiter_client_memory_bytes") - before
        assert 1000000 < held < 3000000 < n * length, (held, n * length)
        raw.send(h2.window(0, 2**30) + b"".join(h2.window(2 * i + 1, 2**30) for i in range(n)))
        got = [0] * n
        while sum(got) < n * length:
            kind, _, stream, payload = raw.read()
            if kind == h2.DATA:
                got[stream // 2] += len(payload)
        assert got == [length] * n
        raw.close()
        return f"{held / 1024:.0f} KiB"


# --- others during a flood ----------------------------------------------------------------------------------------


def attack(name, address):
    """Each connection sends as much as the server takes, 256 KiB at a time, until the server closes it."""
    _, pieces, pairs, _ = next(row for row in FLOODS if row[0] == name)
    everything = b"".join(itertools.islice(pieces(), 20000))
    while True:
        raw = h2.Connection(address, *pairs, timeout_s=1)
        for at in range(0, len(everything), 1 << 18):
            if not raw.send(everything[at:at + (1 << 18)]):
                break
        with contextlib.suppress(TimeoutError):
            raw.until(h2.GOAWAY)
        raw.close()


@contextlib.contextmanager
def attacked(name, one):
    process = subprocess.Popen(["nice", "-n", "19", sys.executable, os.path.abspath(__file__), WEIR, "plain", "--attack", name, one.http_at],
                               stdin=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "the attack has ended"
    finally:
        process.kill()
        process.wait(TIMEOUT_S)


def p99_ms(one):
    out = subprocess.run(["wrk", "-t", "1", "-c", "10", "-d", f"{TRY_S}s", "--latency", f"http://{one.http_at}/v1/check?other=1"],
                         capture_output=True, text=True, check=True).stdout
    assert "Socket errors" not in out and "Non-2xx" not in out, out
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def others_are_served_fast():
    told = []
    for name, *_ in FLOODS:
        with serving("--header-time", "1s") as one, serving("--header-time", "1s") as calm, attacked(name, one):
            tries = []
            while len(tries) < TRIES_LEAST or (slow > SLOWER_MOST * usual and len(tries) < TRIES_MOST):
                tries.append((p99_ms(one), p99_ms(calm)))
                slow, usual = (min(column) for column in zip(*tries))
            told.append(f"{name} {slow:.3f} ms, {usual:.3f} ms without it")
            assert slow <= SLOWER_MOST * usual, told[-1]
    return "p99: " + "; ".join(told)


if "--attack" in sys.argv:
    attack(*sys.argv[-2:])
sys.exit(run([
    ("the same API", the_same_api),
    ("many streams at once", many_streams_at_once),
    ("slow requests do not hold others back", slow_requests_do_not_hold_others_back),
    ("a store that answers later", a_store_that_answers_later),
    ("small windows hold bodies back", small_windows_hold_bodies_back),
    ("users over HTTP/2", users_over_http2),
    ("the end of the server", the_end_of_the_server),
    ("a preface in pieces", a_preface_in_pieces),
    ("late requests", late_requests),
    ("floods", floods),
    ("zero windows", zero_windows),
    ("windows that open slowly", windows_that_open_slowly),
    ("windows that open often", windows_that_open_often),
    ("requests that begin do not hold a response", requests_that_begin_do_not_hold_a_response),
    ("responses that are not read", responses_that_are_not_read),
    *([("others are served fast", others_are_served_fast)] if IS_FULL else []),
]))
