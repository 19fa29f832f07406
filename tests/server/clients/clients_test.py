#!/usr/bin/env python3
"""Unmodified Redis clients with weir serve: redis-cli, redis-py, ioredis 5 and 6, redigo and hiredis.

    clients_test.py WEIR FOLDER

Each client is a small program that reads requests from standard input: a line "call" with the words in hexadecimal; or
"pipeline N" and N such lines to be sent at once; or "transaction N", which sends them between MULTI and EXEC. It prints
what its library made of each reply: an integer ":5", bytes "$6162", nothing "_", an array "*2" and its elements, "-"
and the text of a server error, "!" and the text of any other error. So all clients have the same checks. redis-cli
prints JSON instead.

FOLDER keeps builds and downloads for the next run. A client that cannot be installed is a failure."""

import codecs
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, daemon, run  # noqa: E402
from libraries import build_with_redigo, is_older, make, node_modules, python_with_redis  # noqa: E402

WEIR, FOLDER = sys.argv[1], sys.argv[2]
NAME = "heron"
PIPELINED = 500
WINDOW = "3/5000day fixed_window"


class Lost(Exception):
    """The connection failed or was lost."""


class Fault(str):
    """What a library reports as an error of the server."""


# --- building the clients ---------------------------------------------------------------------------------------------

def make_hiredis():
    source, made = os.path.join(HERE, "hiredis.c"), os.path.join(FOLDER, "hiredis")
    if is_older(made, source):
        flags = make("hiredis (Debian: libhiredis-dev)", ["pkg-config", "--cflags", "--libs", "hiredis"]).split()
        make("hiredis (Debian: libhiredis-dev)", ["cc", "-O1", "-o", made, source, *flags])
    return [made]


def make_redigo():
    source, made = os.path.join(HERE, "redigo.go"), os.path.join(FOLDER, "redigo")
    if is_older(made, source):
        build_with_redigo(FOLDER, source, made)
    return [made]


def make_ioredis(version):
    return ["node", os.path.join(HERE, "ioredis.js"), node_modules(FOLDER), version]


def make_redis_py():
    return [python_with_redis(), os.path.join(HERE, "redis_py.py")]


# --- calls ------------------------------------------------------------------------------------------------------------

class Client:
    """A program that calls the server through a library."""

    def __init__(self, command, **more):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)

    def put(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def read_line(self):
        patience = threading.Timer(TIMEOUT_S, self.process.kill)
        patience.start()
        line = self.process.stdout.readline().decode()
        patience.cancel()
        assert line.endswith("\n"), "the client has ended, or has not answered"
        return line.rstrip("\n")

    def close(self):
        self.process.stdin.close()
        status = self.process.wait(TIMEOUT_S)
        self.process.stdout.close()
        assert status == 0, f"the client ended with {status}"

    def __enter__(self):
        return self

    def __exit__(self, kind, *others):
        if kind:
            self.process.kill()
            self.process.wait()
        else:
            self.close()


class LibraryClient(Client):
    def __init__(self, protocol, command):
        super().__init__(command)
        self.protocol = protocol

    @staticmethod
    def line(request):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in request]
        return " ".join(["call", *(word.hex() for word in words)]).encode() + b"\n"

    def take(self, words):
        word = words.pop(0)
        kind, rest = word[0], word[1:]
        if kind == "*":
            return [self.take(words) for _ in range(int(rest))]
        return {":": int, "_": lambda _: None, "$": bytes.fromhex,
                "-": lambda text: Fault(bytes.fromhex(text).decode())}[kind](rest)

    def read(self):
        line = self.read_line()
        if line.startswith("!"):
            raise Lost(line)
        return self.take(line.split(" "))

    def call(self, *request):
        self.put(self.line(request))
        return self.read()

    def call_together(self, requests, verb=b"pipeline"):
        self.put(b"%s %d\n" % (verb, len(requests)) + b"".join(map(self.line, requests)))
        return [self.read() for _ in requests]


class RedisCli(Client):
    """redis-cli without a terminal: reads commands, and prints JSON with its own quoting of strings."""

    def __init__(self, command, protocol):
        super().__init__(command, stderr=subprocess.STDOUT)
        self.protocol = protocol

    @staticmethod
    def quoted(word):
        word = word if isinstance(word, bytes) else str(word).encode()
        return b'"' + b"".join(b"\\x%02x" % byte for byte in word) + b'"'

    def value(self, found):
        if isinstance(found, str):
            return codecs.escape_decode(found.encode())[0]
        if isinstance(found, list):
            return [self.value(element) for element in found]
        if isinstance(found, dict):
            return {name: self.value(element) for name, element in found.items()}
        return found

    def read(self):
        line = self.read_line()
        if line.startswith("error:"):
            return Fault(self.value(json.loads(line[len("error:"):])).decode())
        if line.startswith(("Error:", "Could not connect", "not connected")):
            raise Lost(line)
        try:
            return self.value(json.loads(line))
        except ValueError as error:
            raise AssertionError(f"no JSON: {line!r}") from error

    def call(self, *request):
        self.put(b" ".join(map(self.quoted, request)) + b"\n")
        return self.read()

    def call_together(self, requests):
        self.put(b"".join(b" ".join(map(self.quoted, request)) + b"\n" for request in requests))
        return [self.read() for _ in requests]


class Kind:
    def __init__(self, name, made=None, protocol=2, has_transactions=False):
        self.name, self.made, self.protocol, self.command = name, made, protocol, None
        self.has_transactions = has_transactions

    def open(self, where, password=None):
        if self.made is None:
            place = ["-s", where] if "/" in where else ["-h", *where.replace(":", " -p ").split(" ")]
            secret = []
            if password:
                user, word = password.split(":")
                secret = ["--user", user, "--pass", word, "--no-auth-warning"]
            return RedisCli(["redis-cli", f"-{self.protocol}", "--quoted-json", *place, *secret], self.protocol)
        if self.command is None:
            self.command = self.made()
        return LibraryClient(self.protocol, [*self.command, where, NAME, *([password] if password else [])])


KINDS = [Kind("redis-cli"), Kind("redis-cli, RESP3", protocol=3), Kind("redis-py", make_redis_py, has_transactions=True),
         Kind("ioredis 5", lambda: make_ioredis("ioredis"), has_transactions=True),
         Kind("ioredis 6", lambda: make_ioredis("ioredis-6"), protocol=3, has_transactions=True), Kind("redigo", make_redigo), Kind("hiredis", make_hiredis)]


# --- checks -----------------------------------------------------------------------------------------------------------

def named(answer):
    """A map as a dict, also if the library returned a flat list."""
    return dict(zip((word.decode() for word in answer[::2]), answer[1::2])) if isinstance(answer, list) else answer


def same(got, expected):
    assert got == expected, f"{got!r}, and not {expected!r}"


def greets(client):
    assert client.call("PING") == b"PONG"
    same(client.call("SELECT", 0), b"OK")
    same(client.call("CLIENT", "SETINFO", "LIB-NAME", "a-library"), b"OK")
    same(client.call("CLIENT", "SETNAME", NAME), b"OK")
    assert client.call("CLIENT", "ID") > 0
    if isinstance(client, LibraryClient):  # redis-cli prints this reply raw, not as JSON
        assert b"redis_version:" in client.call("INFO", "server")
    hello = named(client.call("HELLO"))  # without a version, so the protocol stays
    same((hello["server"], hello["proto"], hello["role"]), (b"weir", client.protocol, b"master"))


def decides_as_redis_cell(client):
    same(client.call("CL.THROTTLE", "cell", 1, 1, 86400), [0, 2, 1, -1, 86400])
    same(client.call("CL.THROTTLE", "cell", 1, 1, 86400)[:4], [0, 2, 0, -1])
    denied = client.call("CL.THROTTLE", "cell", 1, 1, 86400)
    same(denied[:3], [1, 2, 0])
    assert 0 < denied[3] <= 86400 < denied[4] <= 172800, denied
    same(client.call("CL.THROTTLE", "cell", 1, 1, 86400, -1)[:4], [0, 2, 1, -1])
    same(client.call("CL.THROTTLE", "cell", -1, 1, 86400)[:4], [1, 0, 0, -1])


def decides_as_throttlecrab(client):
    same(client.call("THROTTLE", "crab", 2, 1, 86400), [1, 2, 1, 86400, 0])
    same(client.call("THROTTLE", "crab", 2, 1, 86400, 2)[:3], [0, 2, 1])
    same(client.call("THROTTLE", "whole crab", 2, 1, 86400, 5), [0, 2, 2, 0, 3 * 86400])


def decides_by_limits_as_text(client):
    same(client.call("WEIR.TAKE", "text", "5/1000day", 3)[:5], [1, 5, 2, 3, 0])
    same(client.call("WEIR.TAKE", "text", "5/1000day", 3)[:4], [0, 5, 2, 0])
    same(client.call("WEIR.RESET", "text", "5/1000day"), 1)
    same(client.call("WEIR.PEEK", "text", "5/1000day", 6)[:5], [0, 5, 5, 0, -1])


def answers_in_order(client):
    requests, expected = [], []
    for i in range(PIPELINED):
        if i % 3 == 2:
            requests.append(("ECHO", i))
            expected.append(str(i).encode())
        else:
            requests.append(("CL.THROTTLE", f"key {i}", i, 1, 1000))
            expected.append([0, i + 1, i, -1, 1000])
    same(client.call_together(requests), expected)


def keeps_any_bytes(client):
    every = bytes(byte for byte in range(256) if byte != ord('"'))  # redis-cli 7.0 makes invalid JSON of the quote
    same(client.call("ECHO", every), every)
    keys = [b"", b"\0", b"\0\0", b"\r\n", b"\xff\xfe", every, every + b"\0"]
    for left in (1, 0):
        for key in keys:
            same(client.call("CL.THROTTLE", key, 1, 1, 86400)[:3], [0, 2, left])
    for key in keys:
        same(client.call("CL.THROTTLE", key, 1, 1, 86400)[0], 1)


ERRORS = [
    (("CL.THROTTLE", "k", 1, 0, 60), "Cell error: Store error: Zero rates are not supported"),
    (("CL.THROTTLE", "k", 1, "abc", 60), "Cell error: Store error: Couldn't parse as integer: abc"),
    (("THROTTLE", "k", "abc", 1, 60), "ERR invalid max_burst"),
    (("THROTTLE", "k", 0, 1, 60), "ERR Rate limit check failed: invalid rate limit parameters"),
    (("THROTTLE", "k", 1, 1, 60, -1), "ERR Rate limit check failed: negative quantity: -1"),
    (("WEIR.TAKE", "k"), "ERR wrong number of arguments for 'weir.take' command"),
    (("WEIR.TAKE", "k", "3/s", "many"), "ERR invalid cost: use a whole number, 0 to 9223372036854775807"),
    (("SELECT", 9), "ERR DB index is out of range"),
    (("nonsense", "a"), "ERR unknown command 'nonsense', with args beginning with: 'a' "),
]


def is_refused_with(answer, text):
    # some versions of redis-py and ioredis remove "ERR"
    return isinstance(answer, Fault) and answer.strip() in (text.strip(), text.removeprefix("ERR ").strip())


def tells_errors(client):
    for request, text in ERRORS:
        answer = client.call(*request)
        assert is_refused_with(answer, text), (request, answer)
    same(client.call("PING"), b"PONG")
    answers = client.call_together([request for request, _ in ERRORS] + [("PING",)])
    assert all(is_refused_with(answer, text) for answer, (_, text) in zip(answers, ERRORS)), answers
    same(answers[-1], b"PONG")


def answers_maps_if_asked(client):
    """Arrays in both protocols, unless the connection asks for maps."""
    asked = client.call("WEIR.REPLIES", "MAP")
    if client.protocol == 2:
        assert is_refused_with(asked, "ERR RESP2 does not support maps: send HELLO 3 before WEIR.REPLIES MAP"), asked
        return
    same(asked, b"OK")
    answer = named(client.call("WEIR.PEEK", "map", "5/1000day"))
    same(list(answer), ["allowed", "limit", "remaining", "granted", "retry_after", "reset_after", "delay"])
    assert answer["allowed"] in (True, 1), answer
    same(client.call("WEIR.REPLIES", "ARRAY"), b"OK")


def holds_and_settles(client):
    """With unique names, because all clients use the same server."""
    limit, name = "10/1000day", f"hold {client.process.pid}"
    same(client.call("WEIR.HOLD", name, name, limit, 6, 60000)[:3], [1, 10, 4])
    same(client.call("WEIR.HOLD", name, name, limit, 6, 60000)[:3], [1, 10, 4])  # charged once
    assert not isinstance(client.call("WEIR.SETTLE", name, 2), Fault)
    same(client.call("WEIR.PEEK", name, limit)[2], 8)
    assert isinstance(client.call("WEIR.SETTLE", "nobody's", 2), Fault)
    assert not isinstance(client.call("WEIR.ALL", name, limit, 1, name + " other", "5/1000day", 1), Fault)
    same(client.call("WEIR.PEEK", name, limit)[2], 7)
    same(client.call("WEIR.TAKE", name, "1000/s", 1, "WAIT", 1000)[0], 1)


def decides_in_transactions(client):
    key = f"transaction {client.process.pid}"
    take = ("WEIR.TAKE", key, WINDOW)
    answers = client.call_together([("PING",), take, ("ECHO", "a text"), take, ("TIME",), take, take], b"transaction")
    # redis-py turns PONG into True
    assert answers[0] in (b"PONG", 1) and answers[2] == b"a text" and len(answers[4]) == 2, answers
    same([answers[i][0] for i in (1, 3, 5, 6)], [1, 1, 1, 0])
    same(client.call("PING"), b"PONG")


CHECKS = [greets, decides_as_redis_cell, decides_as_throttlecrab, decides_by_limits_as_text, answers_in_order,
          keeps_any_bytes, tells_errors, answers_maps_if_asked, holds_and_settles]


def comes_back(kind, server, where):
    """After the server was replaced by another, the same client reconnects."""
    with kind.open(where) as client:
        same(client.call("CL.THROTTLE", where, 0, 1, 86400)[0], 0)
        assert server.end() == 0
        server.start()
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                answer = client.call("CL.THROTTLE", where, 0, 1, 86400)
                break
            except Lost:
                assert time.monotonic() < deadline, "it does not come back"
                time.sleep(0.02)
        same(answer[0], 0)  # the first server's table was in its memory
        same(client.call("CL.THROTTLE", where, 0, 1, 86400)[0], 1)


def works(kind):
    with daemon(WEIR, "--keys", "10000") as server:
        for where in (server.address, server.path):
            with kind.open(where) as client:
                for check in CHECKS + [decides_in_transactions] * kind.has_transactions:
                    try:
                        check(client)
                    except (AssertionError, Lost, TypeError, KeyError) as fault:
                        raise AssertionError(f"{check.__name__} at {where}: {fault}") from fault
            with kind.open(where) as client:
                same(client.call("WEIR.RESET", "any", WINDOW), 0)
            server.end()
            server.start()
        for where in (server.address, server.path):
            comes_back(kind, server, where)
        return f"{len(CHECKS) + kind.has_transactions + 1} checks by port and by path"


USERS = """users:
  ops:
    password: "%s"
    role: admin
  app:
    password: "%s"
"""
SECRET = "a secret of a test"


def is_let_in(kind):
    """Logs in with a name and a password, in each client's own way."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as settings:
        settings.write(USERS % (SECRET + " 1", SECRET))
        settings.flush()
        with daemon(WEIR, "--keys", "10000", "--config", settings.name) as server:
            for where in (server.address, server.path):
                with kind.open(where, f"app:{SECRET}") as client:
                    same(client.call("CL.THROTTLE", where, 0, 1, 86400)[0], 0)
                    assert isinstance(client.call("WEIR.RESET", "k", WINDOW), Fault)  # needs admin
                with kind.open(where, f"ops:{SECRET} 1") as client:
                    same(client.call("WEIR.RESET", "k", WINDOW), 0)


def redis_cli_pipes():
    """redis-cli --pipe sends its whole input, and counts replies and errors."""
    with daemon(WEIR, "--keys", "10000") as server:
        requests = b"".join(bulks("CL.THROTTLE", f"key {i}", i, 1, 1000) for i in range(PIPELINED))
        done = subprocess.run(["redis-cli", "-p", str(server.port), "--pipe"], input=requests + bulks("nonsense"),
                              capture_output=True, timeout=TIMEOUT_S, check=False)
        assert f"errors: 1, replies: {PIPELINED + 1}".encode() in done.stdout, done
        return f"{PIPELINED + 1} answers"


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # suites of several builds share the folder
        tests = [(kind.name, lambda kind=kind: works(kind)) for kind in KINDS]
        tests += [(f"{kind.name}, as a user", lambda kind=kind: is_let_in(kind)) for kind in KINDS]
        return run([*tests, ("redis-cli --pipe", redis_cli_pipes)])


if __name__ == "__main__":
    sys.exit(main())
