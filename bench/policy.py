#!/usr/bin/env python3
"""policies: decisions by 10 to 100,000 limits, loading them, and swapping one policy for another

    ./dev bench policy [--rounds N] [--seconds S] [--report-only] [--quick]

A decision is weir_guard_check: it reads the clock, and finds and decides all limits that apply. Requests have five attributes,
and are random ones of the same 100,000, with as many keys, for any number of limits. One limit applies to each request, or
five. Tables show the median of the rounds. Noise is (largest - smallest) / median. Ratios compare fastest rounds. Times are CPU
time of the thread, so other programs on the machine do not count.

Swaps: two threads decide while policies of 1000 limits replace each other. Each replacement changes every tenth limit. Each
decision is timed by the wall clock, so that waiting for a lock shows. A group of 16 decisions is discarded if the kernel gave the
processor to another thread meanwhile. Preemption by a hypervisor is not visible, so the longest decision of the best round
counts, and the table shows the same without swaps.

The curve over the number of limits is in build/bench/plots/policy_limits.svg, with --write in docs/plots.

The exit status is 1 if a target is missed, unless you pass --report-only. --quick is a smoke test: its figures mean
nothing and are not judged."""
# packages: gcc

import argparse
import json
import sys

import policy_curve
from harness import (add_write, fastest, finish, judge_ratios, keyed, machine, percent, print_machine, processors, ratio_ranges, run,
                     summarize)

POLICY = "build/bench/policy"
SIZES = [10, 100, 1_000, 10_000, 100_000]
FIVE = 1_000  # limits of the policy in which five apply to each request

# ratio, "at least" or "at most", bound
PROMISES = [
    ("match_100k_vs_10", "<=", 2.0),
    ("match_1k_vs_10", "<=", 2.0),
    ("five_limits_vs_one", "<=", 5.0),
    ("load_100k_s", "<=", 1.0),
    ("swap_max_us", "<=", 1000.0),
]


def contenders(arguments):
    """Contender -> (command, threads)."""
    for_long = ["--seconds", str(arguments.seconds)]
    found = {}
    for limits in SIZES:
        for what in ("decide", "match"):
            found[(what, limits, 1)] = ([POLICY, what, "--limits", str(limits), *for_long], 1)
    found[("decide", FIVE, 5)] = ([POLICY, "decide", "--limits", str(FIVE), "--met", "5", *for_long], 1)
    found[("load", SIZES[-1], 1)] = ([POLICY, "load", "--limits", str(SIZES[-1])], 1)
    swaps = "5" if arguments.quick else "200"
    found[("swap", 1_000, 1)] = ([POLICY, "swap", "--swaps", swaps], 2)
    found[("no swap", 1_000, 1)] = ([POLICY, "swap", "--swaps", "0", *for_long], 2)
    return found


def measure(found, rounds, cpus):
    """As harness.measure_times, but in CPU time."""
    runs = {name: [] for name in found}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for name, (command, threads) in found.items():
            one = json.loads(run(command, cpus[threads])[0])
            one["ns"] *= one.get("busy", 1)
            runs[name].append(one)
    return {name: summarize(one) for name, one in runs.items()}


def ratios_of(ns):
    """ns: contender -> ns."""
    ten = ns[("decide", 10, 1)]
    return {
        "match_100k_vs_10": ns[("decide", 100_000, 1)] / ten,
        "match_1k_vs_10": ns[("decide", 1_000, 1)] / ten,
        "five_limits_vs_one": ns[("decide", FIVE, 5)] / ns[("decide", FIVE, 1)],
        "load_100k_s": ns[("load", 100_000, 1)] / 1e9,
        "swap_max_us": ns[("swap", 1_000, 1)] / 1e3,
        "no_swap_max_us": ns[("no swap", 1_000, 1)] / 1e3,
    }


def print_times(times, arguments):
    print(f"{'':28}  median ns   fastest   noise   of {arguments.rounds} rounds")
    for (what, limits, met), one in times.items():
        label = f"{what}, {limits} limits" + (f", {met} met" if met > 1 else "")
        print(f"{label:28} {one['ns']:10.0f} {min(one['ns_of_rounds']):9.0f} {percent(one['noise']):>7}")
    swap = times[("swap", 1_000, 1)]
    print(f"\nswaps: of {swap['decisions']} decisions in a round, {swap['set_aside']} were discarded; the longest swap took "
          f"{swap['swap_longest_us'] / 1000:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--quick", action="store_true")
    add_write(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 0.02
    times = measure(contenders(arguments), arguments.rounds, processors())
    ratios = ratios_of(fastest(times))
    ranges = ratio_ranges(ratios_of, times, arguments.rounds)
    where = machine(["gcc"])
    print_times(times, arguments)
    print_machine(where)
    drawn = policy_curve.draw({name: ns for name, ns in fastest(times).items() if name[0] in ("decide", "match")
                               and name[2] == 1}, SIZES, where, arguments)
    print(f"drawn: {', '.join(drawn)}")
    return finish("policy", judge_ratios(PROMISES, ratios, ranges), ratios,
                  {"machine": where, "rounds": arguments.rounds, "seconds": arguments.seconds, "times": keyed(times)},
                  arguments)


if __name__ == "__main__":
    sys.exit(main())
