#!/usr/bin/env python3
"""The tables of commands, routes, errors and metrics in docs/ are generated from the source, and the list of errors is
complete.

    serve_reference.py PROGRAM            reports stale pages
    serve_reference.py PROGRAM --write    writes the tables into the pages

PROGRAM is build/tests/serve_reference, which prints the tables. A page may have several tables, and a table may be on
two pages."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("commands", "roles", "errors", "routes", "refusals", "metrics", "library")  # in the order in which PROGRAM prints them
BETWEEN = re.compile(r"(<!-- (\w+): made from .*? -->\n\n)(.*?)(\n\n<!-- end -->)", re.DOTALL)
# An error text outside src/engine/errors.h.
LOOSE = re.compile(r'weir__resp_write_error\s*\([^;]*?"[A-Z][a-zA-Z]* ', re.DOTALL)


def loose_errors():
    for file in sorted((ROOT / "src").rglob("*.c")):
        text = file.read_text(encoding="utf-8")
        for match in LOOSE.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            yield f"{file.relative_to(ROOT)}:{number}: an error belongs into the list in src/engine/errors.h"


def page_faults(path, tables, seen, write):
    page = path.relative_to(ROOT)
    old = path.read_text(encoding="utf-8")
    names = [match[1] for match in BETWEEN.findall(old)]
    unknown = [name for name in names if name not in tables]
    if unknown:
        return [f"{page}: unknown table {name}; use {', '.join(TABLES)}" for name in unknown]
    seen.update(names)
    new = BETWEEN.sub(lambda match: match[1] + tables[match[2]] + match[4], old)
    if write:
        path.write_text(new, encoding="utf-8")
    elif new != old:
        return [f"{page}: stale; run ./dev docs"]
    return []


def main(program, write):
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip("\n")
    tables = dict(zip(TABLES, printed.split("\n\n"), strict=True))
    faults, seen = list(loose_errors()), set()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        faults += page_faults(path, tables, seen, write)
    faults += [f"docs: no page has the table {name}" for name in TABLES if name not in seen]
    print("\n".join(faults) or "serve reference: as the source says")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], "--write" in sys.argv[2:]))
