"""Two workers beside one, for ./dev bench serve: over a unix socket, at a pipeline of 64. Not a benchmark itself."""

import os
import re
import subprocess
import tempfile
import time

import serve_peers
from harness import ROOT, run

PIPELINE, CONNECTIONS, KEYS = 64, 50, 1_000_000
KEYS_COUNTED = 1000  # under valgrind: all keys are in the table after FEW requests
FEW, MANY = 32_000, 160_000
RATE = 1_200_000  # expected requests a second of each processor that sends: sets how many a measurement sends


def measure(arguments, words):
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) >= 4:
        return by_rate(arguments, words, usable)
    count, shared = by_instructions(words), by_processor(arguments, words, set(usable))
    # Two workers are as fast as the busier one, so it matters how evenly requests are spread.
    return {**count, **shared, "ratio": count["one"] / count["two"] / (1 - shared["least_share"])}


# --- four processors: two serve, two send requests ----------------------------------------------------------------------------

def rate(workers, cpus, load_cpus, words, seconds):
    n = int(RATE * seconds)
    with serve_peers.at_a_path(cpus, lambda path: serve_peers.weir_command(path, 2 * KEYS, workers)) as server:
        commands = [serve_peers.benchmark_command(server.where, cpu, PIPELINE, CONNECTIONS, KEYS, n, words)
                    for cpu in load_cpus]
        start = time.monotonic()
        asking = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
        for one in asking:
            if one.wait() != 0:
                raise SystemExit(f"{' '.join(one.args)}: exit status {one.returncode}")
        return len(commands) * n / (time.monotonic() - start)


def by_rate(arguments, words, usable):
    rates = {1: [], 2: []}
    for _ in range(arguments.rounds):
        for workers, found in rates.items():
            found.append(rate(workers, set(usable[-workers:]), usable[-4:-2], words, arguments.seconds))
    best = {workers: max(found) for workers, found in rates.items()}
    return {"measured": "requests a second", "one": best[1], "two": best[2], "ratio": best[2] / best[1]}


# --- fewer: instructions --------------------------------------------------------------------------------------------

def collected(workers, n, words):
    """Instructions of a server that has handled n requests."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        path, log = os.path.join(folder, "socket"), os.path.join(folder, "log")
        server = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log}",
             *serve_peers.weir_command(path, 2 * KEYS, workers), *serve_peers.ASLEEP], cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            until = time.monotonic() + serve_peers.PATIENCE_S
            while not serve_peers.answers(["-s", path]):
                if server.poll() is not None or time.monotonic() > until:
                    raise SystemExit("weir serve does not serve under valgrind")
                time.sleep(0.1)
            run(["redis-benchmark", "-s", path, "-c", str(CONNECTIONS), "-P", str(PIPELINE), "-r",
                 str(KEYS_COUNTED), "-n", str(n), "-q", *words])
        finally:
            server.terminate()
            server.wait(serve_peers.PATIENCE_S)
        with open(log, encoding="utf-8") as said:
            return int(re.search(r"Collected : (\d+)", said.read())[1])


def by_instructions(words):
    count = {workers: (collected(workers, MANY, words) - collected(workers, FEW, words)) / (MANY - FEW)
             for workers in (1, 2)}
    return {"measured": "instructions of a request", "one": count[1], "two": count[2]}


def by_processor(arguments, words, cpus):
    """CPU time per request, while the load shares the processors. Shows how much two workers slow each other down, and
    whether both get requests."""
    found = {}
    n = max(CONNECTIONS * PIPELINE, int(RATE * arguments.seconds))
    for workers in (1, 2):
        with serve_peers.at_a_path(cpus, lambda path: [*serve_peers.weir_command(path, 2 * KEYS, workers),
                                                        *serve_peers.ASLEEP]) as server:
            command = ["redis-benchmark", *server.where, "-c", str(CONNECTIONS), "-P", str(PIPELINE), "-r", str(KEYS), "-n",
                       str(n), "--csv", *words]
            serve_peers.drive(server, command, n)  # fills the table
            found[workers] = min(serve_peers.drive(server, command, n)["ns"] for _ in range(arguments.rounds))
            threads = sorted(server.thread_ns())[-workers:]
    return {"one_ns": found[1], "two_ns": found[2], "least_share": threads[0] / sum(threads)}


def print_report(workers):
    print(f"\n{workers['measured']}, unix socket, pipeline {PIPELINE}: one worker {workers['one']:.0f}, two "
          f"{workers['two']:.0f}: two workers serve {workers['ratio']:.2f} times as many")
    if "one_ns" in workers:
        print(f"of two workers the idler did {100 * workers['least_share']:.0f} % of the work; a request took "
              f"{workers['one_ns']:.0f} ns of processors that the load shares with one worker, with two "
              f"{workers['two_ns']:.0f}")
