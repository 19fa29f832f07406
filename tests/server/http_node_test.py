#!/usr/bin/env python3
"""A Node server and weir serve get the same bytes and must find the same requests in them.

    http_node_test.py WEIR [ROUNDS]

A plain request follows each row on the same connection: if the two servers disagree about the end of the first request,
it shows there. The test compares how many requests each served, and whether it rejected one. Where Weir rejects what
Node serves, the row says why. Weir never serves what Node rejects."""

import os
import random
import socket
import subprocess
import sys

from daemon import TIMEOUT_S, daemon, receive_all, run

WEIR = sys.argv[1]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
SEED = 8

MARKER = b"GET /healthz HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n"


def head(*lines, first=b"GET /healthz HTTP/1.1", host=b"Host: a"):
    return b"\r\n".join([first, *([host] if host else []), *lines, b"", b""])


def put(*lines, body=b""):
    return head(*lines, first=b"POST /healthz HTTP/1.1") + body


CHUNKED = b"Transfer-Encoding: chunked"

# Both serve, or both reject. Before version 9, Node's parser served some of what is rejected now.
SAME = [
    head(), head(b"X: y", b"x: z"), head(b"X:"), head(b"X:\t y \t"), head(b"X: \x80\xff"), head(b"A!#$%&'*+-.^_`|~1: b"),
    head(first=b"HEAD /healthz HTTP/1.1"), head(first=b"OPTIONS * HTTP/1.1"), head(first=b"DELETE /healthz HTTP/1.1"),
    head(first=b"GET http://a/healthz HTTP/1.1"), head(first=b"GET /healthz?a=b&c HTTP/1.1"), b"\r\n" + head(),
    head(first=b"GET /healthz HTTP/1.0", host=None), head(b"Connection: keep-alive", first=b"GET /healthz HTTP/1.0"),
    head(b"Connection: close"), head(b"Connection: foo, Close"), head(b"Expect: 100-continue"),
    put(b"Content-Length: 3", body=b"abc"), put(b"Content-Length: 0"), put(b"Content-Length: 003", body=b"abc"), put(),
    put(CHUNKED, body=b"0\r\n\r\n"), put(CHUNKED, body=b"3\r\nabc\r\n0\r\n\r\n"),
    put(CHUNKED, body=b"3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n"), put(CHUNKED.upper(), body=b"A\r\n0123456789\r\n0\r\n\r\n"),
    put(b"Content-Length: 3", b"Expect: 100-continue", body=b"abc"),
    head(first=b"GET /healthz HTTP/1.1", host=None),
    head(b"X : y"), head(b" X: y"), head(b"X y"), head(b"X"), head(b"X: a\0b"), head(b"X\0: a"), head(b"X: a\x01"), head(b"X: \x7f"),
    head(b"X: a\rb"), head(b"X: a\nY: b"), head(b"X\xff: b"), head(b"X(: b"),
    head(first=b"GET /healthz HTTP/1.2"), head(first=b"GET /healthz HTTP/11"), head(first=b"GET /healthz http/1.1"),
    head(first=b"GET /healthz HTTP/1.1 "), head(first=b"get /healthz HTTP/1.1"), head(first=b"NOTHING / HTTP/1.1"),
    head(first=b"GET healthz HTTP/1.1"), head(first=b"GET / a HTTP/1.1"), head(first=b"GET /\0 HTTP/1.1"), head(first=b" GET / HTTP/1.1"),
    put(b"Content-Length: 3", b"Content-Length: 3", body=b"abc"), put(b"Content-Length: 3", b"Content-Length: 4", body=b"abcd"),
    put(b"Content-Length: 3, 3", body=b"abc"), put(b"Content-Length: -3", body=b"abc"), put(b"Content-Length: +3", body=b"abc"),
    put(b"Content-Length: 3 4", body=b"abc"), put(b"Content-Length: 0x3", body=b"abc"), put(b"Content-Length:", body=b"abc"),
    put(b"Content-Length: 99999999999999999999", body=b"abc"),
    put(b"Content-Length: 3", CHUNKED, body=b"0\r\n\r\n"), put(CHUNKED, b"Content-Length: 3", body=b"0\r\n\r\n"),
    put(b"Transfer-Encoding: gzip", body=b"abc"), put(b"Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"),
    put(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), put(b"Transfer-Encoding: chunked x", body=b"0\r\n\r\n"),
    put(CHUNKED, body=b"x\r\n"), put(CHUNKED, body=b"-1\r\n"), put(CHUNKED, body=b"0x1\r\na\r\n0\r\n\r\n"),
    put(CHUNKED, body=b"3\r\nabcd\r\n0\r\n\r\n"), put(CHUNKED, body=b"3\nabc\n0\n\n"), put(CHUNKED, body=b"3\r\nabc0\r\n\r\n"),
    put(CHUNKED, body=b"fffffffffffffffff\r\n"), put(CHUNKED, body=b"3\rabc\r\n0\r\n\r\n"), put(CHUNKED, body=b"\r\n3\r\nabc\r\n"),
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20000 + b"\r\n\r\n",
]

# Weir rejects these, and why. Node may do either, depending on its version.
STRICTER = [
    (head(first=b"GET /healthz#a HTTP/1.1"), "a target has no fragment"),
    (head(first=b"GET /healthz HTTP/2.0"), "another version"), (head(first=b"GET /healthz HTTP/0.9"), "another version"),
    (b"GET /healthz\r\n\r\n", "no version"), (head(first=b"GET /healthz RTSP/1.0"), "another protocol"),
    (head(first=b"CONNECT a:1 HTTP/1.1"), "no proxy"), (b"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n", "another version"),
    (head(b" folded", host=b"Host: a"), "a header of two lines"), (head(b"X: y", b"\tz"), "a header of two lines"),
    (head().replace(b"\r\n", b"\n"), "bare LF"), (head().replace(b"1.1\r\n", b"1.1\n"), "bare LF"),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\n", "bare LF"), (b"\n" + head(), "bare LF"),
    (head(b"Host: b"), "two hosts"), (head(b": y"), "a header without a name"), (head(b"Expect: 200-ok"), "another expectation"),
    (put(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), "an unknown transfer coding"),
    (put(CHUNKED, CHUNKED, body=b"0\r\n\r\n"), "chunked twice"),
    (head(CHUNKED, first=b"POST /healthz HTTP/1.0") + b"0\r\n\r\n", "chunks in HTTP/1.0"),
    (put(CHUNKED, body=b"0\r\nX: y\r\n\n"), "bare LF"), (put(CHUNKED, body=b"0\r\nX: y\r\n z\r\n\r\n"), "a trailer of two lines"),
    (put(b"Content-Length: 131073", body=b"a" * 131073), "a body that is too long"),
    (head(*[b"X: y"] * 64), "too many headers"),
]


def found_in(text):
    """How many requests were served, and whether one was rejected."""
    served, refused = 0, False
    while text.startswith(b"HTTP/1.1 "):
        top, _, rest = text.partition(b"\r\n\r\n")
        status = int(top[9:12])
        if status == 100:
            text = rest
            continue
        length = 0
        for line in top.split(b"\r\n")[1:]:
            if line.startswith(b"X-Served:"):
                served, refused = [int(word) for word in line.split()[1:]]
                return served, refused != 0
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            elif line.lower() == b"transfer-encoding: chunked":
                length = rest.index(b"0\r\n\r\n") + 5
        if status in (200, 404, 405):
            served += 1
        else:
            refused = True
        text = rest if rest.startswith(b"HTTP/1.1 ") else rest[length:]
    assert text == b"", text
    return served, refused


def ask(port, request):
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as client:
        try:
            client.sendall(request + MARKER)
            client.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        return found_in(receive_all(client))


class both:
    """Both servers, and what each finds."""

    def __enter__(self):
        here = os.path.dirname(os.path.abspath(__file__))
        self.node = subprocess.Popen(["node", os.path.join(here, "http_peer.js")], stdout=subprocess.PIPE)
        try:
            port, version = self.node.stdout.readline().split()
            self.node_port, self.is_old = int(port), int(version.split(b".")[0]) < 9
            self.context = daemon(WEIR, "--keys", "1000", "--workers", "1", http="127.0.0.1:0")
            self.weir_port = int(self.context.__enter__().http_at.rsplit(":", 1)[1])
        except BaseException:
            self.end_node()
            raise
        return self

    def end_node(self):
        self.node.kill()
        self.node.wait(TIMEOUT_S)
        self.node.stdout.close()

    def __exit__(self, *what):
        try:
            return self.context.__exit__(*what)
        finally:
            self.end_node()

    def ask(self, request):
        return ask(self.node_port, request), ask(self.weir_port, request)


def both_find_the_same():
    with both() as servers:
        for request in SAME:
            theirs, ours = servers.ask(request)
            assert theirs == ours or servers.is_old and ours == (0, True), (request[:200], theirs, ours)
    return f"{len(SAME)} rows"


def what_is_ambiguous_is_refused():
    n = 0
    with both() as servers:
        for request, why in STRICTER:
            theirs, ours = servers.ask(request)
            assert ours == (0, True), (why, request[:200], theirs, ours)
            n += theirs != ours
    return f"{len(STRICTER)} rows, of which this Node serves {n}"


def change(dice, request):
    """Replaces one or two places of a request."""
    pieces = [b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b"0", b"1", b"a", b"\x80", b"\r\n ", b"Host: b\r\n",
              b"Content-Length: 1\r\n", CHUNKED + b"\r\n", b"chunked", b"HTTP/1.1", b"HTTP/1.0", b"/", b"?", b"#", b"%", b"\x7f", b""]
    for _ in range(dice.randint(1, 2)):
        at = dice.randint(0, len(request))
        request = request[:at] + dice.choice(pieces) + request[at + dice.choice([0, 0, 1, 2]):]
    return request


def what_node_refuses_is_refused():
    dice = random.Random(SEED)
    small = [row for row in SAME if len(row) < 300]
    same = 0
    with both() as servers:
        for _ in range(ROUNDS):
            request = change(dice, dice.choice(small))
            theirs, ours = servers.ask(request)
            same += theirs == ours
            assert ours[0] <= theirs[0], (request, theirs, ours)
    assert same * 10 >= ROUNDS * 8, (same, ROUNDS)
    return f"{ROUNDS} changed requests, {same} found the same"


TESTS = [
    ("both find the same", both_find_the_same),
    ("what is ambiguous is refused", what_is_ambiguous_is_refused),
    ("what Node refuses is refused", what_node_refuses_is_refused),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
