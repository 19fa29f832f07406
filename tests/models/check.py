#!/usr/bin/env python3
"""Checks the models of the table, and of leases and pushes, with spin: searches every reachable state, and must find known faults.

    check.py MODEL small|full DIRECTORY [WORD...]

MODEL is table_slots, table_joint, table_fold, table_read, leases or pushes; their file heads say what they check. `small` takes seconds
and `full` minutes. With WORDs, only runs with one of them in their name are made. All files are written to DIRECTORY.
Prints TAP.

A search that ends early, for lack of memory or depth, fails. A known fault that is not found fails, because a check
must be able to fail. If a property does not hold, the end of the trace is printed. In traces of table_slots the
processes are renumbered after each step, unless the run has -DUNSORTED."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
MEMORY_MIB = 6000
TRACE_LINES = 40
DEPTH = 1_000_000
INCOMPLETE = re.compile(r"depth too small|not completed|out of memory|reached -DMEMLIM bound|VECTORSZ", re.IGNORECASE)


class Run(NamedTuple):
    sizes: str  # "both", "small" or "full"
    name: str
    options: str
    depth: int = DEPTH


HOLDS = {
    "table_slots": [
        Run("small", "2 processes, 2 keys, a crash", "-DPROCESSES=2 -DCRASHES=1"),
        Run("small", "1 key, each load a step, ends alone in 12 steps", "-DPROCESSES=2 -DKEYS=1 -DAPART -DBOUND=12"),
        Run("small", "no process notices a reclaim in time", "-DPROCESSES=2 -DREMEMBER -DPROMPT"),
        Run("full", "3 processes, 2 keys, a crash", "-DCRASHES=1 -DLAST=4", 10_000_000),
        Run("full", "3 processes, 1 key, 3 slots", "-DKEYS=1 -DSLOTS=3 -DCRASHES=1", 10_000_000),
        Run("full", "3 processes, 1 key, each load a step", "-DKEYS=1 -DAPART", 10_000_000),
        Run("full", "2 processes, 2 keys, 3 slots, each load a step", "-DPROCESSES=2 -DSLOTS=3 -DAPART", 10_000_000),
        Run("full", "2 keys, each load a step, ends alone in 12 steps", "-DPROCESSES=2 -DAPART -DBOUND=12"),
        Run("full", "3 slots, each load a step, ends alone in 16 steps",
            "-DPROCESSES=2 -DKEYS=1 -DSLOTS=3 -DAPART -DBOUND=16"),
        Run("full", "3 processes, no process notices a reclaim in time", "-DREMEMBER -DPROMPT", 10_000_000),
    ],
    "table_joint": [
        Run("both", "windows, counted exactly", "-DREQUESTS=2"),
        Run("both", "windows, a reset", "-DRESETS=1 -DBACK_TO_BEFORE"),
        Run("both", "buckets, clocks that differ", "-DBUCKET -DDRIFT=1"),
        Run("full", "windows, counted exactly, a crash", "-DREQUESTS=2 -DCRASHES=1 -DBACK_TO_BEFORE"),
        Run("full", "windows that turn, two resets, a crash", "-DRESETS=2 -DWINDOWS=2 -DCRASHES=1"),
        Run("full", "windows, two requests each, a reset", "-DREQUESTS=2 -DRESETS=1"),
        Run("full", "windows whose words come back, stamped", "-DRESETS=2 -DABA -DSTAMP"),
        Run("full", "buckets, two requests each", "-DBUCKET -DREQUESTS=2"),
        Run("full", "buckets, a reset, clocks that differ", "-DBUCKET -DRESETS=1 -DDRIFT=1"),
    ],
    "table_fold": [
        Run("both", "2 charge, 1 folds twice", "-DCHARGES=1 -DCRASHES=0"),
        Run("both", "2 charge, 1 folds, a crash", "-DCHARGES=1 -DFOLDS=1"),
        Run("full", "2 charge, 1 folds twice, a crash", "-DCHARGES=1"),
        Run("full", "2 charge twice, 1 folds", "-DFOLDS=1 -DCRASHES=0"),
    ],
    "table_read": [
        Run("both", "1 reader, 1 writer, several rounds", "-DWRITES=14"),
        Run("full", "1 reader, 2 writers", "-DWRITERS=2 -DWRITES=6"),
        Run("full", "1 reader that reads twice", "-DWRITES=14 -DREADS=2"),
    ],
    "leases": [
        Run("small", "2 servers, 3 units, 2 crashes", ""),
        Run("small", "2 servers, 2 units, refunds", "-DREFUNDS -DBURST=2 -DCRASHES=1"),
        Run("full", "2 servers, 3 units, refunds, 2 crashes", "-DREFUNDS", 10_000_000),
        Run("full", "2 servers, 4 units, leases of 3 ticks, 2 crashes", "-DBURST=4 -DDURATION=3", 10_000_000),
        Run("full", "3 servers, 3 units, leases of a tick", "-DSERVERS=3 -DDURATION=1 -DCRASHES=0", 10_000_000),
        Run("full", "3 servers, 2 units, leases of 2 ticks", "-DSERVERS=3 -DBURST=2 -DWANTED=1 -DCRASHES=0", 10_000_000),
    ],
    "pushes": [
        Run("both", "bucket, 2 servers, 2 ahead", "-DCRASHES=0 -DBURST=2"),
        Run("both", "bucket, 2 servers, a crash", "-DAHEAD=1 -DBURST=2"),
        Run("both", "window, 2 servers, a crash", "-DWINDOW"),
        Run("full", "bucket, 2 servers, asks apart", "-DAPART -DCRASHES=0 -DBURST=1 -DAHEAD=1", 3_000_000),
        Run("both", "window, 2 servers, asks apart", "-DAPART -DCRASHES=0 -DBURST=1 -DAHEAD=1 -DWINDOW", 3_000_000),
        Run("full", "bucket, 3 servers", "-DSERVERS=3 -DAHEAD=1 -DBURST=2 -DCRASHES=0", 10_000_000),
        Run("full", "window, 3 servers", "-DSERVERS=3 -DAHEAD=1 -DBURST=2 -DCRASHES=0 -DWINDOW", 10_000_000),
    ],
}

# Mutations, and properties that are known not to hold.
FAILS = {
    "table_slots": [
        Run("both", "settle without a second look", "-DPROCESSES=2 -DNO_LOOK"),
        Run("both", "the second look ignores claims", "-DPROCESSES=2 -DIGNORE_CLAIMS"),
        Run("both", "claims without a nonce", "-DPROCESSES=2 -DNO_NONCE"),
        Run("full", "the second look ignores what is settled", "-DPROCESSES=2 -DIGNORE_SETTLED"),
        Run("full", "settle without comparing", "-DPROCESSES=2 -DBLIND_SETTLE"),
        Run("full", "update without comparing", "-DPROCESSES=2 -DAPART -DBLIND_UPDATE"),
        Run("full", "remove a claim without comparing", "-DPROCESSES=2 -DAPART -DBLIND_REMOVE"),
        Run("full", "go on when a claim could not be removed", "-DPROCESSES=2 -DAPART -DNO_SECOND_LOOK"),
        Run("full", "wait for a claim's owner for ever", "-DPROCESSES=2 -DAPART -DKEEP_CLAIMS -DBOUND=100"),
        Run("full", "reclaim without a margin", "-DPROCESSES=2 -DNO_MARGIN"),
        Run("full", "clocks differ by more than the margin", "-DPROCESSES=2 -DDRIFT=2"),
        Run("full", "free what owes nothing by the own clock", "-DPROCESSES=2 -DEARLY_ZERO"),
        Run("full", "sleep beyond the margin", "-DPROCESSES=2 -DREMEMBER"),
    ],
    "table_joint": [
        Run("both", "take back what was forgotten", "-DRESETS=1 -DFORGET_FORGIVEN"),
        Run("both", "read the clock before the slot", "-DBUCKET -DCLOCK_FIRST"),
        Run("full", "take back without comparing", "-DBLIND_PUT"),
        Run("full", "take back in another window", "-DWINDOWS=2 -DANY_WINDOW"),
        Run("full", "trust a word that looks the same", "-DRESETS=1 -DTRUST_SAME"),
        Run("full", "count a reset before its slot is read", "-DRESETS=1 -DCOUNT_FIRST"),
        Run("full", "forget uncounted", "-DRESETS=1 -DUNCOUNTED"),
        Run("full", "take back what others' clocks leaked", "-DBUCKET -DDRIFT=1 -DNO_SKEW"),
        Run("full", "buckets go back to what they were", "-DBUCKET -DREQUESTS=2 -DBACK_TO_BEFORE"),
        Run("full", "windows whose words come back", "-DRESETS=1 -DABA"),
        Run("full", "buckets whose words come back", "-DBUCKET -DREQUESTS=2 -DABA"),
    ],
    "table_fold": [
        Run("both", "swap the slot before the root", "-DSLOT_FIRST"),
        Run("both", "fold without the units", "-DROOT_LOST"),
        Run("both", "charge without comparing", "-DBLIND"),
        Run("both", "do not read the slot again", "-DNO_RECHECK"),
    ],
    "table_read": [
        Run("both", "read the newest event first", "-DNEWEST_FIRST -DNO_SECOND_LOOK"),
        Run("both", "do not read the oldest event twice", "-DNO_SECOND_LOOK"),
        Run("both", "do not read the oldest event last", "-DNO_LAST_LOOK -DWRITES=14"),
        Run("both", "accept cells out of order", "-DNO_ORDER"),
    ],
    "leases": [
        Run("both", "a grant is charged, and refills while it is lent", "-DDEBIT_ONLY"),
        Run("both", "units of a lease that ends are not charged", "-DDROP_AT_END"),
        Run("both", "the server counts from the reply", "-DLATE_START"),
        Run("both", "the store counts less than the server", "-DSHORT_STORE -DDURATION=3"),
        Run("both", "a return counts after the lease", "-DLATE_RETURN"),
        Run("both", "a return is sent twice", "-DREPEAT_RETURN"),
        Run("both", "what is returned is still spent", "-DKEEP_SPENDING"),
        Run("both", "a lot gets more than was lent", "-DREFUNDS -DREFUND_MORE"),
        Run("both", "refund units that were returned", "-DREFUNDS -DREFUND_RETURNED"),
        Run("both", "the store refunds lent units", "-DREFUNDS -DREFUND_LENT"),
    ],
    "pushes": [
        Run("both", "bucket, the bound is reached", "-DCRASHES=0 -DBURST=2 -DSMALLER"),
        Run("both", "window, the bound is reached", "-DCRASHES=0 -DWINDOW -DSMALLER"),
        Run("both", "a push charges only what is left", "-DCRASHES=0 -DNO_DEBT"),
        Run("both", "units wait no longer when they are sent", "-DCRASHES=0 -DSENT_IS_DONE"),
        Run("both", "the mirror forgets what was admitted since", "-DCRASHES=0 -DWINDOW -DOLD_MIRROR"),
        Run("both", "bucket, an ask reserves nothing", "-DAPART -DCRASHES=0 -DBURST=1 -DAHEAD=1 -DNO_RESERVE"),
        Run("both", "window, an ask reserves nothing", "-DAPART -DCRASHES=0 -DBURST=1 -DAHEAD=1 -DWINDOW -DNO_RESERVE"),
    ],
}


def call(command, directory):
    result = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", check=False)
    return result.returncode, result.stdout


def search(model, run, directory, is_long):
    """("", output of pan), or (error of the tool that failed, None)."""
    steps = [
        ["spin", "-a", *run.options.split(), str(model)],
        # -O2 would take longer to compile than a short search takes to run.
        ["gcc", "-O2" if is_long else "-O0", "-w", "-DSAFETY", "-DNOREDUCE", f"-DMEMLIM={MEMORY_MIB}", "-o", "pan",
         "pan.c"],
    ]
    for step in steps:
        status, output = call(step, directory)
        if status:
            return f"{step[0]} ended with status {status}\n{output}", None
    return "", call(["./pan", "-b", "-n", f"-m{run.depth}"], directory)[1]


def trace(model, run, directory):
    """The last lines that the model prints before the error."""
    output = call(["spin", "-k", f"{model.name}.trail", *run.options.split(), str(model)], directory)[1]
    lines = [line.strip() for line in output.splitlines()]
    return [line for line in lines if re.match(r"process \d|reset [a-z]|spin: text", line)][-TRACE_LINES:]


def judge(model, run, must_hold, directory):
    """(whether the result is as expected, summary, lines to print)"""
    started = time.monotonic()
    problem, output = search(model, run, directory, must_hold and (run.sizes == "full" or run.depth > DEPTH))
    if output is None:
        return False, "", problem.splitlines()
    states = re.search(r"([\d.e+]+) states, stored", output)
    errors = re.search(r"errors: (\d+)", output)
    if not states or not errors:
        return False, "", output.splitlines()
    told = f"{float(states[1]):.0f} states, {time.monotonic() - started:.1f} s"
    if "assertion violated" in output:
        return not must_hold, told, trace(model, run, directory) if must_hold else []
    if int(errors[1]) or INCOMPLETE.search(output):
        return False, told, output.splitlines()
    return must_hold, told, []


def main(name, size, directory, words):
    chosen = [(run, must_hold) for must_hold, runs in ((True, HOLDS[name]), (False, FAILS[name])) for run in runs
              if run.sizes in ("both", size) and (not words or any(word in run.name for word in words))]
    print(f"1..{len(chosen)}", flush=True)
    if shutil.which("spin") is None:
        print("Bail out! spin not found; ./dev test and ./dev verify install it")
        return 1
    failed = 0
    for number, (run, must_hold) in enumerate(chosen, 1):
        place = Path(directory).resolve() / f"{name}-{size}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        good, told, lines = judge(HERE / f"{name}.pml", run, must_hold, place)
        print(f"{'ok' if good else 'not ok'} {number} - {'' if must_hold else 'finds: '}{run.name} ({told})")
        print(*(f"# {line}" for line in lines), sep="\n", end="\n" if lines else "", flush=True)
        if good:
            shutil.rmtree(place)
        else:
            print(f"# {name}.pml {run.options}", flush=True)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in HOLDS or sys.argv[2] not in ("small", "full"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
