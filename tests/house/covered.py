#!/usr/bin/env python3
"""Every source has a test: tests/FOLDER/NAME_test.c for src/FOLDER/NAME.c, or a test that names it.

    covered.py [ROOT]

A test that covers sources with other names has a comment "Covers: src/a.c, src/b.c" near its beginning."""

import re
import sys
from pathlib import Path

HEAD = 6000  # bytes of a test in which the comment must be
COVERS = re.compile(r"Covers: ((?:src/[\w/]+\.c[,\s*#/]*)+)")
SOURCE = re.compile(r"src/[\w/]+\.c")


def main(root):
    named, faults = set(), []
    for file in sorted((root / "tests").rglob("*_test.*")):
        if file.suffix not in (".c", ".py", ".js"):
            continue
        for match in COVERS.finditer(file.read_text(encoding="utf-8")[:HEAD]):
            for source in SOURCE.findall(match[1]):
                named.add(source)
                if not (root / source).is_file():
                    faults.append(f"{file.relative_to(root)}:1: covers {source}, which is not there")
    sources = sorted((root / "src").rglob("*.c"))
    for file in sources:
        name = file.relative_to(root)
        test = root / "tests" / name.relative_to("src").parent / f"{file.stem}_test.c"
        if not test.is_file() and str(name) not in named:
            faults.append(f"{name}:1: no test: add {test.relative_to(root)}, or name it in the test that covers it")
    print("\n".join(faults) or f"covered: {len(sources)} sources, each by a test")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
