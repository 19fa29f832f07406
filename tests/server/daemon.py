"""daemon.py: a weir serve for a test, with its own port and Unix socket, that can be stopped and started again."""

import concurrent.futures
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

import toy

TIMEOUT_S = 60


def bulks(*words):
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


def receive(client, n):
    """n bytes, or fewer if the connection ends first."""
    got = bytearray()
    while len(got) < n:
        piece = client.recv(min(n - len(got), 1 << 20))
        if not piece:
            break
        got += piece
    return bytes(got)


def receive_all(client):
    got = bytearray()
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(1 << 20):
            got += piece
    return bytes(got)


def expect(client, request, answer):
    client.sendall(request)
    got = receive(client, len(answer))
    assert got == answer, (request[:200], got[:200], answer[:200])


def connect_to(where):
    if isinstance(where, int):
        return socket.create_connection(("127.0.0.1", where), TIMEOUT_S)
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(TIMEOUT_S)
    try:
        client.connect(where)
    except OSError:
        client.close()
        raise
    return client


class Daemon:
    """Holds a bound socket that does not listen, so that no other program gets the port while no server runs."""

    def __init__(self, program, folder, options, http="none", **more):
        self.program, self.options, self.more, self.process = program, options, more, None
        self.http = http
        self.path = os.path.join(folder, "socket")
        self.log = open(os.path.join(folder, "log"), "ab+")  # append mode: reading it does not move the server's write position
        self.place = socket.socket()
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):  # SO_REUSEADDR lets a server listen there
            self.place.setsockopt(socket.SOL_SOCKET, option, 1)
        self.place.bind(("127.0.0.1", 0))
        self.port = self.place.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(
            [self.program, "serve", "--listen", self.address, "--listen", self.path, "--http", self.http,
             *self.options],
            stdout=subprocess.PIPE, stderr=self.log, **self.more)
        for where in (self.address, self.path):
            line = self.process.stdout.readline().decode()
            assert line == f"weir serve: RESP at {where}\n", (line, self.said())
        if self.http != "none":
            line = self.process.stdout.readline().decode()
            assert line.startswith("weir serve: HTTP at "), (line, self.said())
            self.http_at = line.split()[-1]

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def told(self):
        """Its output without audit lines."""
        return "".join(line for line in self.said().splitlines(True) if not line.startswith("weir serve: audit "))

    def connect(self, by_path=False):
        return connect_to(self.path if by_path else self.port)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(TIMEOUT_S)
        self.process.stdout.close()
        self.process = None
        return status

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait(TIMEOUT_S)
            self.process.stdout.close()
        self.log.close()
        self.place.close()


@contextlib.contextmanager
def daemon(program, *options, **more):
    """A running server. It must exit with 0 when it is stopped."""
    with tempfile.TemporaryDirectory(prefix="weir-serve-") as folder:
        one = Daemon(program, folder, options, **more)
        try:
            one.start()
            yield one
            if one.process:
                assert one.end() == 0, one.said()
        finally:
            one.close()


class Skipped(Exception):
    """A test lacks something it needs; the text says what."""


def outcome(name, test):
    """Runs a test. Returns whether it passed, None if it was skipped, and the line that says so."""
    if toy.skips(name):
        toy.count_skipped(name)
        return None, f"skip  {name}: {toy.skips(name)}"
    try:
        told = test()
        return True, f"ok    {name}{': ' + told if told else ''}"
    except Skipped as why:
        return None, f"skip  {name}: {why}"
    except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as fault:
        at = traceback.extract_tb(fault.__traceback__)[-1]
        return False, f"FAIL  {name}: {type(fault).__name__}: {fault} ({os.path.basename(at.filename)}:{at.lineno}: {at.line})"


def run(tests, at_once=1):
    """Runs the tests and prints a line for each. Returns the exit status. Tests that wait most of the time can run at once, if each
    has servers of its own."""
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for is_good, line in (map if at_once == 1 else pool.map)(lambda test: outcome(*test), tests):
            passed += is_good is True
            failed += is_good is False
            print(line, flush=True)
    if toy.IS_TOY:
        print(toy.summary(passed, failed, [name for name, _ in tests]), flush=True)
    if failed:
        print(f"{failed} failed", file=sys.stderr)
    return failed != 0
