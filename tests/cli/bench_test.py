#!/usr/bin/env python3
"""weir bench resp counts what the server replies, and ends. The test does not measure speed.

    bench_test.py WEIR"""
# Covers: src/cli/bench.c, src/cli/bench_load.c

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))
sys.dont_write_bytecode = True

from daemon import daemon, run  # noqa: E402

WEIR = sys.argv[1]
PATIENCE_S = 120

os.environ.pop("WEIR_PASSWORD", None)


def bench(*arguments, **environment):
    return subprocess.run([WEIR, "bench", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, env=os.environ | environment)


def server(*options):
    return daemon(WEIR, "--keys", "1000", "--workers", "1", *options)


def measured_by_the_server(where):
    """How many decisions the server has made so far."""
    host, _, port = where.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as client:
        client.sendall(b"INFO\r\nQUIT\r\n")
        said = b""
        while piece := client.recv(65536):
            said += piece
    return int(re.search(rb"allowed:(\d+)", said)[1])


def what_is_answered_is_counted():
    with server() as one:
        before = measured_by_the_server(one.address)
        done = bench("resp", "--at", one.address, "--seconds", "1", "--connections", "7", "--pipeline", "3", "--keys", "100",
                     "--json")
        assert done.returncode == 0 and done.stderr == "", done
        got = json.loads(done.stdout)
        asked = measured_by_the_server(one.address) - before
        # Requests in flight at the end are decided but not counted: at most one pipeline for each connection.
        assert got["requests"] <= asked <= got["requests"] + 7 * 3 and got["requests"] > 0, (got, asked)
        assert got["errors"] == 0 and got["command"] == "CL.THROTTLE" and got["connections"] == 7, got
        latency = got["latency_ns"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["p99.9"] <= latency["max"] <= got["elapsed_ns"], got
        assert got["requests_per_second"] == got["requests"] * 10**6 // (got["elapsed_ns"] // 1000), got


def people_get_lines():
    with server() as one:
        done = bench("resp", "--at", one.address, "--seconds", "1", "--connections", "2", "--keys", "1k",
                     "--command", "weir.take")
        assert done.returncode == 0 and done.stdout.startswith("WEIR.TAKE, 2 connections, pipeline 1, 1000 keys, 1 s\n"), done
        assert re.search(r"^errors             0 of [1-9]\d*$", done.stdout, re.M), done


def errors_are_counted_and_shown():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def meet():
            with listener.accept()[0] as peer, contextlib.suppress(ConnectionResetError):
                while asked := peer.recv(65536):
                    peer.sendall(b"-NOAUTH who is it?\r\n" * asked.count(b"PING"))

        thread = threading.Thread(target=meet)
        thread.start()
        done = bench("resp", "--at", "127.0.0.1:%d" % listener.getsockname()[1], "--seconds", "1", "--connections", "1",
                     "--command", "ping")
        thread.join(PATIENCE_S)
    assert done.returncode == 1 and "the first: NOAUTH who is it?\n" in done.stdout, done


def a_lost_server_is_told():
    with server() as one:
        running = subprocess.Popen([WEIR, "bench", "resp", "--at", one.address, "--seconds", "3600"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        before = measured_by_the_server(one.address)
        while measured_by_the_server(one.address) == before:  # until it is running
            assert running.poll() is None, running.communicate()
    said = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 3 and said[0] == "" and "connection" in said[1], said


def who_asks_is_said():
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        config, password = os.path.join(folder, "weir.yaml"), os.path.join(folder, "password")
        for path, text in ((config, "users:\n  load: {password: secret}\n"), (password, "secret\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with server("--config", config) as one:
            asks = ("resp", "--at", one.address, "--seconds", "1", "--connections", "3", "--user", "load")
            done = bench(*asks, "--password-file", password, "--json")
            assert done.returncode == 0 and json.loads(done.stdout)["errors"] == 0, done
            done = bench(*asks, "--json", WEIR_PASSWORD="secret")
            assert done.returncode == 0 and json.loads(done.stdout)["errors"] == 0, done
            done = bench(*asks, WEIR_PASSWORD="other")
            assert done.returncode == 3 and "WRONGPASS" in done.stderr and done.stdout == "", done
            done = bench(*asks)
            assert done.returncode == 2 and "missing password" in done.stderr, done
            done = bench(*asks, "--password-file", password + "s")
            assert done.returncode == 2 and "No such file" in done.stderr, done
            done = bench("resp", "--at", one.address, "--seconds", "1", "--connections", "1")
            assert done.returncode == 1 and "NOAUTH" in done.stdout, done


def what_cannot_be_measured_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = "127.0.0.1:%d" % taken.getsockname()[1]
    for code, words, *arguments in (
            (3, f"{nobody}: no server at this address: start one with `weir serve`", "resp", "--at", nobody),
            (2, "use weir bench resp"), (2, "unknown command \"grpc\"", "grpc"), (2, "missing argument", "--json"),
            (2, "other machines can reach this address", "resp", "--at", "192.0.2.1:6380"),
            (2, "other machines can reach this address", "resp", "--at", "nowhere"),
            (3, "invalid address", "resp", "--yes-remote", "--at", "nowhere"),
            (2, "--connections takes 1 to 10000", "resp", "--connections", "10001"),
            (2, "--pipeline takes 1 to 1024", "resp", "--pipeline", "0"),
            (2, "--seconds takes 1 to 3600", "resp", "--seconds", "-1"),
            (2, "--keys takes", "resp", "--keys", "1g"), (2, "--keys takes", "resp", "--keys", "1mm"),
            (2, "--keys takes", "resp", "--keys", "9999999999999m"), (2, "--command takes", "resp", "--command", "get"),
            (2, "unknown option", "resp", "--what", "1"), (2, "needs a value", "resp", "--at")):
        done = bench(*arguments)
        assert done.returncode == code and words in done.stderr and done.stdout == "", (arguments, done)


TESTS = [what_is_answered_is_counted, people_get_lines, errors_are_counted_and_shown, a_lost_server_is_told,
         who_asks_is_said, what_cannot_be_measured_is_told]

if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
