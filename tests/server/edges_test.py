#!/usr/bin/env python3
"""examples/hybrid: two edges and one Redis, for a short time.

    edges_test.py WEIR EXAMPLES"""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

WEIR, EXAMPLES = sys.argv[1], sys.argv[2]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(EXAMPLES, "hybrid"))
sys.dont_write_bytecode = True  # the source may be read-only
import edges  # noqa: E402
from daemon import TIMEOUT_S, run  # noqa: E402

SECONDS = 1.5


def neither_limit_allows_more_than_it_says():
    """The bound is what can have refilled between the first request and the last reply, so it holds on a slow
    machine."""
    began = time.monotonic()
    rows = edges.run(WEIR, SECONDS)
    lasted = time.monotonic() - began
    allowed = [row for row in rows if row[2] is not None]
    assert 0 < len(allowed) <= 25 + 50 * lasted + 1, (len(allowed), lasted)
    assert len(allowed) <= 2 * edges.CLIENTS * (10 + 5 * lasted + 1)
    denied = [by for _, by, arrives in rows if arrives is None]
    assert set(denied) <= {"edge", "central"}, denied
    assert denied.count("edge") > 0, "the flood was not stopped"


def it_draws_what_it_saw():
    with tempfile.TemporaryDirectory(prefix="weir-edges-") as folder:
        path = os.path.join(folder, "plot.svg")
        said = subprocess.run([sys.executable, os.path.join(EXAMPLES, "hybrid", "edges.py"), WEIR, "--seconds", "0.6", "--svg", path],
                              capture_output=True, timeout=TIMEOUT_S, check=True, text=True).stdout
        sent, *parts = (int(line.rsplit(" ", 1)[1]) for line in said.splitlines())
        assert sent == sum(parts) > 0, said
        lines = xml.etree.ElementTree.parse(path).getroot().findall("{http://www.w3.org/2000/svg}polyline")
        drawn = [len(line.get("points").split()) for line in lines]
        assert drawn[-3:] == [6, 6, 6], drawn


TESTS = [neither_limit_allows_more_than_it_says, it_draws_what_it_saw]

if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
