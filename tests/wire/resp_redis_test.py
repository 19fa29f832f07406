#!/usr/bin/env python3
"""Redis and our codec get the same bytes and must send the same replies.

    resp_redis_test.py ANSWERS [ROUNDS]

ANSWERS is the program of redis_answers.c. Two Redis servers run meanwhile, on sockets in a temporary folder: one with a
password, one without. Both allow only ECHO and EVAL. All errors except protocol errors count as equal, because they are
about commands, not about requests."""

import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

SEED, ROUNDS = 20, 1500
TIMEOUT_S = 60
# In bytes. Redis disconnects a client before AUTH with 1 KiB of pending replies, and its errors are longer than -other.
STRANGER_ANSWERS = 500
BAD = b"-ERR Protocol error: "


def bulks(*arguments):
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in arguments)


def show(*arguments):
    return bulks(b"EVAL", b"return ARGV", b"0", *arguments)


def typed(line):
    """An inline command that returns its arguments."""
    return b'EVAL "return ARGV" 0 ' + line


ECHO = bulks(b"ECHO", b"heron")  # not a command by itself, should a length go wrong
NUMBERS = [b"", b"-", b"-0", b"0", b"00", b"01", b"+1", b"1", b"1 ", b" 1", b"1a", b"-1", b"-2", b"a", b"1\n", b"10",
           b"11", b"16384", b"16385", b"1000000", b"536870912", b"536870913", b"2147483647", b"2147483648",
           b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809",
           b"18446744073709551616", b"99999999999999999999", b"123456789012345678901234"]
LINES = [b"", b"a", b"a b", b" a\tb ", b"a\vb", b"\va \fb", b"a\rb", b"\"a b\"", b"'a b'", b"a\"b\"", b"a'b c'", b"''",
         b"\"\"", rb'"\n\r\t\b\a\\\"\'\q"', rb'"\x41\xff\xFf\x00\x0g\x4"', rb"'\'\n\x41\\ '", rb"a\nb\"", rb'"\x"',
         rb'"\x4', rb'"a\"', rb"'a\'", b"'a'b", b"\"a\"b", b"\"a\"'b'", b"'a'\vb", b"\"a", b"'a", b"\"", b"'", b"a\"",
         b"\"a\"\r", b"\xff\xfe", b"\x01", b"1 " * 3000, b"x" * 65000]


def corpus():
    for number in NUMBERS:
        if not (number.isdigit() and 1000000 <= int(number) < 2**31):  # our arguments_max is lower than Redis's
            yield ECHO + b"*%s\r\n" % number + ECHO
        yield ECHO + b"*1\r\n$%s\r\nPING\r\n" % number + ECHO
    for line in LINES:
        for end in (b"\n", b"\r\n", b"\r\r\n", b" \n"):
            yield typed(line) + end + ECHO
        yield line + b"\r\n" + ECHO
    for byte in range(1, 256):
        yield b"*1\r\n" + bytes([byte]) + b"4\r\nPING\r\n"
        yield typed(bytes([byte])) + b"\n"
        yield typed(b'"\\' + bytes([byte]) + b'"') + b"\n"
    yield from (b"", b"\n", b"\r\n\r\n" + ECHO, b"*0\r\n*-1\r\n" + ECHO, b"*1\r\n\r\n", b"*1\r\n\n\r\n", b"*1\r\nPING",
                b"*1\rx$4\ryPINGzz" + ECHO, show(b"", b"\0", b"\r\n", b"*1\r\n"),
                show(*[b"%d" % i for i in range(500)]),
                show(b"x" * 16384), show(b"x" * 16385), show(b"x" * 300000, b"y"), ECHO * 500, ECHO[:-1], ECHO[:-2],
                bulks(*[b"a"] * 10), bulks(*[b"a"] * 11), bulks(b"a" * 16384), bulks(b"a" * 16385))
    for head in (b"", b"*", b"*1\r\n$", b"*1\r\n", b"*1\r\nx"):
        for length in (65535, 65536, 65537, 65600, 100000):
            yield ECHO + head + b"1" * (length - len(head.rpartition(b"\n")[2]))
    for length in (65535, 65536):
        for head in (b"*", b"*1\r\n$", b"*1\r\n"):
            yield ECHO + head + b"1" * (length - len(head.rpartition(b"\n")[2])) + b"\r\n"


def mutations(seed, rounds):
    dice = random.Random(seed)
    # No EVAL: a script that was changed by a byte may still be valid.
    seeds = [ECHO, ECHO * 3, rb'ECHO "a\x41\n b"' + b"\r\n" + ECHO, b"ECHO 'a\\' b'\nECHO \"a b\"\r\n",
             bulks(b"ECHO", b""), b"*0\r\n" + ECHO + b"\r\n" + ECHO]
    marks = [b"*", b"$", b"\r", b"\n", b"\r\n", b"0", b"1", b"-", b"9", b'"', b"'", b"\\", b"\\x", b" ", b"\v",
             b"*1\r\n", b"$4\r\n"]
    for _ in range(rounds):
        text = bytearray(dice.choice(seeds))
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(text) + 1)
            change = dice.randrange(4)
            if change == 0:
                text[at:at] = dice.choice(marks)
            elif change == 1:
                del text[at:at + dice.randint(1, 3)]
            elif change == 2:
                text[at:at + 1] = bytes([dice.randrange(1, 256)])
            else:
                text[at:at + 1] = dice.choice(marks)
        yield bytes(text)


OTHER = re.compile(rb"^-(?!ERR Protocol error: )[^\r]*\r\n", re.MULTILINE)


def plain(answers):
    return OTHER.sub(b"-other\r\n", answers)


class Redis:
    def __init__(self, folder, name, options):
        self.path = os.path.join(folder, name)
        # redis-tools has the server under the name of one of its tools. The package redis-server would start a service.
        program = shutil.which("redis-check-rdb")
        if program is None:
            sys.exit("redis-check-rdb not found: install redis-tools")
        self.log = open(self.path + ".log", "wb+")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", folder, "--save", "", "--appendonly",
             "no", *options], executable=program, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        end = time.monotonic() + TIMEOUT_S
        while not self.is_up():
            if self.process.poll() is not None or time.monotonic() > end:
                self.log.seek(0)
                text = self.log.read().decode(errors="replace")
                self.stop()
                sys.exit(f"redis-server does not start:\n{text}")
            time.sleep(0.02)

    def is_up(self):
        try:
            self.connect().close()
            return True
        except OSError:
            return False

    def connect(self):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(TIMEOUT_S)
        try:
            link.connect(self.path)
        except OSError:
            link.close()
            raise
        return link

    def answers(self, text, piece, expected):
        """All that Redis sends. After a protocol error it must disconnect by itself. Otherwise the test disconnects,
        after Redis has sent as much as expected, because Redis drops unsent replies of a client that has left."""
        said = b""
        is_bad = BAD in expected
        with self.connect() as link:
            try:
                for at in range(0, len(text), piece):
                    link.sendall(text[at:at + piece])
            except OSError:
                pass  # it has disconnected, and its replies are still to be read
            try:
                if not expected:
                    link.shutdown(socket.SHUT_WR)
                while part := link.recv(1 << 20):
                    said += part
                    if not is_bad and len(plain(said)) >= len(expected):
                        link.shutdown(socket.SHUT_WR)
            except ConnectionResetError:
                pass  # it disconnected before it read everything
            except OSError as error:
                said += f"({error})".encode()
        return plain(said)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answers(self, text, piece, is_stranger):
        self.process.stdin.write(struct.pack("<BII", is_stranger, piece, len(text)) + text)
        self.process.stdin.flush()
        (length,) = struct.unpack("<I", self.process.stdout.read(4))
        return self.process.stdout.read(length)

    def stop(self):
        self.process.stdin.close()
        return self.process.wait()


def compare(ours, servers, text, pieces):
    """The difference, or None."""
    for is_stranger, server in enumerate(servers):
        for piece in pieces:
            expected = plain(ours.answers(text, piece, is_stranger))
            if is_stranger and len(expected) >= STRANGER_ANSWERS:
                continue
            found = server.answers(text, piece, expected)
            if expected != found:
                when = "before" if is_stranger else "after"
                return (f"{text[:200]!r} ({len(text)} bytes, in pieces of {piece}, {when} AUTH)\n"
                        f"#  ours: {expected[:300]!r}\n# redis: {found[:300]!r}")
    return None


def main(program, rounds):
    with tempfile.TemporaryDirectory() as folder:
        allowed = ["-@all", "+echo", "+eval"]
        servers, ours = [], Ours(program)
        try:
            servers.append(Redis(folder, "open", ["--user", "default", "on", "nopass", "~*", *allowed]))
            servers.append(Redis(folder, "closed", ["--user", "default", "on", ">secret", "~*", *allowed]))
            print("1..2")
            for number, (name, texts) in enumerate([("corpus", corpus()), ("mutations", mutations(SEED, rounds))], 1):
                faults, checked = [], 0
                for text in texts:
                    checked += 1
                    pieces = [1 << 14] if len(text) > 3000 else [1 << 14, 7]
                    fault = compare(ours, servers, text, pieces)
                    if fault:
                        faults.append(fault)
                for fault in faults[:20]:
                    print(f"# {fault}")
                print(f"{'not ok' if faults else 'ok'} {number} - {name}: {checked} inputs, {len(faults)} differ")
        finally:
            for server in servers:
                server.stop()
            status = ours.stop()
    return 1 if status else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS))
