#!/usr/bin/env python3
"""departures of 1000 a second beside x/time/rate's Wait, and 1000 threads waiting on one limiter

    ./dev bench waiting [--rounds N] [--items N] [--seconds S] [--report-only] [--quick]

Spacing: one thread waits for departures at 1000 a second. The error is the difference of each distance from 1 ms. CPU time is
that of the whole process, per departure. The queue and Go's Wait run in turn. Tables show medians of the rounds. Ratios compare
the best round of each, because other users of the machine only add time.

Crowd: 1000 threads wait in a loop on one limiter of 10,000 a second. For comparison, as many threads sleep and wake up as often
by themselves. The difference is the cost of waiting beyond the wake-ups.

The exit status is 1 if a target is missed, unless you pass --report-only. --quick is a smoke test."""
# packages: golang-go golang-golang-x-time-dev

import argparse
import json
import statistics
import sys

from harness import add_quick, build_peer, finish, judge_ratios, machine, percent, print_machine, run

WAITING = "build/bench/waiting"
THREADS = 1000
PROMISES = [("wait_spacing_p99_vs_xtime", "<=", 1.0), ("wait_cpu_vs_xtime", "<=", 1.0)]
SPACING_P99_US = 200
CROWD_CPU = 0.05


def read_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench waiting", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (5)")
    parser.add_argument("--items", type=int, default=5000, help="departures a round (5000)")
    parser.add_argument("--seconds", type=float, default=5, help="duration of a crowd (5)")
    add_quick(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.items, arguments.seconds = 1, 50, 0.3
    return arguments


def medians(runs):
    return {name: statistics.median(one[name] for one in runs) for name in runs[0]}


def best(runs, name):
    return min(one[name] for one in runs)


def main():
    arguments = read_arguments()
    peer = build_peer("waiting")
    commands = {"Weir's queue": [WAITING, "queue", str(arguments.items)],
                "Weir's wait": [WAITING, "limiter", str(arguments.items)],
                "x/time/rate's Wait": [peer, str(arguments.items)]}
    runs = {name: [] for name in commands}
    crowds = {"crowd": [], "sleepers": []}
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
        for name, command in commands.items():
            runs[name].append(json.loads(run(command)[0]))
        for name, found in crowds.items():
            found.append(json.loads(run([WAITING, name, str(THREADS), str(arguments.seconds)])[0]))
    queue, xtime = runs["Weir's queue"], runs["x/time/rate's Wait"]
    ratios = {"wait_spacing_p99_vs_xtime": best(queue, "p99_us") / best(xtime, "p99_us"),
              "wait_cpu_vs_xtime": best(queue, "cpu_us_each") / best(xtime, "cpu_us_each")}
    beyond = best(crowds["crowd"], "cpu") - best(crowds["sleepers"], "cpu")
    crowd = medians(crowds["crowd"])

    print(f"{'departures of 1000 a second':<28} {'error p50':>10} {'p99':>10} {'worst':>10} {'a second':>10} "
          f"{'processor':>12} {'noise of p99':>13}")
    noise = {}
    for name, found in runs.items():
        one, p99 = medians(found), [each["p99_us"] for each in found]
        noise[name] = (max(p99) - min(p99)) / statistics.median(p99)
        print(f"{name:<28} {one['p50_us']:>7.1f} us {one['p99_us']:>7.1f} us {one['worst_us']:>7.0f} us "
              f"{one['per_second']:>10.2f} {one['cpu_us_each']:>9.1f} us {percent(noise[name]):>13}")
    print(f"\n{THREADS} threads on a limiter of 10,000 a second: {crowd['turns']:.0f} let go in {crowd['seconds']:.1f} s, "
          f"{crowd['most_by_model']:.0f} by the model at the most; each {crowd['least']:.0f} to {crowd['most']:.0f} times\n"
          f"processor: {percent(crowd['cpu'])} of a core, as many wake-ups alone "
          f"{percent(medians(crowds['sleepers'])['cpu'])}")
    where = machine(["gcc", "golang-go", "golang-golang-x-time-dev"])
    print_machine(where)
    rows = [(best(queue, "p99_us") < SPACING_P99_US,
             f"the queue's spacing error p99: {best(queue, 'p99_us'):.0f} us in the best round, under {SPACING_P99_US}"),
            (beyond < CROWD_CPU,
             f"the crowd's processor time beyond wake-ups: {100 * beyond:.1f} % of a core, under 5 %"),
            *judge_ratios(PROMISES, ratios, {})]
    return finish("waiting", rows, ratios, {
        "machine": where, "rounds": arguments.rounds, "items": arguments.items, "runs": runs, "crowds": crowds,
        "noise_of_p99": noise}, arguments)


if __name__ == "__main__":
    sys.exit(main())
