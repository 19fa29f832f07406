#!/usr/bin/env python3
"""Reads gcovr's JSON summary and fails unless every branch was taken.

    branch_coverage.py SUMMARY.json WHAT"""

import json
import sys


def main(summary, what):
    with open(summary, encoding="utf-8") as file:
        numbers = json.load(file)
    covered, total = numbers["branch_covered"], numbers["branch_total"]
    # Rounded down: 99.96 % is not 100.0 %.
    permille = covered * 1000 // total if total else 0
    print(f"branch coverage of {what}: {permille // 10}.{permille % 10}% ({covered} of {total})")
    return 0 if total and covered == total else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
