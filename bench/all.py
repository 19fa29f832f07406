#!/usr/bin/env python3
"""every algorithm in the library, in the server and in Redis: one table

    ./dev bench all [--rounds N] [--seconds S] [--write] [--report-only] [--quick]

Each algorithm decides a limit of 100 a minute on 100,000 random keys, in three places: weir_table_allow in one thread, WEIR.TAKE
on the server with its table, and WEIR.TAKE on the server with its state in Redis. redis-benchmark runs on one processor, with 50
connections and a pipeline of 16. The process that is measured, the server or Redis, runs on the other. With Redis, the server
shares the processor of redis-benchmark.

--write puts the table into docs/concepts/benchmarks.md. --quick is a smoke test: its figures mean nothing, and are not written."""
# packages: redis-server redis-tools util-linux

import argparse
import contextlib
import json
import os
import sys

import serve_peers
from harness import ROOT, add_rounds, finish, keyed, machine, print_machine, processors, read_rounds, run, summarize

PIPELINE, CONNECTIONS = 16, 50
KEYS = 100_000
KEY = "key:__rand_int__"
LIMITS = {
    "token bucket": "100/min",
    "token bucket, refilled at once": "100/min refill interval",
    "leaky bucket": "100/min leaky",
    "fixed window": "100/min fixed_window",
    "sliding counter": "100/min sliding_counter",
    "sliding counter, 60 segments": "100/min sliding_counter segments 60",
    "sliding log": "100/min sliding_log",
}
PER_SECOND = {"daemon": 400_000, "redis": 80_000}  # expected requests a second: sets how many a measurement sends
PAGE = "docs/concepts/benchmarks.md"
BEGIN, END = "<!-- made by ./dev bench all --write -->", "<!-- end -->"


@contextlib.contextmanager
def daemons(cpus, load_cpus):
    """Place -> (the server that gets requests, the server whose CPU time is measured)."""
    port, remote = str(serve_peers.free_port()), str(serve_peers.free_port())
    with serve_peers.redis(cpus) as store:
        local = [*serve_peers.weir_command(f"127.0.0.1:{port}", 4 * KEYS), "--arena", "512MiB", *serve_peers.ASLEEP]
        on_redis = [*serve_peers.weir_command(f"127.0.0.1:{remote}", 1000), "--store",
                    f"redis://127.0.0.1:{store.where[1]}", "--store_budget", "10s"]
        with serve_peers.started(local, ["-p", port], cpus) as weir, \
                serve_peers.started(on_redis, ["-p", remote], load_cpus) as other:
            yield {"daemon": (weir, weir), "redis": (other, store)}


def in_library(text, cpus, arguments):
    return json.loads(run(["build/bench/table", "one", "--keys", str(KEYS), "--limit", text, "--seconds",
                           str(arguments.seconds)], cpus)[0])


def over_wire(place, servers, text, load_cpu, arguments):
    asked, decides = servers[place]
    n = max(CONNECTIONS * PIPELINE, int(PER_SECOND[place] * arguments.seconds))
    before = decides.cpu_ns()
    told = serve_peers.drive(asked, serve_peers.benchmark_command(
        asked.where, load_cpu, PIPELINE, CONNECTIONS, KEYS, n, ["WEIR.TAKE", KEY, text]), n)
    return {**told, "ns": (decides.cpu_ns() - before) / n}


def measure(arguments, cpus, load_cpus):
    """(algorithm, place) -> its summary."""
    load_cpu, runs = min(load_cpus), {}
    with daemons(cpus, load_cpus) as servers:
        for number in range(arguments.rounds):
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
            for name, text in LIMITS.items():
                runs.setdefault((name, "library"), []).append(in_library(text, cpus, arguments))
                for place in servers:
                    runs.setdefault((name, place), []).append(over_wire(place, servers, text, load_cpu, arguments))
    return {name: summarize(one) for name, one in runs.items()}


def table_of(times):
    rows = ["| 100 a minute by | the limit | in the library | in the server | in Redis |", "|---|---|---|---|---|"]
    for name, text in LIMITS.items():
        library, daemon, redis = (times[(name, place)] for place in ("library", "daemon", "redis"))
        rows.append(f"| {name} | `{text}` | {library['ns']:.0f} ns, {library['per_second'] / 1e6:.1f} M/s "
                    f"| {daemon['ns']:.0f} ns, {daemon['per_second'] / 1e3:.0f} K/s "
                    f"| {redis['ns'] / 1e3:.1f} us, {redis['per_second'] / 1e3:.0f} K/s |")
    return rows


def write(rows, where, arguments, load):
    page = ROOT / PAGE
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    note = (f"{where['cpu']}, {where['processors']} processors, Linux {where['kernel']}; medians of {arguments.rounds} rounds "
            f"of about {arguments.seconds} s; load before: {load:.2f}.")
    page.write_text(f"{head}{BEGIN}\n" + "\n".join(rows) + f"\n\n{note}\n{END}{tail}", encoding="utf-8")


def read_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench all", description=__doc__.partition("\n")[0])
    add_rounds(parser, 3, 1)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    return read_rounds(parser)


def main():
    arguments = read_arguments()
    two = sorted(processors()[2])
    where, load = machine(["redis-server", "redis-tools"]), os.getloadavg()[0]
    times = measure(arguments, {two[0]}, {two[1]})
    rows = table_of(times)
    print("\n" + "\n".join(rows))
    print_machine(where)
    print(f"medians of {arguments.rounds} rounds of about {arguments.seconds} s\nload before: {load:.2f}")
    if arguments.write and not arguments.quick:
        write(rows, where, arguments, load)
    ratios = {f"daemon_vs_library {name}": times[(name, "daemon")]["ns"] / times[(name, "library")]["ns"]
              for name in LIMITS}
    return finish("all", [], {name.replace(" ", "_").replace(",", ""): value for name, value in ratios.items()},
                  {"machine": where, "times": keyed(times)}, arguments)


if __name__ == "__main__":
    sys.exit(main())
