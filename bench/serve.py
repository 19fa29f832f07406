#!/usr/bin/env python3
"""the daemon beside Redis over RESP, and beside nginx and HAProxy over HTTP

    ./dev bench serve [--rounds N] [--seconds S] [--report-only] [--quick]
    ./dev bench serve --http [--rounds N] [--seconds S] [--report-only] [--quick]
    ./dev bench serve --grpc [--rounds N] [--seconds S] [--report-only] [--quick]
    ./dev bench serve --observed [--rounds N] [--seconds S] [--report-only] [--quick]
    ./dev bench serve --tls [--rounds N] [--seconds S] [--report-only] [--quick]
    ./dev bench serve --curve [--rounds N] [--seconds S] [--quick]
    ./dev bench serve --loops [--rounds N] [--seconds S] [--quick]

Measures CL.THROTTLE, GET and a token bucket in Lua, then GET /v1/check (bench/serve_http.py; alone with --http), ShouldRateLimit
(bench/serve_grpc.py; alone with --grpc), then the cost of observability (bench/serve_observed.py; alone with --observed) and of TLS
(bench/serve_tls.py; alone with --tls).

Each server has one processor, and redis-benchmark or wrk has another. All servers get the same commands, which are printed. Each
round measures each server once, in turn.

Ratios compare requests a second. redis-benchmark needs as long to read a reply of five integers as a good server to make it. So
a fast server waits for redis-benchmark, and its rate is the rate of redis-benchmark: see "server busy" with --spin 0. The ratios
*_cpu_vs_* therefore compare the server's CPU time per request, with --spin 0.

Ratios compare the fastest round of each contender, because other users of the machine only add time. Tables show the median of
the rounds. Noise is (largest - smallest) / median.

Two workers are compared with one. With four or more processors, by their rates. With fewer, the load needs a processor, so they
are compared by instructions per request, from callgrind, and by the busier worker's share of the work. Instructions do not show
how long two threads wait for each other's cache lines. The ns beside them do.

--curve measures 1, 100 and 10,000 connections and 1 K, 1 M and 50 M keys instead, and draws build/bench/plots/serve_*.svg,
with --write docs/plots/serve_*.svg.

--loops compares two echo servers instead, one with epoll and one with io_uring.

The exit status is 1 if a target is missed, unless you pass --report-only. --quick is a smoke test: its figures mean
nothing and are not judged."""
# packages: haproxy liburing-dev nghttp2-client nghttp2-server nginx-light openssl redis-server redis-tools util-linux valgrind wrk

import argparse
import contextlib
import os
import shlex
import signal
import sys

import serve_curve
import serve_grpc
import serve_http
import serve_observed
import serve_peers
import serve_tls
import serve_workers
from harness import (ROOT, add_rounds, add_write, fastest, finish, judge_ratios, keyed, machine, percent, print_machine, processors,
                     ratio_ranges, read_rounds, run, summarize)

PIPELINES = [1, 16, 64]
CONNECTIONS = 50
KEYS, KEYS_QUICK = 1_000_000, 1000
KEY = "key:__rand_int__"
# All requests are allowed and write, and no key is ever full: 1/3min burst 3000000.
THROTTLE = ["CL.THROTTLE", KEY, "2999999", "1", "180"]
BUCKET = ["3000000", "1", "180000000", "1"]
# contender -> label, expected requests a second by pipeline (sets how many a measurement sends)
CONTENDERS = {
    "weir": ("Weir, CL.THROTTLE", {1: 60_000, 16: 600_000, 64: 1_200_000}),
    "asleep": ("Weir, --spin 0", {1: 60_000, 16: 600_000, 64: 1_200_000}),
    "get": ("Redis, GET", {1: 60_000, 16: 600_000, 64: 1_200_000}),
    "lua": ("Redis, token bucket in Lua", {1: 40_000, 16: 80_000, 64: 80_000}),
    "echo": ("an echo of CL.THROTTLE", {1: 60_000, 16: 600_000, 64: 1_200_000}),
    "uring": ("an echo by io_uring", {1: 60_000, 16: 600_000, 64: 1_200_000}),
}

# ratio, "at least" or "at most", bound
PROMISES = [
    ("resp_p1_vs_redis_get", ">=", 1.0),
    ("resp_p16_vs_redis_get", ">=", 1.5),
    ("resp_p64_vs_redis_get", ">=", 2.0),
    ("resp_p16_vs_lua", ">=", 12.0),
    ("resp_p64_vs_lua", ">=", 20.0),
    ("resp_p1_p99_vs_redis_get", "<=", 1.0),
    ("two_workers_vs_one", ">=", 1.7),
]


# --- measuring ------------------------------------------------------------------------------------------------------

def load_script(server):
    script = (ROOT / "bench/bucket.lua").read_text(encoding="utf-8")
    return run(["redis-cli", *server.where, "SCRIPT", "LOAD", script])[0].strip()


@contextlib.contextmanager
def all_servers(cpus, load_cpus, keys):
    """Contender -> (server, words of its request). Every server has all keys."""
    with serve_peers.weir(cpus, 2 * keys) as weir, serve_peers.weir(cpus, 2 * keys, serve_peers.ASLEEP) as asleep, \
            serve_peers.redis(cpus) as plain, serve_peers.redis(cpus) as scripted, serve_peers.echo(cpus) as echo:
        bucket = ["EVALSHA", load_script(scripted), "1", KEY, *BUCKET]
        print(f"filling in {keys} keys", file=sys.stderr)
        serve_peers.fill(plain, ["SET", KEY, "xxx"], keys, load_cpus)
        serve_peers.fill(weir, THROTTLE, keys, load_cpus)
        serve_peers.fill(asleep, THROTTLE, keys, load_cpus)
        serve_peers.fill(scripted, bucket, keys, load_cpus)
        yield {"weir": (weir, THROTTLE), "asleep": (asleep, THROTTLE), "get": (plain, ["GET", KEY]),
               "lua": (scripted, bucket), "echo": (echo, THROTTLE)}


def measure(servers, load_cpu, keys, arguments):
    """(pipeline, contender) -> its summary."""
    runs, printed = {}, set()
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
        for pipeline in PIPELINES:
            for name, (server, words) in servers.items():
                n = max(CONNECTIONS * pipeline, int(CONTENDERS[name][1][pipeline] * arguments.seconds))
                command = serve_peers.benchmark_command(server.where, load_cpu, pipeline, CONNECTIONS, keys, n, words)
                if (pipeline, name) not in printed:
                    print(shlex.join(command))
                    printed.add((pipeline, name))
                runs.setdefault((pipeline, name), []).append(serve_peers.drive(server, command, n))
    return {name: {**summarize(one), "per_second_of_rounds": [each["per_second"] for each in one],
                   "p99_ms_of_rounds": [each["p99_ms"] for each in one]} for name, one in runs.items()}


# --- judgement ------------------------------------------------------------------------------------------------------

def ratios_of(ns, word="", weir="weir"):
    """ns: (pipeline, contender) -> ns for a request."""
    ratios = {}
    for pipeline in PIPELINES:
        for name, told, peer, peer_told in ((weir, "resp", "get", "redis_get"), (weir, "resp", "lua", "lua"),
                                            ("echo", "echo", "get", "redis_get")):
            ratios[f"{told}_p{pipeline}{word}_vs_{peer_told}"] = ns[(pipeline, peer)] / ns[(pipeline, name)]
    return ratios


def by_rate(times):
    """Times from one reply to the next, instead of CPU times."""
    return {name: {"ns_of_rounds": [1e9 / rate for rate in one["per_second_of_rounds"]]} for name, one in times.items()}


def all_ratios(times):
    p99 = {name: min(one["p99_ms_of_rounds"]) for name, one in times.items()}
    return {**ratios_of(fastest(by_rate(times))), "resp_p1_p99_vs_redis_get": p99[(1, "weir")] / p99[(1, "get")],
            **ratios_of(fastest(times), "_cpu", "asleep")}


# --- the report -----------------------------------------------------------------------------------------------------

def print_table(times):
    print(f"\n{'':<28} {'pipeline':>8} {'server ns':>10} {'noise':>6} {'requests/s':>11} {'server busy':>12} {'p99 ms':>7}")
    for pipeline in PIPELINES:
        for name in (name for name in CONTENDERS if (pipeline, name) in times):
            label, one = CONTENDERS[name][0], times[(pipeline, name)]
            print(f"{label:<28} {pipeline:>8} {one['ns']:>10.0f} {percent(one['noise']):>6} {one['per_second']:>11.0f} "
                  f"{percent(one['busy']):>12} {min(one['p99_ms_of_rounds']):>7.3f}")


NOTES = """
server ns: CPU time of the server per request, in all threads, including the kernel.
server busy: the server's share of its processor, in the idlest round, including the start of redis-benchmark. Weir also uses CPU
time to poll for requests. With --spin 0 it does not poll, so its ns are only those of requests.
GET reads a value of 3 bytes. The bucket in Lua is bench/bucket.lua, by EVALSHA. It and CL.THROTTLE allow all requests and write.
The echo reads and sends back with the same epoll loop: a lower bound for a server that reads requests."""


def compare_loops(arguments, cpus, load_cpu, where):
    with serve_peers.echo(cpus) as epoll, serve_peers.echo_by_uring(cpus) as uring:
        times = measure({"echo": (epoll, THROTTLE), "uring": (uring, THROTTLE)}, load_cpu, KEYS, arguments)
    print_table(times)
    best = fastest(times)
    print_machine(where)
    print()
    for pipeline in PIPELINES:
        print(f"ratio epoll_p{pipeline}_vs_io_uring {best[(pipeline, 'uring')] / best[(pipeline, 'echo')]:.3f}")
    return 0


def http_ranges(web, arguments):
    return ratio_ranges(serve_http.ratios_of, serve_http.by_rate(web), arguments.rounds)


def grpc_ranges(calls, arguments):
    return {**ratio_ranges(serve_grpc.ratios_of, serve_grpc.by_rate(calls), arguments.rounds),
            **ratio_ranges(serve_grpc.cpu_ratios_of, calls, arguments.rounds)}


def observed_ranges(seen, arguments):
    return ratio_ranges(serve_observed.ratios_of, seen, arguments.rounds)


def tls_ranges(encrypted, arguments):
    return ratio_ranges(serve_tls.ratios_of, encrypted, arguments.rounds)


def judge_part(name, part, times, ranges, load, arguments, where):
    """Reports one part of this benchmark alone."""
    ratios = part.all_ratios(times)
    part.print_table(times)
    print(part.NOTES)
    print_machine(where)
    print(f"tables: medians of {arguments.rounds} rounds of about {arguments.seconds} s\nload before: {load:.2f}")
    return finish("serve", judge_ratios(part.PROMISES, ratios, ranges), ratios, {
        "machine": where, "rounds": arguments.rounds, "seconds": arguments.seconds, "load_before": load,
        name: keyed(times), "ratios_of_single_rounds": ranges}, arguments)


def read_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench serve", description=__doc__.partition("\n")[0])
    add_rounds(parser, 5, 2)
    add_write(parser)
    parser.add_argument("--http", action="store_true", help="measure only HTTP")
    parser.add_argument("--grpc", action="store_true", help="measure only gRPC")
    parser.add_argument("--observed", action="store_true", help="measure only the cost of observability")
    parser.add_argument("--tls", action="store_true", help="measure only the cost of TLS")
    parser.add_argument("--curve", action="store_true", help="measure by connections and keys instead, and draw plots")
    parser.add_argument("--loops", action="store_true", help="compare echo servers with epoll and io_uring instead")
    return read_rounds(parser)


def main():
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # which also ends the servers
    both = processors()
    cpus, load_cpus = both[1], both[2] - both[1]
    load_cpu = min(load_cpus)
    load = os.getloadavg()[0]
    where = machine(["gcc", "redis-server", "valgrind"])
    (ROOT / "build/bench").mkdir(parents=True, exist_ok=True)
    if arguments.curve:
        return serve_curve.main(arguments, cpus, load_cpus, where)
    if arguments.loops:
        return compare_loops(arguments, cpus, load_cpu, where)
    keys = KEYS_QUICK if arguments.quick else KEYS
    if arguments.http:
        web = serve_http.measure(arguments, cpus, load_cpu, KEYS)
        return judge_part("http", serve_http, web, http_ranges(web, arguments), load, arguments, where)
    if arguments.grpc:
        calls = serve_grpc.measure(arguments, cpus, load_cpu)
        return judge_part("grpc", serve_grpc, calls, grpc_ranges(calls, arguments), load, arguments, where)
    if arguments.observed:
        seen = serve_observed.measure(arguments, cpus, load_cpus, keys)
        return judge_part("observed", serve_observed, seen, observed_ranges(seen, arguments), load, arguments, where)
    if arguments.tls:
        encrypted = serve_tls.measure(arguments, cpus, load_cpus, keys)
        return judge_part("tls", serve_tls, encrypted, tls_ranges(encrypted, arguments), load, arguments, where)
    with all_servers(cpus, load_cpus, keys) as servers:
        times = measure(servers, load_cpu, keys, arguments)
    print("two workers", file=sys.stderr)
    workers = serve_workers.measure(arguments, THROTTLE)
    web = serve_http.measure(arguments, cpus, load_cpu, KEYS)
    calls = serve_grpc.measure(arguments, cpus, load_cpu)
    seen = serve_observed.measure(arguments, cpus, load_cpus, keys)
    encrypted = serve_tls.measure(arguments, cpus, load_cpus, keys)
    ratios = {**all_ratios(times), "two_workers_vs_one": workers["ratio"], **serve_http.all_ratios(web),
              **serve_grpc.all_ratios(calls), **serve_observed.all_ratios(seen), **serve_tls.all_ratios(encrypted)}
    ranges = {**ratio_ranges(ratios_of, by_rate(times), arguments.rounds), **http_ranges(web, arguments),
              **grpc_ranges(calls, arguments), **observed_ranges(seen, arguments), **tls_ranges(encrypted, arguments)}
    noise = max(one["noise"] for one in times.values())

    print_table(times)
    serve_workers.print_report(workers)
    print(NOTES)
    serve_http.print_table(web)
    print(serve_http.NOTES)
    serve_grpc.print_table(calls)
    print(serve_grpc.NOTES)
    serve_observed.print_table(seen)
    print(serve_observed.NOTES)
    serve_tls.print_table(encrypted)
    print(serve_tls.NOTES)
    print_machine(where)
    print(f"tables: medians of {arguments.rounds} rounds of about {arguments.seconds} s; noise at most {percent(noise)}\n"
          f"load before: {load:.2f}")
    promises = PROMISES + serve_http.PROMISES + serve_grpc.PROMISES + serve_observed.PROMISES + serve_tls.PROMISES
    return finish("serve", judge_ratios(promises, ratios, ranges), ratios, {
        "machine": where, "rounds": arguments.rounds, "seconds": arguments.seconds, "load_before": load,
        "noise_most": noise, "times": keyed(times), "http": keyed(web), "grpc": calls, "observed": keyed(seen),
        "tls": keyed(encrypted), "workers": workers,
        "ratios_of_single_rounds": ranges}, arguments)


if __name__ == "__main__":
    sys.exit(main())
