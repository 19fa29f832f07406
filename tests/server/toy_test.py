#!/usr/bin/env python3
"""weir_toy, whose store completes later and in any order, must send the same replies as weir, whose table completes at
once.

    toy_test.py WEIR_TOY WEIR

Both get the same random pipelines. Numbers that depend on time are not compared."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import urllib.parse

sys.dont_write_bytecode = True  # the source may be read-only
import toy  # noqa: E402
from daemon import TIMEOUT_S, bulks, daemon, expect, receive_all, run  # noqa: E402
from resp_client import Client, until  # noqa: E402

TOY, WEIR = sys.argv[1], sys.argv[2]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 60

POLICY = """limits:
  - {name: per-user, key: [user], limit: 40/1000day}
  - {name: per-path, key: [user, path], limit: 9/1000day fixed_window}
  - {name: everyone, limit: 5000/1000day sliding_log}
  - {name: canary, key: [user], limit: 900/1000day, mode: shadow}
  - {name: other-canary, key: [path], limit: 25/1000day, mode: shadow, match: {path: /s}}
"""
# Limits in shadow are decided after the enforced ones, so overlapping checks charge them in any order: they are not
# compared.
LIMITS = ["10/1000day", "3/1000day fixed_window", "20/1000day sliding_log", "12/1000day sliding_counter", "5/1000day leaky queue 3",
          "2/1000day leaky"]
NAMED = ["@per-user"]


DESCRIPTORS = """domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: path, rate_limit: {unit: year, requests_per_unit: 14}}
  - {key: dark, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: spare, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: second, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 8}}
  - {key: free, rate_limit: {unlimited: true}}
"""


@contextlib.contextmanager
def both(*options, text=POLICY):
    """A server of each program, with one worker, so that all connections of a test share a loop."""
    with tempfile.TemporaryDirectory(prefix="weir-toy-") as folder:
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(text)
        words = ("--workers", "1", "--keys", "100000", "--policy", policy, *options)
        with daemon(TOY, *words, http="127.0.0.1:0") as late, daemon(WEIR, *words, http="127.0.0.1:0") as now:
            yield late, now


def masked(replies):
    """Masks durations, times and byte counters, which are long numbers."""
    return re.sub(rb"\d{4,}(-\d\d-\d\dT\d\d:\d\d:\d\dZ)?", b"N", replies)


def difference(late, now):
    at = next((i for i, (a, b) in enumerate(zip(late, now)) if a != b), min(len(late), len(now)))
    return f"at byte {at}: {late[max(0, at - 200):at + 200]!r} instead of {now[max(0, at - 200):at + 200]!r}"


def ask_both(servers, connect, pieces, says_all):
    """Sends the same bytes in the same pieces. Returns what both reply until they close."""
    replies = []
    for server in servers:
        with connect(server) as client:
            def send(client=client):
                with contextlib.suppress(OSError):
                    for piece in pieces:
                        client.sendall(piece)
                    if says_all:
                        client.shutdown(socket.SHUT_WR)

            sender = threading.Thread(target=send)
            sender.start()
            replies.append(receive_all(client))
            sender.join(TIMEOUT_S)
    return replies


def cut(chance, data):
    """Splits the data into up to 5 pieces."""
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 1, 4))))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)]) if a < b]


# --- RESP -------------------------------------------------------------------------------------------------------------

def decision(chance, n):
    """A command that decides, on one of a few keys of this round. Held keys are neither refunded nor reset, because a
    settlement would then give back charges of nearly the same time, and how near depends on the server."""
    def key():
        return f"{n}-{chance.randrange(4)}"

    def limit():
        return chance.choice(LIMITS)

    def cost():
        return chance.choice((0, 1, 1, 1, 2, 3, 50))

    def check():
        attributes = ["user", key(), *chance.choice(([], ["path", "/a"], ["path", "/b"]))]
        return ["WEIR.CHECK", *chance.choice(([], ["COST", cost()])), *attributes]

    return chance.choice((
        lambda: ["WEIR.TAKE", key(), limit()],
        lambda: ["WEIR.TAKE", key(), limit(), cost()],
        lambda: ["WEIR.TAKE", key(), chance.choice(NAMED), cost()],
        lambda: ["WEIR.TAKE", key(), chance.choice(LIMITS + NAMED), cost(), "WAIT", chance.choice((0, 5))],
        lambda: ["WEIR.UPTO", key(), limit(), cost()],
        lambda: ["WEIR.PEEK", key(), limit(), cost()],
        lambda: ["WEIR.REFUND", key(), limit(), cost()],
        lambda: ["WEIR.RESET", key(), limit()],
        lambda: ["WEIR.INSPECT", key(), limit()],
        lambda: ["WEIR.ALL", *[word for _ in range(chance.randint(1, 5)) for word in (key(), limit(), cost())]],
        lambda: ["CL.THROTTLE", key(), chance.randrange(-1, 5), 1, 86400, chance.randrange(-2, 4)],
        lambda: ["THROTTLE", key(), chance.randrange(1, 5), 1, 86400],
        lambda: ["WEIR.HOLD", f"id {key()}", f"held {key()}", limit(), cost(), 3600000],
        lambda: ["WEIR.TAKE", f"held {key()}", limit(), cost()],
        lambda: ["WEIR.SETTLE", f"id {key()}", cost()],
        lambda: ["WEIR.RELEASE", f"id {key()}"],
        check, check, check,
        lambda: ["WEIR.TAKE", key(), "1/fortnight"],
        lambda: ["WEIR.TAKE", key()],
    ))()


OTHERS = (
    ["PING"], ["ECHO", "x" * 50], ["ECHO", "y" * 50000], ["NOSUCH", "a"], ["HELLO", 3], ["WEIR.REPLIES", "MAP"], ["WEIR.REPLIES", "ARRAY"], ["HELLO", 2],
    ["SELECT", 0], ["SELECT", 1],
    ["CLIENT", "SETNAME", "heron"], ["CLIENT", "GETNAME"], ["WEIR.EXPLAIN", "user", "a"], ["WEIR.LIMITS"], ["HELP"], ["COMMAND", "COUNT"],
    ["CONFIG", "GET", "keys"], ["WEIR.CHANGE", "per-user", "41/1000day"], ["WEIR.CHANGE", "per-user", "39/1000day"], ["RESET"],
    ["CLUSTER", "INFO"], ["AUTH", "x"], ["EXEC"], ["DISCARD"],
)


def commands(chance, n):
    asked, least = [], chance.choice((3, 20, 100, 600))
    while len(asked) < least:
        kind = chance.random()
        if kind < 0.8:
            asked.append(decision(chance, n))
        elif kind < 0.93:
            asked.append(chance.choice(OTHERS))
        else:
            asked += [["MULTI"], *(chance.choice((decision(chance, n), ["PING"], ["ECHO", "z"])) for _ in range(chance.randrange(30)))]
            asked += [chance.choice((["EXEC"], ["EXEC"], ["EXEC"], ["DISCARD"], ["PING"], ["INFO"]))]
    return asked


def resp_is_answered_the_same():
    chance, n_commands = random.Random(toy.SEED), 0
    with both() as servers:
        for n in range(ROUNDS):
            asked = commands(chance, n)
            n_commands += len(asked)
            end = chance.choice((bulks("QUIT"), bulks("QUIT"), b"*1\r\n$x\r\nPING\r\n", b"POST / HTTP/1.1\r\n\r\n", b""))
            pieces = cut(chance, b"".join(bulks(*words) for words in asked) + end)
            late, now = ask_both(servers, lambda server: server.connect(by_path=n % 2 == 1), pieces, end == b"")
            assert masked(late) == masked(now), (n, difference(masked(late), masked(now)))
        check_observed(servers)
    return f"{n_commands} commands"


# --- HTTP -------------------------------------------------------------------------------------------------------------

def http_request(chance, n, is_last):
    def key():
        return f"{n}-{chance.randrange(4)}"

    def take():
        if chance.random() < 0.2:
            return {"all": [{"limit": chance.choice(LIMITS), "key": key(), "cost": chance.randrange(3)} for _ in range(chance.randint(1, 4))]}
        return {"limit": chance.choice(LIMITS + NAMED), "key": key(), "cost": chance.randrange(4),
                "mode": chance.choice(("take", "take", "take", "upto", "peek", "refund"))}

    def check():
        return {"attributes": {"user": key(), **chance.choice(({}, {"path": "/a"}, {"path": "/b"}))}, "cost": chance.randrange(3)}

    def one_or_many(make):
        return make() if chance.random() < 0.5 else [make() for _ in range(chance.choice((0, 1, 10, 200)))]

    def key_path():
        return "/v1/keys/" + urllib.parse.quote(chance.choice(LIMITS), safe="") + "/" + key()

    method, target, body = chance.choice((
        lambda: ("GET", f"/v1/check?user={key()}&path=/{chance.choice('ab')}", None),
        lambda: ("HEAD", f"/v1/check?user={key()}", None),
        lambda: ("GET", "/v1/check?user=a&user=b", None),
        lambda: ("POST", "/v1/check", one_or_many(check)),
        lambda: ("POST", "/v1/take", one_or_many(take)),
        lambda: ("POST", "/v1/take", {"limit": "1/fortnight", "key": "a"}),
        lambda: ("POST", "/v1/hold", {"id": key(), "key": f"held {key()}", "limit": chance.choice(LIMITS), "cost": chance.randrange(3), "ttl_ms": 3600000}),
        lambda: ("POST", "/v1/settle", {"id": key(), "actual": chance.randrange(3)}),
        lambda: ("POST", "/v1/release", {"id": key()}),
        lambda: ("GET", key_path(), None),
        lambda: ("DELETE", key_path(), None),
        lambda: ("GET", "/v1/limits", None),
        lambda: ("PUT", "/v1/limits/per-user", {"limit": f"{chance.choice((39, 41))}/1000day"}),
        lambda: ("GET", f"/v1/explain?user={key()}", None),
        lambda: ("GET", f"/v1/live/key?user={key()}&path=/b", None),
        lambda: ("GET", "/v1/authorize", None),
        lambda: ("POST", "/throttle", {"key": key(), "max_burst": 4, "count_per_period": 1, "period": 86400, "quantity": chance.randrange(3)}),
        lambda: ("GET", "/readyz", None),
        lambda: ("GET", "/nowhere", None),
        lambda: ("POST", "/v1/policy/validate", "limits: []"),
    ))()
    data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.{chance.choice((1, 1, 1, 1, 0))}", "Host: localhost", f"X-Forwarded-For: 10.0.0.{n % 7}"]
    if body is not None:
        lines += [f"Content-Type: application/{'yaml' if isinstance(body, str) else 'json'}", f"Content-Length: {len(data)}"]
    lines += ["Connection: close" if is_last else "Connection: keep-alive"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def without_instants(replies):
    """Seconds and the number of their digits may differ, so lengths of bodies and dates are removed."""
    replies = re.sub(rb"(Date|Content-Length): [^\r]*", rb"\1", replies)
    return masked(replies)


def http_is_answered_the_same():
    chance, n_requests = random.Random(toy.SEED), 0
    with both("--trusted-proxies", "127.0.0.1") as servers:
        for n in range(ROUNDS):
            count = chance.choice((1, 5, 30))
            n_requests += count
            requests = [http_request(chance, n, i == count - 1) for i in range(count)]
            if chance.random() < 0.2:
                requests.append(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")  # after the last request: ignored
            pieces = cut(chance, b"".join(requests))
            late, now = ask_both(servers, lambda server: socket.create_connection(("127.0.0.1", http_port(server)), TIMEOUT_S),
                                 pieces, False)
            late, now = without_instants(late), without_instants(now)
            assert late == now, (n, difference(late, now), requests[-2:])
        check_observed(servers)
    return f"{n_requests} requests"


def http_port(server):
    return int(server.http_at.rsplit(":", 1)[1])


def observed(server):
    """The counted decisions, by limit."""
    with socket.create_connection(("127.0.0.1", http_port(server)), TIMEOUT_S) as client:
        client.sendall(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        live = json.loads(receive_all(client).split(b"\r\n\r\n", 1)[1])
    return {row.get("name", ""): (sum(row["series"]["allowed"]), sum(row["series"]["rejected"]))
            for row in [{"series": live["all"]}, *live["limits"]] if row["series"]}


def check_observed(servers):
    time.sleep(1.1)  # a second is reported when it is over
    late, now = (observed(server) for server in servers)
    assert late == now, (late, now)


def descriptors_request(chance, n):
    def descriptor():
        key = chance.choice(("user", "path", "dark", "spare", "second", "free", "other"))
        more = {"limit": {"requests_per_unit": 6, "unit": "YEAR"}} if chance.random() < 0.1 else {}
        return {"entries": [{"key": key, "value": f"{n} {chance.randrange(2)}"}], **more}

    body = {"domain": "shop", "hits_addend": str(chance.randrange(1, 3)), "descriptors": [descriptor() for _ in range(chance.randint(1, 6))]}
    data = json.dumps(body).encode()
    return b"POST /json HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data) + data


def descriptors_are_answered_the_same():
    chance, count = random.Random(toy.SEED), 30
    for counts in ("together", "each"):
        with both("--envoy_counts", counts, text=DESCRIPTORS) as servers:
            for n in range(ROUNDS // 2):
                pieces = [b"".join(descriptors_request(chance, n) for _ in range(count)),
                          b"GET /v1/limits HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
                late, now = ask_both(servers, lambda server: socket.create_connection(("127.0.0.1", http_port(server)), TIMEOUT_S),
                                     pieces, False)
                late, now = without_instants(late), without_instants(now)
                assert late == now, (counts, n, difference(late, now))
            check_observed(servers)
    return f"{ROUNDS // 2 * 2 * count} requests"


# --- clients that leave ----------------------------------------------------------------------------------------------

def hang_up(client):
    """Closes with a reset: earlier data may be read or not."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def leave_early(chance, servers, n):
    """Sends a pipeline, and leaves at a random time."""
    server = servers[0]
    if n % 2:
        client = server.connect()
        client.sendall(b"".join(bulks(*words) for words in commands(chance, n) if words[0] not in ("QUIT", "WEIR.CHANGE")))
    else:
        client = socket.create_connection(("127.0.0.1", http_port(server)), TIMEOUT_S)
        client.sendall(b"".join(http_request(chance, n, False) for _ in range(10)))
    time.sleep(chance.random() * 0.004)
    if chance.random() < 0.5:
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)
    hang_up(client)


def who_leaves_early_harms_nobody():
    chance = random.Random(toy.SEED)
    with both() as servers, Client(servers[0]) as other:
        for n in range(4 * ROUNDS):
            leave_early(chance, servers, n)
            assert other.ask("WEIR.TAKE", f"mine {n}", "5/1000day")[2] == 4
        until(lambda: other.info()["connected_clients"] == "1", "all others are gone")


def shadows_deny_as_many():
    with both() as (late, _), Client(late, protocol=3) as client:
        answers = client.pipeline([("WEIR.CHECK", "user", f"u{n % 3}", "path", "/s") for n in range(100)])
        assert sum(answer["shadow_denied"] for answer in answers if answer["allowed"]) == \
            sum(answer["allowed"] for answer in answers) - 25, answers


def what_was_sent_takes_effect():
    """Even if no client reads the reply."""
    with both() as (late, _), Client(late) as other:
        for n in range(20):
            with late.connect() as client:
                client.sendall(bulks("WEIR.CHECK", "user", f"left {n}") * 10 + bulks("WEIR.TAKE", f"left {n}", "20/1000day") * 10)
                client.shutdown(socket.SHUT_WR)
                client.recv(1)  # so the rest was read, too
            until(lambda n=n: other.ask("WEIR.PEEK", f"left {n}", "20/1000day")[2] == 10, "ten were taken")
            until(lambda n=n: other.ask("WEIR.PEEK", f"left {n}", "@per-user")[2] == 30, "ten were checked")


def the_end_waits_for_what_is_under_way():
    """Also for requests that call the store again, and for clients that have left."""
    check = bulks("WEIR.CHECK", "user", "a", "path", "/b")
    for n in range(12):
        with both() as (late, _), late.connect() as stays, late.connect() as leaves:
            for client in (stays, leaves):
                expect(client, bulks("PING"), b"+PONG\r\n")
            os.kill(late.process.pid, signal.SIGSTOP)
            stays.sendall(check * 100)
            leaves.sendall(check * 200)
            os.kill(late.process.pid, signal.SIGCONT)
            time.sleep(0.0004 * n)
            hang_up(leaves)
            os.kill(late.process.pid, signal.SIGTERM)
            assert receive_all(stays).count(b"*10\r\n") == 100
            assert late.process.wait(TIMEOUT_S) == 0, late.said()
            late.end()


TESTS = [resp_is_answered_the_same, http_is_answered_the_same, descriptors_are_answered_the_same, shadows_deny_as_many,
         who_leaves_early_harms_nobody, what_was_sent_takes_effect, the_end_waits_for_what_is_under_way]

if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
