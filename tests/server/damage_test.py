#!/usr/bin/env python3
"""weir serve with a table that is damaged, truncated, removed or too large: it continues where it can, and reports what
happened.

    damage_test.py WEIR"""
# Covers: src/os/mapping_guard.c, src/os/memory_room.c

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, Daemon, bulks, expect, receive, run  # noqa: E402

WEIR = sys.argv[1]
PAGE = 4096
LIMIT_ENTRY = b"inline limits\0"
ALLOWED = b"*5\r\n:0\r\n"


def wait_until(holds, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


@contextlib.contextmanager
def server(*options):
    """A server that is not started yet."""
    with tempfile.TemporaryDirectory(prefix="weir-damage-") as folder:
        table = os.path.join(folder, "table")
        one = Daemon(WEIR, folder, ["--keys", "10k", "--arena", "0", *(options or ("--file", table))], http="127.0.0.1:0")
        one.table = table
        try:
            yield one
        finally:
            one.close()


def info_of(one):
    with one.connect() as client:
        client.sendall(bulks("INFO", "table"))
        length = b""
        while not length.endswith(b"\r\n"):
            length += receive(client, 1)
        text = receive(client, int(length[1:]) + 2).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def metrics_of(one):
    at = one.http_at if one.http_at.startswith("http") else "http://" + one.http_at
    with urllib.request.urlopen(at.rstrip("/") + "/metrics", timeout=TIMEOUT_S) as page:
        lines = page.read().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def take(client, key, n=1):
    """Sends n takes, all of which must get a reply. Returns how many were denied."""
    denied = 0
    for _ in range(n):
        client.sendall(bulks("CL.THROTTLE", key, 99, 100, 86400))
        got = receive(client, len(ALLOWED))
        denied += got == b"*5\r\n:1\r\n"
        assert got in (ALLOWED, b"*5\r\n:1\r\n"), got
        for _ in range(4):
            while not got.endswith(b"\r\n"):
                got += receive(client, 1)
            got = b""
            got += receive(client, 1)
            while not got.endswith(b"\r\n"):
                got += receive(client, 1)
    return denied


def change_file(path, at, written):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(written)


def damage_is_told():
    with server() as one:
        one.start()
        assert "damaged" not in one.said(), one.said()
        assert info_of(one)["table_damaged_limits"] == "0"
        assert one.end() == 0
        with open(one.table, "rb") as file:
            whole = file.read()
        change_file(one.table, whole.index(LIMIT_ENTRY), random.randbytes(100))
        change_file(one.table, len(whole) // PAGE * PAGE - 8 * PAGE, random.randbytes(3 * PAGE))
        one.start()
        found = "file: 3 pages, 0 slots, 1 limits and 0 fields of the table were damaged: their keys started over\n"
        assert found in one.said(), one.said()
        info, metrics = info_of(one), metrics_of(one)
        assert [info[f"table_damaged_{part}"] for part in ("pages", "slots", "limits", "fields")] == ["3", "0", "1", "0"], info
        assert metrics['rate_limiter_table_damaged_total{part="pages"}'] == "3", metrics
        assert metrics['rate_limiter_table_damaged_total{part="limits"}'] == "1", metrics
        assert one.end() == 0
        one.start()  # the damage stays known, but is not reported as new
        assert one.said().count("were damaged") == 1 and "have been damaged since it was made" in one.said(), one.said()
        assert one.end() == 0


def a_truncated_table_is_served():
    names = [(), ("--shared", f"weir-damage-{os.getpid()}")]
    try:
        for options in names:
            with server(*options) as one:
                one.start()
                place = f"/dev/shm/weir.{options[1]}" if options else one.table
                size = os.stat(place).st_size
                with one.connect() as client:
                    take(client, "before", 3)
                    for number, cut in enumerate((0, PAGE, size // 2), 1):
                        os.truncate(place, cut)
                        assert take(client, f"key {cut}", 150) == 50
                        expect(client, bulks("PING"), b"+PONG\r\n")
                        wait_until(lambda n=number: one.said().count("the table was truncated while in use") == n, one.said)
                        assert os.stat(place).st_size == size
                info, metrics = info_of(one), metrics_of(one)
                assert info["table_truncations"] == "3" and info["table_detached"] == "0", info
                assert metrics["rate_limiter_table_truncations_total"] == "3", metrics
                assert metrics["rate_limiter_table_detached"] == "0", metrics
                assert one.end() == 0, one.said()
                one.start()  # it is a valid table again
                assert "damaged" not in one.said(), one.said()
                with one.connect() as client:
                    assert take(client, f"key {size // 2}", 1) == 1
                assert one.end() == 0
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/dev/shm/weir.{names[1][1]}")


def without_room_it_serves_from_memory():
    with server() as one:
        one.start()
        subprocess.run(["prlimit", "--pid", str(one.process.pid), f"--fsize={PAGE}"], check=True)
        os.truncate(one.table, 0)
        with one.connect() as client:
            assert take(client, "key", 150) == 50
        wait_until(lambda: "the file system has no room to extend it: serving from memory" in one.said(), one.said)
        info, metrics = info_of(one), metrics_of(one)
        assert info["table_detached"] == "1" and metrics["rate_limiter_table_detached"] == "1", info
        assert one.end() == 0, one.said()


def a_removed_table_is_told():
    with server() as one:
        one.start()
        os.unlink(one.table)
        wait_until(lambda: "the table was removed while in use" in one.said(), one.said)
        assert info_of(one)["table_detached"] == "1"
        with one.connect() as client:
            take(client, "key", 3)
        assert one.end() == 0, one.said()


def what_does_not_fit_is_refused():
    with tempfile.TemporaryDirectory(prefix="weir-damage-") as folder:
        table = os.path.join(folder, "table")
        for options in ((), ("--shared", f"weir-damage-{os.getpid()}"), ("--file", table)):
            done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", "--keys", "10g", *options],
                                  capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert done.returncode == 1 and " bytes does not fit: the " in done.stderr, done
            assert "left; make it smaller, or set overcommit to skip this check\n" in done.stderr, done
        assert os.listdir(folder) == []


TESTS = [
    ("damage is told", damage_is_told),
    ("a truncated table is served", a_truncated_table_is_served),
    ("without room it serves from memory", without_room_it_serves_from_memory),
    ("a removed table is told", a_removed_table_is_told),
    ("what does not fit is refused", what_does_not_fit_is_refused),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
