#!/usr/bin/env python3
"""Prints the Lua script for Redis as a C file, with its SHA-1.

    embed_script.py MAIN.lua

A line `-- include FILE.lua` is replaced by that file, which is in the same folder. Comment lines, indentation and empty lines are
dropped, because clients send the script and Redis keeps it in memory."""

import hashlib
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r"\s*-- include (\w+\.lua)$")


def lines_of(file):
    for line in file.read_text(encoding="utf-8").splitlines():
        included = INCLUDE.match(line)
        if included:
            yield from lines_of(file.parent / included[1])
        elif line.strip() and not line.strip().startswith("--"):
            yield line.strip()


def main(file):
    lines = list(lines_of(file))
    text = "".join(line + "\n" for line in lines)
    print("/* Made by scripts/embed_script.py. */")
    print('#include "store/redis/redis_call.h"\n\nstatic const char text[] =')
    for line in lines:
        quoted = line.replace("\\", "\\\\").replace('"', '\\"')
        print(f'\t"{quoted}\\n"')
    print(";\n\nconst struct weir__redis_script weir__redis_script = {")
    print(f'\t.text = text,\n\t.length = sizeof(text) - 1,\n\t.sha1 = "{hashlib.sha1(text.encode()).hexdigest()}",\n}};')


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
