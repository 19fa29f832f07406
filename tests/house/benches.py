#!/usr/bin/env python3
"""Benchmarks do not change docs without --write, so a clean clone stays clean.

    benches.py [--run]

Reads the source of every benchmark: only harness.write_plots, and all.py with its own --write, may name an output in
docs. --run also runs two that draw plots, as smoke tests."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAY_WRITE = {"harness.py", "all.py"}
DRAW = (["bench/table.py", "--events", "--quick", "--write"], ["bench/policy.py", "--quick"])


def state():
    return {file: file.read_bytes() for file in (ROOT / "docs").rglob("*") if file.is_file()}


def main():
    faults = []
    for file in sorted((ROOT / "bench").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        body = re.sub(r'""".*?"""', "", text, flags=re.S)
        if file.name not in MAY_WRITE and re.search(r'"docs/', body):
            faults.append(f"bench/{file.name}: names a place in docs; write_plots of harness.py does that")
        if "write_plots(" in body and file.name != "harness.py" and not any(
                "add_write(parser)" in other.read_text(encoding="utf-8") and re.search(rf"^import {file.stem}$", other.read_text(
                    encoding="utf-8"), re.M) for other in (ROOT / "bench").glob("*.py")):
            faults.append(f"bench/{file.name}: draws, but nothing that imports it has --write")
    before = state()
    for command in DRAW if "--run" in sys.argv else ():
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "build/bench/plots/" not in done.stdout:
            faults.append(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        if state() != before:
            faults.append(f"{' '.join(command)}: changed docs")
    print("\n".join(faults) or "benches: none writes into docs unless told")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
