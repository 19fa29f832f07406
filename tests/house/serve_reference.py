#!/usr/bin/env python3
"""The tables of docs/reference/commands.md, docs/reference/http.md and docs/reference/metrics.md are those of the source, and no error is said that is not in them.

    serve_reference.py PROGRAM            says whether a page is stale
    serve_reference.py PROGRAM --write    makes them anew

PROGRAM is build/tests/serve_reference, which prints the tables."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"docs/reference/commands.md": ("commands", "roles", "errors"), "docs/reference/http.md": ("routes", "refusals"),
         "docs/reference/metrics.md": ("metrics",)}  # in the order of printing
BETWEEN = re.compile(r"(<!-- (\w+): made from .*? -->\n\n)(.*?)(\n\n<!-- end -->)", re.DOTALL)
# An error that is written where it is said, instead of in src/engine/errors.h.
LOOSE = re.compile(r'weir__resp_write_error\s*\([^;]*?"[A-Z][a-zA-Z]* ', re.DOTALL)


def loose_errors():
    for file in sorted((ROOT / "src").rglob("*.c")):
        text = file.read_text(encoding="utf-8")
        for match in LOOSE.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            yield f"{file.relative_to(ROOT)}:{number}: an error belongs into the list in src/engine/errors.h"


def page_faults(page, names, tables, write):
    path = ROOT / page
    old = path.read_text(encoding="utf-8")
    if [match[1] for match in BETWEEN.findall(old)] != list(names):
        return [f"{page}: the places for tables are others than {', '.join(names)}"]
    new = BETWEEN.sub(lambda match: match[1] + tables[match[2]] + match[4], old)
    if write:
        path.write_text(new, encoding="utf-8")
    elif new != old:
        return [f"{page}: not what the source says; ./dev docs makes it anew"]
    return []


def main(program, write):
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip("\n")
    tables = dict(zip((name for names in PAGES.values() for name in names), printed.split("\n\n")))
    faults = list(loose_errors())
    for page, names in PAGES.items():
        faults += page_faults(page, names, tables, write)
    print("\n".join(faults) or "serve reference: as the source says")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], "--write" in sys.argv[2:]))
