"""resp_client.py: a RESP client for tests that returns replies as Python values."""

import time

from daemon import TIMEOUT_S, bulks


def until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


class Refused(ValueError):
    """An error reply."""


class Client:
    """Sends commands and returns replies as values. With protocol 3 it asks for maps, which are dicts."""

    def __init__(self, server, protocol=2, **where):
        self.socket = server.connect(**where)
        self.file = self.socket.makefile("rb")
        if protocol == 3:
            self.ask("HELLO", 3)
            self.ask("WEIR.REPLIES", "MAP")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, *words):
        self.socket.sendall(bulks(*words))

    def ask(self, *words):
        self.send(*words)
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
        self.send(*words)
        return self.read_or_refusal()

    def refusal(self, *words):
        """Returns the error reply of a command that must fail."""
        try:
            answer = self.ask(*words)
        except Refused as refused:
            return str(refused)
        raise AssertionError(f"{words} was not refused: {answer}")

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
        if kind == b"#":
            return rest == "t"
        if kind == b"_" or rest == "-1":
            return None
        if kind in (b"$", b"="):
            text = self.file.read(int(rest) + 2)[:-2].decode()
            return text[4:] if kind == b"=" else text
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        assert kind in (b"*", b"~"), line
        return [self.read_or_refusal() for _ in range(int(rest))]

    def info(self, *sections):
        """With the thread sanitizer, the section `table` takes a second, in which its worker does nothing else."""
        return dict(line.split(":", 1) for line in self.ask("INFO", *sections).splitlines() if ":" in line)
