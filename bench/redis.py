#!/usr/bin/env python3
"""the daemon on a Redis beside a token bucket in Lua

    ./dev bench redis [--rounds N] [--seconds S] [--report-only] [--quick]

Redis has one processor. The server, with --store, and redis-benchmark share another. redis-benchmark sends CL.THROTTLE to the
server, which decides in Redis, and EVALSHA of bench/bucket.lua directly to Redis, over 1 M keys from 50 connections. Its commands
are printed. Each round measures both, in turn.

Ratios compare decisions per second of Redis's CPU time, because many servers share one Redis, and it is the first to be
saturated. The client, the server and the kernel share the other processor, so Redis is not always busy. The table shows its share.

Then the table alone, and the same limit leased, eventual and exact in Redis decide WEIR.TAKE over 1,000 keys. lease_vs_table_p1
and _p64 compare decisions per second of the server's CPU time, because the client shares its processor. lease_vs_exact compares
decisions per second at a pipeline of 1. lease_calls_per_1000 is measured with 100 decisions a second for each of 1,000 keys, by a
client that sends one request for each key every 10 ms. eventual_* are the same for the eventual limit.

script_calls_per_1000 is the number of script calls for a thousand decisions, at a pipeline of 16. One call carries many decisions.

The benchmark fails if a decision was made without Redis. The exit status is 1 if a target is missed, unless you pass
--report-only. --quick is a smoke test: its figures mean nothing and are not judged."""
# packages: redis-server redis-tools util-linux

import argparse
import contextlib
import os
import re
import shlex
import socket
import sys
import tempfile
import time

import serve_peers
from harness import (ROOT, add_rounds, fastest, finish, judge_ratios, keyed, machine, percent, print_machine, processors,
                     ratio_ranges, read_rounds, run, summarize)

PIPELINES = [16, 64]
CONNECTIONS = 50
KEYS, KEYS_QUICK = 1_000_000, 1000
KEY = "key:__rand_int__"
# All requests are allowed and write, and no key is ever full: 1/3min burst 10000. (For a limit of one unit a period that needs
# more than 100 days to become full, the script computes with pairs of numbers, which takes twice as long.)
THROTTLE = ["CL.THROTTLE", KEY, "9999", "1", "180"]
BUCKET = ["10000", "1", "180000000", "1"]
LABELS = {"weir": "Weir on Redis, CL.THROTTLE", "lua": "Redis, token bucket in Lua"}
PER_SECOND = {"weir": 120_000, "lua": 80_000}  # expected decisions a second: sets how many a measurement sends

LEASE_KEYS, LEASE_PIPELINES = 1000, [1, 64]
LEASE_PER_SECOND = {"table": {1: 40_000, 64: 1_000_000}, "lease": {1: 40_000, 64: 1_000_000},
                    "eventual": {1: 40_000, 64: 1_000_000}, "exact": {1: 12_000, 64: 80_000}}
LEASE_LABELS = {"table": "the table alone", "lease": "leased", "eventual": "eventual", "exact": "exact in Redis"}
LEASE_TAKE = ["WEIR.TAKE", KEY, "@hot"]
# hot allows all that one client can send to 1,000 keys. steady is for 100 decisions a second for each key.
LEASE_POLICY = """limits:
  - {name: hot, key: [user], limit: 1000000/s burst 200000000, consistency: %s}
  - {name: steady, key: [user], limit: 200/s burst 2000, consistency: %s}
"""

PROMISES = [("exact_p16_vs_lua", ">=", 2.0), ("exact_p64_vs_lua", ">=", 2.0), ("lease_vs_table_p1", ">=", 0.75),
            ("lease_vs_table_p64", ">=", 0.75), ("lease_calls_per_1000", "<=", 5.0)]


def info(server, section):
    return run(["redis-cli", *server.where, "INFO", section])[0]


def number(text, pattern):
    found = re.search(pattern, text, re.M)
    return int(found[1]) if found else 0


def script_calls(server):
    return number(info(server, "commandstats"), r"^cmdstat_evalsha:calls=(\d+)")


def decided_elsewhere(server):
    """Requests to the server that Redis did not decide."""
    said = info(server, "store")
    return number(said, r"^store_unreached:(\d+)") + number(said, r"^store_unanswered:(\d+)")


@contextlib.contextmanager
def all_servers(redis_cpus, other_cpus, keys):
    """Contender -> (the server that gets requests, the Redis that decides, the request). Both hold every key."""
    with serve_peers.redis(redis_cpus) as scripted, serve_peers.redis(redis_cpus) as store:
        port = str(serve_peers.free_port())
        command = serve_peers.weir_command(f"127.0.0.1:{port}", 1000)
        command += ["--store", f"redis://127.0.0.1:{store.where[1]}", "--store_budget", "10s"]
        with serve_peers.started(command, ["-p", port], other_cpus) as weir:
            script = (ROOT / "bench/bucket.lua").read_text(encoding="utf-8")
            bucket = ["EVALSHA", run(["redis-cli", *scripted.where, "SCRIPT", "LOAD", script])[0].strip(), "1", KEY,
                      *BUCKET]
            print(f"filling in {keys} keys", file=sys.stderr)
            serve_peers.fill(scripted, bucket, keys, other_cpus)
            serve_peers.fill(weir, THROTTLE, keys, other_cpus)
            yield {"weir": (weir, store, THROTTLE), "lua": (scripted, scripted, bucket)}


def drive(server, redis, command, n):
    """The results of redis-benchmark, and the CPU time of Redis per decision."""
    used, calls = redis.cpu_ns(), script_calls(redis)
    told = serve_peers.drive(server, command, n)
    share = (redis.cpu_ns() - used) / n
    return {**told, "ns": share, "busy": share * told["per_second"] / 1e9,
            "calls": 1000 * (script_calls(redis) - calls) / n}


def measure(servers, load_cpu, keys, arguments):
    """(pipeline, contender) -> its summary."""
    runs, printed = {}, set()
    for number_of in range(arguments.rounds):
        print(f"round {number_of + 1} of {arguments.rounds}", file=sys.stderr)
        for pipeline in PIPELINES:
            for name, (server, redis, words) in servers.items():
                n = max(CONNECTIONS * pipeline, int(PER_SECOND[name] * arguments.seconds))
                command = serve_peers.benchmark_command(server.where, load_cpu, pipeline, CONNECTIONS, keys, n, words)
                if (pipeline, name) not in printed:
                    print(shlex.join(command))
                    printed.add((pipeline, name))
                runs.setdefault((pipeline, name), []).append(drive(server, redis, command, n))
    elsewhere = decided_elsewhere(servers["weir"][0])
    if elsewhere:
        raise SystemExit(f"{elsewhere} requests were not decided by Redis: the measurement is invalid")
    return {name: summarize(one) for name, one in runs.items()}


def ratios_of(ns):
    return {f"exact_p{pipeline}_vs_lua": ns[(pipeline, "lua")] / ns[(pipeline, "weir")] for pipeline in PIPELINES}


def print_table(times):
    print(f"\n{'':<28} {'pipeline':>8} {'Redis ns':>9} {'noise':>6} {'decisions/s':>12} {'Redis busy':>11} "
          f"{'calls/1000':>11} {'p99 ms':>7}")
    for (pipeline, name), one in sorted(times.items()):
        print(f"{LABELS[name]:<28} {pipeline:>8} {one['ns']:>9.0f} {percent(one['noise']):>6} {one['per_second']:>12.0f} "
              f"{percent(one['busy']):>11} {one['calls']:>11.1f} {one['p99_ms']:>7.2f}")
    print("\nRedis ns: CPU time of Redis per decision, including the kernel.")


# --- leases ----------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def lease_servers(redis_cpus, other_cpus):
    """Contender -> its server."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-"))
        store = stack.enter_context(serve_peers.redis(redis_cpus))
        servers = {}
        for name, consistency in (("table", "exact"), ("lease", "lease"), ("eventual", "eventual"), ("exact", "exact")):
            policy, port = os.path.join(folder, f"{name}.yaml"), str(serve_peers.free_port())
            with open(policy, "w", encoding="utf-8") as file:
                file.write(LEASE_POLICY % (consistency, consistency))
            command = [*serve_peers.weir_command(f"127.0.0.1:{port}", 100_000), *serve_peers.ASLEEP, "--policy", policy]
            if name != "table":
                command += ["--store", f"redis://127.0.0.1:{store.where[1]}", "--store_budget", "10s"]
            servers[name] = stack.enter_context(serve_peers.started(command, ["-p", port], other_cpus))
        yield servers


def measure_leases(servers, load_cpu, arguments):
    """(pipeline, contender) -> its summary. The first round fills in the keys and is not counted."""
    runs = {}
    for number_of in range(arguments.rounds + 1):
        for pipeline in LEASE_PIPELINES:
            for name, server in servers.items():
                n = max(CONNECTIONS * pipeline, int(LEASE_PER_SECOND[name][pipeline] * arguments.seconds))
                command = serve_peers.benchmark_command(server.where, load_cpu, pipeline, CONNECTIONS, LEASE_KEYS, n, LEASE_TAKE)
                told = serve_peers.drive(server, command, n)
                if number_of > 0:
                    runs.setdefault((pipeline, name), []).append(told)
    return {name: summarize(one) for name, one in runs.items()}


def lease_numbers(server):
    said = info(server, "store")
    return {name: number(said, rf"^{name}:(\d+)") for name in ("store_calls", "store_decided", "lease_allowed", "lease_denied")}


def calls_of_steady_load(server, seconds):
    """Calls to Redis for 1,000 decisions, of 1,000 keys with 100 decisions a second each."""
    keys = [f"steady:{i}" for i in range(LEASE_KEYS)]
    once = b"".join(serve_peers.request(["WEIR.TAKE", key, "@steady"]) for key in keys)
    with socket.create_connection(("127.0.0.1", int(server.where[1]))) as client, client.makefile("rb") as replies:
        def turn():
            client.sendall(once)
            for _ in range(LEASE_KEYS):
                for _ in range(int(replies.readline()[1:])):
                    replies.readline()
        for _ in range(200):  # until all keys are leased
            turn()
        before, begun = lease_numbers(server), time.monotonic()
        turns = max(10, int(100 * seconds))
        for i in range(turns):
            turn()
            time.sleep(max(0.0, begun + (i + 1) / 100 - time.monotonic()))
    after = lease_numbers(server)
    grown = {name: after[name] - before[name] for name in after}
    return 1000 * grown["store_calls"] / (turns * LEASE_KEYS), turns * LEASE_KEYS / (time.monotonic() - begun)


def lease_ratios_of(ns):
    return {f"{name}_vs_table_p{pipeline}": ns[(pipeline, "table")] / ns[(pipeline, name)]
            for name in ("lease", "eventual") for pipeline in LEASE_PIPELINES}


def print_lease_table(times, steady):
    print(f"\n{'WEIR.TAKE, 1,000 keys':<28} {'pipeline':>8} {'server ns':>9} {'noise':>6} {'decisions/s':>12} {'p99 ms':>7}")
    for (pipeline, name), one in sorted(times.items()):
        print(f"{LEASE_LABELS[name]:<28} {pipeline:>8} {one['ns']:>9.0f} {percent(one['noise']):>6} {one['per_second']:>12.0f} "
              f"{one['p99_ms']:>7.2f}")
    for name, (calls, per_second) in steady.items():
        print(f"{LEASE_LABELS[name]}, {per_second:.0f} decisions a second over 1,000 keys: {calls:.2f} calls to Redis for 1,000 decisions")


def read_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench redis", description=__doc__.partition("\n")[0])
    add_rounds(parser, 5, 2)
    return read_rounds(parser)


def main():
    arguments = read_arguments()
    two = sorted(processors()[2])
    redis_cpus, other_cpus = {two[0]}, {two[1]}
    where, load = machine(["redis-server", "redis-tools"]), os.getloadavg()[0]
    keys = KEYS_QUICK if arguments.quick else KEYS
    with all_servers(redis_cpus, other_cpus, keys) as servers:
        times = measure(servers, two[1], keys, arguments)
    with lease_servers(redis_cpus, other_cpus) as servers:
        lease_times = measure_leases(servers, two[1], arguments)
        steady = {name: calls_of_steady_load(servers[name], arguments.seconds) for name in ("lease", "eventual")}
    best, best_lease = fastest(times), fastest(lease_times)
    ratios = {**ratios_of(best), **lease_ratios_of(best_lease),
              **{f"{name}_vs_exact": lease_times[(1, name)]["per_second"] / lease_times[(1, "exact")]["per_second"] for name in steady},
              **{f"{name}_calls_per_1000": calls for name, (calls, _) in steady.items()}, "script_calls_per_1000": times[(16, "weir")]["calls"],
              "script_calls_per_1000_p64": times[(64, "weir")]["calls"]}
    ranges = {**ratio_ranges(ratios_of, times, arguments.rounds), **ratio_ranges(lease_ratios_of, lease_times, arguments.rounds)}
    print_table(times)
    print_lease_table(lease_times, steady)
    print_machine(where)
    print(f"table: medians of {arguments.rounds} rounds of about {arguments.seconds} s\nload before: {load:.2f}")
    return finish("redis", judge_ratios(PROMISES, ratios, ranges), ratios, {
        "machine": where, "rounds": arguments.rounds, "seconds": arguments.seconds, "load_before": load,
        "times": keyed(times), "lease_times": keyed(lease_times), "ratios_of_single_rounds": ranges}, arguments)


if __name__ == "__main__":
    sys.exit(main())
