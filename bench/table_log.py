"""Sliding logs for ./dev bench table, beside a Go map of slices and the sorted sets of Redis. Not a benchmark itself.

bench/log_load.h describes the load. One Redis server, on a Unix socket and without persistence, serves all rounds. It has
one processor, and its client has another. The other contenders run on the processor of the client."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from harness import ROOT, fastest, judge_ratios, measure_times, percent, ratio_ranges, run

LOG = "build/bench/table_log"
REDIS = "build/bench/table_log_redis"
PEER = "build/bench/peers/log"
KEYS, KEYS_QUICK = 100_000, 1000

CONTENDERS = {
    "one": ("Weir, one by one", [LOG, "one"]),
    "batch": ("Weir, batches of 32", [LOG, "batch"]),
    "go": ("Go, map of slices and mutex", [PEER]),
    "redis_pipeline": ("Redis, pipelined by 32", [REDIS, "pipeline"]),
    "redis": ("Redis, one by one", [REDIS, "ask"]),
}
WEIR = ("one", "batch")

PROMISES = [
    ("log_vs_go", ">=", 1.8),
    ("log_batch_vs_go", ">=", 3.5),
    ("log_vs_redis_zset", ">=", 20.0),
    ("log_bytes_per_event", "<=", 10.0),
]
# The share of allowed requests varies over a minute of the load, so it depends on how far a contender gets. For the same
# requests all must allow the same share, except for the bit of the clock, and for batches, which have one time for all
# requests. Redis gets other random keys at the same times, so it may differ more.
COMPARED, SHARES_APART_MOST, REDIS_APART_MOST = 102_400, 0.0005, 0.01

NOTES = """logs: 100/min sliding_log. Each key gets 150 requests a minute, at times computed from the number of the request. Each
request still reads the clock. Logs are full before the measurement, and about two thirds of the requests are allowed.
Go: map[string]*entry, each a []int64. Cuts off expired times in front and appends allowed ones, under one mutex.
Redis: EVALSHA of ZREMRANGEBYSCORE, ZCARD, ZADD, PEXPIRE by a client in C over a Unix socket, on its own processor.
Pipelined: sends 32 at once, and the next 32 before it reads the replies. The faster of the two counts.
bytes an event: growth of the process; for Weir with full logs, minus 32 bytes a key; for Go after garbage collection."""


# --- measuring ------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def redis_server(cpus):
    """Yields the path of its socket. Stops the server at the end, also after an exception."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        path = Path(folder, "socket")
        with open(Path(folder, "log"), "w+", encoding="utf-8") as log:
            server = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "", "--appendonly",
                 "no"],
                stdout=log, stderr=subprocess.STDOUT, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
            try:
                until = time.monotonic() + 10
                while not path.exists():
                    if server.poll() is not None or time.monotonic() > until:
                        log.seek(0)
                        raise SystemExit(f"redis-server does not start:\n{log.read()}")
                    time.sleep(0.01)
                yield str(path)
            finally:
                server.kill()
                server.wait()


def measure(arguments, cpus):
    options = ["--keys", str(KEYS_QUICK if arguments.quick else KEYS)]
    full = json.loads(run([LOG, "full", *options], cpus[1])[0])
    with redis_server(cpus[2] - cpus[1]) as socket:
        filled = json.loads(run([REDIS, "fill", "--socket", socket, *options], cpus[1])[0])
        same = {name: share(json.loads(run([*command, *options, "--count", str(COMPARED)], cpus[1])[0]))
                for name, command in {**{name: CONTENDERS[name][1] for name in ("one", "batch", "go")},
                                      "redis": [REDIS, "pipeline", "--socket", socket]}.items()}
        options += ["--seconds", str(arguments.seconds)]
        times = measure_times({
            name: ([*command, *options, *(["--socket", socket] if command[0] == REDIS else [])], 1)
            for name, (_, command) in CONTENDERS.items()}, arguments.rounds, cpus)
    for name in ("redis", "redis_pipeline"):
        times[name] |= filled
    for name in WEIR:
        times[name] |= full
    return {"times": times, "same": same}


# --- judgement ------------------------------------------------------------------------------------------------------

def ratios_of(ns):
    redis = min(ns["redis"], ns["redis_pipeline"])
    return {"log_vs_go": ns["go"] / ns["one"], "log_batch_vs_go": ns["go"] / ns["batch"],
            "log_vs_redis_zset": redis / ns["one"], "log_batch_vs_redis_zset": redis / ns["batch"]}


def ratios(found):
    times = found["times"]
    return {**ratios_of(fastest(times)),
            "log_bytes_per_event": max(times[name]["bytes_per_event"] for name in WEIR),
            "log_bytes_per_event_go": times["go"]["bytes_per_event"],
            "log_bytes_per_event_redis": times["redis"]["bytes_per_event"]}


def share(one):
    return one["allowed"] / (one["allowed"] + one["denied"])


def judge(found, rounds):
    times = found["times"]
    same = found["same"]
    allowed = [same[name] for name in ("one", "batch", "go")]
    checks = [(max(allowed) - min(allowed) <= SHARES_APART_MOST,
               f"of the same {COMPARED} requests Weir and Go allow the same: {100 * min(allowed):.3f} to "
               f"{100 * max(allowed):.3f} %, at most {100 * SHARES_APART_MOST} apart"),
              (abs(same["redis"] - same["one"]) <= REDIS_APART_MOST,
               f"of as many at the same times Redis allows {100 * same['redis']:.2f} %, at most "
               f"{100 * REDIS_APART_MOST} apart")]
    return [*judge_ratios(PROMISES, ratios(found), ratio_ranges(ratios_of, times, rounds)), *checks]


def print_report(found):
    print(f"\n{'100 K sliding logs':<30} {'uniform, 1 thread: ns':>21} {'noise':>6}  {'allowed':>8} "
          f"{'bytes an event':>15}")
    for name, one in found["times"].items():
        print(f"{CONTENDERS[name][0]:<30} {one['ns']:>21.1f} {percent(one['noise']):>6}  {percent(share(one)):>8} "
              f"{one['bytes_per_event']:>15.1f}")
