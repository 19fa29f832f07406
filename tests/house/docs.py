#!/usr/bin/env python3
"""Runs what the documentation shows and compares what comes out.

    docs.py BUILD_DIR LIBRARY.a [PAGE...]

PAGES are README.md and docs/*.md unless given.

```console blocks: each line `$ COMMAND` is run by bash from the repository root with BUILD_DIR first on PATH, and must
print exactly the lines that follow it, standard error included; a line `...` stands for any lines. A command that ends
in a backslash goes on in the next line. `# not run` at the end of a command means that.

```c blocks after a line <!-- compile: NAME --> are compiled against include/ and LIBRARY.a, and run if they have a
main, which must succeed. The block after <!-- output: NAME --> is what it prints, to the same rule.

```python blocks after a line <!-- run: NAME --> are run, and compared in the same way. They, and all commands, find
the Python package and the shared library that lies next to LIBRARY.a.

A block after <!-- file: PATH --> is that file, from its first line to its last.

The blocks of a page run in their order. Shared memory that one leaves for the next is named guide-shop: that is another
name in each run, so that two at once do not meet. For the same reason 127.0.0.1:2379, 127.0.0.1:2380 and 127.0.0.1:4318 are other ports."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/server"))
from visitor import free_port

TIMEOUT_S = 60
NOT_RUN = "# not run"
SHARED, SHARED_HERE = "guide-shop", f"guide-shop-{os.getpid()}"
HERE = {SHARED: SHARED_HERE} | {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in (2379, 2380, 4318)}
MARK = re.compile(r"<!--\s*(compile|run|output|file):\s*(\S+)\s*-->\s*$")
FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*(\w*)")


def in_this_run(text):
    for name, here in HERE.items():
        text = text.replace(name, here)
    return text


def as_documented(text):
    for name, here in HERE.items():
        text = text.replace(here, name)
    return text


class Block:
    def __init__(self, page, number, language, mark):
        self.page, self.number, self.language, self.mark = page, number, language, mark
        self.lines = []

    def at(self, offset=0):
        return f"{self.page}:{self.number + 1 + offset}"


def blocks(page):
    """The fenced blocks of a page, with the mark, if any, on the last non-empty line before each."""
    block = mark = fence = None
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if block:
            if match and match[1].startswith(fence) and not match[2]:
                yield block
                block = mark = None
            else:
                block.lines.append(line)
        elif match:
            fence = match[1]
            block = Block(page, number, match[2], mark)
        elif line.strip():
            mark = MARK.match(line.strip())
            mark = (mark[1], mark[2]) if mark else None


def same(wanted, got):
    """Do the lines match? `...` in wanted stands for any number of lines."""
    reach = {0}
    for line in wanted:
        if line.strip() == "...":
            reach = set(range(min(reach), len(got) + 1))
        else:
            reach = {at + 1 for at in reach if at < len(got) and got[at] == line}
        if not reach:
            return False
    return len(got) in reach


def compare(where, what, wanted, got):
    while wanted and not wanted[-1].strip():
        wanted = wanted[:-1]
    got = [line.rstrip() for line in got.rstrip("\n").split("\n")] if got.strip() else []
    if same([line.rstrip() for line in wanted], got):
        return []
    shown = "\n".join(["  documented:", *(f"    {line}" for line in wanted), "  printed:", *(f"    {line}" for line in got)])
    return [f"{where}: {what}: prints something else\n{shown}"]


def execute(command, where, what, environment):
    """(output, exit status, faults)"""
    try:
        result = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=TIMEOUT_S, text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired:
        return "", 0, [f"{where}: {what}: still running after {TIMEOUT_S} s"]
    output = as_documented(result.stdout)
    if result.returncode < 0 or result.returncode >= 126:
        return "", 0, [f"{where}: {what}: ended with status {result.returncode}\n{output}"]
    return output, result.returncode, []


def console(block):
    """(offset, command, lines that follow) of each command in a console block."""
    commands = []
    for offset, line in enumerate(block.lines):
        if commands and commands[-1][1].endswith("\\") and not commands[-1][2]:
            commands[-1][1] = commands[-1][1][:-1] + line.removeprefix("> ").strip()
        elif line.startswith("$ "):
            commands.append([offset, line[2:].rstrip(), []])
        elif commands:
            commands[-1][2].append(line)
    return commands


def run_console(block, environment):
    ran, faults = 0, []
    for offset, command, wanted in console(block):
        if command.endswith(NOT_RUN):
            continue
        ran += 1
        where = block.at(offset)
        output, _, wrong = execute(["bash", "-c", in_this_run(command)], where, command, environment)
        faults += wrong or compare(where, command, wanted, output)
    return ran, faults


def run_program(block, outputs, library, environment):
    name = block.mark[1]
    source = in_this_run("\n".join(block.lines)) + "\n"
    whole = re.search(r"\bmain\s*\(", source)
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "program")
        flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "include")]
        link = [str(library), "-pthread", "-lm"] if whole else ["-c"]
        built = subprocess.run([environment.get("CC", "gcc"), *flags, "-x", "c", "-", "-x", "none", *link, "-o", program],
                               input=source, capture_output=True, text=True, check=False)
        if built.returncode:
            return [f"{block.at()}: {name}: does not compile\n{built.stderr}"]
        if not whole:
            return []
        output, status, faults = execute([program], block.at(), name, environment)
    return faults or judge(block, outputs, output, status)


def run_python(block, outputs, environment):
    source = "\n".join(block.lines) + "\n"
    output, status, faults = execute([sys.executable, "-c", source], block.at(), block.mark[1], environment)
    return faults or judge(block, outputs, output, status)


def compare_file(block):
    path = ROOT / block.mark[1]
    if not path.is_file():
        return [f"{block.at()}: there is no {block.mark[1]}"]
    if path.read_text(encoding="utf-8").splitlines() != block.lines:
        return [f"{block.at()}: {block.mark[1]} is not what this shows"]
    return []


def judge(block, outputs, output, status):
    """What is wrong with what a program has printed, and how it ended."""
    name = block.mark[1]
    if status:
        return [f"{block.at()}: {name}: ended with status {status}\n{output}"]
    if name not in outputs:
        return []
    return compare(outputs[name].at(), name, outputs[name].lines, output)


def main(build, library, pages):
    pages = pages or [page for page in ["README.md"] if (ROOT / page).exists()] + sorted(
        str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))
    library = Path(library).resolve()
    environment = dict(os.environ, PATH=f"{Path(build).resolve()}:{os.environ['PATH']}", LC_ALL="C.UTF-8",
                       PYTHONPATH=str(ROOT / "bindings/python"), PYTHONDONTWRITEBYTECODE="1",
                       WEIR_LIBRARY=str(library.with_suffix(".so")))
    faults = []
    commands = programs = files = 0
    for page in pages:
        found = list(blocks(page))
        outputs = {block.mark[1]: block for block in found if block.mark and block.mark[0] == "output"}
        programmed = {block.mark[1] for block in found if block.mark and block.mark[0] in ("compile", "run")}
        for name in sorted(outputs.keys() - programmed):
            faults.append(f"{outputs[name].at()}: output of {name}, which this page does not compile or run")
        for block in found:
            if block.mark and block.mark[0] == "compile":
                programs += 1
                faults += run_program(block, outputs, library, environment)
            elif block.mark and block.mark[0] == "run":
                programs += 1
                faults += run_python(block, outputs, environment)
            elif block.mark and block.mark[0] == "file":
                files += 1
                faults += compare_file(block)
            elif block.language == "console" and not block.mark:
                ran, wrong = run_console(block, environment)
                commands += ran
                faults += wrong
    print("\n".join(faults) or f"docs: {len(pages)} pages, {commands} commands, {programs} programs, {files} files, all as documented")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
