#!/usr/bin/env python3
"""The core and the codecs need no functions but mem*, strlen and libgcc's 128-bit arithmetic.

    core_symbols.py LIBRARY.a...

So they cannot read a clock, lock, allocate or do I/O. Only for plain builds: sanitizers and coverage add symbols of
their own. A hardened build adds the functions that end the process on a memory overrun."""

import subprocess
import sys

ALLOWED = {
    "memchr", "memcmp", "memcpy", "memmove", "memset", "strlen",
    "_GLOBAL_OFFSET_TABLE_",  # of the linker, for position-independent code
    "__stack_chk_fail", "__memcpy_chk", "__memmove_chk", "__memset_chk",
    "__udivti3", "__umodti3", "__udivmodti4", "__multi3", "__divti3", "__modti3",
}


def main(archives):
    if not archives:
        sys.exit(__doc__)
    defined, needed = set(), {}
    listing = subprocess.run(["nm", "--print-file-name", "--format=posix", *archives],
                             capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        # archive[member]: name type [value size]
        place, _, rest = line.partition("]: ")
        name, kind = rest.split()[:2]
        if kind in ("U", "w", "v"):
            needed.setdefault(name, place.rpartition("[")[2])
        else:
            defined.add(name)
    if not defined:
        print(f"no symbols in {' '.join(archives)}")
        return 1
    faults = [f"{needed[name]}: needs {name}, which it may not"
              for name in sorted(needed.keys() - defined - ALLOWED)]
    print("\n".join(faults) or f"symbols: {len(defined)} defined, needs only "
          f"{', '.join(sorted(needed.keys() - defined)) or 'itself'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
