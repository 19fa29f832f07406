#!/usr/bin/env python3
"""Runs what the documentation shows and compares the output.

    docs.py BUILD_DIR LIBRARY.a [--all] [PAGE_OR_FOLDER...]

Without PAGE_OR_FOLDER, the pages are README.md and all of docs.

The test follows a page as a person at a terminal would. Each page has one shell. It starts in a directory that looks
like the repository root, with BUILD_DIR first on PATH. A page also has its own network namespace if the kernel permits
that, so pages can show fixed ports and run in parallel. What a page started is stopped when the page ends.

```console blocks: the page's shell runs each line `$ COMMAND`, which must print exactly the lines that follow it,
standard error included. A line `...` stands for any lines, and `...` within a line for any characters. The number of a
header `Retry-After` may be lower. A command
continues in lines that begin with `> `, and after a backslash at the end of a line. A command that ends in `# not run`
is not run. curl needs -s where it does not write to the terminal: it would print a progress meter there.

```console blocks after a line <!-- terminal: NAME --> are another terminal. Its last command keeps running, and the
page continues as soon as that has printed the lines shown. The next block of the same NAME, and a comment <!-- stop:
NAME -->, interrupts it first.

<!-- setup
COMMANDS
--> is run by the page's shell and hidden from the reader. It must succeed and print nothing.

```c blocks after a line <!-- compile: NAME --> are compiled against include/ and LIBRARY.a. A block with a main is also
run and must succeed. The block after <!-- output: NAME --> is its output, compared by the same rules.

```python blocks after a line <!-- run: NAME --> are run and compared in the same way. They, and all commands, find the
Python package and the shared library next to LIBRARY.a.

<!-- needs: COMMAND --> ends the page here if COMMAND fails in the page's shell: the rest needs root or a program that
Debian does not package. The output names the page. With --all, such a page is a fault.

A block after <!-- file: PATH --> must equal that file of the repository. A block after <!-- save: NAME --> is written
to NAME in the directory of the page's shell."""

import ctypes
import fcntl
import os
import re
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 180  # go run takes a minute or more with an empty cache
NOT_RUN = "# not run"
SHARED, SHARED_HERE = "guide-shop", f"guide-shop-{os.getpid()}"  # shared memory is not part of the network namespace
MARK = re.compile(r"<!--\s*(compile|run|output|file|save|terminal|stop):\s*(\S+)\s*-->\s*$")
NEEDS = re.compile(r"<!--\s*needs:\s*(.+?)\s*-->\s*$")
METER = re.compile(r"\bcurl\b(?!.*?\s-\w*s)[^|;]*(\s-o\s|\|)")  # a page may have silenced curl for itself, not for its reader
FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*(\w*)")


def in_this_run(text):
    return text.replace(SHARED, SHARED_HERE)


def as_documented(text):
    return text.replace(SHARED_HERE, SHARED)


class Block:
    def __init__(self, page, number, language, mark):
        self.page, self.number, self.language, self.mark = page, number, language, mark
        self.lines = []

    def at(self, offset=0):
        return f"{self.page}:{self.number + 1 + offset}"

    def marked(self, *kinds):
        return bool(self.mark) and self.mark[0] in kinds


def blocks(page):
    """The fenced blocks and setups of a page, with the mark, if any, on the last non-empty line before each."""
    block = mark = fence = None
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if block and block.language == "setup":
            if line.strip() == "-->":
                yield block
                block = mark = None
            else:
                block.lines.append(line)
        elif block:
            if match and match[1].startswith(fence) and not match[2]:
                yield block
                block = mark = None
            else:
                block.lines.append(line)
        elif line.strip() == "<!-- setup":
            block = Block(page, number, "setup", None)
        elif match:
            fence = match[1]
            block = Block(page, number, match[2], mark)
        elif needs := NEEDS.match(line.strip()):
            yield Block(page, number, "needs", ("needs", needs[1]))
        elif line.strip():
            mark = MARK.match(line.strip())
            mark = (mark[1], mark[2]) if mark else None
            if mark and mark[0] == "stop":
                yield Block(page, number, "stop", mark)


def counts_down(wanted, got):
    """Time passes between the requests of a page, so retry-after may be less than the page says."""
    lines = re.fullmatch(r"(?i)(retry-after: )(\d+)", wanted), re.fullmatch(r"(?i)(retry-after: )(\d+)", got)
    return all(lines) and lines[0][1] == lines[1][1] and 0 < int(lines[1][2]) <= int(lines[0][2])


def line_matches(wanted, got):
    pattern = ".*".join(map(re.escape, wanted.split("...")))
    return wanted == got or counts_down(wanted, got) or "..." in wanted and re.fullmatch(pattern, got) is not None


def reached(wanted, got):
    """How many lines of `got` the lines of `wanted` can match. A line `...` in `wanted` stands for any number of
    lines."""
    reach = {0}
    for line in wanted:
        if line.strip() == "...":
            reach = set(range(min(reach), len(got) + 1))
        else:
            reach = {at + 1 for at in reach if at < len(got) and line_matches(line, got[at])}
        if not reach:
            break
    return reach


def as_lines(output):
    return [line.rstrip() for line in output.rstrip("\n").split("\n")] if output.strip() else []


def without_end(lines):
    lines = [line.rstrip() for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def difference(where, what, wanted, got):
    shown = "\n".join(["  documented:", *(f"    {line}" for line in wanted), "  printed:", *(f"    {line}" for line in got)])
    return [f"{where}: {what}: prints something else\n{shown}"]


def compare(where, what, wanted, output):
    wanted, got = without_end(wanted), as_lines(output)
    return [] if len(got) in reached(wanted, got) else difference(where, what, wanted, got)


def execute(command, where, what, environment):
    """(output, exit status, faults) of a program."""
    try:
        result = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=TIMEOUT_S, text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired:
        return "", 0, [f"{where}: {what}: still running after {TIMEOUT_S} s"]
    output = as_documented(result.stdout)
    if result.returncode < 0 or result.returncode >= 126:
        return "", 0, [f"{where}: {what}: ended with status {result.returncode}\n{output}"]
    return output, result.returncode, []


class Shell:
    """The terminal of a page: one bash, so that cd, variables and background jobs last from one command to the next."""

    END = "the-end-of-a-command"

    def __init__(self, environment, folder):
        self.folder, self.environment = folder, environment
        self.terminals = {}
        self.process = subprocess.Popen(["bash"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, command, where):
        """(output, exit status, faults) of a command."""
        line = f"eval {shlex.quote(in_this_run(command))} </dev/null\nprintf '\\n{self.END} %d\\n' $?\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        output, deadline = b"", time.monotonic() + TIMEOUT_S
        while not (match := re.search(rf"\n{self.END} (\d+)\n$".encode(), output)):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                self.close()
                return "", 0, [f"{where}: {command}: {'the shell ended' if ready else f'still running after {TIMEOUT_S} s'}\n{output.decode(errors='replace')}"]
            output += chunk
        text = as_documented(output[:match.start()].decode("utf-8", "replace"))
        status = int(match[1])
        if status >= 126:
            return text, status, [f"{where}: {command}: ended with status {status}\n{text}"]
        return text, status, []

    def has_ended(self):
        return self.process.poll() is not None

    def where(self):
        return os.readlink(f"/proc/{self.process.pid}/cwd")

    def start(self, name, command, wanted, where):
        """Runs a command in another terminal; returns when it has printed the wanted lines."""
        process = subprocess.Popen(["bash", "-c", in_this_run(command)], cwd=self.where(), env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        lines = []
        threading.Thread(target=lambda: [lines.append(line) for line in process.stdout], daemon=True).start()
        self.terminals[name] = process
        wanted, deadline = without_end(wanted), time.monotonic() + TIMEOUT_S
        while True:
            ended = process.poll() is not None
            got = [as_documented(line.decode("utf-8", "replace")).rstrip() for line in list(lines)]
            if reached(wanted, got):
                return []
            if ended or time.monotonic() > deadline:
                return difference(where, command, wanted, got)
            time.sleep(0.02)

    def interrupt(self, name):
        process = self.terminals.pop(name, None)
        if process and process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def close(self):
        for name in list(self.terminals):
            self.interrupt(name)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def console(block):
    """(offset, command, expected lines) of each command in a console block."""
    commands = []
    for offset, line in enumerate(block.lines):
        if commands and commands[-1][1].endswith("\\") and not commands[-1][2]:
            commands[-1][1] = commands[-1][1][:-1] + line.removeprefix("> ").strip()
        elif commands and line.startswith("> ") and not commands[-1][2]:
            commands[-1][1] += "\n" + line[2:]
        elif line.startswith("$ "):
            commands.append([offset, line[2:].rstrip(), []])
        elif commands:
            commands[-1][2].append(line)
    return [command for command in commands if not command[1].endswith(NOT_RUN)]


def run_console(block, shell):
    faults = []
    commands = console(block)
    terminal = block.mark[1] if block.marked("terminal") else None
    if terminal:
        shell.interrupt(terminal)
    for number, (offset, command, wanted) in enumerate(commands, 1):
        where = block.at(offset)
        if METER.search(command):
            faults.append(f"{where}: curl prints a progress meter here: add -s")
        if terminal and number == len(commands):
            faults += shell.start(terminal, command, wanted, where)
        else:
            output, _, wrong = shell.run(command, where)
            faults += wrong or compare(where, command, wanted, output)
    return len(commands), faults


def run_setup(block, shell):
    output, status, wrong = shell.run("\n".join(block.lines), block.at())
    if wrong or (not status and not output.strip()):
        return wrong
    return [f"{block.at()}: setup: ended with status {status} and printed\n{output}"]


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
        return [f"{block.at()}: {block.mark[1]} not found"]
    if path.read_text(encoding="utf-8").splitlines() != block.lines:
        return [f"{block.at()}: {block.mark[1]} is not what this shows"]
    return []


def judge(block, outputs, output, status):
    """The faults in a program's output and exit status."""
    name = block.mark[1]
    if status:
        return [f"{block.at()}: {name}: ended with status {status}\n{output}"]
    if name not in outputs:
        return []
    return compare(outputs[name].at(), name, outputs[name].lines, output)


def own_network():
    """Gives this process its own loopback interface, if the kernel permits that."""
    new_user, new_network, up = 0x10000000, 0x40000000, 1
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(new_network) and libc.unshare(new_user | new_network):
        return
    os.environ.pop("WEIR_GRPC", None)  # tests that share a network turn gRPC off; a reader of the page does not
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", up))  # SIOCSIFFLAGS


def folder_like_root(place):
    for entry in ROOT.iterdir():
        if entry.name != ".git":
            os.symlink(entry, os.path.join(place, entry.name))
    return place


class Tally:
    def __init__(self):
        self.faults, self.commands, self.programs, self.files, self.cut = [], 0, 0, 0, []


def run_page(page, library, environment, tally):
    found = list(blocks(page))
    outputs = {block.mark[1]: block for block in found if block.marked("output")}
    programmed = {block.mark[1] for block in found if block.marked("compile", "run")}
    for name in sorted(outputs.keys() - programmed):
        tally.faults.append(f"{outputs[name].at()}: output of {name}, which this page does not compile or run")
    place = tempfile.mkdtemp(prefix="weir-docs-")
    shell = Shell(environment, folder_like_root(place))
    try:
        for block in found:
            if shell.has_ended():
                tally.faults.append(f"{block.at()}: the shell of this page has ended before")
                break
            if block.language == "needs":
                if shell.run(block.mark[1], block.at())[1]:
                    tally.cut.append(f"{page} needs {block.mark[1]}")
                    break
            elif block.language == "setup":
                tally.faults += run_setup(block, shell)
            elif block.marked("stop"):
                shell.interrupt(block.mark[1])
            elif block.marked("compile"):
                tally.programs += 1
                tally.faults += run_program(block, outputs, library, environment)
            elif block.marked("run"):
                tally.programs += 1
                tally.faults += run_python(block, outputs, environment)
            elif block.marked("file"):
                tally.files += 1
                tally.faults += compare_file(block)
            elif block.marked("save"):
                Path(shell.where(), block.mark[1]).write_text("\n".join(block.lines) + "\n", encoding="utf-8")
            elif block.language == "console" and not block.marked("output"):
                ran, wrong = run_console(block, shell)
                tally.commands += ran
                tally.faults += wrong
    finally:
        shell.close()
        shutil.rmtree(place, ignore_errors=True)


def pages_of(places):
    for place in places:
        if (ROOT / place).is_dir():
            yield from sorted(str(page.relative_to(ROOT)) for page in (ROOT / place).rglob("*.md"))
        else:
            yield place


def main(build, library, *places, is_whole=False):
    pages = list(pages_of(places or ["README.md", "docs"]))
    library = Path(library).resolve()
    own_network()
    environment = dict(os.environ, PATH=f"{Path(build).resolve()}:{os.environ['PATH']}", LC_ALL="C.UTF-8",
                       PYTHONPATH=str(ROOT / "bindings/python"), PYTHONDONTWRITEBYTECODE="1",
                       WEIR_LIBRARY=str(library.with_suffix(".so")))
    # As at a terminal: curl draws no progress meter, and weir does not get the library path that Python needs.
    environment["BASH_FUNC_curl%%"] = '() { command curl --no-progress-meter "$@"; }'
    environment["BASH_FUNC_weir%%"] = '() { env -u WEIR_LIBRARY weir "$@"; }'
    tally = Tally()
    for page in pages:
        run_page(page, library, environment, tally)
    if is_whole:
        tally.faults += tally.cut
    print("\n".join(tally.faults) or f"docs: {len(pages)} pages, {tally.commands} commands, {tally.programs} programs, "
          f"{tally.files} files, all as documented")
    if tally.cut and not is_whole:
        print("not run to its end:", "; ".join(tally.cut))
    return 1 if tally.faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*(word for word in sys.argv[1:] if word != "--all"), is_whole="--all" in sys.argv))
