#!/usr/bin/env python3
"""weir serve is fair between clients, and one reply does not affect the next. The order is checked by what requests
find, not by how long they take.

    turns_test.py WEIR [TEST...]"""

import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, daemon, expect, receive, receive_all, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client, until  # noqa: E402

WEIR = sys.argv[1]
PONG = b"+PONG\r\n"
SMALL = ("--workers", "1", "--keys", "1000")


@contextlib.contextmanager
def asleep(one):
    """Stops the server. What is sent meanwhile is in its sockets when it continues."""
    os.kill(one.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(one.process.pid, signal.SIGCONT)


def send_all(client, requests):
    with contextlib.suppress(OSError):
        client.sendall(requests)


def ended(one):
    assert one.process.wait(TIMEOUT_S) == 0, one.said()
    one.process.stdout.close()
    one.process = None


# --- turns ------------------------------------------------------------------------------------------------------------

def short_came_first(one, long, short):
    """The short request found the key unused; in the end it is used."""
    assert receive(short, 8) == b"*7\r\n:1\r\n", "the pipeline came first"
    reader = threading.Thread(target=receive_all, args=(long,))
    reader.start()
    with Client(one) as client:
        until(lambda: client.ask("WEIR.PEEK", "k", "1/1000day")[0] == 0, "the pipeline is done")
    long.shutdown(socket.SHUT_RDWR)
    reader.join(TIMEOUT_S)


def a_long_pipeline_lets_others_in():
    """A key is taken after some seconds of work. A request that arrives meanwhile finds it unused."""
    take, peek = bulks("WEIR.TAKE", "k", "1/1000day"), bulks("WEIR.PEEK", "k", "1/1000day")
    with daemon(WEIR, *SMALL, "--output", "1GiB") as one, one.connect() as long, one.connect() as short:
        expect(long, bulks("PING"), PONG)
        expect(short, bulks("PING"), PONG)
        with asleep(one):
            long.sendall(b"HELP\n" * 5000 + take)
            short.sendall(peek)
        short_came_first(one, long, short)


def a_long_pipeline_of_http_lets_others_in():
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    take = b"POST /v1/take HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 32\r\n\r\n" \
           b'{"limit":"1/1000day","key":"k"} '
    with tempfile.TemporaryDirectory(prefix="weir-turns-") as folder, \
            daemon(WEIR, *SMALL, http=os.path.join(folder, "http")) as one, one.connect() as short:
        with socket.socket(socket.AF_UNIX) as long:
            long.settimeout(TIMEOUT_S)
            long.connect(one.http_at)
            expect(short, bulks("PING"), PONG)
            with asleep(one):
                long.sendall(request * 2000 + take)
                short.sendall(bulks("WEIR.PEEK", "k", "1/1000day"))
            short_came_first(one, long, short)


# --- the end ----------------------------------------------------------------------------------------------------------

def flood(client, is_over):
    """Sends and reads until the connection is lost."""
    reader = threading.Thread(target=receive_all, args=(client,))
    reader.start()
    with contextlib.suppress(OSError):
        while not is_over.is_set():
            client.sendall(b"INFO\n" * 1000)
    reader.join(TIMEOUT_S)


def a_turn_that_ends_with_a_wait_is_over():
    """A wait may be the last request of a turn. Then the client is not stalled, because the server is the one that
    waits. INFO scans many keys, so a turn has few of them."""
    with daemon(WEIR, "--workers", "1", "--stall", "250ms") as one, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one)) for _ in range(6)]
        for i, client in enumerate(clients):
            client.ask("WEIR.TAKE", i, "1/s")
        with asleep(one):
            for i, client in enumerate(clients):
                client.socket.sendall(b"INFO\n" * (16 * i + 15) + bulks("WEIR.TAKE", i, "1/s", "WAIT", 60000) +
                                      bulks("PING"))
        for i, client in enumerate(clients):
            for _ in range(16 * i + 15):
                client.read()
            assert client.read()[0] == 1 and client.read() == "PONG", i


def who_sends_on_costs_nobody_the_last_answer():
    is_over = threading.Event()
    with daemon(WEIR, *SMALL) as one, one.connect() as loud, contextlib.ExitStack() as stack:
        others = [stack.enter_context(one.connect()) for _ in range(20)]
        for client in others:
            expect(client, bulks("PING"), PONG)
        sender = threading.Thread(target=flood, args=(loud, is_over))
        sender.start()
        with asleep(one):
            for client in others:
                client.sendall(bulks("PING"))
            os.kill(one.process.pid, signal.SIGTERM)
        answers = [receive_all(client) for client in others]
        is_over.set()
        ended(one)
        sender.join(TIMEOUT_S)
        assert answers == [PONG] * len(others), answers


def the_end_waits_for_the_store():
    with redis() as server, daemon(WEIR, *SMALL, "--store", server.url, "--store_budget", "10s") as one, \
            Client(one) as asks, contextlib.ExitStack() as stack:
        until(lambda: asks.info()["store_state"] == "up", "the store came up")
        others = [stack.enter_context(one.connect()) for _ in range(20)]
        for client in others:
            expect(client, bulks("PING"), PONG)
        with asleep(one):  # with more than the server reads at once
            for client in others:
                client.sendall(bulks("WEIR.TAKE", "k" * 50000, "1000/1000day") * 10)
            os.kill(one.process.pid, signal.SIGTERM)
        answers = [receive_all(client).count(b"*7\r\n:1\r\n") for client in others]
        ended(one)
        assert answers == [10] * len(others), answers


# --- answers ----------------------------------------------------------------------------------------------------------

def no_answer_is_longer_than_its_room():
    """Whatever the reply buffer already contains."""
    docs = bulks("COMMAND", "DOCS", *["weir.check"] * 126)
    refused = b"-ERR the reply would be too long: request less at once\r\n"
    with daemon(WEIR, *SMALL) as one, one.connect() as client:
        expect(client, docs + bulks("PING"), refused + PONG)
        client.sendall(bulks("COMMAND") + bulks("QUIT"))
        whole = receive_all(client)[:-5]
        for before in (1, 20, 42, 60):
            with one.connect() as other:
                expect(other, bulks("COMMAND") * before + docs + bulks("PING"), whole * before + refused + PONG)


def one_that_is_too_large_comes_behind_answers_that_wait():
    """The client reads only after it has sent everything."""
    text = b"x" * 60000
    echo = b"$60000\r\n%s\r\n" % text
    with daemon(WEIR, *SMALL) as one, one.connect() as client:
        requests = bulks("ECHO", text) * 160 + bulks("ECHO", *[text] * 20)
        sender = threading.Thread(target=send_all, args=(client, requests))
        sender.start()
        got = receive(client, 160 * len(echo))
        assert got == echo * 160, len(got)
        rest = receive_all(client)
        assert rest == b"-ERR Protocol error: too big request, the maximum is 262144 bytes\r\n", rest[:100]
        sender.join(TIMEOUT_S)


def lines_that_say_nothing_are_not_kept():
    with daemon(WEIR, *SMALL) as one, one.connect() as client:
        expect(client, b"\r\n" * 140000 + bulks("PING"), PONG)
        expect(client, b"*0\r\n" * 70000 + b"PI", b"")
        expect(client, b"NG\r\n", PONG)
    with redis() as server, daemon(WEIR, *SMALL, "--store", server.url) as one, one.connect() as client:
        expect(client, b"\r\n" * 140000 + bulks("PING"), PONG)


def with_a_store_an_unknown_command_has_one_answer():
    with redis() as server, daemon(WEIR, *SMALL, "--store", server.url) as one, one.connect() as client:
        client.sendall(bulks("MULTI") + bulks("FOO") + bulks("DISCARD") + bulks("PING") + bulks("QUIT"))
        answers = receive_all(client).split(b"\r\n")[:-1]
        assert len(answers) == 5 and answers[1].startswith(b"-ERR unknown command") and answers[3:] == [b"+PONG", b"+OK"], answers


# --- places -----------------------------------------------------------------------------------------------------------

def who_is_full_accepts_for_others():
    with daemon(WEIR, "--workers", "2", "--connections", "4", "--keys", "1000") as one:
        for _ in range(5):
            with contextlib.ExitStack() as stack:
                clients = [stack.enter_context(one.connect()) for _ in range(8)]
                for client in clients:
                    expect(client, bulks("PING"), PONG)


def no_two_clients_have_one_id():
    with daemon(WEIR, "--workers", "2", "--keys", "1000") as one, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one)) for _ in range(10)]
        numbers = [client.ask("CLIENT", "ID") for client in clients]
        assert len(set(numbers)) == len(numbers) and min(numbers) > 0, numbers


def strangers_go():
    """A client that authenticates stays; others make room. The time is long enough for a busy machine."""
    with tempfile.TemporaryDirectory(prefix="weir-turns-") as folder:
        path = os.path.join(folder, "weir.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("users: {ann: {password: secret, role: decide}}\n")
        with daemon(WEIR, "--config", path, "--workers", "1", "--keys", "1000", "--connections", "4", "--header_time",
                    "3s") as one, one.connect() as known, contextlib.ExitStack() as stack:
            expect(known, bulks("AUTH", "ann", "secret") + bulks("PING"), b"+OK\r\n" + PONG)
            strangers = [stack.enter_context(one.connect()) for _ in range(3)]
            strangers[0].sendall(bulks("PING")[:-3])
            for stranger in strangers:
                assert receive_all(stranger) == b"-NOAUTH Authentication timed out.\r\n"
            with one.connect() as other:
                expect(other, bulks("AUTH", "ann", "secret"), b"+OK\r\n")
            expect(known, bulks("PING"), PONG)
            expect(known, bulks("RESET"), b"+RESET\r\n")
            assert receive_all(known).startswith(b"-NOAUTH "), "after RESET it must authenticate again"


TESTS = [a_long_pipeline_lets_others_in, a_long_pipeline_of_http_lets_others_in, a_turn_that_ends_with_a_wait_is_over,
         who_sends_on_costs_nobody_the_last_answer, the_end_waits_for_the_store, no_answer_is_longer_than_its_room, one_that_is_too_large_comes_behind_answers_that_wait,
         lines_that_say_nothing_are_not_kept, with_a_store_an_unknown_command_has_one_answer, who_is_full_accepts_for_others,
         no_two_clients_have_one_id, strangers_go]


if __name__ == "__main__":
    chosen = sys.argv[2:]
    sys.exit(run([(test.__name__, test) for test in TESTS if not chosen or test.__name__ in chosen]))
