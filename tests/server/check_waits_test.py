#!/usr/bin/env python3
"""Requests of all kinds that wait for limits with a delay: over RESP and HTTP, with every store.

    check_waits_test.py WEIR [STEPS]

Most departures are hours away, so what a queue has left is exact. Departures of the limit `quick` are awaited. They may
be late, but the k-th is never earlier than k - 1 intervals after the first request was sent."""
# Covers: src/engine/waiting.c, src/engine/operations.c, src/server/http/http_take.c, src/server/http/http_check.c, src/core/duration.h

import contextlib
import json
import os
import random
import re
import selectors
import signal
import socket
import struct
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, connect_to, daemon, run
from redis_server import redis
from resp_client import Client, until

WEIR = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
HOUR_NS, DAY_MS, QUICK_NS = 3600 * 10**9, 86400000, 20 * 10**6
POLICY = """limits:
  - {name: hourly, match: {on: hourly}, key: [user], limit: 1/hour leaky queue 20, wait: 1day}
  - {name: edge, match: {on: edge}, key: [user], limit: 1/hour leaky queue 20, wait: 1day, store: table}
  - {name: quick, match: {on: quick}, key: [user], limit: 50/s leaky queue 20, wait: 1min}
  - {name: plain, match: {on: plain}, key: [user], limit: 1/hour leaky queue 20}
  - {name: slow, match: {on: both}, key: [user], limit: 1/hour leaky queue 20, wait: 1day}
  - {name: fast, match: {on: both}, key: [user], limit: 2/hour leaky queue 20, wait: 90min}
  - {name: police, match: {on: both}, key: [user], limit: 3/day}
  - {name: shadow, match: {on: both}, key: [user], limit: 1/day, mode: shadow}
"""
STORES = ("table", "file", "redis")
KINDS = ("take", "check", "get", "post", "post-take", "authorize")
OVER_HTTP = ("get", "post", "post-take", "authorize")


class Waiting:
    """A request in flight, on its own connection."""

    def __init__(self, server, kind, user, on="hourly", wait_ms=DAY_MS):
        self.kind, self.is_http = kind, kind in OVER_HTTP
        self.socket = connect_to(int(server.http_at.rsplit(":", 1)[1])) if self.is_http else server.connect()
        self.file = self.socket.makefile("rb")
        if kind == "take":
            self.client().send("WEIR.TAKE", user, f"@{on}", 1, "WAIT", wait_ms)
        elif kind == "check":
            self.client().send("WEIR.CHECK", "user", user, "WAIT", wait_ms, "on", on)
        elif kind == "get":
            self.send_http("GET", f"/v1/check?user={user}&wait={wait_ms}ms&on={on}")
        elif kind == "post":
            self.send_http("POST", "/v1/check", {"attributes": {"user": user, "on": on}, "wait": f"{wait_ms}ms"})
        elif kind == "post-take":
            self.send_http("POST", "/v1/take", {"limit": f"@{on}", "key": user, "wait": f"{wait_ms}ms"})
        else:  # by the policy's wait
            self.send_http("GET", "/v1/authorize", headers=f"X-User: {user}\r\nX-On: {on}\r\n")

    def client(self):
        made = Client.__new__(Client)
        made.socket, made.file = self.socket, self.file
        return made

    def ask_http(self, *what, **more):
        self.send_http(*what, **more)
        return self.read()

    def send_http(self, method, path, body=None, headers=""):
        text = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            headers += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode() + text)

    def read(self):
        """Reads the decision. `status` is the HTTP status; the header with the wait must agree."""
        if not self.is_http:
            answer = self.client().read()
            return {"allowed": bool(answer[0]), "retry_after_ns": answer[4], "delay_ns": answer[6], "waited_ns": answer[-1]}
        status = int(self.file.readline().split()[1])
        headers = dict(line.decode().rstrip().split(": ", 1) for line in iter(self.file.readline, b"\r\n"))
        answer = json.loads(self.file.read(int(headers["Content-Length"])))
        if "waited_ns" in answer:
            assert int(headers["Weir-Waited-Ms"]) == answer["waited_ns"] // 10**6, (headers, answer)
        return {**answer, "status": status}

    def leave(self, how="close"):
        if how == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "half":  # closes the sending side only, and could still read
            self.socket.shutdown(socket.SHUT_WR)
            return
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()


@contextlib.contextmanager
def serving(store="table", *options, policy=POLICY):
    """A server with one worker, and a client."""
    with tempfile.TemporaryDirectory(prefix="weir-waits-") as folder, contextlib.ExitStack() as stack:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(policy)
        if store == "redis":
            options += ("--store", stack.enter_context(redis()).url, "--store-budget", "10s")
        elif hasattr(store, "url"):
            options += ("--store", store.url, "--store-budget", "500ms")
        elif store == "file":
            options += ("--file", os.path.join(folder, "table"))
        server = stack.enter_context(daemon(WEIR, "--workers", "1", "--policy", path, "--authorize-headers", "x-user=user",
                                            "--authorize-headers", "x-on=on",
                                            *options, http="127.0.0.1:0"))
        client = stack.enter_context(Client(server, protocol=3))
        if store not in ("table", "file"):
            until(lambda: client.info()["store_state"] == "up", "the store came up")
        yield server, client


def n_waiting(client):
    return int(client.ask("INFO", "decisions").split("waiting_here:")[1])  # a section only: all of INFO would also count keys


def left(client, user, limit="hourly"):
    return client.ask("WEIR.PEEK", user, f"@{limit}")["remaining"]


def each_kind_waits_and_gives_back_when_it_leaves():
    for store in STORES:
        with serving(store) as (server, client):
            for on in ("hourly", "edge"):
                assert client.ask("WEIR.TAKE", "u", f"@{on}")["allowed"]
                for kind in KINDS:
                    for how in ("close", "reset", "half"):
                        waits = Waiting(server, kind, "u", on)
                        until(lambda: left(client, "u", on) == 18 and n_waiting(client) == 1, f"{store} {on} {kind}: it waits")
                        waits.leave(how)
                        until(lambda: left(client, "u", on) == 19 and n_waiting(client) == 0, f"{store} {on} {kind} {how}: it was given back")
                        waits.close()


def a_delay_beyond_the_wait_is_denied_and_charges_nothing():
    with serving() as (server, client):
        assert client.ask("WEIR.TAKE", "u", "@hourly")["allowed"]
        for kind in KINDS[:-1]:
            with contextlib.closing(Waiting(server, kind, "u", wait_ms=3000)) as denied:
                answer = denied.read()
                assert not answer["allowed"] and 0 < answer["retry_after_ns"] <= HOUR_NS, (kind, answer)
                assert answer.get("status", 429) == 429, (kind, answer)
        assert left(client, "u") == 19
        with contextlib.closing(Waiting(server, "get", "new", wait_ms=0)) as goes:
            answer = goes.read()
            assert answer["allowed"] and answer["waited_ns"] == 0 and answer["delay_ns"] == 0, answer


def of_several_limits_the_longest_delay_counts():
    """All limits are charged, or none. For authorize, the shortest wait of the delaying limits counts."""
    for store in ("table", "redis"):
        with serving(store) as (server, client):
            with contextlib.closing(Waiting(server, "authorize", "u", "both")) as first:
                answer = first.read()
                assert answer["allowed"] and answer["waited_ns"] == 0 and "limits" not in answer, answer
            second = Waiting(server, "authorize", "u", "both")
            until(lambda: left(client, "u", "slow") == 18, "the second waits for an hour")
            with contextlib.closing(Waiting(server, "authorize", "u", "both")) as third:
                answer = third.read()  # two hours, but `fast` allows a wait of 90 minutes
                assert not answer["allowed"] and answer["decided_by"] == "slow" and answer["retry_after_ns"] > HOUR_NS, answer
            assert [left(client, "u", name) for name in ("slow", "fast", "police")] == [18, 18, 1], store
            third = Waiting(server, "get", "u", "both")
            until(lambda: left(client, "u", "slow") == 17, "the third waits as long as it says")
            with contextlib.closing(Waiting(server, "get", "u", "both")) as denied:
                answer = denied.read()  # at once, although a day would be long enough
                assert not answer["allowed"] and answer["decided_by"] == "police", answer
            third.close()
            until(lambda: left(client, "u", "slow") == 18, "the third has left")
            second.close()
            until(lambda: [left(client, "u", name) for name in ("slow", "fast", "police")] == [19, 19, 2], "both were given back")


def without_a_wait_delays_are_told():
    with serving() as (server, client):
        for n in range(3):
            with contextlib.closing(Waiting(server, "authorize", "u", "plain")) as goes:
                answer = goes.read()
                assert answer["allowed"] and "waited_ns" not in answer and (answer["delay_ns"] > 0) == (n > 0), answer
        answer = client.ask("WEIR.CHECK", "user", "u", "on", "hourly")
        assert answer["allowed"] and "waited" not in answer, answer
        answer = client.ask("WEIR.CHECK", "user", "u", "on", "hourly")  # the policy's wait applies to authorize only
        assert answer["allowed"] and answer["delay"] > 0, answer


def options_stand_anywhere():
    with serving(policy="limits: [{name: a, key: [user], limit: 100/hour}, {name: q, match: {q: yes}, key: [user], limit: 1/hour leaky queue 9}]\n") \
            as (_, client):
        for n, words in enumerate((("COST", 5, "user", "u"), ("user", "u", "COST", 5), ("cost", 5, "user", "u"),
                                   ("user", "u", "COST", 5, "x", "y"), ("user", "u", "WAIT", 9, "COST", 5))):
            assert client.ask("WEIR.CHECK", *words)["remaining"] == 95 - 5 * n, words
        for words in (("user", "u", "cost", 5), ("COST", 1, "cost", 5, "user", "u"), ("user", "u", "wait", "x")):  # these are attributes
            assert client.ask("WEIR.CHECK", *words)["granted"] == 1, words
        assert client.ask("WEIR.CHECK", "user", "u", "q", "yes")["delay"] == 0
        answer = client.ask("WEIR.CHECK", "WAIT", 1000, "user", "u", "q", "yes")
        assert not answer["allowed"] and answer["waited"] == 0 and answer["decided_by"] == "q", answer
        for words, why in ((("user", "u", "WAIT"), "invalid timeout: use 0 to 86400000 ms"), (("user", "u", "COST"), "invalid cost: use a whole number"),
                           (("WAIT", -1, "user", "u"), "invalid timeout"), (("WAIT", 86400001, "user", "u"), "invalid timeout"),
                           (("WAIT", "5s", "user", "u"), "invalid timeout"), (("WAIT", 1, "user", "u", "WAIT", 1), "given twice: WAIT"),
                           (("COST", 1, "user", "u", "COST", 1), "given twice: COST"), (("user", "u", "COST", "x"), "invalid cost")):
            assert why in client.refusal("WEIR.CHECK", *words), words
        client.ask("MULTI")
        assert client.ask("WEIR.CHECK", "WAIT", 1, "user", "u") == "QUEUED"
        assert "WAIT is not allowed within MULTI" in str(client.ask("EXEC"))


def wrong_waits_are_told():
    with serving() as (server, _):
        for method, path, body, why in (
                ("GET", "/v1/check?user=u&wait=5", None, "the query: wait: use 0s to 1day"),
                ("GET", "/v1/check?user=u&wait=25hour", None, "the query: wait: use 0s to 1day"),
                ("GET", "/v1/check?user=u&wait=1s&wait=1s", None, "the query: wait: given twice"),
                ("GET", "/v1/authorize?wait=x", None, "the query: wait: use 0s to 1day"),
                ("GET", "/v1/authorize?wait=1s&wait=2s", None, "the query: wait: given twice"),
                ("POST", "/v1/check", {"attributes": {}, "wait": 5}, "the body.wait: found 5; use 0s to 1day"),
                ("POST", "/v1/check", [{"attributes": {}, "wait": "5s"}], "the body[0].wait: an item of an array cannot wait"),
                ("POST", "/v1/take", {"limit": "1/s", "key": "a", "wait": "5"}, 'the body.wait: found "5"; use 0s to 1day'),
                ("POST", "/v1/take", {"limit": "1/s", "key": "a", "wait": "5s", "mode": "peek"}, "only the mode \"take\" can wait")):
            with contextlib.closing(Waiting(server, "authorize", "u", "none")) as one:
                one.read()
                one.send_http(method, path, body)
                answer = one.read()
                assert answer["status"] == 400 and why in answer["detail"], (path, body, answer)


def authorize_reads_its_own_query_only():
    """A proxy may forward the client's query, and the client must not choose how long to wait."""
    with serving() as (server, client):
        assert client.ask("WEIR.TAKE", "u", "@plain")["allowed"]
        with contextlib.closing(Waiting(server, "authorize", "u", "none")) as one:
            one.read()
            for query, status in (("x=1&wait=1s", 200), ("wait=1s", 429), ("wait=1s&deny=403", 403), ("deny=403&wait=1s", 403)):
                one.send_http("GET", f"/v1/authorize?{query}", headers="X-User: u\r\nX-On: plain\r\n")
                assert one.read()["status"] == status, query


def pipelined_requests_keep_their_order():
    with serving() as (server, _):
        with contextlib.closing(Waiting(server, "get", "u", "quick")) as one:
            for n in range(6):
                one.send_http("GET", f"/v1/check?user={'u' if n % 2 else 'v'}{n // 2}&on=quick&wait=1min&n={n}" if n % 3 else "/healthz")
            assert one.read()["allowed"]
            for n in range(6):
                if n % 3:
                    assert one.read()["allowed"], n
                else:
                    assert int(one.file.readline().split()[1]) == 200
                    length = [int(line.split()[1]) for line in iter(one.file.readline, b"\r\n") if line.startswith(b"Content-Length")][0]
                    one.file.read(length)


def arrivals_are_never_early(arrivals_ns, since_ns, what):
    """Tolerates 1 % and 2 ms, because clocks differ."""
    for k, at in enumerate(sorted(arrivals_ns)):
        assert (at - since_ns) * 1.01 + 2 * 10**6 >= k * QUICK_NS, (what, k, at - since_ns)


def a_crowd_leaves_at_the_rate_of_the_limit():
    for store in ("table", "redis"):
        with serving(store) as (server, client):
            since = time.monotonic_ns()
            waits = [Waiting(server, KINDS[n % len(KINDS)], "u", "quick") for n in range(15)]
            arrivals, waited = [], []
            with selectors.DefaultSelector() as ready:
                for one in waits:
                    ready.register(one.socket, selectors.EVENT_READ, one)
                while len(arrivals) < len(waits):
                    found = ready.select(TIMEOUT_S)
                    assert found, "none waits for ever"
                    for key, _ in found:
                        arrivals.append(time.monotonic_ns())
                        answer = key.data.read()
                        assert answer["allowed"] and answer["delay_ns"] == 0, answer
                        waited.append(answer["waited_ns"])
                        ready.unregister(key.fileobj)
                        key.data.close()
            arrivals_are_never_early(arrivals, since, store)
            if store == "table":
                assert max(waited) <= 14 * QUICK_NS, waited
            assert n_waiting(client) == 0


def a_connection_that_is_to_be_closed_waits_too():
    with serving() as (server, client):
        for n, line in enumerate(("GET /v1/check?user=u&on=quick&wait=1min HTTP/1.1\r\nConnection: close", "HEAD /v1/authorize HTTP/1.0",
                                  "GET /v1/authorize HTTP/1.0\r\nConnection: keep-alive")):
            with contextlib.closing(connect_to(int(server.http_at.rsplit(":", 1)[1]))) as one, one.makefile("rb") as file:
                assert client.ask("WEIR.TAKE", "u", "@quick", 5)["allowed"]
                one.sendall(f"{line}\r\nHost: x\r\nX-User: u\r\nX-On: quick\r\n\r\n".encode())
                assert int(file.readline().split()[1]) == 200, line
                headers = dict(line.decode().rstrip().split(": ", 1) for line in iter(file.readline, b"\r\n"))
                assert "Weir-Waited-Ms" in headers, headers
                if n == 0:
                    assert headers["Connection"] == "close" and file.read().endswith(b"}\n")
        until(lambda: n_waiting(client) == 0, "none waits")


def without_redis_the_fallback_decides():
    for mode, status in (("open", 200), ("closed", 503), ("share", 200)):
        with redis() as store:
            with serving(store, "--on-store-failure", mode) as (server, client):
                assert client.ask("WEIR.TAKE", "u", "@hourly")["allowed"]
                waits = [Waiting(server, kind, "u") for kind in ("check", "authorize", "post-take")]
                until(lambda: left(client, "u") == 16 and n_waiting(client) == 3, "they wait, and Redis has replied")
                store.tell(signal.SIGSTOP)
                with contextlib.closing(Waiting(server, "authorize", "new")) as one:
                    answer = one.read()
                    assert answer["status"] == status and answer["allowed"] == (status == 200), (mode, answer)
                for one in waits[:2]:
                    one.close()
                until(lambda: n_waiting(client) == 1, f"two have gone, without Redis: {mode}")
                store.tell(signal.SIGCONT)
                waits[2].close()
                until(lambda: n_waiting(client) == 0, f"all have gone: {mode}")


def the_next_server_takes_over_and_they_wait_on():
    """The waits continue until the previous server ends, and are then denied."""
    with serving("file", "--drain", "1s") as (server, client):
        assert client.ask("WEIR.TAKE", "u", "@hourly")["allowed"]
        waits = [Waiting(server, kind, "u") for kind in KINDS] + [Waiting(server, kind, "v", "quick") for kind in KINDS]
        for one in waits[len(KINDS):]:
            assert one.read()["allowed"], one.kind
        until(lambda: n_waiting(client) == len(KINDS), "they wait")
        os.kill(server.process.pid, signal.SIGUSR2)
        for one in waits[:len(KINDS)]:
            answer = one.read()
            assert not answer["allowed"], (one.kind, answer)
        for one in waits:
            one.close()
        assert server.process.wait(TIMEOUT_S) == 0, server.said()
        server.end()
        successor = int(re.search(r"process (\d+) serves now", server.said())[1])
        os.kill(successor, signal.SIGTERM)
        until(lambda: not os.path.exists(f"/proc/{successor}"), "the successor ends")


def at_the_end_they_are_denied():
    for store in STORES:
        with serving(store) as (server, client):
            assert client.ask("WEIR.TAKE", "u", "@hourly")["allowed"]
            waits = [Waiting(server, kind, "u") for kind in KINDS]
            until(lambda: n_waiting(client) == len(KINDS), "they wait")
            os.kill(server.process.pid, signal.SIGTERM)
            for one in waits:
                answer = one.read()
                assert not answer["allowed"] and answer["retry_after_ns"] > 0 and answer.get("status", 429) == 429, (one.kind, answer)
                one.close()
            assert server.process.wait(TIMEOUT_S) == 0, server.said()
            server.end()


def a_reload_does_not_wait_for_them():
    with serving() as (server, client):
        assert client.ask("WEIR.TAKE", "u", "@hourly")["allowed"]
        waits = [Waiting(server, kind, "u") for kind in KINDS]
        until(lambda: n_waiting(client) == len(KINDS), "they wait")
        path = server.options[server.options.index("--policy") + 1]
        with open(path, "w", encoding="utf-8") as file:
            file.write(POLICY.replace("1/hour leaky queue 20, wait: 1day}", "2/hour leaky queue 30, wait: 1day}", 1))
        number = client.ask("WEIR.RELOAD")
        until(lambda: int(client.info("policy")["policy_reloads"]) >= number, "it is read")
        assert client.ask("WEIR.LIMITS")[0]["limit"] == "2/hour leaky queue 30"
        for one in waits:
            one.close()
        until(lambda: n_waiting(client) == 0, "all have left")


def limits_tell_their_wait():
    with serving() as (server, client):
        rows = {row["name"]: row["wait"] for row in client.ask("WEIR.LIMITS")}
        assert rows["hourly"] == 24 * HOUR_NS and rows["fast"] == HOUR_NS * 3 // 2 and rows["plain"] == 0, rows
        with contextlib.closing(Waiting(server, "authorize", "u", "none")) as one:
            one.read()
            one.send_http("GET", "/v1/limits/hourly")
            assert one.read()["wait_ns"] == 24 * HOUR_NS
        text = POLICY.replace("wait: 1day}", "wait: 2hour}", 1).encode()
        with urllib.request.urlopen(urllib.request.Request(f"http://{server.http_at}/v1/policy", text, method="PUT"), timeout=TIMEOUT_S) as put:
            assert json.load(put)["changed"]["names"] == ["hourly"]
        assert client.ask("WEIR.LIMITS")[0]["wait"] == 2 * HOUR_NS


def they_are_observed_as_others_are():
    """Top keys, the denial log, the counts of their limits and the metrics show them as allowed or denied."""
    with serving("table", "--log-denials", "key", "--top-keys", "10") as (server, client):
        for kind in KINDS[:-1]:
            for n in range(2):
                with contextlib.closing(Waiting(server, kind, f"who-{kind}", wait_ms=5)) as one:
                    assert one.read()["allowed"] == (n == 0)
        row = next(row for row in client.ask("WEIR.LIMITS") if row["name"] == "hourly")
        assert row["allowed"] == row["denied"] == len(KINDS) - 1, row
        limit = next(one for one in json.loads(client.ask("WEIR.LIVE", 60, "KEYS", 10))["limits"] if one["name"] == "hourly")
        for kind in KINDS[:-1]:
            assert f"who-{kind}" in json.dumps(limit), (kind, limit)
            until(lambda kind=kind: f"who-{kind}" in server.said(), f"{kind} is in the log")
        waits = [Waiting(server, kind, "who-take") for kind in KINDS]
        metrics = "rate_limiter_requests_waiting %d\n"
        def page():
            with contextlib.closing(connect_to(int(server.http_at.rsplit(":", 1)[1]))) as other:
                other.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                with other.makefile("rb") as file:
                    return file.read().decode()
        until(lambda: metrics % len(KINDS) in page(), "the gauge has all that wait")
        for one in waits:
            one.close()
        until(lambda: metrics % 0 in page(), "the gauge has none")
        assert "rate_limiter_wait_duration_seconds_count %d\n" % len(KINDS) in page(), "each wait has a duration"


def beyond_the_most_they_are_refused():
    """A request beyond the maximum gets an error and charges nothing."""
    with serving("table", "--connections", "5000") as (server, client), contextlib.ExitStack() as stack:
        for _ in range(4096):
            other = stack.enter_context(contextlib.closing(server.connect()))
            other.sendall(b"WEIR.TAKE u 1/hour 1 WAIT 86400000\r\n")
        until(lambda: n_waiting(client) == 4095, "as many wait as may, but for the one that went")
        with contextlib.closing(Waiting(server, "get", "v")) as goes:
            assert goes.read()["allowed"]  # the last place; it does not have to wait
        last = stack.enter_context(contextlib.closing(Waiting(server, "get", "v")))
        until(lambda: n_waiting(client) == 4096, "the last place is taken")
        for kind in OVER_HTTP:
            with contextlib.closing(Waiting(server, kind, "w")) as refused:
                answer = refused.read()
                assert answer["status"] == 503 and "too many requests are waiting" in answer["detail"], (kind, answer)
        assert "BUSY" in client.refusal("WEIR.CHECK", "WAIT", 1, "user", "w", "on", "hourly")
        assert left(client, "w") == 20
        last.leave()


def random_arrivals_and_departures():
    """Clients of all kinds come and leave at random. A queue is a stack of departures: a client that leaves gives its
    departure back if it is the last; otherwise later ones depend on it."""
    for store in ("table", "redis"):
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        with serving(store) as (server, client):
            assert client.ask("WEIR.TAKE", "u", "@hourly")["allowed"]
            height, waits = 1, []
            for step in range(STEPS):
                if waits and (dice.random() < 0.45 or height == 20):
                    place, one = waits.pop(dice.randrange(len(waits)) if dice.random() < 0.5 else len(waits) - 1)
                    one.leave(dice.choice(("close", "reset", "half")))
                    height -= place == height
                elif height < 20:
                    height += 1
                    waits.append((height, Waiting(server, dice.choice(KINDS), "u")))
                else:
                    break
                until(lambda: left(client, "u") == 20 - height and n_waiting(client) == len(waits),
                      f"{store}, seed {seed}, step {step}: {height} are used and {len(waits)} wait")
            for _, one in waits:
                one.close()
            until(lambda: n_waiting(client) == 0, "all have left")


def random_crowds_are_never_too_quick():
    """The same with a limit that allows one each 20 ms."""
    for store in ("table", "redis"):
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        with serving(store) as (server, client):
            since, arrivals, begun, denied = time.monotonic_ns(), [], 0, 0
            with selectors.DefaultSelector() as ready:
                while begun < STEPS or ready.get_map():
                    if begun < STEPS and len(ready.get_map()) < 15:
                        one = Waiting(server, dice.choice(KINDS), "u", "quick", dice.choice((5, 60000, 60000)))
                        ready.register(one.socket, selectors.EVENT_READ, one)
                        begun += 1
                    found = ready.select(0 if begun < STEPS and dice.random() < 0.7 else TIMEOUT_S)
                    assert found or begun < STEPS, f"{store}, seed {seed}: none waits for ever"
                    for key, _ in found:
                        at = time.monotonic_ns()
                        if key.data.read()["allowed"]:
                            arrivals.append(at)
                        else:
                            denied += 1
                        ready.unregister(key.fileobj)
                        key.data.close()
                    if ready.get_map() and dice.random() < 0.2:  # one leaves, and may have been allowed already
                        key = dice.choice(list(ready.get_map().values()))
                        ready.unregister(key.fileobj)
                        key.data.leave(dice.choice(("close", "reset")))
            arrivals_are_never_early(arrivals, since, f"{store}, seed {seed}")
            until(lambda: n_waiting(client) == 0, "all have left")
            until(lambda: left(client, "u", "quick") == 20, "nothing stays charged")


TESTS = [each_kind_waits_and_gives_back_when_it_leaves, a_delay_beyond_the_wait_is_denied_and_charges_nothing,
         of_several_limits_the_longest_delay_counts, without_a_wait_delays_are_told, options_stand_anywhere, wrong_waits_are_told,
         authorize_reads_its_own_query_only, pipelined_requests_keep_their_order, a_crowd_leaves_at_the_rate_of_the_limit,
         a_connection_that_is_to_be_closed_waits_too, without_redis_the_fallback_decides,
         at_the_end_they_are_denied, a_reload_does_not_wait_for_them, limits_tell_their_wait, they_are_observed_as_others_are,
         beyond_the_most_they_are_refused, random_arrivals_and_departures, random_crowds_are_never_too_quick]

if len(sys.argv) > 2:
    TESTS.append(the_next_server_takes_over_and_they_wait_on)  # takes seconds

if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
