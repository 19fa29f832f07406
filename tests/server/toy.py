"""toy.py: runs the suites of weir serve with weir_toy, a server whose store completes later and in any order
(toy_stores.c).

A test, or a part of one, is skipped only for a reason below; run() of daemon.py counts and prints these. Properties of
every store are not skipped. The seed of delays and order is printed: WEIR_TOY_SEED=N repeats it, as far as threads
permit."""

import collections
import os
import sys

IS_TOY = len(sys.argv) > 1 and os.path.basename(sys.argv[1]) == "weir_toy"
SEED = os.environ.get("WEIR_TOY_SEED") or str(int.from_bytes(os.urandom(4), "little"))
if IS_TOY:
    os.environ["WEIR_TOY_SEED"] = SEED

TABLE = "the toy keeps all keys, however small the table"
ARENA = "the arena matters where the table is the store"
REDIS = "the limit needs a Redis"

# By suite and test.
TESTS = {
    "live_test": {
        "eventual": REDIS,
    },
    "policy_test": {
        "logs that do not fit the arena are told": ARENA,
    },
    "pressure_test": {
        "strangers_wash_out_no_limit": TABLE,
    },
}

_skipped = {"tests": collections.Counter(), "parts": collections.Counter()}
_of_suite = TESTS.get(os.path.basename(sys.argv[0]).removesuffix(".py"), {}) if IS_TOY else {}


def skips(test):
    """The reason why a test of this suite is skipped, or None."""
    return _of_suite.get(test)


def skips_part(reason):
    """Whether a part of a test is skipped, for one of the reasons above. Counts it."""
    if IS_TOY:
        _skipped["parts"][reason] += 1
    return IS_TOY


def count_skipped(test):
    _skipped["tests"][skips(test)] += 1


def _listed(counts):
    return ", ".join(f"{reason} ({n})" for reason, n in counts.items())


def summary(passed, failed, names):
    """The last line of a run. An unknown test in the table above is an error."""
    unknown = sorted(set(_of_suite) - set(names))
    assert not unknown, f"toy.py names tests that are not there: {unknown}"
    tests, parts = _skipped["tests"], _skipped["parts"]
    line = f"{passed} passed, {failed} failed, {sum(tests.values())} skipped"
    if tests:
        line += f": {_listed(tests)}"
    if parts:
        line += f"; {sum(parts.values())} parts of tests skipped: {_listed(parts)}"
    return f"{line}; WEIR_TOY_SEED={SEED}"
