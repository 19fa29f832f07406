#!/usr/bin/env python3
"""Upgrades by SIGUSR2 under a supervisor: as process 1 of a container, with systemd's notify protocol, with a pid file.

    keep_pid_test.py WEIR"""
# Covers: src/os/notify.c, src/server/parent.c, src/server/pid_file.c

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, connect_to, expect, run  # noqa: E402

WEIR = os.path.abspath(sys.argv[1])
PONG = b"+PONG\r\n"


def wait_until(holds, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    return found


class Supervised:
    """A server below a launcher; the supervisor knows only the first process."""

    def __init__(self, folder, front, options, environment):
        self.log_path, self.resp = os.path.join(folder, "log"), os.path.join(folder, "resp")
        self.front = front
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*front, WEIR, "serve", "--listen", self.resp, "--http", "none", "--keys", "1000",
                                             "--drain", "1hour", *options], stdout=log, stderr=log,
                                            env={**os.environ, **environment})
        self.wait_for("RESP at")

    def said(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_for(self, words, times=1):
        wait_until(lambda: self.said().count(words) >= times or self.process.poll() is not None, self.said)
        assert self.said().count(words) >= times, self.said()

    def known(self):
        """The process that a supervisor would signal."""
        return children(self.process.pid)[0] if self.front else self.process.pid

    def upgrade(self, times=1):
        os.kill(self.known(), signal.SIGUSR2)
        self.wait_for("serves now", times)

    def ping(self):
        with connect_to(self.resp) as client:
            expect(client, bulks("PING"), PONG)

    def close(self):
        everyone, waiting = [self.process.pid], [self.process.pid]
        while waiting:
            found = children(waiting.pop())
            everyone += found
            waiting += found
        for pid in reversed(everyone):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(TIMEOUT_S)


@contextlib.contextmanager
def supervised(*options, front=(), **environment):
    with tempfile.TemporaryDirectory(prefix="weir-keep-") as folder:
        one = Supervised(folder, list(front), options, environment)
        try:
            yield one
        finally:
            one.close()


def survives_upgrades(one, times=3):
    """Each server but the last keeps a connection, and ends when the connection does."""
    for n in range(1, times + 1):
        with connect_to(one.resp) as client:
            expect(client, bulks("PING"), PONG)
            one.upgrade(n)
            expect(client, bulks("PING"), PONG)
            one.ping()
    wait_until(lambda: len(servers(one)) == 1, lambda: (servers(one), one.said()))
    assert one.process.poll() is None, one.said()
    one.ping()


def servers(one):
    """The processes that serve, without mere parents."""
    everyone, waiting = [], [one.known()]
    while waiting:
        pid = waiting.pop()
        everyone.append(pid)
        waiting += children(pid)
    return everyone[1:]


def ends(one):
    os.kill(one.known(), signal.SIGTERM)
    assert one.process.wait(TIMEOUT_S) == 0, one.said()
    assert not os.path.exists(one.resp)


def why_no_namespace():
    done = subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no PID namespace here: {done.stderr.strip()}"


def as_process_1():
    if why_no_namespace():
        return f"skipped: {why_no_namespace()}"
    with supervised(front=("unshare", "-pf", "--mount-proc")) as one:
        survives_upgrades(one)
        os.kill(one.known(), signal.SIGHUP)
        one.wait_for("reload_asked")
        for number in (signal.SIGUSR1, signal.SIGPIPE):
            os.kill(one.known(), number)
        one.ping()
        ends(one)
    return None


def below_a_supervisor_that_waits_for_its_child():
    with supervised("--keep-pid", "on") as one:
        survives_upgrades(one)
        for pid in (one.known(), servers(one)[0]):
            for number in (signal.SIGUSR1, signal.SIGPIPE):
                os.kill(pid, number)
        one.ping()
        ends(one)


def it_ends_as_its_server_does():
    with supervised("--keep-pid", "on") as one:
        os.kill(servers(one)[0], signal.SIGKILL)
        assert one.process.wait(TIMEOUT_S) == 128 + signal.SIGKILL, one.said()
    with tempfile.TemporaryDirectory(prefix="weir-keep-") as folder:
        done = subprocess.run([WEIR, "serve", "--keep-pid", "on", "--listen", os.path.join(folder, "none", "s"), "--http", "none"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 1 and "No such file" in done.stderr, done


def those_that_drain_end_with_it():
    with supervised("--keep-pid", "on") as one, connect_to(one.resp) as client:
        expect(client, bulks("PING"), PONG)
        one.upgrade()
        expect(client, bulks("PING"), PONG)
        assert len(servers(one)) == 2, one.said()
        os.kill(one.known(), signal.SIGTERM)
        assert client.recv(1) == b""
        client.close()
        assert one.process.wait(TIMEOUT_S) == 0, one.said()


def a_signal_to_the_whole_group_counts_once():
    """As systemd and terminals signal: the parent, which forwards the signal, and the server itself."""
    with supervised("--keep-pid", "on") as one, connect_to(one.resp) as client:
        expect(client, bulks("PING"), PONG)
        os.kill(servers(one)[0], signal.SIGTERM)
        assert client.recv(1) == b""  # the server waits for the client to close
        os.kill(one.known(), signal.SIGTERM)
        time.sleep(0.2)
        client.close()
        assert one.process.wait(TIMEOUT_S) == 0, one.said()
        assert "second signal" not in one.said(), one.said()


# --- notifications --------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def notify_socket(folder, name="notify"):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0weir-" + os.path.basename(folder) if name == "@" else os.path.join(folder, name))
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        receiver.settimeout(TIMEOUT_S)
        yield receiver


def told(receiver):
    """The message and its sender's pid, as systemd sees them."""
    data, ancillary, _, _ = receiver.recvmsg(4096, 1024)
    pid = int.from_bytes(ancillary[0][2][:4], sys.byteorder)
    return dict(line.split("=", 1) for line in data.decode().splitlines()), pid


def systemd_is_told():
    for name in ("notify", "@"):
        with tempfile.TemporaryDirectory(prefix="weir-keep-") as folder, notify_socket(folder, name) as receiver:
            where = "@weir-" + os.path.basename(folder) if name == "@" else os.path.join(folder, name)
            with supervised("--drain", "0", NOTIFY_SOCKET=where) as one:
                words, by = told(receiver)
                assert words.get("READY") == "1" and by == one.process.pid, (words, by)
                one.upgrade()
                words, by = told(receiver)
                next_pid = int(re.findall(r"process (\d+) serves now", one.said())[0])
                assert words.get("MAINPID") == str(next_pid) and by == one.process.pid, (words, by)
                assert one.process.wait(TIMEOUT_S) == 0, one.said()
                one.ping()
                os.kill(next_pid, signal.SIGTERM)
                words, by = told(receiver)
                assert words.get("STOPPING") == "1" and by == next_pid, (words, by)
                wait_until(lambda: not os.path.exists(f"/proc/{next_pid}") or os.waitpid(next_pid, os.WNOHANG)[0], one.said)


def the_parent_tells_for_its_servers():
    with tempfile.TemporaryDirectory(prefix="weir-keep-") as folder, notify_socket(folder) as receiver:
        with supervised("--keep-pid", "on", NOTIFY_SOCKET=os.path.join(folder, "notify")) as one:
            words, by = told(receiver)
            assert words.get("READY") == "1" and by == one.process.pid, (words, by)
            survives_upgrades(one, 1)
            ends(one)
            words, by = told(receiver)
            assert words == {"STOPPING": "1"} and by == one.process.pid, (words, by)


def systemd_without_notify_keeps_the_process():
    """SYSTEMD_EXEC_PID names the process that systemd started. Without NOTIFY_SOCKET, systemd cannot learn of another
    process."""
    script = 'SYSTEMD_EXEC_PID=$$ exec "$@"'
    with tempfile.TemporaryDirectory(prefix="weir-keep-") as folder:
        resp, log_path = os.path.join(folder, "resp"), os.path.join(folder, "log")
        with open(log_path, "wb") as log, subprocess.Popen(["bash", "-c", script, "-", WEIR, "serve", "--listen", resp, "--http", "none"],
                                                           stdout=log, stderr=log) as process:
            try:
                wait_until(lambda: os.path.exists(resp) and children(process.pid), lambda: "no parent")
            finally:
                process.terminate()
            assert process.wait(TIMEOUT_S) == 0


def a_pid_file_names_who_to_signal():
    for options in ((), ("--keep-pid", "on")):
        with tempfile.TemporaryDirectory(prefix="weir-keep-") as folder:
            path = os.path.join(folder, "weir.pid")

            def named(path=path):
                with open(path, encoding="ascii") as file:
                    return int(file.read())

            with supervised(*options, "--pid-file", path) as one:
                wait_until(lambda: os.path.exists(path), one.said)
                assert named() == one.process.pid
                one.upgrade()
                newest = int(re.findall(r"process (\d+) serves now", one.said())[0])
                wanted = one.process.pid if options else newest
                wait_until(lambda: named() == wanted, lambda: (named(), wanted))
                if not options:
                    assert one.process.wait(TIMEOUT_S) == 0
                    assert named() == newest  # the previous server has not changed it
                os.kill(named(), signal.SIGTERM)
                wait_until(lambda: not os.path.exists(path), one.said)
                if options:
                    assert one.process.wait(TIMEOUT_S) == 0
                else:
                    os.waitpid(newest, 0)
    done = subprocess.run([WEIR, "serve", "--pid-file", "/no/such/folder/pid", "--listen", "127.0.0.1:0", "--http", "none"],
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1 and "pid-file" in done.stderr and "No such file" in done.stderr, done


def adopt_orphans():
    """Makes this program the parent of orphaned servers, so that it can wait for them."""
    assert ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER


TESTS = [
    ("as process 1", as_process_1),
    ("below a supervisor that waits for its child", below_a_supervisor_that_waits_for_its_child),
    ("it ends as its server does", it_ends_as_its_server_does),
    ("those that drain end with it", those_that_drain_end_with_it),
    ("a signal to the whole group counts once", a_signal_to_the_whole_group_counts_once),
    ("systemd is told", systemd_is_told),
    ("the parent tells for its servers", the_parent_tells_for_its_servers),
    ("systemd without notify keeps the process", systemd_without_notify_keeps_the_process),
    ("a pid file names who to signal", a_pid_file_names_who_to_signal),
]

if __name__ == "__main__":
    adopt_orphans()
    sys.exit(run(TESTS))
