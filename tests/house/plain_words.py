#!/usr/bin/env python3
"""Counts hard-to-read phrases in src, include, docs and page. Their number may only fall.

    plain_words.py [ROOT]

"whoever", "nobody", "that of", "is no", "so many", "so long" and "another one" hide who does what. MOST is the current number: a
change that adds one fails, and a change that removes one must lower MOST."""

import re
import sys
from pathlib import Path

MOST = 3
HABITS = re.compile(r"\b(whoever|nobody|that\s+of|is\s+no|so\s+many|so\s+long|another\s+one)\b", re.IGNORECASE)
ENDINGS = {".c", ".h", ".lua", ".md", ".js", ".html", ".css", ".json", ".py"}


def main(root):
    found = []
    for folder in ("src", "include", "docs", "page"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in ENDINGS and file.parent != root / "docs" / "reference" / "c":  # generated from include
                text = file.read_text(encoding="utf-8")
                found += [f"{file.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
                          for match in HABITS.finditer(text)]
    if len(found) == MOST:
        print(f"plain words: {MOST} to mend")
        return 0
    print("\n".join(found) if len(found) > MOST else f"{len(found)} are left: lower MOST in tests/house/plain_words.py")
    print(f"plain words: {len(found)} found, and {MOST} expected")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
