#!/usr/bin/env python3
"""Writes a file as a C array, to compile it into a program.

    embed.py FILE OUT NAME

OUT defines NAME, the bytes, and NAME_length. JSON is minified."""

import json
import sys

WIDTH = 24


def write(file, name, content):
    """Writes the definitions of NAME and NAME_length to an open C file."""
    file.write(f"extern const char {name}[];\nextern const unsigned long {name}_length;\n")
    file.write(f"const unsigned long {name}_length = {len(content)};\nconst char {name}[] = {{\n")
    for at in range(0, len(content), WIDTH):
        row = content[at:at + WIDTH]
        file.write("\t" + " ".join(f"{byte - 256 if byte > 127 else byte}," for byte in row) + "\n")
    file.write("};\n")


def main(source, out, name):
    with open(source, "rb") as file:
        content = file.read()
    if source.endswith(".json"):
        content = json.dumps(json.loads(content), separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    with open(out, "w", encoding="ascii") as file:
        file.write(f"/* {out.rsplit('/', 1)[-1]}: made by embed.py. */\n")
        write(file, name, content)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
