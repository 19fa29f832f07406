#!/usr/bin/env python3
"""Which folder may include which, and that no header includes itself through others.

    include_rules.py [ROOT]            check
    include_rules.py --table           print the table of ARCHITECTURE.md

Inside src/ an include of ours is written "folder/file.h"; public headers are <weir/file.h>. FOLDERS below has all the
rules. A folder may always include itself. Otherwise it may include only folders above it in FOLDERS, so the graph of
folders has no cycle."""

import re
import sys
from pathlib import Path

# folder: (what it may include, whether it may call the kernel itself, what it is)
FOLDERS = {
    "core": ("", False, "limit -> plan -> step: pure arithmetic and text"),
    "os": ("core", True, "clock, files, memory, sockets, event loop, threads, TLS"),
    "wire": ("core", False, "codecs, both directions: RESP, HTTP, JSON; pure"),
    "limiter": ("core os", False, "one limiter for one key; waiting; a queue"),
    "store/table": ("core os", False, "the table: slots, arena, region, file"),
    "store": ("core os store/table", False, "`store.h`: where state is kept; the fallback; the public store"),
    "store/redis": ("core os wire store store/table", False, "the client of Redis, its thread, the script that decides there"),
    "policy": ("core os", False, "what applies to a request: reading and matching"),
    "policy/source": ("core os wire policy store/redis", True, "where policies come from: files, etcd, Redis"),
    "guard": ("core os policy store store/table", False, "a policy in front of a store, swapped while it decides"),
    "observe": ("core os wire policy store store/table guard", False, "statistics, top keys, tracing, metrics, log, audit"),
    "engine": ("core os policy store store/table guard observe", False, "operations on policy and store; no protocol, no socket"),
    "server": ("core os wire policy policy/source store store/table store/redis guard observe engine", True,
               "the process: workers, connections, listeners, settings, users, loading of policies"),
    "server/resp": ("core os wire policy store store/table guard observe engine server", False, "commands of RESP"),
    "server/http": ("core os wire policy policy/source store store/table guard observe engine server", False, "routes of HTTP"),
    "server/h2": ("core wire guard observe server server/http", False, "HTTP/2 and gRPC"),
    "replay": ("core os wire policy store store/table guard", False, "deciding logs again"),
    "cli": ("core os wire policy store store/table guard observe engine server server/resp replay", True,
            "one file a subcommand of `weir`"),
}
MAY = {folder: set(may.split()) for folder, (may, _, _) in FOLDERS.items()}

# The public headers that core implements. Other folders may include all of them.
CORE_PUBLIC = {"types.h", "limit.h", "verdict.h", "plan.h", "step.h"}

# Headers that only folders with kernel access include. <time.h> is not among them, because it also has struct tm.
KERNEL = re.compile(r"(sys/(?!types\.h).*|unistd|fcntl|poll|signal|termios|dirent|netdb|netinet/.*|linux/.*|spawn|sched)(\.h)?")

INCLUDE = re.compile(r'\s*#\s*include\s+([<"])([^>"]+)[>"]')


def includes(file):
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] == '"', match[2]


def folder_of(path):
    return path.rpartition("/")[0]


def fault_in_folder(folder, quoted, path):
    """What is wrong with one include in a file of src/folder/, or None."""
    first, slash, rest = path.partition("/")
    if first == "weir" and slash:
        if quoted:
            return f"a public header is written <{path}>"
        if folder == "core" and rest not in CORE_PUBLIC:
            return f"core may include only {', '.join(sorted(CORE_PUBLIC))} of the public headers"
    elif folder_of(path) in FOLDERS:
        to = folder_of(path)
        if not quoted:
            return f'a header of ours is written "{path}"'
        if to not in MAY[folder] | {folder}:
            return f"{folder} may include {', '.join(sorted(MAY[folder])) or 'no other folder'}, not {to}"
    elif quoted:
        return 'a header of ours is written "folder/file.h"'
    elif not FOLDERS[folder][1] and KERNEL.fullmatch(path):
        return f"{folder} calls the kernel through src/os"
    return None


def fault_in_integration(quoted, path):
    parts = path.split("/")
    if quoted and (".." in parts or "src" in parts or folder_of(path) in FOLDERS):
        return "an integration uses <weir/...> alone"
    return None


def sources(directory):
    return sorted(file for file in directory.rglob("*") if file.suffix in (".c", ".h", ".cc", ".cpp"))


def cycle_among(graph):
    """Headers that form a cycle, or nothing."""
    done = set()

    def walk(header, path):
        if header in path:
            return path[path.index(header):] + [header]
        if header not in done:
            for to in graph.get(header, ()):
                found = walk(to, path + [header])
                if found:
                    return found
            done.add(header)
        return []

    for header in sorted(graph):
        found = walk(header, [])
        if found:
            return found
    return []


def rules_are_sound():
    """Each folder may include only folders above it."""
    above = set()
    for folder, may in MAY.items():
        wrong = may - above
        if wrong:
            return [f"FOLDERS: {folder} may include {', '.join(sorted(wrong))}, which is not above it"]
        above.add(folder)
    return []


def table():
    print("| folder | may include | what it is |\n|---|---|---|")
    for folder, (may, _, what) in FOLDERS.items():
        print(f"| `src/{folder}` | {', '.join(may.split()) or 'nothing'} | {what} |")


def table_is_current(root):
    """ARCHITECTURE.md has the rows of FOLDERS."""
    text = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = [folder for folder, (may, _, what) in FOLDERS.items()
               if f"| `src/{folder}` | {', '.join(may.split()) or 'nothing'} | {what} |" not in text]
    return [f"ARCHITECTURE.md: the row of src/{folder} differs from FOLDERS: include_rules.py --table prints it"
            for folder in missing]


def main(root):
    faults, checked, graph = rules_are_sound() + table_is_current(root), 0, {}
    for file in sources(root / "src"):
        name = str(file.relative_to(root / "src"))
        folder = folder_of(name)
        if folder not in FOLDERS:
            faults.append(f"src/{name}:1: {folder} is not a folder of FOLDERS")
            continue
        for number, quoted, path in includes(file):
            checked += 1
            fault = fault_in_folder(folder, quoted, path)
            if fault:
                faults.append(f"src/{name}:{number}: {path}: {fault}")
            if quoted and file.suffix == ".h":
                graph.setdefault(name, []).append(path)
    cycle = cycle_among(graph)
    if cycle:
        faults.append("headers include each other: " + " -> ".join(cycle))
    for file in sources(root / "integrations"):
        for number, quoted, path in includes(file):
            checked += 1
            fault = fault_in_integration(quoted, path)
            if fault:
                faults.append(f"{file.relative_to(root)}:{number}: {path}: {fault}")
    print("\n".join(faults) or f"include rules: {checked} includes, all allowed")
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        table()
        sys.exit(0)
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
