#!/usr/bin/env python3
"""Writes a style sheet as a C array, with the hash that a Content-Security-Policy allows it by.

    embed_style.py FILE OUT NAME

OUT defines NAME and NAME_hash, and their lengths NAME_length and NAME_hash_length."""

import base64
import hashlib
import sys

import embed


def main(source, out, name):
    with open(source, "rb") as file:
        content = file.read()
    digest = base64.b64encode(hashlib.sha256(content).digest())
    with open(out, "w", encoding="ascii") as file:
        file.write(f"/* {out.rsplit('/', 1)[-1]}: made by embed_style.py. */\n")
        embed.write(file, name, content)
        embed.write(file, name + "_hash", b"'sha256-" + digest + b"'")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
