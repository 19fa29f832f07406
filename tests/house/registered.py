#!/usr/bin/env python3
"""Every test program is registered: a *_test.c under tests/ that the build does not name is an error.

    registered.py LISTED...

LISTED are the files that the build names: absolute, or relative to the repository or to tests/. Meson runs this when it
configures a build, so that a forgotten test is noticed."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def resolve(name):
    """The file of a listed name, or None."""
    for base in (ROOT, ROOT / "tests"):
        if (base / name).is_file():
            return (base / name).resolve()
    return None


def main(listed):
    known = {name: resolve(name) for name in listed}
    faults = [f"{name}: listed, but the file does not exist" for name, file in known.items() if file is None]
    found = sorted((ROOT / "tests").rglob("*_test.c"))
    for file in found:
        if file.resolve() not in known.values():
            faults.append(f"{file.relative_to(ROOT)}:1: not registered; add it to tests/meson.build")
    print("\n".join(faults) or f"registered: {len(found)} test programs, all listed", file=sys.stderr if faults else sys.stdout)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
