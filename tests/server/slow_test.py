#!/usr/bin/env python3
"""Clients that send or read slowly, as slowhttptest does: others are served, and the slow ones are cut off by their
timeouts.

    slow_test.py WEIR [CONNECTIONS]

CONNECTIONS makes it the full-size check. Then others must also be served fast: their p99, measured by wrk, is at most
twice as long as on a server without slow clients. Both servers are measured in turn while slowhttptest runs, which needs a
processor itself. The best of several tries counts, because other programs on the machine only add latency."""
# Covers: src/server/worker_timers.c

import contextlib
import http.client
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
os.environ["WEIR_CORE_DUMPS"] = "true"  # otherwise only root could count the server's descriptors

from daemon import TIMEOUT_S, daemon, run  # noqa: E402

WEIR = sys.argv[1]
IS_FULL = len(sys.argv) > 2
CONNECTIONS = int(sys.argv[2]) if IS_FULL else 100
BOUND_S = 120 if IS_FULL else 2  # timeout of an incomplete request, and of an idle connection
PATIENCE_S = 4 * (BOUND_S + TIMEOUT_S)
MUST_COME = CONNECTIONS * 99 // 100 if IS_FULL else CONNECTIONS // 4  # connections before the first are cut off
TRIES, TRY_S = 10, 2
ATTACKERS = 8 if IS_FULL else 1  # slowhttptest polls all its connections for each event
SLOWER_MOST = 2

# Name and options of slowhttptest. With a window of a few bytes the replies stay in the kernel.
ATTACKS = [
    ("slow headers", ["-H"]),
    ("slow bodies", ["-B", "-s", "8192"]),
    ("slow readers", ["-X", "-k", "5", "-n", "5", "-w", "1", "-y", "2", "-z", "1"]),
]

POLICY = """limits:
  - name: many
    key: ip
    limit: 1000000000/s
"""
TARGET = "/v1/check?ip=10.0.0.1"


def wait_until(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def allow_descriptors():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    assert most == resource.RLIM_INFINITY or most > CONNECTIONS + 100, f"only {most} descriptors can be had"


class Others:
    """Threads that send requests all the time, on open connections and on new ones."""

    def __init__(self, port):
        self.port, self.answered, self.failures, self.is_stopping = port, [0, 0], [], False
        self.threads = [threading.Thread(target=self.guard, args=(i,)) for i in range(2)]

    def guard(self, number):
        try:
            self.ask(number)
        except Exception as fault:  # pylint: disable=broad-except
            self.failures.append(f"{type(fault).__name__}: {fault}")

    def ask(self, number):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        while not self.is_stopping:
            client.request("GET", TARGET)
            answer = client.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            self.answered[number] += 1
            if number == 1:
                client.close()
            time.sleep(0.001)
        client.close()

    def are_served(self):
        before = list(self.answered)
        wait_until(lambda: self.failures or all(now > then + 20 for now, then in zip(self.answered, before)),
                   lambda: f"{before}, and {self.answered} later")
        assert not self.failures, self.failures

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *what):
        self.is_stopping = True
        for thread in self.threads:
            thread.join(PATIENCE_S)


def descriptors_of(one):
    return len(os.listdir(f"/proc/{one.process.pid}/fd"))


@contextlib.contextmanager
def attacked(how, port):
    each = str(CONNECTIONS // ATTACKERS)
    command = ["nice", "slowhttptest", *how, "-c", each, "-r", each, "-i", "10" if IS_FULL else "1", "-x", "10",
               "-l", str(2 * PATIENCE_S), "-p", str(PATIENCE_S), "-u", f"http://127.0.0.1:{port}{TARGET}"]
    processes = []
    try:
        for _ in range(ATTACKERS):
            processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait(TIMEOUT_S)


def p99_ms(one):
    out = subprocess.run(["wrk", "-t", "1", "-c", "10", "-d", f"{TRY_S}s", "--latency",
                          f"http://127.0.0.1:{port_of(one)}{TARGET}"], capture_output=True, text=True, check=True).stdout
    assert "Socket errors" not in out and "Non-2xx" not in out, out
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def compare(one, calm):
    tries = [(p99_ms(one), p99_ms(calm)) for _ in range(TRIES)]
    slow, usual = (min(column) for column in zip(*tries))
    told = f"p99 {slow:.3f} ms, without them {usual:.3f} ms"
    assert slow <= SLOWER_MOST * usual, told
    return told


def port_of(one):
    return int(one.http_at.rsplit(":", 1)[1])


def server_by(policy):
    return daemon(WEIR, "--policy", policy, "--header_time", f"{BOUND_S}s", "--http_idle", f"{BOUND_S}s", "--stall",
                  f"{BOUND_S}s", "--connections", str(CONNECTIONS + 100), http="127.0.0.1:0")


def attack(how):
    with tempfile.TemporaryDirectory(prefix="weir-slow-") as folder:
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write(POLICY)
        with server_by(policy) as one, server_by(policy) as calm, Others(port_of(one)) as others:
            told = ""
            others.are_served()
            few = descriptors_of(one) + 10
            with attacked(how, port_of(one)):
                wait_until(lambda: descriptors_of(one) >= few + MUST_COME,
                           lambda: f"{descriptors_of(one)} of {CONNECTIONS} have come")
                others.are_served()
                if IS_FULL:
                    told = compare(one, calm)
                wait_until(lambda: descriptors_of(one) <= few, lambda: f"{descriptors_of(one)} are still there")
                others.are_served()
            return told


TESTS = [(f"{CONNECTIONS} {name}", lambda how=how: attack(how)) for name, how in ATTACKS]

if __name__ == "__main__":
    allow_descriptors()
    sys.exit(run(TESTS))
