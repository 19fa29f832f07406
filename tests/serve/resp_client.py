"""resp_client.py: a client of a server for tests, that reads its answers as values."""

import time

from daemon import TIMEOUT_S, bulks


def until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


class Refused(Exception):
    pass


class Client:
    """Asks, and reads answers of RESP2 as values."""

    def __init__(self, server):
        self.socket = server.connect()
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def ask(self, *words):
        self.socket.sendall(bulks(*words))
        return self.read()

    def pipeline(self, requests):
        self.socket.sendall(b"".join(bulks(*words) for words in requests))
        return [self.read_or_refusal() for _ in requests]

    def read_or_refusal(self):
        try:
            return self.read()
        except Refused as refused:
            return str(refused)

    def answer(self, *words):
        self.socket.sendall(bulks(*words))
        return self.read_or_refusal()

    def read(self):
        line = self.file.readline()
        assert line.endswith(b"\r\n"), line
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise Refused(rest)
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2].decode()
        assert kind == b"*", line
        return [self.read() for _ in range(int(rest))]

    def info(self):
        return dict(line.split(":", 1) for line in self.ask("INFO").splitlines() if ":" in line)
