#!/usr/bin/env python3
"""Trace spans of weir serve, as a collector receives them.

    traces_test.py WEIR"""
# Covers: src/observe/span_exporter.c, src/observe/tracer.c, src/os/curl_socket.c

import contextlib
import http.client
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client, until  # noqa: E402
from visitor import free_port  # noqa: E402

WEIR = sys.argv[1]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
INTERNAL, SERVER = 1, 2

POLICY = """limits:
  - name: per-client
    key: [ip]
    limit: 2/hour
  - name: tried
    key: [ip]
    limit: 1/hour
    mode: shadow
  - name: shaped
    match: {path: /slow}
    limit: 1/s leaky queue 5
"""


def value_of(value):
    (kind, inner), = value.items()
    return int(inner) if kind == "intValue" else inner


class Span:
    def __init__(self, json_of, resource):
        self.json, self.resource = json_of, resource
        self.trace, self.id, self.parent = json_of["traceId"], json_of["spanId"], json_of.get("parentSpanId")
        self.about = {one["key"]: value_of(one["value"]) for one in json_of["attributes"]}
        self.begun, self.ended = int(json_of["startTimeUnixNano"]), int(json_of["endTimeUnixNano"])

    def said(self, name):
        return self.about["rate_limiter." + name]


class Collector:
    """An OTLP collector. Tests can set its next responses; while it is held, it does not respond."""

    def __init__(self, port=0):
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.may_answer.wait(TIMEOUT_S)
                status, headers, answer = collector.take(self.path, self.headers, body)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.may_answer, self.lock = threading.Event(), threading.Lock()
        self.may_answer.set()
        self.answers, self.requests, self.faults, self.taken = [], 0, [], []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/traces"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def take(self, path, headers, body):
        with self.lock:
            self.requests += 1
            status, more, answer = self.answers.pop(0) if self.answers else (200, {}, b"{}")
            if path != "/v1/traces" or headers["Content-Type"] != "application/json":
                self.faults.append((path, dict(headers)))
            if status == 200:
                for of in json.loads(body)["resourceSpans"]:
                    resource = {one["key"]: value_of(one["value"]) for one in of["resource"]["attributes"]}
                    self.taken += [Span(one, resource) for scope in of["scopeSpans"] for one in scope["spans"]]
            return status, more, answer

    def spans(self, n):
        """Waits for exactly n spans."""
        with contextlib.suppress(AssertionError):
            until(lambda: len(self.taken) >= n, "spans")
        assert len(self.taken) == n and not self.faults, (len(self.taken), n, self.faults)
        with self.lock:
            taken, self.taken = self.taken, []
        return taken

    def close(self):
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@contextlib.contextmanager
def collector(port=0):
    one = Collector(port)
    try:
        yield one
    finally:
        one.close()


@contextlib.contextmanager
def traced(*options, one_in=1, at=None):
    """A server with a policy, and the collector of its spans."""
    with tempfile.TemporaryDirectory(prefix="weir-traces-") as folder, collector() as spans:
        policy = os.path.join(folder, "limits.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(POLICY)
        with daemon(WEIR, "--policy", policy, "--trace_to", at or spans.url, "--trace_one_in", str(one_in), "--workers",
                    "1", *options, http="127.0.0.1:0") as server:
            yield server, spans


def ask(server, method, target, body=None, **headers):
    connection = http.client.HTTPConnection(server.http_at, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request(method, target, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"} |
                           {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()


def check_parent(span):
    assert (span.trace, span.parent, span.json["name"]) == (TRACE, PARENT, "rate_limit"), span.json
    assert span.json["kind"] == SERVER and re.fullmatch("[0-9a-f]{16}", span.id), span.json
    assert span.ended >= span.begun > 10**18, span.json


def over_http():
    with traced("--service", "shop") as (server, spans):
        for expected, denied, shadow in ((200, False, 0), (200, False, 1), (429, True, 1)):
            status, _ = ask(server, "GET", "/v1/check?ip=10.0.0.1", traceparent=SAMPLED, tracestate="a=b,c=d")
            span, = spans.spans(1)
            check_parent(span)
            assert status == expected and span.said("allowed") is not denied, (status, span.json)
            assert span.said("limit") == "per-client" and span.said("algorithm") == "token_bucket", span.json
            assert span.about.get("rate_limiter.shadow_denied", 0) == shadow, span.json
            assert span.json["traceState"] == "a=b,c=d" and span.said("delay_ms") == 0, span.json
            assert span.resource["service.name"] == "shop" and span.resource["service.instance.id"], span.resource
        hashes = {span.said("key_hash")}
        ask(server, "POST", "/v1/check", [{"attributes": {"ip": "10.0.0.1"}}, {"attributes": {"ip": "10.0.0.2"}}],
            traceparent=SAMPLED)
        both = spans.spans(2)
        hashes |= {one.said("key_hash") for one in both}
        assert len(hashes) == 2 and len({one.id for one in both}) == 2, hashes
        ask(server, "GET", "/v1/authorize", traceparent=SAMPLED, x_forwarded_for="10.0.0.3", x_forwarded_uri="/")
        ask(server, "POST", "/v1/take", {"key": "a", "limit": "5/min fixed_window"}, traceparent=SAMPLED)
        ask(server, "POST", "/v1/take", {"all": [{"key": "a", "limit": "5/min"}, {"key": "a", "limit": "1/s"}]},
            traceparent=SAMPLED)
        ask(server, "POST", "/v1/hold", {"id": "h", "key": "a", "limit": "7/min", "cost": 1, "ttl_ms": 1000},
            traceparent=SAMPLED)
        ask(server, "POST", "/throttle", {"key": "a", "max_burst": 1, "count_per_period": 1, "period": 60},
            traceparent=SAMPLED)
        several = spans.spans(5)
        for one in several:
            check_parent(one)
            assert one.said("allowed") is True, one.json
        assert [one.said("limit") for one in several][:4] == ["per-client", "5/min fixed_window", "1/s", "7/min"], several
        assert several[1].said("algorithm") == "fixed_window", several[1].json
        ask(server, "GET", "/v1/check?path=/slow&ip=10.0.1.1", traceparent=SAMPLED)
        ask(server, "GET", "/v1/check?path=/slow&ip=10.0.1.2", traceparent=SAMPLED)
        first, second = spans.spans(2)
        assert first.said("delay_ms") == 0 < second.said("delay_ms") <= 1000, second.json


def over_resp():
    with traced() as (server, spans), Client(server) as client:
        trace = ("TRACEPARENT", SAMPLED)
        answers = client.pipeline([
            ("PING",), ("WEIR.TAKE", "k", "1/hour", *trace), ("WEIR.TAKE", "k", "1/hour", 1, "traceparent", SAMPLED),
            ("WEIR.UPTO", "u", "5/hour", 9, *trace), ("WEIR.ALL", "k", "1/hour", 1, "l", "3/hour", 1, *trace),
            ("WEIR.HOLD", "id", "h", "3/hour", 2, 1000, *trace), ("WEIR.CHECK", "COST", 1, *trace, "ip", "10.0.0.1"),
            ("WEIR.CHECK", *trace, "ip", "10.0.0.1"), ("PING",)])
        assert [one if isinstance(one, str) else one[0] for one in answers] == \
            ["PONG", 1, 0, 1, 0, 1, 1, 1, "PONG"], answers
        taken = spans.spans(7)
        for one in taken:
            check_parent(one)
        assert [one.said("allowed") for one in taken] == [True, False, True, False, True, True, True], taken
        assert [one.said("limit") for one in taken] == \
            ["1/hour", "1/hour", "5/hour", "1/hour", "3/hour", "per-client", "per-client"], taken
        assert taken[0].said("key_hash") == taken[1].said("key_hash") == taken[3].said("key_hash"), taken
        # Other commands of the pipeline are not affected.
        others = ("WEIR.TAKE", "other", "9/hour")
        client.pipeline([others, ("WEIR.TAKE", "k", "1/hour", *trace), others, others, ("WEIR.UPTO", "u", "5/hour", 9, *trace),
                         others, ("WEIR.CHECK", *trace, "ip", "10.0.0.1"), others])
        taken = spans.spans(8)
        assert [one.trace == TRACE for one in taken] == [one.said("limit") != "9/hour" for one in taken], taken
        assert [one.said("limit") for one in taken].count("9/hour") == 5, taken
        # Other mistakes in the command have the same errors as without it.
        for words in (("WEIR.UPTO", "k", "1/hour", 1, 2), ("WEIR.TAKE", "k", "1/hour", "TRACEPARENT"),
                      ("WEIR.TAKE", "k", "1/hour", 1, "NOTRACE", SAMPLED), ("WEIR.PEEK", "k", "1/hour", *trace)):
            assert client.answer(*words).startswith("ERR"), words
        assert client.ask("COMMAND", "GETKEYS", "WEIR.ALL", "a", "1/s", 1, "b", "1/s", 1, *trace) == ["a", "b"]


def who_is_sampled():
    with traced(one_in=1) as (server, spans), Client(server) as client:
        client.ask("WEIR.TAKE", "k", "9/hour", "TRACEPARENT", NOT_SAMPLED)
        ask(server, "GET", "/v1/check?ip=10.0.0.1", traceparent=NOT_SAMPLED)
        client.ask("WEIR.TAKE", "k", "9/hour", "TRACEPARENT", SAMPLED)
        assert spans.spans(1)[0].trace == TRACE
        # An invalid traceparent is ignored: a new trace begins.
        for wrong in (SAMPLED.upper(), SAMPLED + "-", "ff" + SAMPLED[2:], "00-" + "0" * 32 + SAMPLED[35:], "x"):
            ask(server, "GET", "/v1/check?ip=10.0.0.1", traceparent=wrong, tracestate="a=b")
            client.ask("WEIR.TAKE", "k", "9/hour", "TRACEPARENT", wrong)
        for one in spans.spans(10):
            assert one.trace != TRACE and one.parent is None and "traceState" not in one.json, one.json
        with contextlib.closing(http.client.HTTPConnection(server.http_at, timeout=TIMEOUT_S)) as connection:
            connection.putrequest("GET", "/v1/check?ip=10.0.0.1")
            for _ in range(2):  # ambiguous
                connection.putheader("traceparent", SAMPLED)
            connection.endheaders()
            connection.getresponse().read()
        assert spans.spans(1)[0].parent is None
    with traced(one_in=0) as (server, spans), Client(server) as client:
        client.pipeline([("WEIR.TAKE", "k", "9/hour")] * 100)
        ask(server, "GET", "/v1/check?ip=10.0.0.1")
        client.ask("WEIR.TAKE", "k", "9/hour", "TRACEPARENT", SAMPLED)
        assert spans.spans(1)[0].trace == TRACE


def each_one():
    """With a rate of one in one, every command of a pipeline has its own span."""
    with traced() as (server, spans), Client(server) as client:
        client.pipeline([("WEIR.TAKE", f"key{i}", "9/hour") for i in range(1000)])
        client.pipeline([("CL.THROTTLE", "k", 15, 30, 60)] * 100 + [("WEIR.CHECK", "ip", "10.0.0.9")] * 2)
        ask(server, "GET", "/v1/check?ip=10.0.0.9")
        taken = spans.spans(1103)
        assert len({one.id for one in taken}) == len({one.trace for one in taken}) == 1103
        assert len({one.said("key_hash") for one in taken}) == 1002, len({one.said("key_hash") for one in taken})
        assert all(one.parent is None and int(one.id, 16) and int(one.trace, 16) for one in taken), taken
        assert sorted(one.json["kind"] for one in taken) == [INTERNAL] * 1102 + [SERVER], taken
        until(lambda: client.info()["spans_sent"] == "1103", "spans are counted")


def waits():
    with traced() as (server, spans), Client(server) as client:
        wait = ("WEIR.TAKE", "k", "1/200ms", 1, "WAIT", 60000, "TRACEPARENT", SAMPLED)
        assert client.ask(*wait)[0] == client.ask(*wait)[0] == 1
        first, second = spans.spans(2)
        for one in (first, second):
            check_parent(one)
        assert first.said("key_hash") == second.said("key_hash"), second.json
        assert second.ended - first.begun >= 200 * 10**6, "the span is as long as the wait"


def by_redis():
    with redis() as store, traced("--store", store.url, "--store_budget", "10s") as (server, spans), \
            Client(server) as client:
        client.pipeline([("WEIR.TAKE", "k", "1/hour", "TRACEPARENT", SAMPLED)] * 2 + [("WEIR.TAKE", "k", "1/hour")])
        taken = spans.spans(3)
        assert [one.said("allowed") for one in taken] == [True, False, False], taken
        assert [one.parent for one in taken] == [PARENT, PARENT, None], taken
        for expected, shadow in ((200, 0), (200, 1), (429, 1)):
            assert ask(server, "GET", "/v1/check?ip=10.0.0.1", traceparent=SAMPLED)[0] == expected
            span, = spans.spans(1)
            check_parent(span)
            assert span.about.get("rate_limiter.shadow_denied", 0) == shadow, span.json
            assert span.said("allowed") is (expected == 200) and span.said("limit") == "per-client", span.json
            assert span.ended > span.begun, span.json


def collector_says_come_again():
    with traced() as (server, spans), Client(server) as client:
        spans.answers = [(503, {"Retry-After": "1"}, b""), (429, {}, b""), (200, {}, b"")]
        client.ask("WEIR.TAKE", "k", "9/hour")
        span, = spans.spans(1)
        assert spans.requests == 3 and span.said("limit") == "9/hour"
        spans.answers = [(400, {}, b"what?")]
        client.ask("WEIR.TAKE", "k", "9/hour")
        until(lambda: client.info()["spans_dropped"] == "1", "one that is refused is dropped")
        spans.answers = [(200, {}, b'{"partialSuccess": {"rejectedSpans": "1"}}')]
        client.ask("WEIR.TAKE", "k", "9/hour")
        until(lambda: client.info()["spans_dropped"] == "2", "one that was not taken is dropped")
        assert client.info()["spans_sent"] == "1" and spans.requests == 5, client.info()
        until(lambda: "status 503; dropping spans that it does not accept" in server.said(), "it is not told")
        until(lambda: "accepts spans again" in server.said(), "it is not told")


def collector_is_slow():
    """Decisions continue. Spans without room are dropped, and every span is accounted for."""
    with traced() as (server, spans), Client(server) as client:
        spans.may_answer.clear()
        for _ in range(8):
            client.pipeline([("WEIR.TAKE", "k", "9/hour")] * 1000)
        dropped = int(client.info()["spans_dropped"])
        assert dropped >= 8000 - 4096 - 512, dropped
        spans.may_answer.set()
        until(lambda: sum(int(client.info()[one]) for one in ("spans_sent", "spans_dropped")) == 8000,
              "all are accounted for")
        assert len(spans.taken) >= int(client.info()["spans_sent"]) > 0


def collector_is_away():
    port = free_port()
    with traced(at=f"http://127.0.0.1:{port}/v1/traces") as (server, _), Client(server) as client:
        client.pipeline([("WEIR.TAKE", "k", "9/hour")] * 10)
        until(lambda: client.info()["spans_dropped"] == "10", "spans without a collector are dropped")
        until(lambda: f"http://127.0.0.1:{port}/v1/traces: " in server.said(), "it is not told")
        with collector(port) as late:
            client.pipeline([("WEIR.TAKE", "k", "9/hour")] * 3)
            late.spans(3)
    # A collector that does not respond does not block the shutdown.
    with traced() as (server, spans), Client(server) as client:
        spans.may_answer.clear()
        client.ask("WEIR.TAKE", "k", "9/hour")
        assert server.end() == 0, server.said()


def at_the_end():
    with traced() as (server, spans), Client(server) as client:
        client.pipeline([("WEIR.TAKE", "k", "9/hour")] * 700)
        assert server.end() == 0, server.said()
        spans.spans(700)


def wrong_settings():
    for url, why in (("localhost:4318", "unknown scheme"),
                     ("http://", "not a URL"), ("http://me:secret@localhost/", "a user or password in it"),
                     ("http://localhost/v1/traces#x", "a URL with # is not supported")):
        got = subprocess.run([WEIR, "serve", "--trace_to", url], capture_output=True, text=True, timeout=TIMEOUT_S)
        assert got.returncode == 2 and f'weir serve: --trace-to: "{url}": {why}' in got.stderr, got
        assert "http://localhost:4318/v1/traces" in got.stderr, got
    with traced("--observe", "off") as (server, spans), Client(server) as client:
        client.ask("WEIR.TAKE", "k", "9/hour", "TRACEPARENT", SAMPLED)
        assert server.end() == 0 and not spans.taken


TESTS = [("over HTTP", over_http), ("over RESP", over_resp), ("who is sampled", who_is_sampled),
         ("one in one is each", each_one), ("takes that wait", waits), ("decided by Redis", by_redis),
         ("a collector that says come again", collector_says_come_again), ("a slow collector", collector_is_slow),
         ("no collector", collector_is_away), ("at the end", at_the_end), ("settings", wrong_settings)]

if __name__ == "__main__":
    sys.exit(run(TESTS))
