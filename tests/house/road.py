#!/usr/bin/env python3
"""The walks of docs/internals/road.md name existing files and functions that those files define, and no file twice.

    road.py [ROOT]"""

import re
import sys
from pathlib import Path

ROW = re.compile(r"\| `(src/[\w./]+)` \| (.+) \|$")
WALKS_LEAST = 3


def defines(text, function):
    """Whether the text has a definition: the name, a list of parameters and a body."""
    return re.search(rf"\b{function}\([^;{{]*\)\n\{{", text) is not None


def main(root):
    page = root / "docs/internals/road.md"
    faults, walks, files = [], 0, set()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("<!-- walk:"):
            walks, files = walks + 1, set()
        row = ROW.match(line) if walks else None
        if row is None:
            continue
        if row[1] in files:
            faults.append(f"{page.relative_to(root)}:{number}: {row[1]} is in this walk already")
        files.add(row[1])
        source = root / row[1]
        if not source.is_file():
            faults.append(f"{page.relative_to(root)}:{number}: {row[1]} not found")
            continue
        text = source.read_text(encoding="utf-8")
        for function in re.findall(r"`(\w+)`", row[2]):
            if not defines(text, function):
                faults.append(f"{page.relative_to(root)}:{number}: {row[1]} does not define {function}")
    if walks < WALKS_LEAST:
        faults.append(f"{page.relative_to(root)}:1: {walks} walks, and not {WALKS_LEAST}")
    print("\n".join(faults) or f"road: {walks} walks, no file twice")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
