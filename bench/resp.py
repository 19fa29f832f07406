#!/usr/bin/env python3
"""RESP: a CL.THROTTLE read, its reply of five integers written, and that reply read

    ./dev bench resp [--rounds N] [--report-only] [--quick]

Time is the fastest round. callgrind counts the instructions of one request or reply, in a pipeline of 100.
The exit status is 1 if a target is missed, unless you pass --report-only. --quick is a smoke test."""
# packages: valgrind

import argparse
import sys

from harness import add_quick, finish, instructions, measure_times, percent, processors

RESP = "build/bench/resp"
WHAT = {"request": "a request read", "write": "a reply written", "reply": "a reply read"}
NS_MOST = {"request": 60, "write": 50}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench resp", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (5)")
    add_quick(parser)
    arguments = parser.parse_args()
    count = ["--count", "10000"] if arguments.quick else []
    times = measure_times({name: ([RESP, name, *count], 1) for name in WHAT}, 1 if arguments.quick else arguments.rounds,
                          processors())
    counts = {name: instructions([RESP, name], []) for name in WHAT}
    best = {name: min(one["ns_of_rounds"]) for name, one in times.items()}
    print(f"{'CL.THROTTLE':<18} {'ns':>7} {'noise':>6} {'instr.':>7}")
    for name, words in WHAT.items():
        print(f"{words:<18} {best[name]:>7.1f} {percent(times[name]['noise']):>6} {counts[name]:>7.1f}")
    rows = [(best[name] <= most, f"{WHAT[name]}: {best[name]:.1f} ns, at most {most}") for name, most in NS_MOST.items()]
    return finish("resp", rows, {}, {"times": times, "instructions": counts}, arguments)


if __name__ == "__main__":
    sys.exit(main())
