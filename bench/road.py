#!/usr/bin/env python3
"""instructions of a request in the server, beside those at commit a46f507

    ./dev bench road [--only NAME] [--rounds N] [--seconds S] [--report-only] [--quick]

Does a request cost more instructions than at commit a46f507? The first run builds that commit in build/base. Every round
measures it and this tree, one after the other. Columns are medians of the rounds. The ratio is the median of the ratios of
single rounds. Noise is (largest - smallest) / median.

Instructions: callgrind counts those of all threads of the server, but not the kernel's. Each measurement runs the server twice,
the second time with twice as many requests. The difference, divided by the additional requests, leaves out start and end. The
server has one worker and does not poll (--spin 0). Requests use 1000 keys in a fixed order. All are allowed.

The bench sends a pipeline on every connection, then reads all replies, then sends the next ones. It sends at most 8000 requests
a second: above 20,000 decisions a second the server finds its top keys by a sample, the size of the sample depends on the
clock, and counts differ by 4 %. Below that, and without a store, they repeat within 0.3 %.

With a Redis as the store, single counts differ by up to 5 %, and ratios of five rounds by less than 1 %. Counts depend on how
many decisions travel in one call of the script, which is a matter of timing. The table shows how many. Callgrind runs one
thread at a time, and by default lets it run on, so that batches are large, as under load. With --fair-sched=yes they have a
sixth of the decisions, and counts are up to 12 % higher.

Processor time (road_redis_cpu_*): user and system time of all threads of the server, without callgrind. redis-benchmark sends
the requests. It shares a processor with the server, and Redis has the other one. Here a round has five turns of --seconds
each, because a busy machine is slower for seconds at a time, and both trees should see the same. The target is that a
request takes no more than at a46f507. The bound is 1.05 and not 1.00, because the ratio of a program to itself is 0.98 to 1.02.

a46f507 is built without protection of stack and variables, so this tree is built without it, too, in build/road. With --hardened,
build/weir is measured as it is, with the protection. That is not judged (docs/internals/server.md).

--only measures the figures whose names contain NAME. The exit status is 1 if a target is missed, unless you pass
--report-only. --quick is a smoke test: its figures mean nothing and are not judged."""
# packages: git redis-server redis-tools util-linux valgrind

import argparse
import contextlib
import dataclasses
import itertools
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

import redis as bench_redis  # bench/redis.py
import serve_peers
from harness import (ROOT, add_rounds, finish, instructions, judge_ratios, machine, print_machine, processors, read_rounds,
                     run)

BASE = "a46f507"
SOURCES = {"base": "build/base/tree", "now": "."}
BUILDS = {"base": "build/base/build", "now": "build/road"}

KEYS, CPU_KEYS = 1000, 100_000
CONNECTIONS = 50  # with a Redis as the store
REQUESTS_PER_SECOND_MOST = 8000  # under callgrind
CPU_TURNS = 5  # of each tree in a round of processor time
CPU_REQUESTS_PER_SECOND = {1: 50_000, 16: 120_000}  # expected, by pipeline: sets how many a turn sends
POLICY_FILE = "build/bench/road.yaml"
POLICY = """limits:
  - {name: each, key: api_key, limit: 10/min burst 1000000}
  - {name: address, key: ip, limit: 10/min burst 1000000}
"""


# --- what is measured -----------------------------------------------------------------------------------------------

def throttle(key):
    return serve_peers.request(["CL.THROTTLE", f"key:{key:012}", 9999, 1, 180])


def check(key):
    return serve_peers.request(["WEIR.CHECK", "api_key", f"key:{key:012}", "ip", f"10.0.0.{key % 250}"])


def http_check(key):
    return f"GET /v1/check?api_key=key:{key:012}&ip=10.0.0.{key % 250} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@dataclasses.dataclass
class Case:
    label: str
    request: Callable  # number of a key -> bytes
    pipeline: int
    bursts: int  # in the shorter of two runs
    bound: float  # now / base, at most
    has_store: bool = False

    @property
    def connections(self):
        return CONNECTIONS if self.has_store else 1

    def requests(self, bursts):
        return bursts * self.connections * self.pipeline


SERVED = {
    "road_throttle_p1": Case("CL.THROTTLE, pipeline 1", throttle, 1, 10_000, 1.02),
    "road_throttle_p64": Case("CL.THROTTLE, pipeline 64", throttle, 64, 250, 1.02),
    "road_check": Case("WEIR.CHECK, 2 limits, pipeline 1", check, 1, 10_000, 1.02),
    "road_check_p16": Case("WEIR.CHECK, 2 limits, pipeline 16", check, 16, 500, 1.02),
    "road_http_check": Case("GET /v1/check, 2 limits", http_check, 1, 10_000, 1.02),
    "road_redis_p1": Case("CL.THROTTLE on Redis, pipeline 1", throttle, 1, 500, 0.70, True),
    "road_redis_p16": Case("CL.THROTTLE on Redis, pipeline 16", throttle, 16, 30, 0.70, True),
}
TABLE = "road_table_allow"
CPU = {"road_redis_cpu_p1": 1, "road_redis_cpu_p16": 16}  # pipelines
BOUNDS = {**{name: case.bound for name, case in SERVED.items()}, TABLE: 1.02, **{name: 1.05 for name in CPU}}
LABELS = {**{name: case.label for name, case in SERVED.items()}, TABLE: "weir_table_allow, key in the table",
          **{name: f"CL.THROTTLE on Redis, pipeline {pipeline}: ns" for name, pipeline in CPU.items()}}


# --- the two trees --------------------------------------------------------------------------------------------------

def make_base():
    found = subprocess.run(["git", "cat-file", "-e", f"{BASE}^{{commit}}"], cwd=ROOT, capture_output=True, check=False)
    if found.returncode != 0:
        sys.exit(f"commit {BASE} is not in this clone; run git fetch --unshallow")
    if not (ROOT / BUILDS["base"] / "build.ninja").exists():
        print(f"building {BASE} in build/base", file=sys.stderr)
        (ROOT / SOURCES["base"]).mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", BASE], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", SOURCES["base"]], cwd=ROOT, input=archive, check=True)
        run(["meson", "setup", BUILDS["base"], SOURCES["base"], "--buildtype=release", "-Duplot=none"],
            env=os.environ | {"CC": "gcc"})
    run(["ninja", "-C", BUILDS["base"], "-j", "2", "weir", "src/libweir.a"])


def make_now():
    if not (ROOT / BUILDS["now"] / "build.ninja").exists():
        run(["meson", "setup", BUILDS["now"], ".", "--buildtype=release", "-Duplot=none", "-Dhardened=false"],
            env=os.environ | {"CC": "gcc"})
    run(["ninja", "-C", BUILDS["now"], "-j", "2", "weir", "src/libweir.a"])


def make_table_program(tree):
    """Compiles bench/road.c with the headers and the library of the tree; returns the program."""
    program = f"build/bench/road_{tree}"
    run(["gcc", "-O2", "-D_GNU_SOURCE", f"-I{SOURCES[tree]}/include", "bench/road.c", f"{BUILDS[tree]}/src/libweir.a", "-o",
         program, "-lpthread"])
    return program


def serve_command(tree, port, settings):
    return [f"{BUILDS[tree]}/weir", "serve", "--listen", f"127.0.0.1:{port}", "--workers", "1", "--keys", str(CPU_KEYS),
            *serve_peers.ASLEEP, *settings]


def store_settings(store):
    return ["--http", "none", "--store", f"redis://127.0.0.1:{store.where[1]}", "--store_budget", "10s"]


def require_store(server):
    elsewhere = bench_redis.decided_elsewhere(server)
    if elsewhere:
        raise SystemExit(f"{elsewhere} requests were decided without Redis: the measurement is invalid")


# --- instructions ---------------------------------------------------------------------------------------------------

def is_complete(case, received):
    if case.request is http_check:
        head, end, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        return head.startswith(b"HTTP/1.1 200") and end and length and len(body) == int(length[1])
    # Arrays of integers and strings
    lengths = [int(length) for length in re.findall(rb"\*(\d+)\r\n", received)]
    elements = re.findall(rb":-?\d+\r\n|\$\d+\r\n[^\r]*\r\n", received)
    return len(lengths) == case.pipeline and len(elements) == sum(lengths)


def receive(connection, case):
    received = b""
    while not is_complete(case, received):
        try:
            some = connection.recv(1 << 20)
        except TimeoutError:
            some = b""
        if not some:
            raise SystemExit(f"{case.label}: an incomplete or unexpected reply: {received[:300]}")
        received += some


def send_bursts(case, port, bursts):
    keys = (number * 7919 % KEYS for number in itertools.count())
    seconds_least = case.requests(1) / REQUESTS_PER_SECOND_MOST
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                       for _ in range(case.connections)]
        for _ in range(bursts):
            next_at = time.monotonic() + seconds_least
            for connection in connections:
                connection.sendall(b"".join(case.request(next(keys)) for _ in range(case.pipeline)))
            for connection in connections:
                receive(connection, case)
            time.sleep(max(0, next_at - time.monotonic()))


def instructions_of_run(tree, case, bursts, store):
    port, http_port = serve_peers.free_port(), serve_peers.free_port()
    settings = store_settings(store) if case.has_store else ["--http", "none"]
    if case.request is not throttle:
        settings = ["--http", f"127.0.0.1:{http_port}", "--policy", POLICY_FILE]
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        log = Path(folder) / "log"
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log}",
                   *serve_command(tree, port, settings)]
        with serve_peers.started(command, ["-p", str(port)], os.sched_getaffinity(0)) as server:
            send_bursts(case, http_port if case.request is http_check else port, bursts)
            if case.has_store:
                require_store(server)
        return int(re.search(r"Collected : (\d+)", log.read_text(encoding="utf-8"))[1])


def measure_served(tree, case, bursts):
    """(instructions per request, decisions per call to Redis or None)."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(serve_peers.redis(os.sched_getaffinity(0))) if case.has_store else None
        short = instructions_of_run(tree, case, bursts, store)
        long = instructions_of_run(tree, case, 2 * bursts, store)
        batch = case.requests(3 * bursts) / bench_redis.script_calls(store) if store else None
    return (long - short) / case.requests(bursts), batch


# --- processor time -------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def servers_on_redis(redis_cpus, server_cpus):
    """Tree -> its server. Each has its own Redis, because the trees may store different data."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for tree in BUILDS:
            port = serve_peers.free_port()
            command = serve_command(tree, port, store_settings(stack.enter_context(serve_peers.redis(redis_cpus))))
            servers[tree] = stack.enter_context(serve_peers.started(command, ["-p", str(port)], server_cpus))
        yield servers
        for server in servers.values():
            require_store(server)


def measure_cpu(names, arguments, samples):
    redis_cpu, server_cpu = sorted(processors()[2])
    with servers_on_redis({redis_cpu}, {server_cpu}) as servers:
        for number in range(arguments.rounds):
            print(f"round {number + 1} of {arguments.rounds}: processor time", file=sys.stderr)
            for _, name in itertools.product(range(CPU_TURNS), names):
                n = max(CONNECTIONS * CPU[name], int(CPU_REQUESTS_PER_SECOND[CPU[name]] * arguments.seconds))
                for tree, server in servers.items():
                    command = serve_peers.benchmark_command(server.where, server_cpu, CPU[name], CONNECTIONS, CPU_KEYS, n,
                                                            bench_redis.THROTTLE)
                    samples[name][tree].append(serve_peers.drive(server, command, n)["ns"])


# --- the report -----------------------------------------------------------------------------------------------------

def measure(names, arguments):
    """Figure -> tree -> result of each round, and figure -> tree -> decisions per call to Redis."""
    samples = {name: {tree: [] for tree in BUILDS} for name in names}
    batches = {name: {tree: [] for tree in BUILDS} for name in names if name in SERVED and SERVED[name].has_store}
    counted, timed = [name for name in names if name not in CPU], [name for name in names if name in CPU]
    programs = {tree: make_table_program(tree) for tree in BUILDS}
    for number, name, tree in itertools.product(range(arguments.rounds), counted, BUILDS):
        print(f"round {number + 1} of {arguments.rounds}: {name}, {tree}", file=sys.stderr)
        if name == TABLE:
            samples[name][tree].append(instructions([programs[tree]], ["weir_table_allow"]))
            continue
        bursts = SERVED[name].bursts // (10 if arguments.quick else 1)
        count, batch = measure_served(tree, SERVED[name], bursts)
        samples[name][tree].append(count)
        if name in batches:
            batches[name][tree].append(batch)
    if timed:
        measure_cpu(timed, arguments, samples)
    return samples, batches


def print_table(samples, batches, ratios):
    print(f"\n{'':<42} {BASE:>8} {'noise':>7} {'now':>8} {'noise':>7} {'ratio':>6}   decisions in a call")
    for name, found in samples.items():
        columns = "".join(f" {median:>8.1f} {100 * (max(one) - min(one)) / median:>5.1f} %"
                          for one in found.values() for median in [statistics.median(one)])
        calls = ", ".join(f"{statistics.median(batch):.0f}" for batch in batches.get(name, {}).values())
        print(f"{LABELS[name]:<42}{columns} {ratios[name]:>6.3f}   {calls}".rstrip())
    print("\nInstructions of a request, or ns of processor time.")


def read_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench road", description=__doc__.partition("\n")[0])
    add_rounds(parser, 5, 0.5)
    parser.add_argument("--only", metavar="NAME", default="", help="only the figures whose names contain this")
    parser.add_argument("--hardened", action="store_true", help="measure build/weir with its protection, without judging it")
    arguments = read_rounds(parser)
    arguments.report_only |= arguments.hardened
    arguments.names = [name for name in BOUNDS if arguments.only in name]
    if not arguments.names:
        parser.error(f"--only {arguments.only}: no such figure; there are {', '.join(BOUNDS)}")
    return arguments


def main():
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # which also ends the servers
    make_base()
    if arguments.hardened:
        BUILDS["now"] = "build"
    else:
        make_now()
    (ROOT / POLICY_FILE).write_text(POLICY, encoding="utf-8")
    where, load = machine(["gcc", "redis-server", "valgrind"]), os.getloadavg()[0]
    samples, batches = measure(arguments.names, arguments)
    each = {name: [now / base for now, base in zip(one["now"], one["base"])] for name, one in samples.items()}
    ratios = {name: statistics.median(one) for name, one in each.items()}
    ranges = {name: (min(one), max(one)) for name, one in each.items()}
    print_table(samples, batches, ratios)
    print_machine(where)
    print(f"{arguments.rounds} rounds\nload before: {load:.2f}")
    promises = [(name, "<=", BOUNDS[name]) for name in samples]
    return finish("road", judge_ratios(promises, ratios, ranges), ratios, {
        "machine": where, "rounds": arguments.rounds, "load_before": load, "samples": samples, "decisions_in_a_call": batches,
        "ratios_of_single_rounds": ranges}, arguments)


if __name__ == "__main__":
    sys.exit(main())
