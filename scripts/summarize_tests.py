#!/usr/bin/env python3
"""Prints a summary of the tests of several meson builds.

    summarize_tests.py NAME=DIR... [NAME=not-built...]

Counts every subtest of a TAP test, and every test without subtests. A test that crashed, timed out or ended early counts as one
failure if none of its subtests failed. A build that failed, or did not run all tests that meson-logs/planned lists, counts as one
failure. Prints the output of each test that failed. The last line is `N passed, N failed`. Exits 1 if any failed."""

import json
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

GOOD = {"OK", "EXPECTEDFAIL"}
LINES_SHOWN, LINE_SHOWN = 20, 300


def subtests(junit):
    """Test name -> (passed, failed, skipped), for tests with subtests."""
    counts = {}
    for suite in xml.parse(junit).iter("testsuite"):
        # meson puts all tests without subtests into one suite named after the project, without a dot.
        _, dot, name = suite.get("name").partition(".")
        if not dot:
            continue
        cases = suite.findall("testcase")
        failed = sum(1 for case in cases if case.find("failure") is not None or case.find("error") is not None)
        skipped = sum(1 for case in cases if case.find("skipped") is not None)
        counts[name] = (len(cases) - failed - skipped, failed, skipped)
    return counts


def reasons(run):
    """Output of a failed test, shortened: the comments and failures of TAP, or the last lines of other output."""
    said = run.get("stdout", "").splitlines()
    remarks = [line for line in said if line.startswith(("# ", "not ok", "Bail out!"))]
    chosen = remarks[:LINES_SHOWN] or (said + run.get("stderr", "").splitlines())[-LINES_SHOWN:]
    return [f"    {line[:LINE_SHOWN]}" for line in chosen]


def count(directory):
    """(passed, failed, skipped, messages) of one build."""
    logs = Path(directory) / "meson-logs"
    junit, log = logs / "testlog.junit.xml", logs / "testlog.json"
    if not junit.exists() or not log.exists():
        return 0, 1, 0, ["no test ran"]
    parts = subtests(junit)
    total, messages = [0, 0, 0], []
    runs = log.read_text(encoding="utf-8").splitlines()
    planned = len((logs / "planned").read_text(encoding="utf-8").splitlines())
    if len(runs) != planned:
        total[1] += 1
        messages.append(f"meson ended early: {len(runs)} of {planned} tests ran")
    for line in runs:
        run = json.loads(line)
        name, result = run["name"], run["result"]
        bad = result not in GOOD and result != "SKIP"
        passed, failed, skipped = parts.get(name, (int(result in GOOD), int(bad), int(result == "SKIP")))
        if bad and failed == 0:
            failed = 1
        if failed:
            messages.append("\n".join([f"{name}: {result.lower()}, {failed} failed", *reasons(run)]))
        total = [sum(pair) for pair in zip(total, (passed, failed, skipped))]
    if not any(total):
        return 0, 1, 0, ["no test ran"]
    return *total, messages


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    passed = failed = 0
    rows = []
    for argument in arguments:
        name, _, directory = argument.partition("=")
        if directory == "not-built":
            row = (0, 1, 0, ["build failed"])
        else:
            row = count(directory)
        rows.append((name, *row))
        passed, failed = passed + row[0], failed + row[1]
    print(f"\n{'build':<10} {'passed':>8} {'failed':>8} {'skipped':>8}")
    for name, *numbers, _ in rows:
        print(f"{name:<10} {numbers[0]:>8} {numbers[1]:>8} {numbers[2]:>8}")
    print()
    for name, *_, messages in rows:
        for message in messages:
            print(f"{name}: {message}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
