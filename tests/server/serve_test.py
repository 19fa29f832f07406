#!/usr/bin/env python3
"""weir serve over its sockets.

    serve_test.py WEIR

Each test starts its own server, on a free port and a Unix socket in a temporary folder, and ends it by its pid."""
# Covers: src/cli/serve.c, src/cli/serve_report.c, src/server/server.c, src/server/worker.c,
# src/server/worker_accept.c, src/server/resp/resp_connection.c

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source may be read-only
from daemon import TIMEOUT_S, bulks, connect_to, expect, receive, run  # noqa: E402

WEIR = sys.argv[1]


class Server:
    def __init__(self, folder, *options):
        self.path = os.path.join(folder, "socket")
        self.process = subprocess.Popen(
            [WEIR, "serve", "--listen", "127.0.0.1:0", "--listen", self.path, "--http", "none", "--keys", "10000", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = []
        while not lines or (lines[-1] and not re.search(" WEIR.(TAKE|CHECK) ", lines[-1])):
            lines.append(self.process.stdout.readline().decode())
        self.lines = "".join(lines)
        found = re.fullmatch(r"weir serve: RESP at 127\.0\.0\.1:(\d+)\n", lines[0])
        assert found and lines[1] == f"weir serve: RESP at {self.path}\n", (lines, self.process.stderr.read())
        self.port = int(found.group(1))
        assert re.fullmatch(f"(try:|    ) redis-cli -p {self.port}( --user [a-z]+ --askpass)? WEIR.(TAKE user:42 5/min|CHECK .+)\n", lines[-1]), lines

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            assert self.end() == 0
        self.process.stdout.close()
        self.process.stderr.close()

    def connect(self, by_path=False):
        return connect_to(self.path if by_path else self.port)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(TIMEOUT_S)


@contextlib.contextmanager
def server(*options):
    with tempfile.TemporaryDirectory(prefix="weir-serve-") as folder, Server(folder, *options) as one:
        yield one


def integers(*numbers):
    return b"*%d\r\n" % len(numbers) + b"".join(b":%d\r\n" % number for number in numbers)


def is_closed(client):
    return client.recv(1) == b""


def cell_answers_as_redis_cell():
    with server() as one, one.connect() as client:
        for left in (15, 14, 13):
            client.sendall(bulks("CL.THROTTLE", "user", 15, 30, 60))
            got = receive(client, len(integers(0, 16, left, -1, 2)))
            assert got.startswith(b"*5\r\n:0\r\n:16\r\n:%d\r\n:-1\r\n" % left), got
        expect(client, bulks("CL.THROTTLE", "user", 15, 30, 60, 100), b"*5\r\n:1\r\n:16\r\n:13\r\n:-1\r\n")
        receive(client, 4)
        expect(client, bulks("cl.throttle", "other", 0, 1, 3600), integers(0, 1, 0, -1, 3600))
        expect(client, bulks("cl.throttle", "other", 0, 1, 3600), integers(1, 1, 0, 3600, 3600))
        # the state belongs to the key, whatever the numbers are
        expect(client, bulks("cl.throttle", "other", 1, 1, 3600, 0), integers(0, 2, 1, -1, 3600))
        # a limit of 0 or less allows nothing and stores nothing
        expect(client, bulks("CL.THROTTLE", "other", -1, 1, 3600), integers(1, 0, 0, -1, 3600))
        expect(client, bulks("CL.THROTTLE", "none", -1, 1, 3600) * 2, integers(1, 0, 0, -1, 0) * 2)
        expect(client, bulks("CL.THROTTLE", "none", -5, 1, 3600, 9), integers(1, -4, 0, -1, 0))
        expect(client, bulks("CL.THROTTLE", "none", 0, 1, 3600), integers(0, 1, 0, -1, 3600))


def cell_gives_back_as_redis_cell():
    with server() as one, one.connect() as client:
        expect(client, bulks("CL.THROTTLE", "k", 9, 1, 86400, 9), integers(0, 10, 1, -1, 9 * 86400))
        expect(client, bulks("CL.THROTTLE", "k", 9, 1, 86400, -4), integers(0, 10, 5, -1, 5 * 86400))
        # with the same and with other numbers; batched with others; never above full
        expect(client, bulks("CL.THROTTLE", "k", 9, 1, 86400) + bulks("CL.THROTTLE", "k", 9, 1, 86400, -1),
               integers(0, 10, 4, -1, 6 * 86400) + integers(0, 10, 5, -1, 5 * 86400))
        expect(client, bulks("CL.THROTTLE", "k", 8, 1, 86400, -1), integers(0, 9, 5, -1, 4 * 86400))
        expect(client, bulks("CL.THROTTLE", "k", 9, 1, 86400, -(2**63)), integers(0, 10, 10, -1, 0))
        expect(client, bulks("CL.THROTTLE", "new", 9, 1, 86400, -1), integers(0, 10, 10, -1, 0))


USAGE = b"Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
SPAN = b"a key would take more than 6671 days to be full again; lower max_burst or period"


def cell_refuses_as_redis_cell():
    """redis-cell's errors have two prefixes."""
    most = 2**63 - 1
    rows = [
        ((), b"Store error: " + USAGE),
        ((1, 1, 60, 1, 1), b"Store error: " + USAGE),
        (("x", 1, 60), b"Store error: Couldn't parse as integer: x"),
        ((1, "", 60), b"Store error: Couldn't parse as integer: "),
        ((1, 1, "1.5"), b"Store error: Couldn't parse as integer: 1.5"),
        ((1, 1, 60, "y"), b"Store error: Couldn't parse as integer: y"),
        (("x", 1, 60, "y"), b"Store error: Couldn't parse as integer: x"),  # the first one
        ((1, 0, 60, "y"), b"Store error: Couldn't parse as integer: y"),
        ((most + 1, 1, 60), b"Store error: Couldn't parse as integer: 9223372036854775808"),
        ((1, 1, -most - 2), b"Store error: Couldn't parse as integer: -9223372036854775809"),
        ((b"1\r\n+OK", 1, 60), b"Store error: Couldn't parse as integer: 1  +OK"),
        ((b"1\0x", 1, 60), b"Store error: Couldn't parse as integer: 1"),
        ((b"x" * 60000, 1, 60), b"Store error: Couldn't parse as integer: " + b"x" * 128),
        ((1, 0, 60), b"Store error: Zero rates are not supported"),
        ((1, 1, 0), b"Store error: Zero rates are not supported"),
        ((1, -1, 60), b"Store error: Zero rates are not supported"),
        ((1, 10**9 + 1, 1), b"Store error: Zero rates are not supported"),
        ((-1, 0, 60), b"Store error: Zero rates are not supported"),
        ((0, 1, 6672 * 86400), SPAN),
        ((6671, 1, 86400), SPAN),
        ((most, most, most), SPAN),
        ((most, 10**9, 1, most), SPAN),
        ((-1, 1, most), SPAN),
    ]
    with server() as one, one.connect() as client:
        for numbers, said in rows:
            expect(client, bulks("CL.THROTTLE", "a", *numbers), b"-Cell error: " + said + b"\r\n")
        # numbers that just fit; a quantity after cached numbers
        expect(client, bulks("CL.THROTTLE", "a", 6670, 1, 86400), integers(0, 6671, 6670, -1, 86400))
        expect(client, bulks("CL.THROTTLE", "a", 6670, 1, 86400, "z"),
               b"-Cell error: Store error: Couldn't parse as integer: z\r\n")
        expect(client, bulks("CL.THROTTLE", "b", 0, 1, 6671 * 86400), integers(0, 1, 0, -1, 6671 * 86400))
        expect(client, bulks("CL.THROTTLE", "c", 0, most, most), integers(0, 1, 0, -1, 1))


def throttle_answers_as_throttlecrab():
    with server() as one, one.connect() as client:
        expect(client, bulks("THROTTLE", "user", 2, 1, 3600), b"*5\r\n:1\r\n:2\r\n:1\r\n:3600\r\n:0\r\n")
        expect(client, bulks("THROTTLE", "user", 2, 1, 3600, 2), b"*5\r\n:0\r\n:2\r\n:1\r\n:35")
        receive_line(client)  # 99, or less on a machine that pauses
        receive_line(client)
        # more than the burst: the time to refill that much
        expect(client, bulks("THROTTLE", "whole", 2, 1, 3600, 3), integers(0, 2, 2, 0, 3600))
        expect(client, bulks("THROTTLE", "whole", 2, 1, 3600, 100) * 2, integers(0, 2, 2, 0, 98 * 3600) * 2)
        expect(client, bulks("THROTTLE", "whole", 2, 1, 6 * 10**7, 2**63 - 1), integers(0, 2, 2, 0, 2**63 - 1))
        expect(client, bulks("THROTTLE", "whole", 2, 1, 3600, 0), integers(1, 2, 2, 0, 0))


def throttle_refuses_as_throttlecrab():
    most = 2**63 - 1
    rows = [
        (("x", "x", "x", "x"), b"invalid max_burst"),
        ((1, "x", "x", "x"), b"invalid count_per_period"),
        ((1, 1, "x", "x"), b"invalid period"),
        ((1, 1, 60, "x"), b"invalid quantity"),
        ((most + 1, 1, 60), b"invalid max_burst"),
        ((0, 1, 60, "x"), b"invalid quantity"),
        ((0, 1, 60), b"Rate limit check failed: invalid rate limit parameters"),
        ((1, -1, 60), b"Rate limit check failed: invalid rate limit parameters"),
        ((1, 1, 0), b"Rate limit check failed: invalid rate limit parameters"),
        ((1, 1, 60, -1), b"Rate limit check failed: negative quantity: -1"),
        ((0, 0, 0, -most - 1), b"Rate limit check failed: negative quantity: -9223372036854775808"),
        ((1, 10**9 + 1, 1), b"rates above one per ns are not supported; lower the count, or raise the period"),
        ((1, 1, 6672 * 86400), SPAN),
        ((most, most, most), SPAN),
    ]
    with server() as one, one.connect() as client:
        for numbers, said in rows:
            expect(client, bulks("THROTTLE", "a", *numbers), b"-ERR " + said + b"\r\n")
        expect(client, bulks("THROTTLE", "a", 1, 1), b"-ERR wrong number of arguments for 'throttle' command\r\n")
        # a quantity after cached numbers
        expect(client, bulks("THROTTLE", "a", 6671, 1, 86400), integers(1, 6671, 6670, 86400, 0))
        expect(client, bulks("THROTTLE", "a", 6671, 1, 86400, "z"), b"-ERR invalid quantity\r\n")
        expect(client, bulks("THROTTLE", "a", 6671, 1, 86400, -2),
               b"-ERR Rate limit check failed: negative quantity: -2\r\n")


def limits_are_text():
    with server() as one, one.connect(by_path=True) as client:
        expect(client, bulks("WEIR.TAKE", "k", "3/5000day fixed_window", 2), b"*7\r\n:1\r\n:3\r\n:1\r\n:2\r\n:0\r\n")
        for _ in range(2):
            receive_line(client)
        expect(client, bulks("WEIR.PEEK", "k", "3/5000day fixed_window", 2), b"*7\r\n:0\r\n:3\r\n:1\r\n:0\r\n")
        for _ in range(3):
            receive_line(client)
        expect(client, bulks("WEIR.UPTO", "k", "3/5000day fixed_window", 5), b"*7\r\n:1\r\n:3\r\n:0\r\n:1\r\n:0\r\n")
        for _ in range(2):
            receive_line(client)
        expect(client, bulks("WEIR.REFUND", "k", "3/5000day fixed_window", 3), b"*7\r\n:1\r\n:3\r\n:3\r\n")
        for _ in range(4):
            receive_line(client)
        expect(client, bulks("WEIR.RESET", "k", "3/5000day fixed_window"), b":0\r\n")
        expect(client, bulks("WEIR.TAKE", "k", "3/fortnight"), b"-ERR the limit: ")
        assert b"fortnight" in receive_line(client)
        expect(client, bulks("WEIR.TAKE", "k", "3/s", "many"), b"-ERR invalid cost: use a whole number, 0 to 9223372036854775807\r\n")
        expect(client, bulks("WEIR.TAKE", "k"), b"-ERR wrong number of arguments for 'weir.take' command\r\n")


def receive_line(client):
    line = b""
    while not line.endswith(b"\n"):
        line += client.recv(1)
    return line


def connections_are_clients():
    with server() as one, one.connect() as client:
        expect(client, b"PING\r\n", b"+PONG\r\n")
        expect(client, bulks("PING", "x"), b"$1\r\nx\r\n")
        expect(client, bulks("ECHO", b"\x00\xff"), b"$2\r\n\x00\xff\r\n")
        expect(client, bulks("SELECT", 0), b"+OK\r\n")
        expect(client, bulks("SELECT", 1), b"-ERR DB index is out of range\r\n")
        expect(client, bulks("HELLO", 4), b"-NOPROTO unsupported protocol version\r\n")
        expect(client, bulks("HELLO", 3), b"%7\r\n$6\r\nserver\r\n$4\r\nweir\r\n")
        for _ in range(21):
            receive_line(client)
        expect(client, bulks("nonsense", "a", "b"),
               b"-ERR unknown command 'nonsense', with args beginning with: 'a' 'b' \r\n")
        expect(client, bulks("QUIT"), b"+OK\r\n")
        assert is_closed(client)


def timers_of(port, client_port):
    """Which timers run for a connection, by the kernel's numbers."""
    with open("/proc/net/tcp", encoding="ascii") as lines:
        rows = [line.split() for line in lines]
    return [int(row[5].split(":")[0]) for row in rows
            if row[1].endswith(f":{port:04X}") and row[2].endswith(f":{client_port:04X}")]


def who_has_gone_without_a_word_is_noticed():
    keepalive, until = 2, time.monotonic() + TIMEOUT_S
    with server() as one, one.connect() as client:
        expect(client, b"PING\r\n", b"+PONG\r\n")
        while timers_of(one.port, client.getsockname()[1]) != [keepalive]: # once the reply is acknowledged
            assert time.monotonic() < until
            time.sleep(0.01)


def answers_have_the_order_of_requests():
    with server("--workers", "1") as one, one.connect() as client:
        requests, answers = b"", b""
        for i in range(5000):
            # 300 limits are more than are cached: some are recreated while others wait for a decision
            requests += bulks("CL.THROTTLE", f"key {i}", i % 300, 1, 1000) + bulks("ECHO", i)
            answers += integers(0, i % 300 + 1, i % 300, -1, 1000) + b"$%d\r\n%d\r\n" % (len(str(i)), i)
        client.sendall(requests)
        assert receive(client, len(answers)) == answers


def bytes_may_come_one_by_one():
    with server() as one, one.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request, answer = bulks("CL.THROTTLE", "slow", 4, 1, 1000), integers(0, 5, 4, -1, 1000)
        for i in range(len(request)):
            client.sendall(request[i:i + 1])
        assert receive(client, len(answer)) == answer


def what_is_no_request_is_told_and_closed():
    for request, answer in ((b"*x\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
                            (b"*1\r\n:3\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n"),
                            (b"*1\r\n$-7\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
                            (b"ECHO \"\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n")):
        with server() as one, one.connect() as client:
            expect(client, bulks("PING") + request, b"+PONG\r\n" + answer)
            assert is_closed(client)


def who_does_not_read_holds_up_nobody():
    with server("--workers", "1") as one, one.connect() as deaf, one.connect() as other:
        request, left = bulks("ECHO", b"x" * 60000), b""
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):  # until the server stops reading
            while True:
                left = left or request
                left = left[deaf.send(left):]
        expect(other, bulks("PING"), b"+PONG\r\n")
        deaf.settimeout(TIMEOUT_S)
        assert receive(deaf, 8) == b"$60000\r\n"


def sigterm_answers_what_has_come():
    with server("--workers", "1") as one, one.connect() as client:
        expect(client, bulks("PING"), b"+PONG\r\n")
        os.kill(one.process.pid, signal.SIGSTOP)
        client.sendall(bulks("CL.THROTTLE", "last", 1, 1, 1000) * 100)
        os.kill(one.process.pid, signal.SIGTERM)
        os.kill(one.process.pid, signal.SIGCONT)
        assert one.process.wait(TIMEOUT_S) == 0
        answers = receive(client, 10**6)
        assert answers.count(b"*5\r\n") == 100, answers[-100:]
        assert not os.path.exists(one.path)


def connections_are_bounded():
    with server("--workers", "1", "--connections", "3") as one:
        clients = [one.connect() for _ in range(5)]
        for client in clients[:3]:
            expect(client, bulks("PING"), b"+PONG\r\n")
        clients[3].sendall(bulks("PING"))
        clients[0].close()
        assert receive(clients[3], 7) == b"+PONG\r\n"
        for client in clients:
            client.close()


def a_killed_server_is_replaced():
    with tempfile.TemporaryDirectory(prefix="weir-serve-") as folder:
        table = ["--file", os.path.join(folder, "table")]
        with Server(folder, *table) as first, first.connect() as client:
            expect(client, bulks("CL.THROTTLE", "k", 0, 1, 86400), b"*5\r\n:0\r\n")
            first.end(signal.SIGKILL)
        # the first server's socket is still there, and its usage is kept
        with Server(folder, *table) as second, second.connect(by_path=True) as client:
            expect(client, bulks("CL.THROTTLE", "k", 0, 1, 86400), b"*5\r\n:1\r\n")
            assert second.end() == 0


def redis_cli_works():
    with server() as one:
        asked = subprocess.run(["redis-cli", "-p", str(one.port), "--no-raw", "CL.THROTTLE", "user:42", "15", "30", "60"],
                               capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        assert asked.stdout.startswith("1) (integer) 0\n2) (integer) 16\n3) (integer) 15\n"), asked.stdout


def what_cannot_be_served_is_told():
    for options, words in ((["--listen", "0.0.0.0:0"], "other machines can reach this address"),
                           (["--listen", "nowhere"], "use HOST:PORT"), (["--keys", "none"], "use a whole number"),
                           (["--workers", "0"], "from 1 to 256"), (["--what", "x"], "unknown option --what;"),
                           (["--keys"], "--keys needs a value"), (["--foo"], "unknown option --foo;"), (["--shared", "a/b"], "use 1 to 63 bytes")):
        done = subprocess.run([WEIR, "serve", "--http", "none", *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode in (1, 2) and words in done.stderr and done.stdout == "", (options, done)


def a_second_server_is_refused():
    """Sockets of one server share a port. Two servers would each allow the full limits."""
    with server("--workers", "2") as one:
        for more in ((), ("--workers", "2")):
            done = subprocess.run([WEIR, "serve", "--http", "none", "--listen", f"127.0.0.1:{one.port}", *more],
                                  capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert done.returncode == 1 and "Address already in use" in done.stderr, done
        done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", f"127.0.0.1:{one.port}"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 1 and "Address already in use" in done.stderr, done


def started(*options):
    """Its output on both streams when it starts, and its exit status after SIGTERM."""
    with subprocess.Popen([WEIR, "serve", "--keys", "1000", "--workers", "1", *options], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        lines = []
        while not lines or (lines[-1] and not re.search(" WEIR.(TAKE|CHECK) ", lines[-1])):
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        more, said = process.communicate(timeout=TIMEOUT_S)
    return "".join(lines) + more, said, process.returncode


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def what_it_says_to_try_works():
    """Runs each printed command in a shell, for every listen address and path."""
    with tempfile.TemporaryDirectory(prefix="weir-serve-") as folder:
        odd = os.path.join(folder, "it's $(odd) *")
        for where in ("127.0.0.1:0", "127.0.0.2:0", *(["[::1]:0"] if has_ipv6() else []), os.path.join(folder, "plain"), odd):
            http = odd + ".http" if where == odd else "127.0.0.3:0"
            with subprocess.Popen([WEIR, "serve", "--listen", where, "--http", http, "--workers", "1"], stdout=subprocess.PIPE,
                                  text=True) as process:
                lines = [process.stdout.readline() for _ in range(4)]
                tries = [line[5:].strip() for line in lines[2:]]
                said = [subprocess.run(["sh", "-c", words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False).stdout
                        for words in tries]
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=TIMEOUT_S)
            assert tries[0].startswith("curl ") and said[0].startswith("HTTP/1.1 200 OK\n") and '"remaining":4' in said[0], (tries, said)
            assert said[1].startswith("1\n5\n3\n"), (tries, said)
            assert (" -h " in tries[1]) == (where in ("127.0.0.2:0", "[::1]:0")), tries


def http_is_left_out_only_if_nobody_asked_for_it():
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # the port may be in use, which is just as good
            stack.enter_context(socket.create_server(("127.0.0.1", 8080)))
        out, said, status = started("--listen", "127.0.0.1:0")
        assert status == 0 and "weir serve: RESP at" in out and "HTTP" not in out and "curl" not in out, out
        assert said == "weir serve: http: 127.0.0.1:8080 is in use, so HTTP is off; use --http WHERE or --http none\n", said
        out, said, status = started("--listen", "127.0.0.1:0", "--http", "127.0.0.1:8080")
        assert status == 1 and out == "" and "Address already in use; use another address, or none" in said, (out, said)


def what_is_in_the_way_is_told():
    with tempfile.TemporaryDirectory(prefix="weir-serve-") as folder:
        path, table = os.path.join(folder, "file"), os.path.join(folder, "table")
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious")
        _, said, status = started("--listen", path, "--http", "none")
        assert status == 1 and f"{path}: it exists and is not a socket; use another path, or remove it\n" in said, said
        with open(path, encoding="utf-8") as file:
            assert file.read() == "precious"
        here = ("--listen", "127.0.0.1:0", "--http", "none", "--file", table)
        assert started(*here, "--keys", "50k", "--arena", "1MiB")[2] == 0
        made = "; it was made with keys 50000, arena 1048576 and limits_max 63: use these values, or remove the file, which resets all keys\n"
        for other in (("--keys", "60k"), ("--keys", "50k"), ("--keys", "50k", "--arena", "1MiB", "--limits-max", "99")):
            _, said, status = started(*here, *other)
            assert status == 1 and said.startswith("weir serve: --file: ") and said.endswith(made), (other, said)
        assert started(*here, "--keys", "50000", "--arena", "1048576", "--limits-max", "63")[2] == 0
        with open(table, "r+b") as file:
            file.write(b"x" * 8)
        _, said, status = started(*here)
        assert status == 1 and "made with" not in said, said


TESTS = [cell_answers_as_redis_cell, cell_gives_back_as_redis_cell, cell_refuses_as_redis_cell,
         throttle_answers_as_throttlecrab, throttle_refuses_as_throttlecrab, limits_are_text, connections_are_clients,
         who_has_gone_without_a_word_is_noticed, answers_have_the_order_of_requests, bytes_may_come_one_by_one,
         what_is_no_request_is_told_and_closed, who_does_not_read_holds_up_nobody, sigterm_answers_what_has_come,
         connections_are_bounded, a_killed_server_is_replaced, redis_cli_works, what_cannot_be_served_is_told,
         a_second_server_is_refused, what_it_says_to_try_works, http_is_left_out_only_if_nobody_asked_for_it,
         what_is_in_the_way_is_told]


if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
