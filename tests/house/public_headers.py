#!/usr/bin/env python3
"""Every public header compiles alone, and included twice, as C11 and as C++, without a warning.

    public_headers.py [ROOT]

gcc and g++ are required; clang and clang++ are used if they are installed."""

import shutil
import subprocess
import sys
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"]
COMPILERS = [
    # command, language, required
    (["gcc", "-std=c11", "-Wstrict-prototypes"], "c", True),
    (["g++", "-std=c++11"], "c++", True),
    (["g++", "-std=c++20"], "c++", True),
    (["clang", "-std=c11", "-Wstrict-prototypes"], "c", False),
    (["clang++", "-std=c++17"], "c++", False),
]


def main(root):
    headers = sorted((root / "include" / "weir").glob("*.h"))
    if not headers:
        print(f"no headers in {root / 'include' / 'weir'}")
        return 1
    faults = runs = 0
    for command, language, needed in COMPILERS:
        if not shutil.which(command[0]):
            if needed:
                print(f"{command[0]} is missing")
                faults += 1
            continue
        for header in headers:
            source = f"#include <weir/{header.name}>\n" * 2
            result = subprocess.run(
                [*command, *WARNINGS, "-x", language, "-fsyntax-only", "-I", str(root / "include"), "-"],
                input=source, capture_output=True, text=True, check=False)
            runs += 1
            if result.returncode:
                faults += 1
                print(f"include/weir/{header.name}: does not compile alone with {' '.join(command)}\n{result.stderr}")
    if not faults:
        print(f"public headers: {len(headers)} headers, {runs} compilations, no warning")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
