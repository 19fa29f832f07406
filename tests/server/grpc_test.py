#!/usr/bin/env python3
"""gRPC: Envoy's rate limit service and health, with grpcio and grpc-js as clients, and frame by frame.

    grpc_test.py WEIR [FOLDER]

FOLDER keeps npm downloads for the next run. Without it, and without a connection to npm, grpc-js is skipped."""
# Covers: src/engine/given_limits.c, src/server/h2/grpc.c, src/server/h2/grpc_health.c, src/server/h2/grpc_ratelimit.c

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

try:
    import grpc
except ImportError:  # python3-grpcio of Debian is for Debian's Python
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import h2_frames as h2  # noqa: E402
from daemon import TIMEOUT_S, Skipped, daemon, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import until  # noqa: E402
from tls_certificates import Authority  # noqa: E402
from rls_messages import (CHECK, DAY, MINUTE, OK, OVER_LIMIT, SHOULD_RATE_LIMIT, WATCH, WEEK, YEAR, Answer, descriptor,  # noqa: E402
                          fields, part, request)

WEIR = sys.argv[1]
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
POLICY = """domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 10}
  - key: big
    rate_limit: {unit: week, requests_per_unit: 100000}
  - key: free
    rate_limit: {unlimited: true}
  - key: shut
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: canary
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: quota
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: named
    rate_limit: {unit: year, requests_per_unit: 1, name: base}
  - key: vip
    rate_limit: {unit: year, requests_per_unit: 5, replaces: [{name: base}]}
"""
USERS = """users:
  envoy: {password: p, token: decide-token, role: decide}
  ops: {password: p, token: operate-token, roles: [decide, operate]}
"""


@contextlib.contextmanager
def serving(*options, store="table", policy=POLICY, users=None):
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-grpc-"))
        if policy:
            with open(os.path.join(folder, "policy.yaml"), "w", encoding="utf-8") as file:
                file.write(policy)
            options = ("--policy", os.path.join(folder, "policy.yaml"), *options)
        if users:
            with open(os.path.join(folder, "weir.yaml"), "w", encoding="ascii") as file:
                file.write(users)
            options = ("--config", os.path.join(folder, "weir.yaml"), *options)
        if store == "redis":
            options = ("--store", stack.enter_context(redis()).url, "--store_budget", "10s", *options)
        one = stack.enter_context(daemon(WEIR, "--keys", "10000", "--workers", "1", *options, http="127.0.0.1:0"))
        yield one


class Client:
    def __init__(self, where, token=None, **options):
        self.channel = grpc.insecure_channel(where, options=[(f"grpc.{name}", value) for name, value in options.items()])
        self.metadata = [("authorization", f"Bearer {token}")] if token else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def call(self, method, message, **more):
        try:
            return self.try_to_call(method, message, **more)
        except grpc.RpcError as fault:
            raise AssertionError(f"{fault.code().name}: {fault.details()}") from None

    def try_to_call(self, method, message, **more):
        return self.channel.unary_unary(method)(message, timeout=TIMEOUT_S, metadata=self.metadata, wait_for_ready=True, **more)

    def ask(self, *descriptors, hits=0, domain="shop"):
        return Answer(self.call(SHOULD_RATE_LIMIT, request(domain, *descriptors, hits=hits)))

    def error(self, method, message, **more):
        try:
            found = self.try_to_call(method, message, **more)
        except grpc.RpcError as fault:
            return fault.code().name, fault.details()
        raise AssertionError(f"no error, but {found}")


def metric(one, name):
    client = http.client.HTTPConnection(one.http_at, timeout=TIMEOUT_S)
    client.request("GET", "/metrics")
    page = client.getresponse().read().decode()
    client.close()
    return float(re.search(re.escape(name) + r" ([0-9.e+]+)\n", page)[1])


def healthcheck(one):
    client = http.client.HTTPConnection(one.http_at, timeout=TIMEOUT_S)
    client.request("GET", "/healthcheck")
    status = client.getresponse().status
    client.close()
    return status


def statuses_of_descriptors(store):
    with serving(store=store) as one, Client(one.http_at) as client:
        answer = client.ask(descriptor("user=ann"), descriptor("big=1"), descriptor("free=1"), descriptor("nothing=1"), hits=3)
        assert answer.codes == [OK] * 5, answer.codes
        (code, limit, unit, left, reset), big, free, nothing = answer.statuses
        assert (code, limit, unit, left) == (OK, 10, YEAR, 7) and 0 < reset <= 365 * 86400, answer.statuses
        assert big[:4] == (OK, 100000, WEEK, 99997) and 0 < big[4] <= 7 * 86400, big
        assert free == (OK, None, None, 2**32 - 1, None) and nothing == (OK, None, None, 0, None), answer.statuses
        assert client.ask(descriptor("shut=1")).codes == [OVER_LIMIT] * 2
        assert client.ask(descriptor("user=ann"), domain="other").codes == [OK, OK]
        assert (answer.headers, answer.metadata) == ({}, None)


def each_descriptor_counts_by_default(store):
    """As in Envoy's service, a denied request is charged. So an addend above what is left makes a token cap bind."""
    with serving(store=store) as one, Client(one.http_at) as client:
        assert client.ask(descriptor("user=ann", hits=6)).remaining == [4]
        answer = client.ask(descriptor("user=ann", hits=100), descriptor("user=bob"))
        assert answer.codes == [OVER_LIMIT, OVER_LIMIT, OK] and answer.remaining == [0, 9], answer.statuses
        assert client.ask(descriptor("user=ann")).code == OVER_LIMIT
    with serving("--envoy-counts", "together", store=store) as one, Client(one.http_at) as client:
        assert client.ask(descriptor("user=ann", hits=6)).remaining == [4]
        assert client.ask(descriptor("user=ann", hits=100), descriptor("user=bob")).code == OVER_LIMIT
        assert client.ask(descriptor("user=ann"), descriptor("user=bob")).remaining == [3, 9]
        assert client.ask(descriptor("user=ann", hits=3)).remaining == [0]
        answer = client.ask(descriptor("user=ann", hits=0), descriptor("user=bob"), descriptor("quota=1"))
        assert answer.codes == [OVER_LIMIT, OVER_LIMIT, OK, OK], "nothing is left, and nothing is charged"
        assert client.ask(descriptor("user=bob", hits=0), descriptor("quota=1", hits=0)).remaining == [9, 1]
        assert client.ask(descriptor("shut=1", hits=0)).codes == [OVER_LIMIT] * 2


def peeks_and_refunds(store):
    with serving(store=store) as one, Client(one.http_at) as client:
        assert client.ask(descriptor("user=ann", hits=0)).remaining == [10]
        assert client.ask(descriptor("user=ann", hits=8), hits=3).remaining == [2]
        assert client.ask(descriptor("user=ann", hits=0), hits=3).codes == [OK, OK]
        assert client.ask(descriptor("user=ann", hits=5, gives_back=True)).remaining == [7]
        assert client.ask(descriptor("user=ann", hits=50, gives_back=True)).remaining == [10], "not below 0"
        answer = client.ask(descriptor("user=ann", hits=10), descriptor("user=bob", hits=1, gives_back=True))
        assert answer.codes == [OK] * 3 and answer.remaining == [0, 10], answer.statuses
        # nothing is left: a peek is denied, a refund never
        assert client.ask(descriptor("user=ann", hits=0)).codes == [OVER_LIMIT] * 2
        assert client.ask(descriptor("user=ann", hits=15)).codes == [OVER_LIMIT] * 2  # 25 are counted
        answer = client.ask(descriptor("user=ann", hits=10, gives_back=True))
        assert answer.codes == [OK] * 2 and answer.remaining == [0], answer.statuses
        assert client.ask(descriptor("user=ann", hits=8, gives_back=True)).remaining == [3]
        assert client.ask(descriptor("user=ann", hits=0)).codes == [OK] * 2


def a_refund_is_ok_without_the_store():
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis())
        one = stack.enter_context(serving("--store", store.url, "--on-store-failure", "closed"))
        client = stack.enter_context(Client(one.http_at))
        assert client.ask(descriptor("user=ann")).remaining == [9]
        store.end()
        until(lambda: metric(one, "rate_limiter_store_up") == 0, "the store is down")
        answer = client.ask(descriptor("user=ann"), descriptor("user=ann", hits=1, gives_back=True))
        assert answer.codes == [OVER_LIMIT, OVER_LIMIT, OK], answer.codes


def quotas_shadow_and_replaces(store):
    with serving(store=store) as one, Client(one.http_at) as client:
        for expected in ([OK, OK], [OVER_LIMIT, OVER_LIMIT]):
            assert client.ask(descriptor("quota=1")).codes == expected
        assert client.ask(descriptor("quota=1"), descriptor("quota=2")).codes[0] == OK, "another quota is left"
        assert client.ask(descriptor("quota=1"), descriptor("quota=2")).codes[0] == OVER_LIMIT
        for left in (0, 0):
            answer = client.ask(descriptor("canary=1"))
            assert answer.codes == [OK, OK] and answer.remaining == [left], answer.statuses
        assert client.ask(descriptor("named=1"), descriptor("vip=1")).statuses[0] == (OK, None, None, 0, None)
        assert client.ask(descriptor("named=1")).remaining == [0]


def limits_of_requests(store, n=3000):
    """More limits in requests than a worker keeps: evicted ones are made again, and their counts stay."""
    with serving(store=store) as one, Client(one.http_at) as client:
        for turn in (1, 2):
            for number in range(2, n, 7):
                answer = client.ask(descriptor("user=ann", limit=(number, DAY)))
                assert answer.statuses[0][:4] == (OK, number, DAY, number - turn), (number, turn, answer.statuses)
        evicted = metric(one, "rate_limiter_inline_limits_evicted_total")
        assert evicted > 400, evicted
        many = [descriptor("user=bob", limit=(number, MINUTE)) for number in range(1, 65)]
        answer = client.ask(*many)
        assert [status[1] for status in answer.statuses] == list(range(1, 65)), answer.statuses
        for code, remaining in ((OK, 2**31 - 1), (OVER_LIMIT, 0)):  # the second is charged what is left
            answer = client.ask(descriptor("user=cy", limit=(2**32 - 1, WEEK)), hits=2**31)
            assert answer.statuses[0][:4] == (code, 2**32 - 1, WEEK, remaining), answer.statuses
        code, words = client.error(SHOULD_RATE_LIMIT, request("shop", descriptor("user=ann", limit=(5, 0))))
        assert code == "INVALID_ARGUMENT" and "descriptors.limit.unit" in words, (code, words)
        return f"{evicted:.0f} evicted"


METADATA = """domain: shop
descriptors:
  - key: backend_name
    value: near
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
    metadata: {route: near, weights: {near: 3, n: "3"}, tags: [a, 1.5e1, true, ~]}
  - key: backend_name
    value: far
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 9, name: "%s"}
    metadata: {route: far, weights: {far: -0.5, near: 1}}
    descriptors:
      - {key: user, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}, metadata: {}}
  - {key: free, rate_limit: {unlimited: true}, metadata: {route: free}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 0}, metadata: {shadow: yes}}
  - {key: bare, metadata: {route: bare}}
""" % ("ä" * 40)


def headers_and_metadata(store):
    with serving("--envoy-headers", "true", "--envoy-metadata", "true", store=store) as one, Client(one.http_at) as client:
        answer = client.ask(descriptor("user=ann", hits=4), descriptor("big=1", "x=y"), descriptor("free=1"))
        assert answer.headers == {"RateLimit-Limit": "10", "RateLimit-Remaining": "6", "RateLimit-Reset": str(answer.statuses[0][4])}
        assert answer.metadata == {"domain": "shop", "descriptors": [
            {"entries": ["user=ann"], "limit": "10/365day fixed_window count all", "hitsAddend": 4.0},
            {"entries": ["big=1", "x=y"]}, {"entries": ["free=1"]}]}, answer.metadata
        # of the last limit that denies, even if an earlier limit has as little left
        answer = client.ask(descriptor("user=ann", hits=20), descriptor("shut=1"), descriptor("canary=1", hits=2), hits=1)
        assert answer.headers["RateLimit-Limit"] == "0" and answer.metadata["hitsAddend"] == 1.0, (answer.headers, answer.metadata)
        answer = client.ask(*[part(1, part(1, "k") + part(2, b"a\xff\xe4"))])
        assert answer.metadata["descriptors"] == [{"entries": ["k=a\ufffd\ufffd"]}], answer.metadata
        # metadata that is too long is left out, so that the client still gets the decision
        answer = client.ask(part(1, part(1, "k") + part(2, b"\xff" * 100000)), descriptor("shut=1"))
        assert answer.codes == [OVER_LIMIT, OK, OVER_LIMIT] and answer.metadata is None, answer.codes


def metadata_of_limits(store):
    """Only limits with something left send metadata. Of values with the same name the first is sent. Maps are joined."""
    with serving("--envoy-metadata", "true", store=store, policy=METADATA) as one, Client(one.http_at) as client:
        both = descriptor("backend_name=near"), descriptor("backend_name=far"), descriptor("free=1"), descriptor("bare=1")
        answer = client.ask(*both)
        assert answer.names == [None, "ä" * 31, None, None], answer.names
        assert answer.metadata["metadata"] == {"route": "near", "weights": {"near": 3.0, "n": "3", "far": -0.5},
                                               "tags": ["a", 15.0, True, None]}, answer.metadata
        answer = client.ask(*both)
        assert answer.codes == [OK, OVER_LIMIT, OK, OK, OK], answer.codes
        assert answer.metadata["metadata"] == {"route": "far", "weights": {"far": -0.5, "near": 1.0}}, answer.metadata
        assert client.ask(descriptor("shadow=1")).metadata["metadata"] == {"shadow": True}
        assert "metadata" not in client.ask(descriptor("free=1"), descriptor("backend_name=far", "user=ann")).metadata


def quotas_of_one_backend(store):
    """The second request of ann uses up one of two quotas for the same backend, so that backend is over."""
    with serving(store=store, policy=METADATA) as one, Client(one.http_at) as client:
        two = descriptor("backend_name=far"), descriptor("backend_name=far", "user=ann")
        assert client.ask(*two).codes == [OK, OK, OK]
        assert client.ask(*two).codes == [OVER_LIMIT, OK, OVER_LIMIT]
        assert client.ask(*two, descriptor("backend_name=near")).codes == [OK, OK, OVER_LIMIT, OK]
        assert client.ask(*two, descriptor("backend_name=near")).codes == [OVER_LIMIT, OK, OVER_LIMIT, OVER_LIMIT]


def errors():
    with serving() as one, Client(one.http_at) as client:
        for method, message, code, words in (
                (SHOULD_RATE_LIMIT, request("", descriptor("user=ann")), "INVALID_ARGUMENT", "domain is empty"),
                (SHOULD_RATE_LIMIT, request("shop"), "INVALID_ARGUMENT", "1 to 64"),
                (SHOULD_RATE_LIMIT, request("shop", *[descriptor("a=b")] * 65), "INVALID_ARGUMENT", "at most 64"),
                (SHOULD_RATE_LIMIT, b"\x0a", "INVALID_ARGUMENT", "not a RateLimitRequest"),
                (SHOULD_RATE_LIMIT, part(1, "x" * 200000), "RESOURCE_EXHAUSTED", "131072 bytes"),
                ("/a.B/C", b"", "UNIMPLEMENTED", "ShouldRateLimit"),
                (CHECK, part(1, "nobody"), "NOT_FOUND", "unknown service"),
                (CHECK, b"\x0a", "INVALID_ARGUMENT", "HealthCheckRequest")):
            found = client.error(method, message)
            assert found[0] == code and words in found[1], (method, found)
        found = client.error(SHOULD_RATE_LIMIT, request("shop", descriptor("user=" + "a" * 1000)), compression=grpc.Compression.Gzip)
        assert found[0] == "UNIMPLEMENTED" and "compressed" in found[1], found
        assert client.ask(descriptor("user=ann")).remaining == [9], "none of these was charged"
        # a stream of an unknown method that the client does not end; server reflection is one
        ended = threading.Event()

        def messages():
            yield b"\x3a\0"
            ended.wait(TIMEOUT_S)

        stream = client.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")(messages(), timeout=TIMEOUT_S)
        try:
            next(stream)
            raise AssertionError("a response")
        except grpc.RpcError as fault:
            assert fault.code().name == "UNIMPLEMENTED", fault
        ended.set()
        assert client.ask(descriptor("user=ann")).remaining == [8], "the connection goes on"
    with serving(policy="limits: [{name: a, limit: 1/s}]\n") as one, Client(one.http_at) as client:
        found = client.error(SHOULD_RATE_LIMIT, request("shop", descriptor("user=ann")))
        assert found[0] == "INVALID_ARGUMENT" and "Weir's format" in found[1], found
    with serving(policy=None) as one, Client(one.http_at) as client:
        assert client.error(SHOULD_RATE_LIMIT, request("shop", descriptor("user=ann")))[0] == "FAILED_PRECONDITION"


def long_values_are_decided():
    """An error would let the request pass where Envoy fails open, so a client could avoid its limit by a long header."""
    with serving() as one, Client(one.http_at) as client:
        long = "user=" + "x" * 60000
        assert [client.ask(descriptor("shut=1"), descriptor(long), descriptor(long + "y")).codes for _ in range(2)] == [[OVER_LIMIT, OVER_LIMIT, OK, OK]] * 2
        assert client.ask(descriptor(long), descriptor(long + "z")).remaining == [7, 9]


def users_and_roles():
    with serving(users=USERS) as one:
        ask = request("shop", descriptor("user=ann"))
        give = request("shop", descriptor("user=ann", hits=1, gives_back=True))
        with Client(one.http_at) as client:
            found = client.error(SHOULD_RATE_LIMIT, ask)
            assert found[0] == "UNAUTHENTICATED" and "Bearer TOKEN" in found[1], found
            assert dict(fields(client.call(CHECK, b""))) == {1: SERVING}, "health needs no token"
        with Client(one.http_at, "wrong") as client:
            assert client.error(SHOULD_RATE_LIMIT, ask)[0] == "UNAUTHENTICATED"
        with Client(one.http_at, "decide-token") as client:
            assert client.ask(descriptor("user=ann")).remaining == [9]
            found = client.error(SHOULD_RATE_LIMIT, give)
            assert found[0] == "PERMISSION_DENIED" and "operate" in found[1], found
        with Client(one.http_at, "operate-token") as client:
            assert Answer(client.call(SHOULD_RATE_LIMIT, give)).remaining == [10]


def call_frames(stream, message, **more):
    """A gRPC request as frames."""
    return (h2.headers(stream, h2.END_HEADERS, method="POST", path=SHOULD_RATE_LIMIT, content_type="application/grpc", te="trailers", **more)
            + h2.frame(h2.DATA, h2.END_STREAM, stream, b"\0" + struct.pack(">I", len(message)) + message))


def expired_and_cancelled_requests_are_free():
    """Their frames come together, so that the server has not run the request when it reads that nobody waits for it."""
    with serving() as one, Client(one.http_at) as client:
        ask = request("shop", descriptor("user=ann"))
        raw = h2.Connection(one.http_at)
        raw.send(call_frames(1, ask, grpc_timeout="0n"))
        assert raw.body(1) == b""
        raw.send(call_frames(3, ask, grpc_timeout="20x"))
        assert raw.body(3) == b""
        raw.send(b"".join(call_frames(number, ask) + h2.reset(number) for number in range(5, 45, 2)))
        raw.send(call_frames(45, ask, grpc_timeout="20S"))
        answer = Answer(raw.body(45)[5:])
        assert answer.remaining == [9], answer.statuses
        assert client.ask(descriptor("user=ann")).remaining == [8]
        raw.close()
        late = client.channel.unary_unary(SHOULD_RATE_LIMIT).future(ask, timeout=TIMEOUT_S)
        late.cancel()


def a_request_that_is_cancelled_while_the_store_looks_is_free():
    """Quotas are peeked at before anything is charged. The client resets the stream in between."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis())
        one = stack.enter_context(serving("--store", store.url, "--store_budget", "10s", "--envoy-counts", "together"))
        client = stack.enter_context(Client(one.http_at))
        two = descriptor("user=ann"), descriptor("quota=1")
        assert client.ask(descriptor("user=ann")).remaining == [9]
        raw = h2.Connection(one.http_at)
        store.tell(signal.SIGSTOP)
        raw.send(call_frames(1, request("shop", *two)))
        until(lambda: metric(one, "rate_limiter_requests_in_flight") == 1, "it waits for Redis")
        raw.send(h2.reset(1) + h2.frame(h2.PING, 0, 0, bytes(8)))
        assert raw.until(h2.PING), "the reset was read"
        store.tell(signal.SIGCONT)
        until(lambda: metric(one, "rate_limiter_requests_in_flight") == 0, "it has ended")
        answer = client.ask(*two)
        assert answer.codes == [OK] * 3 and answer.remaining == [8, 0], answer.statuses
        raw.close()


def an_open_route_does_not_end_other_streams():
    """A client without a user may have little memory. Others of the same connection have one."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis())
        one = stack.enter_context(serving("--store", store.url, "--store_budget", "10s", "--metrics-open", "true", users=USERS))
        with Client(one.http_at, "decide-token") as client:
            assert client.ask(descriptor("big=0")).code == OK
        ask, n = request("shop", *[descriptor(f"big={number}") for number in range(40)]), 100
        store.tell(signal.SIGSTOP)
        raw = h2.Connection(one.http_at)
        raw.send(b"".join(call_frames(number, ask, authorization="Bearer decide-token") for number in range(1, 2 * n, 2)))
        until(lambda: metric(one, "rate_limiter_requests_in_flight") == n, "they wait for Redis")
        raw.send(h2.headers(2 * n + 1) + call_frames(2 * n + 3, ask, authorization="Bearer wrong"))
        assert raw.body(2 * n + 1) == b"ok\n" and raw.body(2 * n + 3) == b""
        store.tell(signal.SIGCONT)
        assert raw.body(1) and metric(one, 'rate_limiter_connections_closed_total{reason="unauthenticated"}') == 0
        raw.close()


def requests_that_wait_take_bounded_memory():
    """Those of streams count for their connection. All together are bounded in bytes, even if their clients are gone."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis())
        one = stack.enter_context(serving("--store", store.url, "--store_budget", "10s", "--client-memory", "1GiB"))
        with Client(one.http_at) as client:
            assert client.ask(descriptor("big=0")).code == OK
        ask = request("shop", *[descriptor(f"big={number}") for number in range(64)])  # takes 20 KiB
        calls = b"".join(call_frames(number, ask) for number in range(1, 2 * h2.STREAMS_MAX, 2))
        store.tell(signal.SIGSTOP)
        connections = [h2.Connection(one.http_at)]
        connections[0].send(calls)
        until(lambda: metric(one, "rate_limiter_requests_in_flight") == h2.STREAMS_MAX, "they wait for Redis")
        assert metric(one, "rate_limiter_client_memory_bytes") > h2.STREAMS_MAX * 20000
        for _ in range(39):
            connections.append(h2.Connection(one.http_at))
            connections[-1].send(calls)
        until(lambda: metric(one, "rate_limiter_requests_overflow_total") > 1000, "the fallback decides")
        assert metric(one, "rate_limiter_requests_in_flight") < 64 * 1024 * 1024 / 20000
        for connection in connections:
            connection.close()
        store.tell(signal.SIGCONT)
        until(lambda: metric(one, "rate_limiter_requests_in_flight") == 0, "they have ended")
        until(lambda: metric(one, "rate_limiter_client_memory_bytes") < 1000000, "their memory is not counted any more")


def health():
    with serving(policy=None) as one, Client(one.http_at) as client:
        assert dict(fields(client.call(CHECK, b""))) == {1: NOT_SERVING}, "without a policy"
    with serving() as one, Client(one.http_at) as client:
        for service in (b"", part(1, "ratelimit")):
            assert dict(fields(client.call(CHECK, service))) == {1: SERVING}
        watch = client.channel.unary_stream(WATCH)(b"", timeout=TIMEOUT_S)
        unknown = client.channel.unary_stream(WATCH)(part(1, "nobody"), timeout=TIMEOUT_S)
        assert dict(fields(next(watch))) == {1: SERVING} and dict(fields(next(unknown))) == {1: SERVICE_UNKNOWN}
        one.process.send_signal(signal.SIGTERM)
        assert dict(fields(next(watch))) == {1: NOT_SERVING}
        try:
            next(watch)
        except grpc.RpcError as fault:
            assert fault.code().name == "UNAVAILABLE", fault
        assert one.process.wait(TIMEOUT_S) == 0
        one.process.stdout.close()
        one.process = None


def clients_that_watch_and_are_gone():
    """A client that watches the health and is silent gets a PING. It is closed if it does not acknowledge the PING."""
    ask = (h2.headers(1, h2.END_HEADERS, method="POST", path=WATCH, content_type="application/grpc", te="trailers")
           + h2.frame(h2.DATA, h2.END_STREAM, 1, bytes(5)))
    with serving("--http2-idle", "2s") as one:
        there, gone = h2.Connection(one.http_at), h2.Connection(one.http_at)
        for raw in there, gone:
            raw.send(ask)
            assert raw.until(h2.DATA, 1)
        for _ in range(2):
            ping = there.until(h2.PING)
            assert ping and not ping[1] & h2.ACK, "it stays"
            there.send(h2.frame(h2.PING, h2.ACK, 0, ping[3]))
        assert gone.until(h2.PING) and gone.until(h2.PING) is None, "it is closed, and got one PING"
        there.send(h2.headers(3))
        assert there.body(3) == b"ok\n"
        there.close()
        gone.close()


def health_with_a_store():
    """NOT_SERVING until the store was there once. After that its loss changes nothing."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis())
        store.end()
        one = stack.enter_context(serving("--store", store.url, "--workers", "4"))
        client = stack.enter_context(Client(one.http_at))
        assert dict(fields(client.call(CHECK, b""))) == {1: NOT_SERVING} and healthcheck(one) == 500
        watch = client.channel.unary_stream(WATCH)(b"", timeout=TIMEOUT_S)
        assert dict(fields(next(watch))) == {1: NOT_SERVING}
        store.start()
        assert dict(fields(next(watch))) == {1: SERVING} and healthcheck(one) == 200
        store.end()
        until(lambda: metric(one, "rate_limiter_store_up") == 0, "the store is down")
        assert dict(fields(client.call(CHECK, b""))) == {1: SERVING} and healthcheck(one) == 200
        for _ in range(16):  # also by workers that were not called while the store was there
            with Client(one.http_at, use_local_subchannel_pool=1) as other:
                assert dict(fields(other.call(CHECK, b""))) == {1: SERVING}
        assert client.ask(descriptor("user=ann")).code == OK
        watch.cancel()


def an_address_for_grpc():
    with serving("--grpc", "127.0.0.1:0") as one:
        line = one.process.stdout.readline().decode()
        assert line.startswith("weir serve: gRPC at 127.0.0.1:"), line
        with Client(line.split()[-1]) as client:
            assert client.ask(descriptor("user=ann")).remaining == [9]
        raw = h2.Connection(line.split()[-1])
        raw.send(h2.headers(1))
        assert b"serves gRPC" in raw.body(1)
        raw.close()
        assert metric(one, 'rate_limiter_responses_total{protocol="http2"}') == 2


def the_address_of_metrics_decides_nothing():
    with serving("--metrics-listen", "127.0.0.1:0") as one:
        line = one.process.stdout.readline().decode()
        assert line.startswith("weir serve: metrics at 127.0.0.1:"), line
        with Client(line.split()[-1]) as client:
            found = client.error(SHOULD_RATE_LIMIT, request("shop", descriptor("user=ann")))
            assert found[0] == "UNIMPLEMENTED" and "metrics and health" in found[1], found
            assert dict(fields(client.call(CHECK, b""))) == {1: SERVING}
        with Client(one.http_at) as client:
            assert client.ask(descriptor("user=ann")).remaining == [9]


def many_calls_at_once():
    """1000 calls on one connection, more than it may have streams."""
    with serving() as one, Client(one.http_at) as client:
        call = client.channel.unary_unary(SHOULD_RATE_LIMIT)
        calls = [call.future(request("shop", descriptor("big=1")), timeout=TIMEOUT_S) for _ in range(1000)]
        left = sorted(Answer(one_call.result()).remaining[0] for one_call in calls)
        assert left == list(range(100000 - 1000, 100000)), left[:3]


def an_old_connection_is_replaced():
    """GOAWAY, after which grpcio opens another connection. No call fails."""
    with serving("--http2-age", "1s") as one, Client(one.http_at) as client:
        raw = h2.Connection(one.http_at)
        raw.send(h2.headers(1))
        assert raw.body(1) == b"ok\n"
        n = 0
        raw.socket.settimeout(0.001)
        while True:
            n += 1
            assert client.ask(descriptor("big=1")).code == OK
            try:
                if raw.until(h2.GOAWAY):
                    break
            except TimeoutError:
                pass
        assert client.ask(descriptor("big=1")).remaining == [100000 - n - 1]
        raw.close()


def an_idle_connection_loses_no_request():
    """The client may send one just when the server finds that it is idle. So it gets GOAWAY twice, a second apart."""
    with serving("--http2-idle", "1s") as one:
        first = h2.Connection(one.http_at)  # the ticks of the server begin with it
        first.send(call_frames(1, request("shop", descriptor("big=1"))))
        assert first.body(1)
        time.sleep(0.8)
        raw = h2.Connection(one.http_at)
        raw.send(call_frames(1, request("shop", descriptor("user=ann"))))
        assert Answer(raw.body(1)[5:]).remaining == [9]
        warning, at = raw.until(h2.GOAWAY), time.monotonic()
        assert warning[3] == struct.pack(">II", 2**31 - 1, 0), warning
        raw.send(call_frames(3, request("shop", descriptor("user=ann"))))
        assert Answer(raw.body(3)[5:]).remaining == [8]
        end = raw.until(h2.GOAWAY)
        assert end and end[3] == struct.pack(">II", 3, 0) and time.monotonic() - at > 0.7, (end, time.monotonic() - at)
        assert raw.read() is None, "it is closed"
        first.close()
        raw.close()


def over_tls():
    """gRPC and the HTTP API by ALPN; a client certificate is a user, whose role decides."""
    with tempfile.TemporaryDirectory(prefix="weir-grpc-") as folder:
        ca = Authority(folder)
        pem, key = ca.server()
        client_pem, client_key = ca.sign("envoy", "URI:spiffe://shop/envoy")
        users = 'users:\n  envoy: {certificate: "spiffe://shop/envoy", role: decide}\n'
        with serving("--grpc", "tls://127.0.0.1:0", "--metrics-listen", "tls://127.0.0.1:0", "--tls-cert", pem, "--tls-key", key, "--tls-client-ca", ca.pem, "--tls-client-auth", "optional",
                     users=users) as one:
            metrics_at, grpc_at = (one.process.stdout.readline().decode().split("://")[-1].strip() for _ in range(2))
            read = {path: open(path, "rb").read() for path in (ca.pem, client_pem, client_key)}
            for chain, expected in (((read[client_key], read[client_pem]), None), ((None, None), "UNAUTHENTICATED")):
                client = Client(one.http_at)
                client.channel = grpc.secure_channel(grpc_at, grpc.ssl_channel_credentials(read[ca.pem], *chain))
                with client:
                    if expected:
                        assert client.error(SHOULD_RATE_LIMIT, request("shop", descriptor("user=ann")))[0] == expected
                        continue
                    assert client.ask(descriptor("user=ann")).remaining == [9]
                    found = client.error(SHOULD_RATE_LIMIT, request("shop", descriptor("user=ann", hits=1, gives_back=True)))
                    assert found[0] == "PERMISSION_DENIED", found
            got = subprocess.run(["curl", "-sS", "--max-time", "60", "--cacert", ca.pem, "-w", "%{http_version} %{http_code}",
                                  f"https://{metrics_at}/healthz"], capture_output=True, text=True, check=True, timeout=TIMEOUT_S).stdout
            assert got == "ok\n2 200", got


def grpc_js():
    """1000 calls at once by @grpc/grpc-js, and an error. A client that pings too often is told, and goes on with fewer."""
    if len(sys.argv) < 3:
        raise Skipped("no folder for npm")
    folder, here = sys.argv[2], os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients/grpc-js")
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(here, name), folder)
    if not os.path.isdir(os.path.join(folder, "node_modules/@grpc/grpc-js")):
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", "1", "--cache",
                               os.path.join(folder, "npm-cache")], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Skipped("npm is not reachable")

    def run_node(method, message, *more):
        return subprocess.run(["node", os.path.join(here, "grpc.js"), one.http_at, method, message.hex(), *more], check=True,
                              capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, "WEIR_MODULES": folder})

    def node(method, message, *more):
        return run_node(method, message, *more).stdout.splitlines()

    with serving() as one:
        lines = node(SHOULD_RATE_LIMIT, request("shop", descriptor("big=1")), "1000")
        left = sorted(Answer(bytes.fromhex(line)).remaining[0] for line in lines)
        assert left == list(range(100000 - 1000, 100000)), (len(left), lines[:3])
        assert node(CHECK, part(1, "ratelimit")) == ["0801"]
        assert node(SHOULD_RATE_LIMIT, request("", descriptor("big=1")))[0].startswith("3 the domain is empty")
        keepalive = json.dumps({"grpc.keepalive_time_ms": 1, "grpc.keepalive_permit_without_calls": 1})
        done = run_node(CHECK, b"", "20", "100", keepalive)
        lines = done.stdout.splitlines()
        assert len(lines) == 20 and lines.count("0801") >= 10, lines  # GOAWAY may end a call that is under way
        assert "because of excess pings" in done.stderr and "Increasing ping interval" in done.stderr, done.stderr
        assert metric(one, 'rate_limiter_connections_closed_total{reason="flood"}') >= 1


def with_both(name, test):
    return [(f"{name}: {store}", lambda store=store: test(store)) for store in ("table", "redis")]


sys.exit(run([
    *with_both("statuses of descriptors", statuses_of_descriptors),
    *with_both("each descriptor counts by default", each_descriptor_counts_by_default),
    *with_both("peeks and refunds", peeks_and_refunds),
    *with_both("quotas, shadow and replaces", quotas_shadow_and_replaces),
    *with_both("limits of requests", limits_of_requests),
    *with_both("headers and metadata", headers_and_metadata),
    *with_both("metadata of limits", metadata_of_limits),
    *with_both("quotas of one backend", quotas_of_one_backend),
    ("a refund is OK without the store", a_refund_is_ok_without_the_store),
    ("errors", errors),
    ("long values are decided", long_values_are_decided),
    ("users and roles", users_and_roles),
    ("expired and cancelled requests are free", expired_and_cancelled_requests_are_free),
    ("a request that is cancelled while the store looks is free", a_request_that_is_cancelled_while_the_store_looks_is_free),
    ("an open route does not end other streams", an_open_route_does_not_end_other_streams),
    ("requests that wait take bounded memory", requests_that_wait_take_bounded_memory),
    ("health", health),
    ("clients that watch and are gone", clients_that_watch_and_are_gone),
    ("health with a store", health_with_a_store),
    ("an address for gRPC", an_address_for_grpc),
    ("the address of metrics decides nothing", the_address_of_metrics_decides_nothing),
    ("many calls at once", many_calls_at_once),
    ("over TLS", over_tls),
    ("grpc-js", grpc_js),
    ("an old connection is replaced", an_old_connection_is_replaced),
    ("an idle connection loses no request", an_idle_connection_loses_no_request),
]))
