#!/usr/bin/env python3
"""Who may include whom.

    include_rules.py [ROOT]

Inside src/ an include of ours is written "layer/file.h"; public headers are <weir/file.h>. MAY below is the whole rule,
the one that ARCHITECTURE.md draws. A layer always may include itself."""

import re
import sys
from pathlib import Path

ALL = {"core", "store", "policy", "guard", "wire", "redis", "os", "observe", "serve", "cli"}
MAY = {
    "core": set(),
    "wire": {"core"},
    "redis": {"core", "os", "store", "wire"},
    "store": {"core", "os"},
    "os": set(),
    "policy": {"core", "os"},
    "guard": {"core", "os", "policy", "store"},
    "observe": {"core"},
    "serve": ALL,
    "cli": ALL,
}
# The public headers that core implements; the others are the shell's. Other layers may include any.
CORE_PUBLIC = {"types.h", "limit.h", "verdict.h", "plan.h", "step.h"}

INCLUDE = re.compile(r'\s*#\s*include\s+([<"])([^>"]+)[>"]')


def includes(file):
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] == '"', match[2]


def fault_in_layer(layer, quoted, path):
    """What is wrong with one include of a file in src/layer/, or None."""
    first, slash, rest = path.partition("/")
    if first == "weir" and slash:
        if quoted:
            return f"a public header is written <{path}>"
        if layer == "core" and rest not in CORE_PUBLIC:
            return f"core may include only {', '.join(sorted(CORE_PUBLIC))} of the public headers"
    elif first in ALL and slash:
        if not quoted:
            return f'a header of ours is written "{path}"'
        if first != layer and first not in MAY[layer]:
            return f"{layer} may include {', '.join(sorted(MAY[layer])) or 'no other layer'}, not {first}"
    elif quoted:
        return 'a header of ours is written "layer/file.h"'
    return None


def fault_in_integration(quoted, path):
    parts = path.split("/")
    if quoted and (".." in parts or "src" in parts or parts[0] in ALL and len(parts) > 1):
        return "an integration uses <weir/...> alone"
    return None


def sources(directory):
    return sorted(file for file in directory.rglob("*") if file.suffix in (".c", ".h", ".cc", ".cpp"))


def main(root):
    faults, checked = [], 0
    for file in sources(root / "src"):
        layer = file.relative_to(root / "src").parts[0]
        if layer not in MAY:
            faults.append(f"{file.relative_to(root)}:1: {layer} is no layer: src/ has {', '.join(sorted(MAY))}")
            continue
        for number, quoted, path in includes(file):
            checked += 1
            fault = fault_in_layer(layer, quoted, path)
            if fault:
                faults.append(f"{file.relative_to(root)}:{number}: {path}: {fault}")
    for file in sources(root / "integrations"):
        for number, quoted, path in includes(file):
            checked += 1
            fault = fault_in_integration(quoted, path)
            if fault:
                faults.append(f"{file.relative_to(root)}:{number}: {path}: {fault}")
    print("\n".join(faults) or f"include rules: {checked} includes, all allowed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
