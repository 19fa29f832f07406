#!/usr/bin/env python3
"""weir replay and the rational model decide the same log: every decision, limit, wait and delay must be equal.

    model_test.py WEIR [LINES]

The log is made here from a seed: whole seconds and request times, so arrivals must be spread and sorted. This program
works them out on its own, from docs/guides/replay.md. Each policy has five limits; together they have every algorithm."""

import csv
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "model"))
import weir_model  # noqa: E402

WEIR = os.path.abspath(sys.argv[1])
LINES = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
START = 1772409600  # 2026-03-02T00:00:00Z
SECOND = 10**9
FORMAT = ('$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" '
          '"$http_user_agent" $request_time')

# Each limit: its name, key, path that it applies to, notation, and the model's arguments.
POLICIES = {
    "smooth": [
        ("bucket", ("ip",), None, "30/min burst 24", ("token_bucket", 30, 60 * SECOND, {"burst": 24})),
        ("shaped", ("ip",), "/api", "1/3s leaky queue 6", ("leaky_bucket", 1, 3 * SECOND, {"burst": 6})),
        ("window", ("ip",), None, "31/min fixed_window", ("fixed_window", 31, 60 * SECOND, {})),
        ("log", ("ip", "path"), None, "11/30s sliding_log", ("sliding_log", 11, 30 * SECOND, {})),
        ("counter", (), "/login", "9/10s sliding_counter", ("sliding_counter", 9, 10 * SECOND, {})),
    ],
    "stepped": [
        ("interval", ("ip",), None, "9/20s refill interval burst 25",
         ("token_bucket", 9, 20 * SECOND, {"burst": 25, "refill": "interval"})),
        ("policed", ("path",), None, "7/2s leaky burst 11", ("token_bucket", 7, 2 * SECOND, {"burst": 11})),
        ("first", ("ip",), None, "29/min fixed_window align first",
         ("fixed_window", 29, 60 * SECOND, {"align": "first"})),
        ("segments", ("ip",), None, "35/min sliding_counter segments 6",
         ("sliding_counter", 35, 60 * SECOND, {"segments": 6})),
        ("all", ("ip",), "/login", "6/30s fixed_window count all", ("fixed_window", 6, 30 * SECOND, {"count_all": True})),
    ],
}


def make_lines(seed):
    """(completion in whole seconds, duration in ms, ip, method, path) for each line, in the order of completion."""
    rng = random.Random(seed)
    second, lines = START, []
    while len(lines) < LINES:
        second += rng.choice((0, 1, 1, 1, 2, 40 if rng.random() < 0.02 else 1))
        for _ in range(rng.choice((1, 2, 5, 20, 60))):
            client = min(int(rng.paretovariate(0.8)), 400)
            lines.append((second, rng.choice((0, 1, 3, 40, 700, 2500, 7999)), f"10.0.{client // 256}.{client % 256}",
                          rng.choice(("GET", "POST")), rng.choice(("/", "/api", "/login", "/a/b"))))
    return lines[:LINES]


def write_log(path, lines):
    with open(path, "w", encoding="ascii") as file:
        for second, ms, ip, method, where in lines:
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))
            file.write(f'{ip} - - [{stamp}] "{method} {where}?q=1 HTTP/1.1" 200 5 "-" "agent" {ms // 1000}.{ms % 1000:03}\n')


def arrivals(lines):
    """(arrival, line) in the order of arrival."""
    of_second = {}
    for second, *_ in lines:
        of_second[second] = of_second.get(second, 0) + 1
    seen, found = {}, []
    for number, (second, ms, *_) in enumerate(lines, 1):
        i = seen[second] = seen.get(second, -1) + 1
        found.append((second * SECOND + i * SECOND // of_second[second] - ms * 10**6, number))
    return sorted(found)


def write_policy(path, limits):
    with open(path, "w", encoding="ascii") as file:
        file.write("limits:\n")
        for name, key, where, notation, _ in limits:
            file.write(f"  - name: {name}\n    limit: {notation}\n")
            if key:
                file.write(f"    key: [{', '.join(key)}]\n")
            if where:
                file.write(f"    match: {{path: {where}}}\n")


class Model:
    def __init__(self, limits):
        self.limits, self.states = limits, {}

    def decide(self, now, line):
        _, _, ip, _, where = line
        claims, names = [], []
        for name, key, only, _, (algorithm, count, period, options) in self.limits:
            if only not in (None, where):
                continue
            place = (name, *(ip if part == "ip" else where for part in key))
            if place not in self.states:
                self.states[place] = weir_model.make_limit(algorithm, count, period, **options)
            claims.append(self.states[place])
            names.append(name)
        answer = weir_model.take_all(now, claims, [1] * len(claims))
        if answer.verdict == weir_model.ALLOW:
            return "allowed", names[answer.by], "", str(answer.delay or 0)
        return "denied", names[answer.by], str(claims[answer.by].peek(now, 1).retry), "0"


def compare(name, limits, lines, folder):
    policy, log, out = (os.path.join(folder, file) for file in ("policy.yaml", "access.log", "decisions.csv"))
    write_policy(policy, limits)
    write_log(log, lines)
    subprocess.run([WEIR, "replay", "--quiet", "--policy", policy, "--format", FORMAT, "--csv", out, "--all", log],
                   check=True, stdout=subprocess.DEVNULL, timeout=3600)
    model, wrong, denied = Model(limits), 0, {}
    with open(out, encoding="ascii", newline="") as file:
        for (now, number), row in zip(arrivals(lines), csv.DictReader(file), strict=True):
            expected = (str(now), str(number), *model.decide(now, lines[number - 1]))
            found = tuple(row[field] for field in ("arrival_ns", "line", "decision", "limit", "retry_after_ns", "delay_ns"))
            if expected[2] == "denied":  # by the model
                denied[expected[3]] = denied.get(expected[3], 0) + 1
            if found != expected:
                wrong += 1
                if wrong <= 5:
                    print(f"# {name}: line {number}: found {found}, expected {expected}")
    never = [limit[0] for limit in limits if limit[0] not in denied]
    print(f"# {name}: {len(lines)} decisions, {wrong} differences, denied by {denied}")
    if never:
        print(f"# {name}: these limits denied nothing, so the test does not try them: {never}")
    return wrong == 0 and not never


def main():
    lines, is_good = make_lines(20260302), True
    print(f"1..{len(POLICIES)}")
    for number, (name, limits) in enumerate(POLICIES.items(), 1):
        with tempfile.TemporaryDirectory() as folder:
            good = compare(name, limits, lines, folder)
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        is_good &= good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
