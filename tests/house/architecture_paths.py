#!/usr/bin/env python3
"""Every path that ARCHITECTURE.md's "Where is...?" table names exists.

    architecture_paths.py [ROOT]

A path is what stands in backticks and has a slash or a dot; of a command its first word. `*` must match something."""

import re
import sys
from pathlib import Path

HEADING = re.compile(r"#+\s.*\bwhere is\b", re.IGNORECASE)


def table(lines):
    """(number, line) of the table's rows: those that start with a bar, from the heading to the next one."""
    inside = False
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            inside = bool(HEADING.match(line))
        elif line.lstrip().startswith("|"):
            # The table may also carry the question in its own head.
            inside = inside or "where is" in line.lower()
            if inside:
                yield number, line


def main(root):
    page = root / "ARCHITECTURE.md"
    if not page.exists():
        print("ARCHITECTURE.md: there is none")
        return 1
    faults, checked = [], 0
    for number, line in table(page.read_text(encoding="utf-8").splitlines()):
        for quoted in re.findall(r"`([^`]+)`", line):
            path = quoted.split()[0]
            if "/" not in path and "." not in path:
                continue
            checked += 1
            if not (any(root.glob(path)) if "*" in path else (root / path).exists()):
                faults.append(f"ARCHITECTURE.md:{number}: {path}: there is no such path")
    if not checked:
        faults.append('ARCHITECTURE.md:1: no "Where is...?" table with paths in backticks')
    print("\n".join(faults) or f"architecture: {checked} paths, all there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
