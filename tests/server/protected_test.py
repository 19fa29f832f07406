#!/usr/bin/env python3
"""Other processes of the same user cannot inspect weir serve, and it starts no program with more privileges.

    protected_test.py WEIR"""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, connect_to, expect, run  # noqa: E402

WEIR = os.path.abspath(sys.argv[1])
USER = 65534


def status_of(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(line.split()[1] for line in file if line.startswith(name + ":"))


@contextlib.contextmanager
def server(*options):
    """Runs as an unprivileged user, with a table in a file that is named through /proc/self."""
    with tempfile.TemporaryDirectory(prefix="weir-protected-") as folder:
        program = os.path.join(folder, "weir")
        shutil.copy(WEIR, program)
        for path in (folder, program):
            os.chown(path, USER, USER)
        resp = os.path.join(folder, "resp")
        process = subprocess.Popen([program, "serve", "--listen", resp, "--http", "none", "--keys", "1000", "--file",
                                    os.path.join(folder, "table"), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   user=USER, group=USER, extra_groups=[], cwd=folder,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)))
        try:
            line = process.stdout.readline().decode()
            assert line.startswith("weir serve: RESP at "), line + process.stdout.read().decode()
            with connect_to(resp) as client:
                expect(client, bulks("PING"), b"+PONG\r\n")
            yield process
        finally:
            process.kill()
            process.wait(TIMEOUT_S)
            process.stdout.close()


def can_be_looked_into(pid):
    """The kernel gives /proc/PID to root if a process is not dumpable."""
    return os.stat(f"/proc/{pid}/fd").st_uid == USER


def memory_is_its_own():
    if os.geteuid() != 0:
        return "skipped: only root can start a process of another user"
    with server() as one:
        assert not can_be_looked_into(one.pid)
        done = subprocess.run(["cat", f"/proc/{one.pid}/environ"], user=USER, capture_output=True, check=False)
        assert done.returncode != 0 and done.stdout == b"", done
        one.send_signal(signal.SIGABRT)
        assert not os.WCOREDUMP(os.waitpid(one.pid, 0)[1])
        one.returncode = 0
    with server("--core-dumps", "true") as one:
        assert can_be_looked_into(one.pid)
    return None


def no_new_privileges():
    if os.geteuid() != 0:
        return "skipped: only root can start a process of another user"
    with server() as one:
        assert status_of(one.pid, "NoNewPrivs") == "1"
    return None


TESTS = [
    ("memory is its own", memory_is_its_own),
    ("no new privileges", no_new_privileges),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
