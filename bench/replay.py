#!/usr/bin/env python3
"""replaying 10 million lines of an access log through five limits, and reading the same file beside goaccess

    ./dev bench replay [--lines N] [--clients N] [--rounds N] [--report-only] [--quick]

The log is made from a seed, in nginx's format `combined` with $request_time. Half of the visits are by visitors that are all
equally likely, so that more than a million different clients send the 10 million requests. Weir reads it in two programs: bench/replay.c
parses the lines and sorts them by arrival, and `weir replay` also matches and decides them by five limits, and makes the report.
goaccess reads the same file, and makes its report. Each runs alone on one processor.

The figures are processor time, since one program runs on one core, and other users of the machine only add waiting. Ratios
compare the best round of each.

The exit status is 1 if a target is missed, unless you pass --report-only. --quick is a smoke test."""
# packages: goaccess

import argparse
import json
import os
import statistics
import subprocess
import sys

from harness import ROOT, add_quick, finish, judge_ratios, machine, print_machine, processors

FOLDER = "build/bench/replay-log"
LOG, POLICY = f"{FOLDER}/access.log", f"{FOLDER}/policy.yaml"
FORMAT = ('$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" '
          '"$http_user_agent" $request_time')
LIMITS = """limits:
  - {name: per-ip, key: [ip], limit: 100/min burst 20}
  - {name: per-hour, key: [ip], limit: 2000/hour}
  - {name: window, key: [ip], limit: 300/min fixed_window}
  - {name: per-path, key: [ip, path], limit: 10/min sliding_counter}
  - {name: all, limit: 5000/s burst 10000}
"""
LEAST_PER_SECOND = 1_000_000
PROMISES = [("replay_parse_vs_goaccess", ">=", 1.0)]


def read_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench replay", description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=10_000_000, help="lines of the log (10000000)")
    parser.add_argument("--clients", type=int, default=4_000_000, help="visitors that the log draws from (4000000)")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; goaccess runs once (3)")
    add_quick(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.lines, arguments.clients, arguments.rounds = 2000, 100, 1
    return arguments


def processor_seconds(command, cpus):
    """Runs a command; returns its processor time and its standard output."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus)) as process:
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}\n{out.decode()}{err.decode()}")
    return usage.ru_utime + usage.ru_stime, out.decode()


def make_log(arguments):
    (ROOT / FOLDER).mkdir(parents=True, exist_ok=True)
    (ROOT / POLICY).write_text(LIMITS, encoding="ascii")
    with open(ROOT / LOG, "wb") as file:
        subprocess.run(["build/scripts/make_access_log", "--lines", str(arguments.lines), "--clients", str(arguments.clients),
                        "--even", "50", "--format", "timed"], cwd=ROOT, check=True, stdout=file, stderr=subprocess.DEVNULL)


def main():
    arguments = read_arguments()
    cpus = processors()[1]
    make_log(arguments)
    commands = {
        "parse and sort": (["build/bench/replay", FORMAT, LOG], arguments.rounds),
        "weir replay": (["build/weir", "replay", "--quiet", "--json", "--format", FORMAT, "--policy", POLICY, LOG],
                        arguments.rounds),
        "goaccess": (["goaccess", LOG, "--no-global-config", "--no-progress", "--date-format=%d/%b/%Y", "--time-format=%T",
                      '--log-format=%h %^[%d:%t %^] "%r" %s %b "%R" "%u" %T', "-o", f"{FOLDER}/goaccess.json"], 1),
    }
    seconds = {}
    for name, (command, rounds) in commands.items():
        print(name, file=sys.stderr)
        found = [processor_seconds(command, cpus) for _ in range(rounds)]
        seconds[name] = [one for one, _ in found]
        if name == "weir replay":
            report = json.loads(found[0][1])
    (ROOT / LOG).unlink()
    best = {name: min(found) for name, found in seconds.items()}
    per_second = {name: arguments.lines / found for name, found in best.items()}
    ratios = {"replay_parse_vs_goaccess": per_second["parse and sort"] / per_second["goaccess"]}
    replay = report["replay"]
    print(f"{arguments.lines} lines, {replay['clients']} clients, {replay['denied']} requests denied\n")
    print(f"{'':<16} {'processor time':>15} {'median':>9} {'lines a second':>15}")
    for name, found in seconds.items():
        print(f"{name:<16} {best[name]:>13.2f} s {statistics.median(found):>7.2f} s {per_second[name]:>15,.0f}")
    where = machine(["gcc", "goaccess"])
    print_machine(where)
    rows = [(per_second["weir replay"] >= LEAST_PER_SECOND,
             f"weir replay with five limits: {per_second['weir replay']:,.0f} lines a second on one core, at least "
             f"{LEAST_PER_SECOND:,}"), *judge_ratios(PROMISES, ratios, {})]
    return finish("replay", rows, ratios, {
        "machine": where, "lines": arguments.lines, "clients": replay["clients"], "seconds": seconds,
        "per_second": per_second}, arguments)


if __name__ == "__main__":
    sys.exit(main())
