#!/usr/bin/env python3
"""No tracked file has marks of unfinished work or paths of a developer's machine, and no file in src/ is too long to
read. A test that runs programs in another directory makes the paths of its arguments absolute: meson passes ./weir.

    hygiene.py [ROOT]"""

import re
import subprocess
import sys
from pathlib import Path

LINES_MAX = 1000
ABSOLUTE = re.compile(r"\bresolve\(\)|\babspath\(|\babsolute\(\)")

# Written so that the patterns do not match this file.
PATTERNS = [
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b"), "a mark of unfinished work; finish it, or leave it out"),
    (re.compile(r"(?<![\w./~$})*-])/(?:work|root|(?:home|Users)/\w+)(?![\w.-])"), "a path of one machine"),
]


def tracked(root):
    listing = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z"],
                             capture_output=True, check=True)
    return [root / name for name in listing.stdout.decode().split("\0") if name]


def main(root):
    faults, checked = [], 0
    for file in tracked(root):
        name = file.relative_to(root)
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # binary, deleted but not committed, or a link to a directory
        checked += 1
        for number, line in enumerate(lines, 1):
            for pattern, reason in PATTERNS:
                match = pattern.search(line)
                if match:
                    faults.append(f"{name}:{number}: {match[0]}: {reason}")
        text = "\n".join(lines)
        if name.parts[0] == "tests" and name.suffix == ".py" and "cwd=" in text and "sys.argv[1]" in text and not ABSOLUTE.search(text):
            faults.append(f"{name}: uses cwd=, and the paths of its arguments may be relative: make them absolute")
        if name.parts[0] == "src" and len(lines) > LINES_MAX:
            faults.append(f"{name}:{LINES_MAX + 1}: {len(lines)} lines; above {LINES_MAX} a file holds two things")
    print("\n".join(faults) or f"hygiene: {checked} files, all clean")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
