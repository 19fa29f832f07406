#!/usr/bin/env python3
"""A file that blocks its reader does not block weir serve when it starts, reloads or shuts down.

    blocked_files_test.py WEIR"""
# Covers: src/server/shutdown.c

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, daemon, expect, run  # noqa: E402
from hung_files import HungFiles, why_not  # noqa: E402

WEIR = sys.argv[1]
LIMIT = "limits:\n  - name: per-user\n    key: user\n    limit: {}/day\n"
NOT_REGULAR = "not a regular file"


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


def put_fifo(path):
    os.mkfifo(path + ".fifo")
    os.rename(path + ".fifo", path)


def until(holds, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


class Place:
    """A server in a directory with all the files that it reads. Each file can be replaced."""

    def __init__(self, folder):
        self.folder = folder
        self.config, self.policy, self.directory = (os.path.join(folder, name) for name in ("weir.yaml", "policy.yaml", "policies"))
        self.table, self.secret = os.path.join(folder, "customers.csv"), os.path.join(folder, "secret")
        os.mkdir(self.directory)
        self.part = os.path.join(self.directory, "b.yaml")
        write(self.secret, "hush\n")
        write(self.table, "user,limit\nbig,100/day\n")
        write(self.config, f"keys: 1000\nusers:\n  a:\n    role: admin\n    token: T\n    password_file: {self.secret}\n")
        write(os.path.join(self.directory, "a.yaml"), LIMIT.format(10))
        write(self.part, LIMIT.format(10).replace("per-user", "other"))
        write(self.policy, LIMIT.format(10) + f"    overrides_from: {self.table}\n")


@contextlib.contextmanager
def place():
    with tempfile.TemporaryDirectory(prefix="weir-blocked-") as folder:
        yield Place(folder)


def upload(server, policy):
    client = http.client.HTTPConnection(server.http_at, timeout=TIMEOUT_S)
    client.request("PUT", "/v1/policy", policy, {"Authorization": "Bearer T"})
    answer = client.getresponse()
    answer.read()
    client.close()
    return answer.status


# The file that a FIFO replaces, and the options of a server that reads it.
FILES = (
    ("policy", lambda one: one.policy, lambda one: ("--policy", one.policy)),
    ("file of a directory", lambda one: one.part, lambda one: ("--policy", one.directory)),
    ("table of overrides", lambda one: one.table, lambda one: ("--policy", one.policy)),
    ("configuration", lambda one: one.config, lambda one: ("--policy", one.policy)),
    ("password file", lambda one: one.secret, lambda one: ("--policy", one.policy)),
)


def a_start_reports_it():
    for what, path_of, options in FILES:
        with place() as one:
            put_fifo(path_of(one))
            done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", "--config", one.config,
                                   *options(one)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert done.returncode == 2 and NOT_REGULAR in done.stderr and one.folder in done.stderr, (what, done)


def a_reload_goes_on():
    for what, path_of, options in FILES:
        with place() as one, daemon(WEIR, "--config", one.config, *options(one), http="127.0.0.1:0") as server:
            path = path_of(one)
            with open(path, encoding="utf-8") as file:
                before = file.read()
            put_fifo(path)
            for n in range(2):
                server.process.send_signal(signal.SIGHUP)
                until(lambda: server.said().count("reload_asked") > n, server.said)
            until(lambda: NOT_REGULAR in server.said(), lambda: (what, server.said()))
            assert upload(server, LIMIT.format(5)) == 200, (what, server.said())
            write(path, before.replace("/day", "/hour").replace("token: T", "token: U"))
            if what not in ("configuration", "password file"):
                until(lambda: "policy_reloaded" in server.said().partition("policy_put")[2], lambda: (what, server.said()))
            elif what == "configuration":
                until(lambda: "users changed" in server.said(), lambda: (what, server.said()))


def other_kinds_of_files_are_told():
    with place() as one, socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(one.folder, "socket")
        listener.bind(path)
        for other in (path, "/dev/zero"):
            done = subprocess.run([WEIR, "check-config", other], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert done.returncode != 0 and NOT_REGULAR in done.stderr + done.stdout, done


def files_of_tls_and_tables_are_told():
    with place() as one:
        fifo = os.path.join(one.folder, "fifo")
        os.mkfifo(fifo)
        for options, words in ((("--store", f"rediss://127.0.0.1:1/0?ca={fifo}"), NOT_REGULAR),
                               (("--store", f"rediss://127.0.0.1:1/0?cert={fifo}&key={one.config}"), NOT_REGULAR),
                               (("--store", f"rediss://127.0.0.1:1/0?cert={one.config}&key={fifo}"), NOT_REGULAR),
                               (("--policy", f"etcds://127.0.0.1:1/weir?ca={fifo}"), NOT_REGULAR),
                               (("--file", fifo), "a FIFO, socket or device, not a table")):
            done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", *options], capture_output=True,
                                  text=True, timeout=TIMEOUT_S, check=False)
            assert done.returncode in (1, 2) and words in done.stderr, (options, done)
        done = subprocess.run([WEIR, "ping", "--password-file", fifo], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        assert done.returncode == 2 and NOT_REGULAR in done.stderr, done


def own_descriptors_and_links_are_read():
    with place() as one:
        link = os.path.join(one.folder, "link.yaml")
        os.symlink(one.policy, link)
        for command, text in (([WEIR, "check-config", "/dev/stdin"], LIMIT.format(10)),
                              (["bash", "-c", f"exec {WEIR} check-config <(cat {link})"], ""),
                              ([WEIR, "check-config", link], ""),
                              (["bash", "-c", f"exec {WEIR} check-config /proc/self/fd/9 9<{one.policy}"], "")):
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            wanted = 2 if "<(" in command[-1] or "/fd/9" in command[-1] else 0  # customers.csv is missing there
            assert NOT_REGULAR not in done.stderr and done.returncode in (0, wanted), (command, done)
        with daemon(WEIR, "--config", "/dev/null"):
            pass


# --- a file server that is down -------------------------------------------------------------------------------------

@contextlib.contextmanager
def hung():
    """A server with a thread that waits for a file forever."""
    files = HungFiles("policy.yaml", LIMIT.format(10))
    try:
        with daemon(WEIR, "--policy", files.path, "--drain", "0") as server:
            files.hang()
            server.process.send_signal(signal.SIGHUP)
            assert files.has_hung.wait(TIMEOUT_S), server.said()
            with server.connect() as client:
                expect(client, bulks("PING"), b"+PONG\r\n")
            yield server
    finally:
        files.close()


def the_end_does_not_wait_for_it():
    if why_not():
        return f"skipped: {why_not()}"
    with hung() as server:
        assert server.end() == 1, server.said()
        assert "a thread did not stop" in server.said(), server.said()
    return None


def a_second_signal_ends_at_once():
    with daemon(WEIR) as server, server.connect() as client:
        expect(client, bulks("PING"), b"+PONG\r\n")
        server.process.send_signal(signal.SIGTERM)
        assert client.recv(1) == b""  # the server has closed its side and waits for the client
        assert server.end() == 1, server.said()
        assert "second signal" in server.said(), server.said()


def nor_does_the_start():
    if why_not():
        return f"skipped: {why_not()}"
    files = HungFiles("policy.yaml", LIMIT.format(10))
    try:
        files.hang()
        with subprocess.Popen([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", "--policy", files.path],
                              stderr=subprocess.PIPE) as process:
            try:
                assert files.has_hung.wait(TIMEOUT_S)
                process.terminate()
                assert process.wait(TIMEOUT_S) != 0
            finally:
                process.kill()
    finally:
        files.close()
    return None


TESTS = [
    ("a start reports it", a_start_reports_it),
    ("a reload goes on", a_reload_goes_on),
    ("other kinds of files are told", other_kinds_of_files_are_told),
    ("files of TLS and tables are told", files_of_tls_and_tables_are_told),
    ("own descriptors and links are read", own_descriptors_and_links_are_read),
    ("the end does not wait for it", the_end_does_not_wait_for_it),
    ("a second signal ends at once", a_second_signal_ends_at_once),
    ("nor does the start", nor_does_the_start),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
