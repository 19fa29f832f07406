#!/usr/bin/env python3
"""The program and the libraries are hardened, as their ELF files show.

    hardened.py BUILD PROGRAM LIBRARY.so...

Checks for: position independence; full RELRO; no memory that is both writable and executable; stack protector; checked
libc functions (_FORTIFY_SOURCE); on x86-64, marked targets of indirect calls. (The linker omits the ELF note for the
whole file, because Debian's startup files do not have it.) Options that leave no mark in the file are looked up in the
build commands. The test also builds a program without hardening, and must report it."""

import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = ("-fstack-protector-strong", "-fstack-clash-protection", "-ftrivial-auto-var-init=zero", "-D_FORTIFY_SOURCE=3", "-fvisibility=hidden")

ENDBR64, TARGETS_LEAST = b"\xf3\x0f\x1e\xfa", 50


def readelf(file, *options):
    return subprocess.run(["readelf", "-W", *options, file], capture_output=True, text=True, check=True).stdout


def faults_of(file, is_program):
    header, dynamic, segments = readelf(file, "-h"), readelf(file, "-d"), readelf(file, "-l")
    symbols = readelf(file, "--dyn-syms")
    targets = Path(file).read_bytes().count(ENDBR64)
    found = []

    def expect(holds, what):
        if not holds:
            found.append(f"{file}: {what}")

    expect(re.search(r"Type:\s+DYN", header), "its address is fixed: not position independent")
    expect(not is_program or re.search(r"FLAGS_1.*\bPIE\b", dynamic), "not a position-independent executable")
    expect("GNU_RELRO" in segments, "no segment GNU_RELRO")
    expect(re.search(r"\(FLAGS\).*BIND_NOW|FLAGS_1.*\bNOW\b", dynamic), "symbols are bound late: RELRO is not full")
    expect(re.search(r"GNU_STACK\s.*\bRW\s", segments), "the stack is executable")
    expect(not re.search(r"^\s+LOAD\s.*\bRWE\b", segments, re.MULTILINE), "a segment is both writable and executable")
    expect("__stack_chk_fail" in symbols, "no stack protector")
    expect("_chk@" in symbols, "no checked functions of libc: _FORTIFY_SOURCE is not set")
    expect(platform.machine() != "x86_64" or targets > TARGETS_LEAST, f"{targets} targets of indirect calls: -fcf-protection is missing")
    return found


def faults_of_commands(build):
    """All our sources are compiled with all of FLAGS."""
    found = []
    for command in json.loads((Path(build) / "compile_commands.json").read_text(encoding="utf-8")):
        missing = [flag for flag in FLAGS if flag not in command["command"].split()]
        if "/src/" in command["file"] and missing:
            found.append(f"{command['file']}: compiled without {' '.join(missing)}")
    return found


def what_is_soft_is_found_out():
    with tempfile.TemporaryDirectory(prefix="weir-hardened-") as folder:
        source, program = Path(folder) / "soft.c", str(Path(folder) / "soft")
        source.write_text("int main(void) { return 0; }\n", encoding="ascii")
        subprocess.run(["gcc", "-no-pie", "-fno-pie", "-fno-stack-protector", "-fcf-protection=none", "-U_FORTIFY_SOURCE",
                        "-Wl,-z,norelro,-z,lazy,-z,execstack", str(source), "-o", program], check=True)
        return len(faults_of(program, True))


def main(build, program, *libraries):
    faults = faults_of(program, True) + faults_of_commands(build)
    for library in libraries:
        faults += faults_of(library, False)
    soft = what_is_soft_is_found_out()
    if soft < 8:
        faults.append(f"{Path(__file__).name}: found only {soft} faults of a program without protection")
    print("\n".join(faults) or f"hardened: {1 + len(libraries)} files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 2 else __doc__)
