"""Servers for ./dev bench serve: starts them on their own processor, fills them, runs redis-benchmark, and stops them. Not a
benchmark itself."""

import contextlib
import csv
import io
import os
import re
import resource
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from harness import ROOT, run

WEIR = "build/weir"
ECHO = "build/bench/echo"
PATIENCE_S = 60


class Server:
    def __init__(self, process, where):
        self.process = process
        self.where = where  # ["-p", PORT] or ["-s", PATH], as redis-benchmark and redis-cli take it

    def thread_ns(self):
        """CPU time of each thread so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return [int(task.read_text(encoding="ascii").split()[0]) for task in tasks]

    def cpu_ns(self):
        return sum(self.thread_ns())


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(where):
    return subprocess.run(["redis-cli", *where, "ECHO", "x"], capture_output=True, text=True,
                          check=False).stdout.endswith("x\n")


def raise_descriptors():
    """10,000 connections need as many descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def started(command, where, cpus, is_served=answers):
    """Starts a server and waits until it replies. Stops it at the end, also after an exception."""
    def prepare():
        os.sched_setaffinity(0, cpus)
        raise_descriptors()

    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, preexec_fn=prepare)
        try:
            until = time.monotonic() + PATIENCE_S
            while not is_served(where):
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise SystemExit(f"{' '.join(command)}: does not serve\n{log.read()}")
                time.sleep(0.05)
            yield Server(process, where)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def redis(cpus):
    port = str(free_port())
    return started(["redis-server", "--port", port, "--save", "", "--appendonly", "no"], ["-p", port], cpus)


def echo(cpus):
    port = str(free_port())
    return started([ECHO, f"127.0.0.1:{port}"], ["-p", port], cpus)


def echo_by_uring(cpus):
    program = "build/bench/echo_uring"
    run(["gcc", "-O2", "-D_GNU_SOURCE", "bench/echo_uring.c", "-o", program, "-luring"])
    port = str(free_port())
    return started([program, port], ["-p", port], cpus)


ASLEEP = ["--spin", "0"]  # where CPU time is measured: a server that polls for requests is always busy


def weir_command(listen, keys, workers=1):
    return [WEIR, "serve", "--listen", listen, "--http", "none", "--workers", str(workers), "--keys", str(keys), "--connections", "10100"]


def weir(cpus, keys, more=()):
    port = str(free_port())
    return started([*weir_command(f"127.0.0.1:{port}", keys), *more], ["-p", port], cpus)


@contextlib.contextmanager
def at_a_path(cpus, make):
    """make: path -> command."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        path = os.path.join(folder, "socket")
        with started(make(path), ["-s", path], cpus) as server:
            yield server


# --- load -----------------------------------------------------------------------------------------------------------

def request(words):
    encoded = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


def fill(server, words, keys, cpus):
    """Sends the request once for each key that __rand_int__ can become."""
    template = request([word.replace("__rand_int__", "0" * 12) for word in words])
    at = template.index(b"0" * 12)
    head, tail = template[:at], template[at + 12:]
    pipe = subprocess.Popen(["redis-cli", *server.where, "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    for first in range(0, keys, 1000):
        pipe.stdin.write(b"".join(b"%s%012d%s" % (head, key, tail) for key in range(first, min(first + 1000, keys))))
    said = pipe.communicate()[0].decode()
    if f"errors: 0, replies: {keys}" not in said:
        raise SystemExit(f"{' '.join(words)}: {said}")


def benchmark_command(where, cpu, pipeline, connections, keys, n, words):
    return ["taskset", "-c", str(cpu), "redis-benchmark", *where, "-c", str(connections), "-P", str(pipeline), "-r",
            str(keys), "-n", str(n), "--csv", *words]


def drive(server, command, n):
    """Runs redis-benchmark once. Returns the server's CPU time per request, requests a second, p99, and the server's share of
    its processor."""
    before, start = server.cpu_ns(), time.monotonic()
    out, errors = run(command)
    took, used = time.monotonic() - start, server.cpu_ns() - before
    rows = list(csv.DictReader(io.StringIO(re.sub(r'(?s)^.*?"test"', '"test"', out))))
    if len(rows) != 1 or server.process.poll() is not None:
        raise SystemExit(f"{' '.join(command)}:\n{out}{errors}")
    return {"ns": used / n, "per_second": float(rows[0]["rps"]), "p99_ms": float(rows[0]["p99_latency_ms"]),
            "busy": used / 1e9 / took}
