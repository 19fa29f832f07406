#!/usr/bin/env python3
"""The shared libraries export the public functions and nothing else.

    exports.py LIBRARY.so...

The libraries export exactly the WEIR_API functions of include/weir, each by one of them and with the version below.
Their names begin with weir_, not weir__, which marks internal functions. Other symbols that one of the libraries needs
from another have a private version."""

import re
import subprocess
import sys
from pathlib import Path

VERSION, PRIVATE = "WEIR_0.1", "WEIR_PRIVATE"


def declared(root):
    """Function name -> file:line of its declaration."""
    names = {}
    for header in sorted((root / "include" / "weir").glob("*.h")):
        text = header.read_text(encoding="utf-8")
        # Blank out what is not code, keeping the lines.
        for noise in (r"/\*.*?\*/", r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"):
            text = re.sub(noise, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.DOTALL | re.MULTILINE)
        for match in re.finditer(r"\bWEIR_API\b[^;{]*?\b(\w+)\s*\(", text):
            line = text.count("\n", 0, match.start(1)) + 1
            names[match[1]] = f"include/weir/{header.name}:{line}"
    return names


def exported(library):
    """(name, version) of every symbol that the library exports."""
    listing = subprocess.run(["nm", "--dynamic", "--defined-only", "--with-symbol-versions", library],
                             capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.partition("@")
        # The version itself is an absolute symbol.
        if kind != "A":
            yield name, version.lstrip("@")


def needed(library):
    """Names of the symbols that the library imports."""
    listing = subprocess.run(["nm", "--dynamic", "--undefined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1].partition("@")[0] for line in listing.stdout.splitlines()}


def main(libraries, root):
    promised = declared(root)
    private = set().union(*(needed(library) for library in libraries))
    faults, found = [], set()
    for library, name, version in [(library, *symbol) for library in libraries for symbol in exported(library)]:
        if name in found:
            faults.append(f"{library}: exports {name}, which another library exports, too")
        if version == PRIVATE:
            if not name.startswith("weir__") or name not in private:
                faults.append(f"{library}: exports {name} as private, which no other library needs")
            continue
        found.add(name)
        if not name.startswith("weir_") or name.startswith("weir__"):
            faults.append(f"{library}: exports {name}; public names begin with weir_ and one underscore")
        elif name not in promised:
            faults.append(f"{library}: exports {name}, which no header in include/weir declares as WEIR_API")
        if version != VERSION:
            faults.append(f"{library}: {name} has version {version or 'none'}, not {VERSION}")
    for name in sorted(promised.keys() - found):
        faults.append(f"{promised[name]}: {name} is declared WEIR_API but not exported")
    if not promised:
        faults.append("include/weir declares no WEIR_API function")
    print("\n".join(faults) or f"exports: {len(found)} functions, all declared, all {VERSION}")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:], Path(__file__).parents[2].resolve()))
