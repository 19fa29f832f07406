#!/usr/bin/env python3
"""Wrong passwords and tokens are limited by address, so that they cannot be guessed quickly.

    guessing_test.py WEIR"""

import contextlib
import http.client
import os
import re
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, connect_to, daemon, expect, receive_all, run  # noqa: E402

WEIR = sys.argv[1]
BURST = 20
WRONG, LIMITED, OK = b"-WRONGPASS", b"-ERR too many wrong passwords", b"+OK\r\n"
USERS = "users:\n  a: {role: admin, password: right, token: T}\n"


@contextlib.contextmanager
def server(limit=f"1/day burst {BURST}"):
    with tempfile.TemporaryDirectory(prefix="weir-guessing-") as folder:
        config = os.path.join(folder, "weir.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(USERS)
        options = ("--auth-limit", limit) if limit else ()
        with daemon(WEIR, "--config", config, "--keys", "1000", "--workers", "2", *options, http="127.0.0.1:0") as one:
            yield one


def connect_from(one, address):
    return socket.create_connection(("127.0.0.1", one.port), TIMEOUT_S, (address, 0))


def guesses(one, address, n, *before):
    """The replies to n guesses, one after the other; fewer if the server closes the connection."""
    with connect_from(one, address) as client:
        return guess_by(client, n, *before)


def guess_by(client, n, *before):
    got, n_before = b"", -1
    with client.makefile("rb") as replies, contextlib.suppress(ConnectionError):
        while n > 0 and n_before != len(got):
            n, n_before = n - 1, len(got)
            client.sendall(bulks(*(before or ("AUTH",)), "a", f"guess{n}"))
            got += replies.readline()
    return got


def info(one, name):
    with connect_from(one, "127.0.9.9") as client:
        client.sendall(bulks("AUTH", "a", "right") + bulks("INFO", "clients") + bulks("QUIT"))
        return int(re.search(rf"{name}:(\d+)".encode(), receive_all(client)).group(1))


def over_resp():
    with server() as one, connect_from(one, "127.0.1.1") as stays:
        expect(stays, bulks("AUTH", "a", "right"), OK)
        checked = limited = 0
        for i in range(4):
            got = guesses(one, "127.0.1.1", 1000, *(("AUTH",) if i % 2 else ("HELLO", "3", "AUTH")))
            checked += got.count(WRONG)
            limited += got.count(LIMITED)
        assert checked == BURST and limited == 4 and got.count(LIMITED) == 1, (checked, limited)
        with connect_from(one, "127.0.1.1") as client:  # a right password is denied like a wrong one
            client.sendall(bulks("AUTH", "a", "right"))
            got = receive_all(client)
            assert got.startswith(LIMITED), got
        expect(stays, bulks("PING"), b"+PONG\r\n")
        with connect_from(one, "127.0.1.2") as client:
            expect(client, bulks("AUTH", "a", "right"), OK)
        counts = info(one, "auth_failures"), info(one, "auth_limited")
        assert counts == (BURST, 5), counts
        deadline = time.monotonic() + TIMEOUT_S
        while " auth_limited " not in one.said():  # a thread writes the log
            assert time.monotonic() < deadline, one.said()
            time.sleep(0.01)


def successes_count_nothing():
    with server() as one:
        with connect_from(one, "127.0.1.1") as client:
            for _ in range(10 * BURST):
                expect(client, bulks("AUTH", "a", "right"), OK)
        assert guesses(one, "127.0.1.1", BURST + 5).count(WRONG) == BURST


def unix_sockets_are_one_address():
    with server() as one:
        checked = 0
        for _ in range(3):
            with connect_to(one.path) as client:
                checked += guess_by(client, BURST).count(WRONG)
        assert checked == BURST, checked
        with connect_from(one, "127.0.1.1") as client:
            expect(client, bulks("AUTH", "a", "right"), OK)


def http_client(one, address):
    return http.client.HTTPConnection(one.http_at, timeout=TIMEOUT_S, source_address=(address, 0))


def ask(client, token, *forwarded):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if forwarded:
        headers["X-Forwarded-For"] = ", ".join(forwarded)
    client.request("GET", "/v1/limits", headers=headers)
    answer = client.getresponse()
    answer.read()
    return answer


def over_http():
    with server() as one, contextlib.closing(http_client(one, "127.0.1.1")) as proven, \
            contextlib.closing(http_client(one, "127.0.1.1")) as client:
        right = ask(proven, "T").status
        assert right not in (401, 403, 429), right
        statuses = [ask(client, f"guess{i}").status for i in range(3 * BURST)]
        assert statuses == [401] * BURST + [429] * 2 * BURST, statuses
        answer = ask(client, "T")
        assert answer.status == 429 and int(answer.headers["Retry-After"]) > 0, (answer.status, answer.headers)
        assert ask(client, None).status == 401  # no guess
        assert ask(proven, "T").status == right  # a client that sent the right token before is not locked out by others
        assert ask(proven, "guess").status == 401
        assert ask(proven, "T").status == 429  # unless it guesses, too
        client.request("GET", "/metrics", headers={"Authorization": "Bearer T", "X-Forwarded-For": "192.0.2.77"})
        page = client.getresponse().read().decode()
        found = re.search(r'rate_limiter_auth_limited_total\{protocol="http"\} (\d+)', page)
        assert found and int(found[1]) == 2 * BURST + 2, page[-2000:]


def proxies_are_seen_through():
    with server() as one, contextlib.closing(http_client(one, "127.0.1.1")) as proxy:
        for client in ("192.0.2.1", "192.0.2.2"):
            statuses = [ask(proxy, "guess", client).status for _ in range(BURST + 3)]
            assert statuses == [401] * BURST + [429] * 3, (client, statuses)
        statuses = [ask(proxy, "guess", f"2001:db8::{i:x}").status for i in range(BURST + 3)]
        assert statuses == [401] * BURST + [429] * 3, statuses


def invented_addresses_do_not_help():
    """Loopback is a trusted proxy by default, and has 16 million addresses."""
    with server("1/day burst 1") as one:
        with contextlib.closing(http_client(one, "127.0.1.1")) as client:
            statuses = [ask(client, "guess", f"10.0.{i // 256}.{i % 256}").status for i in range(130)]
        assert statuses == [401] * 100 + [429] * 30, statuses
        for i in range(20):
            with contextlib.closing(http_client(one, f"127.0.2.{i}")) as client:
                assert ask(client, "guess").status == 429
            assert guesses(one, f"127.0.3.{i}", 2).count(LIMITED) == 1
    with server("1/day burst 1") as one:
        checked = sum(guesses(one, f"127.0.{i // 100}.{i % 100 + 1}", 1).count(WRONG) for i in range(130))
        assert checked == 100, checked


def by_default_people_do_not_meet_it():
    with server(None) as one:
        got = guesses(one, "127.0.1.1", 50)
        assert got.count(WRONG) == 50, got[-200:]
        with connect_from(one, "127.0.1.1") as client:
            expect(client, bulks("AUTH", "a", "right"), OK)
        assert guesses(one, "127.0.1.1", 1000).count(LIMITED) == 1


TESTS = [
    ("over RESP", over_resp),
    ("successes count nothing", successes_count_nothing),
    ("Unix sockets are one address", unix_sockets_are_one_address),
    ("over HTTP", over_http),
    ("proxies are seen through", proxies_are_seen_through),
    ("invented addresses do not help", invented_addresses_do_not_help),
    ("by default people do not meet it", by_default_people_do_not_meet_it),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
