#!/usr/bin/env python3
"""weir serve under pressure: many connections, long pipelines, clients that do not read, garbage, no free descriptors,
and shutdowns under load. No result depends on how long anything takes.

    pressure_test.py WEIR plain|sanitized|thread [TEST...]

Memory is measured in plain builds only, because sanitizers use memory of their own. No server is killed under the
thread sanitizer: it swaps 16 bytes in two steps under a lock, and a process could be killed in between."""
# Covers: src/server/output.c

import contextlib
import os
import random
import resource
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
os.environ["WEIR_CORE_DUMPS"] = "true"  # otherwise only root could count the server's descriptors

from daemon import TIMEOUT_S, Daemon, bulks, connect_to, daemon, expect, receive, receive_all, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client  # noqa: E402

WEIR, IS_PLAIN, HAS_TRUE_SWAPS = sys.argv[1], sys.argv[2] == "plain", sys.argv[2] != "thread"
PONG = b"+PONG\r\n"
IDLE, IDLE_BYTES_MOST = 10000, 8192
PIPELINED = 100000
DEBRIS = 40  # descriptors that a server needs besides connections, at most
LAST_S = 86400


def integers(*numbers):
    return b"*%d\r\n" % len(numbers) + b"".join(b":%d\r\n" % number for number in numbers)


def allow_descriptors(n):
    """Raises the limit to n, or as far as allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = n if most == resource.RLIM_INFINITY else min(n, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (n, most))
    return n


def wait_until(holds, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def send_all(client, requests):
    with contextlib.suppress(OSError):
        client.sendall(requests)


# --- many and much ----------------------------------------------------------------------------------------------------

def kernel_kib():
    """What the kernel reports as its memory for sockets and the like."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith(("Slab:", "Percpu:")))


def idle_connections_cost_little():
    descriptors = allow_descriptors(IDLE + 2 * DEBRIS)
    n = min(IDLE, descriptors - 2 * DEBRIS)
    with daemon(WEIR, "--workers", "1", "--connections", str(IDLE), "--keys", "1000") as one:
        with one.connect() as first:
            expect(first, bulks("PING"), PONG)
        before, kernel_before = one.rss_kib(), kernel_kib()
        clients = []
        try:
            for _ in range(n):
                clients.append(one.connect(by_path=True))
                if len(clients) % 500 == 0:  # no more than the backlog holds
                    expect(clients[-1], bulks("PING"), PONG)
            for client in clients:  # each has been served, and no memory of that remains
                client.sendall(bulks("CL.THROTTLE", "all", 0, 1, LAST_S))
            for client in clients:
                assert receive(client, 4) == b"*5\r\n"
            each = (one.rss_kib() - before) * 1024 // n
            beside = (kernel_kib() - kernel_before) * 1024 // n
        finally:
            for client in clients:
                client.close()
        assert not IS_PLAIN or each <= IDLE_BYTES_MOST, f"{each} bytes each"
        return f"{n} connections, {each} bytes each in the server; the kernel has {beside} for both ends of each"


def long_pipelines_are_answered():
    with daemon(WEIR, "--keys", "10000") as one:
        for by_path in (False, True):
            with one.connect(by_path) as client:
                request = bulks("CL.THROTTLE", f"pipeline {by_path}", PIPELINED // 2 - 1, 1, 1000)
                requests = b"".join(request + (bulks("ECHO", i) if i % 1000 == 0 else b"") for i in range(PIPELINED))
                sender = threading.Thread(target=send_all, args=(client, requests))
                sender.start()
                lines = client.makefile("rb")
                for i in range(PIPELINED):
                    assert lines.readline() == b"*5\r\n", i
                    numbers = [int(lines.readline()[1:]) for _ in range(5)]
                    assert numbers[:2] == [int(i >= PIPELINED // 2), PIPELINED // 2], (i, numbers)
                    if i % 1000 == 0:
                        text = str(i).encode()
                        assert lines.readline() + lines.readline() == b"$%d\r\n%s\r\n" % (len(text), text)
                sender.join(TIMEOUT_S)
        return f"{PIPELINED} requests by port and by path, exactly {PIPELINED // 2} allowed"


def requests_may_be_cut_anywhere():
    requests = (bulks("CL.THROTTLE", b"cut\r\n\0", 10**6, 1000, 1000) + b"ECHO \"a b\"\r\n" + b"\r\n*0\r\n"
                + bulks("WEIR.TAKE", "k", "1000000/1000day fixed_window") + bulks("PING"))
    with daemon(WEIR, "--workers", "1", "--keys", "1000") as one, one.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = client.makefile("rb")
        with one.connect() as other:
            for at in range(1, len(requests)):
                client.sendall(requests[:at])
                expect(other, bulks("PING"), PONG)  # by now the first part has been read, or is about to be
                client.sendall(requests[at:])
                answers = [lines.readline() for _ in range(6 + 2 + 8 + 1)]
                assert answers[:3] == [b"*5\r\n", b":0\r\n", b":1000001\r\n"], (at, answers)
                assert answers[6:11] == [b"$3\r\n", b"a b\r\n", b"*7\r\n", b":1\r\n", b":1000000\r\n"], (at, answers)
                assert answers[-1] == PONG, (at, answers)
        return f"at each of {len(requests) - 1} places"


# --- clients that misbehave -------------------------------------------------------------------------------------------

def receive_of(one, request):
    """The complete reply to one request."""
    with one.connect() as client:
        client.sendall(request + bulks("QUIT"))
        answer = receive_all(client)
    assert answer.endswith(b"+OK\r\n")
    return answer[:-len(b"+OK\r\n")]


def descriptors_of(one):
    return len(os.listdir(f"/proc/{one.process.pid}/fd"))


def who_does_not_read_is_cut_off_alone():
    """The server is stopped until the kernel has accepted requests with more replies than a socket holds."""
    with daemon(WEIR, "--workers", "1", "--keys", "1000", "--output", "1MiB", "--stall", "100ms") as one, \
            one.connect() as other:
        expect(other, bulks("PING"), PONG)
        before, rss_before = descriptors_of(one), one.rss_kib()
        with one.connect() as deaf:
            expect(deaf, bulks("PING"), PONG)
            os.kill(one.process.pid, signal.SIGSTOP)
            deaf.setblocking(False)
            sent = deaf.send(b"HELP\n" * 50000)
            os.kill(one.process.pid, signal.SIGCONT)
            wait_until(lambda: descriptors_of(one) == before, f"it is still there after {sent} bytes of requests")
            expect(other, bulks("CL.THROTTLE", "other", 0, 1, LAST_S), integers(0, 1, 0, -1, LAST_S))
            grown = one.rss_kib() - rss_before
        assert not IS_PLAIN or grown < 16 * 1024, f"{grown} KiB for one client"
        return f"after {sent} bytes of requests; the server had grown by {grown} KiB"


def who_reads_late_gets_all():
    """More replies than may be pending, to a client that first sends everything and only then reads."""
    with daemon(WEIR, "--workers", "1", "--keys", "1000", "--output", "1MiB") as one, one.connect() as client:
        n, line = 20000, b"+PONG\r\n"
        answer = receive_of(one, bulks("COMMAND", "DOCS"))
        sender = threading.Thread(target=send_all, args=(client, bulks("COMMAND", "DOCS") * 500 + bulks("PING") * n))
        sender.start()
        got = receive(client, 500 * len(answer) + n * len(line))
        sender.join(TIMEOUT_S)
        assert got == answer * 500 + line * n, len(got)


def requests_that_are_too_large_are_told():
    """Each argument is allowed, but together they exceed the size of a request."""
    with daemon(WEIR, "--workers", "1", "--keys", "1000") as one, one.connect() as client:
        client.sendall(bulks("PING"))
        assert receive(client, len(PONG)) == PONG
        sender = threading.Thread(target=send_all, args=(client, bulks("ECHO", *[b"x" * 60000] * 20)))
        sender.start()
        answer = receive_all(client)
        sender.join(TIMEOUT_S)
        assert answer.startswith(b"-ERR "), answer[:100]


def abandoned_connections_go():
    """Clients leave with half a request; with replies pending; half closed, with replies pending."""
    with daemon(WEIR, "--workers", "1", "--keys", "1000") as one, one.connect() as stays:
        expect(stays, bulks("PING"), PONG)
        before = descriptors_of(one)
        for i in range(300):
            client = one.connect(by_path=i % 2 == 0)
            if i % 3 == 0:
                client.sendall(bulks("ECHO", "x" * 100)[:-50])
            elif i % 3 == 1:
                client.sendall(bulks("HELP") * 200)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with a reset
            else:
                client.sendall(bulks("ECHO", "x" * 1000) * 300)
                client.shutdown(socket.SHUT_WR)
                assert receive_all(client) == b"$1000\r\n%s\r\n" % (b"x" * 1000) * 300
            client.close()
        expect(stays, bulks("PING"), PONG)
        wait_until(lambda: descriptors_of(one) == before, "descriptors are left")


# --- out of descriptors -----------------------------------------------------------------------------------------------

def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def few_descriptors_at_first():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))


def it_takes_what_descriptors_it_may():
    with daemon(WEIR, "--workers", "1", "--keys", "1000", preexec_fn=few_descriptors_at_first) as one:
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                expect(stack.enter_context(one.connect()), bulks("PING"), PONG)


def without_descriptors_it_goes_on():
    with daemon(WEIR, "--workers", "1", "--keys", "1000", preexec_fn=few_descriptors) as one:
        clients = [one.connect(by_path=i % 2 == 0) for i in range(90)]  # the kernel accepts them all, the server cannot
        try:
            for client in clients:
                client.sendall(bulks("PING"))
            served = receive_some(clients, 30)
            assert len(served) < 64, len(served)
            wait_until(lambda: "connections: Too many open files; new connections wait" in one.said(), "the log tells nothing")
            for _ in range(3):
                for client in served:
                    expect(client, bulks("CL.THROTTLE", "all", 9, 1, 1000, 0), integers(0, 10, 10, -1, 0))
            for client in served:
                client.close()
            others = [client for client in clients if client not in served]
            for client in others:  # served as soon as others have left
                assert receive(client, len(PONG)) == PONG, "who waited is not served"
        finally:
            for client in clients:
                client.close()
        with one.connect() as late:
            expect(late, bulks("PING"), PONG)
        return f"{len(served)} served at first, {len(others)} when they had gone"


def receive_some(clients, least):
    """The clients that get a reply: at least `least`, and until no other gets one for a while."""
    served = []
    with selectors.DefaultSelector() as watch:
        for client in clients:
            watch.register(client, selectors.EVENT_READ)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            ready = watch.select(0.5)
            for key, _ in ready:
                assert receive(key.fileobj, len(PONG)) == PONG
                watch.unregister(key.fileobj)
                served.append(key.fileobj)
            if not ready and len(served) >= least:
                return served
            assert time.monotonic() < deadline, len(served)


# --- ends -------------------------------------------------------------------------------------------------------------

def sigterm_answers_all_that_was_received():
    """The server is stopped while everything is sent, so all of it is in its sockets when it gets the signal."""
    sizes = [1, 10, 100, 1000, 3000]
    with daemon(WEIR, "--workers", "2", "--keys", "1000") as one:
        clients = [one.connect(by_path=i % 2 == 0) for i in range(10)]
        for client in clients:
            expect(client, bulks("PING"), PONG)
        os.kill(one.process.pid, signal.SIGSTOP)
        sent = []
        for i, client in enumerate(clients):
            request = bulks("WEIR.TAKE", i, "100000/1000day")
            client.setblocking(False)
            sent.append(client.send(request * sizes[i // 2]) // len(request))  # complete requests that the kernel accepted
            client.settimeout(TIMEOUT_S)
        os.kill(one.process.pid, signal.SIGTERM)
        os.kill(one.process.pid, signal.SIGCONT)
        answers = [receive_all(client).count(b"*7\r\n") for client in clients]
        for client in clients:
            client.close()
        assert one.process.wait(TIMEOUT_S) == 0
        one.process.stdout.close()
        one.process = None
        assert answers == sent, f"sent {sent}, answered {answers}"
        return f"{sum(sent)} requests in the sockets of {len(clients)} clients"


class Load(threading.Thread):
    """Takes from keys, round after round, until the connection is lost. Counts what was allowed for each. After rounds_most
    it waits for the connection to be lost."""

    def __init__(self, where, keys, limit, rounds_most):
        super().__init__()
        self.client, self.keys, self.allowed, self.rounds = connect_to(where), keys, [0] * keys, 0
        self.rounds_most = rounds_most
        self.requests = b"".join(bulks("CL.THROTTLE", f"key {key}", limit - 1, 1, LAST_S) for key in range(keys))

    def run(self):
        lines = self.client.makefile("rb")
        with self.client, contextlib.suppress(OSError):
            while self.rounds < self.rounds_most:
                self.client.sendall(self.requests)
                for key in range(self.keys):
                    answer = [lines.readline() for _ in range(6)]
                    if not answer[-1].endswith(b"\n"):
                        return
                    self.allowed[key] += answer[1] == b":0\r\n"
                self.rounds += 1
            lines.readline()


def killed_servers_admit_no_more_than_the_limit():
    """Three servers, one after the other on one table file. Two of them are killed while several clients send requests.
    No key gets more than its limit, and less only by replies that were lost."""
    keys, limit, clients = 50, 2000, 4
    with tempfile.TemporaryDirectory(prefix="weir-serve-") as folder:
        one = Daemon(WEIR, folder, ["--keys", "10000", "--file", os.path.join(folder, "table")])
        allowed, lost = [0] * keys, 0
        try:
            for last in (False, False, True):
                one.start()
                rounds_most = limit if last else limit // clients // 4  # the killed servers leave half of the limit
                loads = [Load(one.path if i % 2 else one.port, keys, limit, rounds_most) for i in range(clients)]
                before = sum(allowed)
                for load in loads:
                    load.start()
                wait_until(lambda: all(load.rounds >= 20 or not load.is_alive() for load in loads), "no rounds")
                if last:
                    wait_until(lambda: all(load.rounds * clients >= limit * 2 for load in loads), "not to the end")
                assert one.end(signal.SIGTERM if last else signal.SIGKILL) == (0 if last else -signal.SIGKILL)
                for load in loads:
                    load.join(TIMEOUT_S)
                    assert not load.is_alive()
                    allowed = [a + b for a, b in zip(allowed, load.allowed)]
                lost += 0 if last else clients  # at most one reply per key and client
                assert sum(allowed) > before
        finally:
            one.close()
        assert all(limit - lost <= n <= limit for n in allowed), (limit, lost, allowed)
        return f"{keys} keys of {limit}: {min(allowed)} to {max(allowed)} told to clients"


# --- garbage ----------------------------------------------------------------------------------------------------------

ECHO = bulks("ECHO", "heron")
RUBBISH = [
    b"*x\r\n", b"*-7\r\n" + ECHO, b"*0\r\n" + ECHO, b"*2147483648\r\n", b"*99999999999999999999\r\n", b"*1\r\n:3\r\n",
    b"*1\r\n$x\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$-9\r\n", b"*1\r\n$9999999999\r\n", b"*1\r\n\r\n", b"*1\r\nPING\r\n",
    b"*\r\n", b"*1\r\n$\r\n", b"*+1\r\n", b"* 1\r\n", b"*1 \r\n", b"*01\r\n", b"*1\r\n$04\r\nPING\r\n", b"ECHO \"a\r\n",
    b"ECHO 'a\r\n", b"ECHO \"a\"b\r\n", b"ECHO 'a' b c\r\n", b"\r\n\r\n" + ECHO, b"echo heron\n", b"ECHO \"\\x41\\n\"\r\n",
    ECHO + b"*1\r\n!\r\n" + ECHO, ECHO * 3 + b"*a\r\n", b"nonsense\r\n", b"nonsense a b c\r\n", b"\xff\xfe\xfd\r\n",
    b"*3\r\n$8\r\nnonsense\r\n$1\r\na\r\n$2\r\nbc\r\n", bulks("nonsense", "x" * 300, "y"), bulks("x" * 300, "y"),
    bulks("nonsense", *"abcdefghijklmnopqrstuvwxyz" * 2), bulks("ECHO"), bulks("ECHO", 1, 2), bulks(""), bulks("", ""),
    bulks("nonsense", b"a\r\nb"), bulks(b"a\r\nb"), bulks("nonsense", "x" * 120, "y" * 20, "z"), b"Host: here\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    b"\x16\x03\x01\x02\x01\x01\xfc\x03\x03" + bytes(range(1, 256)) + b"\r\n",  # no NUL: Redis 7.0 waits forever at one
]


def said_to(path, text):
    """The replies, and whether the server disconnected before the last request."""
    with connect_to(path) as client:
        sender = threading.Thread(target=send_all, args=(client, text + b"\r\n" + bulks("ECHO", "the end")))
        sender.start()
        got, mark = b"", b"$7\r\nthe end\r\n"
        with contextlib.suppress(ConnectionError):
            while not got.endswith(mark):
                piece = client.recv(1 << 16)
                if not piece:
                    break
                got += piece
        sender.join(TIMEOUT_S)
        return got, not got.endswith(mark)


def rubbish_is_answered_as_redis_does():
    with redis() as theirs, daemon(WEIR, "--keys", "1000") as ours:
        faults = []
        for text in RUBBISH:
            we, they = said_to(ours.path, text), said_to(theirs.path, text)
            if we != they:
                faults.append(f"\n  {text[:80]!r}\n   ours: {we!r:.300}\n  redis: {they!r:.300}")
        assert not faults, f"{len(faults)} of {len(RUBBISH)} differ: {''.join(faults)}"
        return f"{len(RUBBISH)} pieces, to the byte, and hung up on by both or by none"


def any_bytes_harm_nobody_else():
    dice = random.Random(7)
    with daemon(WEIR, "--workers", "1", "--keys", "1000") as one, one.connect() as other:
        for i in range(300):
            with one.connect(by_path=True) as client:
                text = bytes(dice.randrange(256) for _ in range(dice.randrange(1, 400)))
                send_all(client, (ECHO * dice.randrange(3) if i % 2 else b"*3\r\n$4\r\n") + text)
                if i % 3:
                    client.shutdown(socket.SHUT_WR)
                    receive_all(client)
            if i % 10 == 0:
                expect(other, ECHO, b"$5\r\nheron\r\n")
        return "300 clients"


# --- strangers --------------------------------------------------------------------------------------------------------

WASHED_KEYS, STRANGERS = 1000, 4000 if IS_PLAIN else 1000
WASHED = ["5/1000day", "20/1000day leaky queue 20", "20/1000day refill interval", "5/1000day fixed_window align first",
          "20/1000day sliding_counter", "5/1000day sliding_log", "100/1000day sliding_log", "20/1000day sliding_log count all",
          "100/1000day sliding_counter segments 50", "20000/1000day sliding_counter"]


def victim_gets(client, limit, most):
    """How much a key is allowed that takes all it can, again and again, while others come twice each."""
    allowed = 0
    for first in range(0, STRANGERS, 100):
        requests = [("WEIR.CHECK", "COST", cost, "kind", limit, "user", "victim") for cost in (most, 1)]
        requests += [("WEIR.CHECK", "kind", limit, "user", f"stranger {i}") for i in range(first, first + 100)] * 2
        replies = client.pipeline(requests)
        allowed += most * replies[0][0] + replies[1][0]
    return allowed


def strangers_wash_out_no_limit():
    """For every algorithm, with a table and an arena that are too small for all keys."""
    for arena in ("64KiB", "1MiB"):
        with tempfile.TemporaryDirectory() as folder:
            policy = os.path.join(folder, "policy.yaml")
            with open(policy, "w", encoding="ascii") as out:
                out.write("limits:\n")
                for i, limit in enumerate(WASHED):
                    out.write(f"  - {{name: l{i}, key: [user], match: {{kind: l{i}}}, limit: {limit}}}\n")
            with daemon(WEIR, "--keys", str(WASHED_KEYS), "--arena", arena, "--policy", policy) as one, Client(one) as client:
                for i, limit in enumerate(WASHED):
                    most = int(limit.split("/")[0])
                    got = victim_gets(client, f"l{i}", most)
                    assert got == most, f"{limit}, arena {arena}: {got} of {most}"
                info = client.ask("INFO")
                assert "table_evicted_keys:0" not in info, info
                assert ("table_folded_keys:0" not in info) == (arena == "64KiB"), info
    return f"{len(WASHED)} limits, {STRANGERS} strangers each"


TESTS = [idle_connections_cost_little, long_pipelines_are_answered, requests_may_be_cut_anywhere,
         who_does_not_read_is_cut_off_alone, who_reads_late_gets_all, requests_that_are_too_large_are_told, abandoned_connections_go,
         it_takes_what_descriptors_it_may, without_descriptors_it_goes_on, sigterm_answers_all_that_was_received,
         rubbish_is_answered_as_redis_does, any_bytes_harm_nobody_else, strangers_wash_out_no_limit]
if HAS_TRUE_SWAPS:
    TESTS.append(killed_servers_admit_no_more_than_the_limit)


if __name__ == "__main__":
    chosen = sys.argv[3:]
    sys.exit(run([(test.__name__, test) for test in TESTS if not chosen or test.__name__ in chosen]))
