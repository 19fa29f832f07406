#!/usr/bin/env python3
"""one decision: each algorithm's step, and one hot limiter beside Go's x/time/rate and juju/ratelimit

    ./dev bench core [--rounds N] [--seconds S] [--report-only] [--quick]

Time: each round runs every contender once, in turn. The tables show the median of the rounds. Noise is (largest -
smallest) / median. Ratios compare the fastest round of each contender, because other users of the machine only add
time, and rarely the same to all. Each thread is pinned to its own processor.

Instructions: callgrind counts them from the entry of the measured functions to their return, in two runs of different
length. The difference, divided by the difference in decisions, leaves out start-up. For the Go programs it counts all
instructions, including a few for their loop. bench/single_step.c runs the steps instruction by instruction. It must
count the same, and also counts divisions.

The exit status is 1 if a target is missed, unless you pass --report-only. --quick is a smoke test: its figures mean
nothing and are not judged."""
# packages: valgrind golang-go golang-golang-x-time-dev golang-github-juju-ratelimit-dev

import argparse
import itertools
import os
import subprocess
import sys

from harness import (ROOT, add_rounds, build_peer, fastest, finish, instructions, judge_ratios, keyed, machine, measure_times,
                     percent, print_machine, processors, ratio_ranges, read_rounds, run)

# From ROOT, where everything is run.
CORE = "build/bench/core"
SINGLE_STEP = "build/bench/single_step"
PEERS = "build/bench/peers/core"

PACKAGES = ["gcc", "valgrind", "golang-go", "golang-golang-x-time-dev", "golang-github-juju-ratelimit-dev"]
HOT = {"Weir": [CORE, "hot"], "x/time/rate": [PEERS, "xtime"], "juju/ratelimit": [PEERS, "juju"]}
HOT_MODES = ["allow", "used", "deny"]
BARE = ["clock", "cas", "clock_blind_cas", "clock_cas"]
COMMON_PATH = ("allow", "deny")

STEP_INSTRUCTIONS_MAX = 60
# ratio, "at least" or "at most", bound
PROMISES = [
    ("hot_1t_vs_xtime", ">=", 6.0),
    ("hot_2t_vs_xtime", ">=", 2.5),
    ("hot_deny_2t_scaling", ">=", 1.8),
    ("hot_vs_clock_plus_cas", "<=", 1.3),
]


# --- time -----------------------------------------------------------------------------------------------------------

def neighbours(hot):
    """Sort key: for allowed decisions, contenders with the same number of threads are neighbours; for denied decisions, the runs of one
    contender."""
    mode, threads, name = hot
    order = list(HOT).index(name)
    return (HOT_MODES.index(mode), *((order, threads) if mode == "deny" else (threads, order)))


def contenders(scenarios, seconds):
    """Name -> (command, threads), in the order of a round. The two sides of a ratio run one after the other, because a
    shared machine is slower for seconds at a time."""
    for_long = ["--seconds", str(seconds)]
    found = {(name,): ([CORE, name, *for_long], 1) for name in BARE}
    for mode, threads, name in sorted(itertools.product(HOT_MODES, (1, 2), HOT), key=neighbours):
        found[(name, mode, threads)] = ([*HOT[name], mode, *for_long, "--threads", str(threads)], threads)
    for kind, mode, _ in scenarios:
        for what in ("step", "take"):
            # Steps vary less than threads that contend, and there are many of them, so they get less time.
            found[(what, kind, mode)] = ([CORE, what, kind, mode, "--seconds", str(seconds / 5)], 1)
    return found


# --- instructions ---------------------------------------------------------------------------------------------------

def count_instructions(scenarios):
    print("counting instructions", file=sys.stderr)
    counts = {}
    for kind, mode, _ in scenarios:
        for what, function in (("step", "weir_step_allow"), ("take", "weir_step_take")):
            counts[(what, kind, mode)] = instructions([CORE, what, kind, mode], [function])
    for name, command in HOT.items():
        functions = ["weir_limiter_allow", "weir_clock_now"] if name == "Weir" else []
        for mode in HOT_MODES:
            counts[(name, mode, 1)] = instructions([*command, mode], functions)
    counts[("clock",)] = instructions([CORE, "clock"], ["weir_clock_now"])
    return counts


def single_step():
    """((kind, mode) -> the counts of bench/single_step.c, None), or ({}, why it does not work here)."""
    if not (ROOT / SINGLE_STEP).exists():
        return {}, "only on x86-64"
    done = subprocess.run([SINGLE_STEP], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {}, done.stderr.strip()
    counts = {}
    for line in done.stdout.splitlines():
        kind, mode, *numbers = line.split()
        counts[(kind, mode)] = dict(zip(("decisions", "least", "most", "divisions"), map(int, numbers)))
    return counts, None


# --- judgement ------------------------------------------------------------------------------------------------------

def ratios_of(ns):
    """ns: contender -> ns per decision of a thread."""
    def speed(name, mode, threads):
        return threads / ns[(name, mode, threads)]

    ratios = {}
    for peer, short in (("x/time/rate", "xtime"), ("juju/ratelimit", "juju")):
        for threads in (1, 2):
            ratios[f"hot_{threads}t_vs_{short}"] = speed("Weir", "allow", threads) / speed(peer, "allow", threads)
    ratios["hot_deny_2t_scaling"] = speed("Weir", "deny", 2) / speed("Weir", "deny", 1)
    ratios["hot_vs_clock_plus_cas"] = ns[("Weir", "allow", 1)] / ns[("clock_cas",)]
    return ratios


def judge(scenarios, counts, stepped, why_not, ratios, ranges):
    """Rows of (met, what), one for each target."""
    rows = []
    for kind, mode, size in scenarios:
        if size != "constant":
            continue
        found = counts[("step", kind, mode)]
        rows.append((found <= STEP_INSTRUCTIONS_MAX,
                     f"step {kind} {mode}: {found:.0f} instructions, at most {STEP_INSTRUCTIONS_MAX}"))
        exact = stepped.get((kind, mode))
        if exact is None:
            if mode in COMMON_PATH:
                rows.append((False, f"step {kind} {mode}: divisions could not be counted: {why_not}"))
            continue
        if mode in COMMON_PATH:
            rows.append((exact["divisions"] == 0, f"step {kind} {mode}: {exact['divisions']} divisions, none"))
        if not exact["least"] - 0.5 <= found <= exact["most"] + 0.5:
            rows.append((False, f"step {kind} {mode}: callgrind counts {found:.1f} instructions, single-stepping "
                                f"{exact['least']} to {exact['most']}"))
    return rows + judge_ratios(PROMISES, ratios, ranges)


# --- the report -----------------------------------------------------------------------------------------------------

def print_steps(scenarios, times, counts, stepped):
    print(f"{'a step by itself':<26} {'ns':>7} {'noise':>6} {'instr.':>7} {'div.':>5}   "
          f"{'verdict: ns':>11} {'noise':>6} {'instr.':>7}")
    for kind, mode, _ in scenarios:
        step, take = times[("step", kind, mode)], times[("take", kind, mode)]
        exact = stepped.get((kind, mode))
        print(f"{kind + ' ' + mode:<26} {step['ns']:>7.1f} {percent(step['noise']):>6} "
              f"{counts[('step', kind, mode)]:>7.1f} {exact['divisions'] if exact else '?':>5}   "
              f"{take['ns']:>11.1f} {percent(take['noise']):>6} {counts[('take', kind, mode)]:>7.1f}")


def print_hot(times, counts):
    print(f"\n{'one hot limiter and its clock':<34} {'1 thread: ns':>12} {'noise':>6} {'instr.':>7}   "
          f"{'2 threads: M/s':>14} {'noise':>6} {'share':>6}")
    for mode in HOT_MODES:
        for name in HOT:
            one, two = times[(name, mode, 1)], times[(name, mode, 2)]
            print(f"{mode + ', ' + name:<34} {one['ns']:>12.1f} {percent(one['noise']):>6} "
                  f"{counts[(name, mode, 1)]:>7.1f}   {two['per_second'] / 1e6:>14.1f} {percent(two['noise']):>6} "
                  f"{percent(two['least_share']):>6}")
    labels = {"clock": "Weir's clock", "cas": "load, 16-byte CAS", "clock_cas": "clock, load, 16-byte CAS",
              "clock_blind_cas": "clock, 16-byte CAS without a load"}
    for name in BARE:
        one, count = times[(name,)], counts.get((name,))
        print(f"{labels[name]:<34} {one['ns']:>12.1f} {percent(one['noise']):>6} "
              f"{f'{count:.1f}' if count else '':>7}")


NOTES = """
hot_vs_clock_plus_cas is against "clock, load, 16-byte CAS" in one loop, where the processor overlaps them.
allow: tokens come faster than requests. used: a bucket that is never full again. deny: an empty bucket.
share: decisions of the slower of two threads, as a share of the total; 50 % is fair.
turn: the first request of the next window or interval. idle: a request after the limit has become full again.
Instructions of the Go programs include their loop. Those of Weir are from the entry of the functions to their return."""


def read_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench core", description=__doc__.partition("\n")[0])
    add_rounds(parser, 7, 0.5)
    return read_rounds(parser)


def main():
    arguments = read_arguments()
    cpus = processors()
    load = os.getloadavg()[0]
    build_peer("core", "workers")
    scenarios = [line.split() for line in run([CORE, "scenarios"])[0].splitlines()]
    if arguments.quick:
        scenarios = scenarios[:2]
    times = measure_times(contenders(scenarios, arguments.seconds), arguments.rounds, cpus)
    counts = count_instructions(scenarios)
    stepped, why_not = single_step()
    ratios = ratios_of(fastest(times))
    ranges = ratio_ranges(ratios_of, times, arguments.rounds)
    rows = judge(scenarios, counts, stepped, why_not, ratios, ranges)
    where = machine(PACKAGES)
    noise = max(one["noise"] for name, one in times.items() if name[0] not in ("step", "take"))
    busy = min(one["busy"] for name, one in times.items() if name[0] not in ("x/time/rate", "juju/ratelimit"))

    print_steps(scenarios, times, counts, stepped)
    print_hot(times, counts)
    print(NOTES)
    print_machine(where)
    print(f"tables: medians of {arguments.rounds} rounds of {arguments.seconds} s; noise is (largest - smallest) / median, "
          f"at most {percent(noise)} for the hot limiters\nratios: of the fastest round of each contender, because "
          f"other users of the machine only add time\nload before: {load:.2f}; each thread of Weir had at least "
          f"{percent(busy)} of its processor")
    return finish("core", rows, ratios, {
        "machine": where, "rounds": arguments.rounds, "seconds": arguments.seconds, "load_before": load,
        "noise_most": noise, "busy_least": busy, "times": keyed(times), "instructions": keyed(counts),
        "single_step": keyed(stepped), "ratios_of_single_rounds": ranges}, arguments)


if __name__ == "__main__":
    sys.exit(main())
