#!/usr/bin/env python3
"""limits for millions of keys beside Go maps and Redis; under attack; and what keys take of memory

    ./dev bench table [--rounds N] [--seconds S] [--spray-keys N] [--report-only] [--quick]
    ./dev bench table --curve [--rounds N] [--seconds S] [--quick]
    ./dev bench table --events [--rounds N] [--quick]

Every contender decides the same keys in the same order. It writes each key into a buffer on the stack right before the
decision, and has all keys before the measurement. Each contender is its own process on its own processors, and runs once a
round, in turn. Tables show the median of the rounds. Noise is (largest - smallest) / median. Ratios compare the fastest
round of each contender, because other users of the machine only add time, and rarely the same to all. For memory and
evicted keys, the worst round counts. Sliding logs come last: bench/table_log.py.

Instructions: callgrind, as in ./dev bench core, with 1000 keys.

--curve measures 1000 to 100 million keys instead, and draws table_keys.svg. --events measures each operation on
a key with 10 to 100,000 events, and draws table_events_log.svg and table_events_segments.svg. The plots are in
build/bench/plots, with --write in docs/plots.

The exit status is 1 if a target is missed, unless you pass --report-only. --quick is a smoke test: its figures mean
nothing and are not judged."""
# packages: valgrind golang-go golang-golang-x-time-dev redis-server

import argparse
import itertools
import json
import os
import sys

import table_curve
import table_events
import table_log
from harness import (add_quick, add_write, build_peer, fastest, finish, instructions, judge_ratios, keyed, machine, measure_times, percent,
                     print_machine, processors, ratio_ranges, run)

TABLE = "build/bench/table"
ATTACK = "build/bench/table_attack"
PEERS = "build/bench/peers/table"
PACKAGES = ["gcc", "valgrind", "golang-go", "golang-golang-x-time-dev", "redis-server"]
BATCH = 1024  # decisions that the programs make at a time

CONTENDERS = {
    "one": ("Weir, one by one", [TABLE, "one"]),
    "bare": ("bare: hash, clock, load, CAS", [TABLE, "bare"]),
    "batch": ("Weir, batches of 32", [TABLE, "batch"]),
    "bare_batch": ("bare, batches of 32", [TABLE, "bare_batch"]),
    "xtime": ("x/time/rate, map and mutex", [PEERS, "mutex"]),
    "sharded": ("x/time/rate, 256 shards", [PEERS, "sharded"]),
}
TEN_MILLION = [name for name in CONTENDERS if name != "sharded"]
LOADS = ["uniform", "zipf"]
SPRAY = ("spray",)
IN_FILE = ("1m", "uniform", 1, "file")
FILE = "build/bench/table.file"  # on the file system of the build

# ratio, "at least" or "at most", bound
PROMISES = [
    ("one_1m_1t_vs_xtime", ">=", 4.0),
    ("one_1m_2t_vs_xtime", ">=", 7.0),
    ("one_2t_scaling", ">=", 1.8),
    ("one_1m_vs_bare", "<=", 1.3),
    ("one_10m_vs_bare", "<=", 1.3),
    ("file_vs_private", "<=", 1.1),
    ("zipf_1t_vs_xtime", ">=", 3.0),
    ("batch_1m_vs_xtime", ">=", 9.0),
    ("batch_10m_vs_xtime", ">=", 10.0),
    ("bytes_per_key_1m", "<=", 24.0),
    ("bytes_per_key_10m", "<=", 24.0),
    ("evicted_ppm_10m", "<=", 100.0),
    ("spray_vs_uniform", "<=", 2.0),
    ("crafted_vs_random", "<=", 1.1),
]
HELD_ABOVE_MOST = 0.01
GROWTH_BYTES_MOST = 1 << 20
CRAFTED_EVICTED_PPM_MOST = 100


# --- measuring ------------------------------------------------------------------------------------------------------

def contenders(sizes, arguments):
    """Contender -> (command, threads), in the order of a round. The two sides of a ratio run one after the other, where
    possible."""
    for_long = ["--seconds", str(arguments.seconds)]
    found = {}
    for load, threads, name in itertools.product(LOADS, (1, 2), CONTENDERS):
        found[("1m", load, threads, name)] = ([
            *CONTENDERS[name][1], "--keys", str(sizes["1m"]), *(["--zipf"] if load == "zipf" else []), *for_long,
            "--threads", str(threads)], threads)
        if (load, threads, name) == ("uniform", 1, "one"):
            found[IN_FILE] = ([TABLE, "one", "--keys", str(sizes["1m"]), "--file", FILE, *for_long], 1)
    for name in TEN_MILLION:
        found[("10m", "uniform", 1, name)] = ([*CONTENDERS[name][1], "--keys", str(sizes["10m"]), *for_long], 1)
    found[SPRAY] = ([ATTACK, "spray", "--keys", str(sizes["1m"]), "--spray-keys", str(arguments.spray_keys)], 1)
    return found


def count_instructions():
    print("counting instructions", file=sys.stderr)
    functions = {"one": ["weir_table_allow", "weir_table_now"], "batch": ["weir_table_allow_batch", "weir_table_now"]}
    return {name: instructions([*CONTENDERS[name][1], "--keys", "1000"], functions.get(name, []), BATCH)
            for name in ("one", "batch", "xtime", "sharded")}


# --- judgement ------------------------------------------------------------------------------------------------------

def ratios_of(ns):
    """ns: contender -> ns per decision of a thread."""
    def times_faster(name, peer, keys="1m", load="uniform", threads=1):
        return ns[(keys, load, threads, peer)] / ns[(keys, load, threads, name)]

    one = ns[("1m", "uniform", 1, "one")]
    ratios = {}
    for peer in ("xtime", "sharded"):
        for threads in (1, 2):
            ratios[f"one_1m_{threads}t_vs_{peer}"] = times_faster("one", peer, threads=threads)
            ratios[f"zipf_{threads}t_vs_{peer}"] = times_faster("one", peer, load="zipf", threads=threads)
    for threads in (1, 2):
        suffix = "" if threads == 1 else "_2t"
        ratios[f"batch_1m{suffix}_vs_xtime"] = times_faster("batch", "xtime", threads=threads)
    ratios["batch_10m_vs_xtime"] = times_faster("batch", "xtime", "10m")
    ratios["one_10m_vs_xtime"] = times_faster("one", "xtime", "10m")
    ratios["one_2t_scaling"] = 2 * one / ns[("1m", "uniform", 2, "one")]
    for keys in ("1m", "10m"):
        ratios[f"one_{keys}_vs_bare"] = times_faster("bare", "one", keys)
        ratios[f"batch_{keys}_vs_bare_batch"] = times_faster("bare_batch", "batch", keys)
    ratios["file_vs_private"] = ns[IN_FILE] / one
    ratios["spray_vs_uniform"] = ns[SPRAY] / one
    return ratios


def other_ratios(times, crafted):
    ratios = {}
    for keys in ("1m", "10m"):
        of_this_size = {name: one for name, one in times.items() if name[0] == keys}
        for names, suffix in ((("one", "batch"), ""), (("xtime",), "_xtime")):
            ratios[f"bytes_per_key_{keys}{suffix}"] = max(
                one["bytes_per_key"] for name, one in of_this_size.items() if name[-1] in names)
    ratios["evicted_ppm_10m"] = max(times[("10m", "uniform", 1, name)]["evicted_ppm"] for name in ("one", "batch"))
    worst = max(one["ns"] for name, one in crafted.items() if name != "random")
    ratios["crafted_vs_random"] = worst / crafted["random"]["ns"]
    return ratios


def judge(ratios, ranges, times, crafted):
    spray = times[SPRAY]
    above, growth = spray["held_most_above_limit"], spray["resident_growth_bytes"]
    evicted = max(one["evicted_ppm"] for one in crafted.values())
    return [
        *judge_ratios(PROMISES, ratios, ranges),
        (above <= HELD_ABOVE_MOST,
         f"beside the spray no throttled key is allowed above its limit by more than {percent(HELD_ABOVE_MOST)}: "
         f"{100 * above:.2f} %"),
        (growth <= GROWTH_BYTES_MOST, f"memory grows by {growth:.0f} bytes while sprayed, at most {GROWTH_BYTES_MOST}"),
        (evicted <= CRAFTED_EVICTED_PPM_MOST,
         f"of crafted keys {evicted:.0f} in a million are evicted, at most {CRAFTED_EVICTED_PPM_MOST}"),
    ]


# --- the report -----------------------------------------------------------------------------------------------------

def print_million(times, counts):
    print(f"{'1 M keys':<30} {'uniform, 1 thread: ns':>21} {'noise':>6}  {'2 threads: M/s':>14} {'noise':>6}   "
          f"{'Zipf, 1 thread: ns':>18} {'noise':>6}  {'2 threads: M/s':>14} {'noise':>6}  {'bytes a key':>11} "
          f"{'instr.':>7}")
    for name, (label, _) in CONTENDERS.items():
        line = f"{label:<30}"
        for load, width in (("uniform", 21), ("zipf", 20)):
            one, two = times[("1m", load, 1, name)], times[("1m", load, 2, name)]
            line += (f" {one['ns']:>{width}.1f} {percent(one['noise']):>6}  {two['per_second'] / 1e6:>14.1f} "
                     f"{percent(two['noise']):>6}")
        held = times[("1m", "uniform", 1, name)].get("bytes_per_key")
        count = counts.get(name)
        print(f"{line}  {f'{held:.1f}' if held else '':>11} {f'{count:.0f}' if count else '':>7}")


def print_file(times):
    one = times[IN_FILE]
    print(f"{'Weir, one by one, in a file':<30} {one['ns']:>21.1f} {percent(one['noise']):>6}")


def print_ten_million(times):
    print(f"\n{'10 M keys':<30} {'uniform, 1 thread: ns':>21} {'noise':>6}  {'bytes a key':>11} {'evicted, ppm':>14}")
    for name in TEN_MILLION:
        one = times[("10m", "uniform", 1, name)]
        held, evicted = one.get("bytes_per_key"), one.get("evicted_ppm")
        print(f"{CONTENDERS[name][0]:<30} {one['ns']:>21.1f} {percent(one['noise']):>6}  "
              f"{f'{held:.1f}' if held else '':>11} {f'{evicted:.1f}' if evicted is not None else '':>14}")


def print_attacks(times, crafted):
    spray = times[SPRAY]
    print(f"\nspray: {spray['strangers']} new keys at {spray['ns']:.1f} ns (noise {percent(spray['noise'])}), "
          f"{spray['live']} of {spray['capacity']} slots live at the end, {spray['evicted']} evicted;\n"
          f"  each of 1000 throttled keys may have {spray['held_limit']:.1f}; allowed beyond that: mean "
          f"{100 * spray['held_above_limit']:+.2f} %, most {100 * spray['held_most_above_limit']:+.2f} %")
    print("crafted: " + ", ".join(f"{name} {one['ns']:.1f} ns ({one['evicted_ppm']:.0f} ppm evicted)"
                                  for name, one in crafted.items()))


NOTES = """
Limit of every key: 1/3min burst 3000000 (spray: 10/min burst 100): all requests are allowed and write, no key is full.
one: weir_table_allow with weir_table_now. batch: writes 32 keys, fills in claims, reads the clock once, and calls
weir_table_allow_batch. bare: the table's hash, clock, memory and huge pages, and one 16-byte load and swap at the place
of the hash: a lower bound for a table. Its batches prefetch all 32 places, then swap.
x/time/rate: map[string]*rate.Limiter; finds or makes the limiter under the mutex, then calls Allow. hash/maphash chooses
the shard, and each has its map and mutex. Garbage collection is off during the measurement. Goroutines are not locked to
threads, because that would slow the mutex down.
bytes a key: growth of the process while all keys were inserted; for Go after garbage collection.
spray: times only new keys, not the requests of throttled keys. The table is full before the measurement.
crafted: keys of 16 bytes that share one pair of cache lines by FNV-1a, or by the table's own hash with a secret of
zeros; fastest of 60 passes over each kind in turn.
Instructions of the Go programs include their loop. Those of Weir are from the entry of the functions to their return."""


def read_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench table", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="duration of each measurement (0.5)")
    parser.add_argument("--spray-keys", type=int, default=10_000_000, help="new keys a round (10 million)")
    parser.add_argument("--curve", action="store_true", help="measure 1000 to 100 million keys instead, and draw a plot")
    parser.add_argument("--events", action="store_true", help="measure keys with 10 to 100,000 events instead, and draw plots")
    add_write(parser)
    add_quick(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds, arguments.spray_keys = 1, 0.02, 10_000
    if arguments.rounds < 1 or arguments.seconds <= 0 or arguments.spray_keys < 1:
        parser.error("--rounds, --seconds and --spray-keys must be above 0")
    return arguments


def main():
    arguments = read_arguments()
    cpus = processors()
    if os.path.exists(FILE):
        os.remove(FILE)  # left by a run that was interrupted
    load = os.getloadavg()[0]
    if arguments.events:
        return table_events.main(arguments, cpus, machine([]))
    build_peer("table", "keys", "workers")
    build_peer("log", "keys", "workers")
    where = machine(PACKAGES)
    if arguments.curve:
        return table_curve.main(CONTENDERS, arguments, cpus, where)
    sizes = {"1m": 2000, "10m": 4000} if arguments.quick else {"1m": 1_000_000, "10m": 10_000_000}
    times = measure_times(contenders(sizes, arguments), arguments.rounds, cpus)
    print("crafting keys", file=sys.stderr)
    crafted = json.loads(run([ATTACK, "crafted", "--keys", "2000" if arguments.quick else "100000"], cpus[2])[0])
    counts = count_instructions()
    print("sliding logs", file=sys.stderr)
    logs = table_log.measure(arguments, cpus)
    ratios = {**ratios_of(fastest(times)), **other_ratios(times, crafted), **table_log.ratios(logs)}
    ranges = ratio_ranges(ratios_of, times, arguments.rounds)
    noise = max(one["noise"] for one in times.values())
    busy = min(one["busy"] for name, one in times.items() if name[-1] in ("one", "batch", "bare", "bare_batch"))

    print_million(times, counts)
    print_file(times)
    print_ten_million(times)
    print_attacks(times, crafted)
    table_log.print_report(logs)
    print(NOTES)
    print(table_log.NOTES)
    print_machine(where)
    print(f"tables: medians of {arguments.rounds} rounds of {arguments.seconds} s; noise is (largest - smallest) / "
          f"median, at most {percent(noise)}\n"
          "ratios: of the fastest round of each contender, because other users of the machine only add time\n"
          f"load before: {load:.2f}; each thread in C had at least {percent(busy)} of its processor")
    rows = [*judge(ratios, ranges, times, crafted), *table_log.judge(logs, arguments.rounds)]
    return finish("table", rows, ratios, {
        "machine": where, "rounds": arguments.rounds, "seconds": arguments.seconds, "load_before": load,
        "noise_most": noise, "busy_least": busy, "times": keyed(times), "instructions": counts, "crafted": crafted,
        "logs": logs, "ratios_of_single_rounds": ranges}, arguments)


if __name__ == "__main__":
    sys.exit(main())
