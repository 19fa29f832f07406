#!/usr/bin/env python3
"""Each call of malloc and of the kernel in weir serve fails once. The server reports a clear error or carries on.

    faults_test.py WEIR SHIM [SITES|all|SITE...]

A run starts a server, decides over RESP and HTTP, replaces the policy by its file and over HTTP, changes a limit, hands
over to a successor, and ends. The first run lists the sites that are reached (fault_shim.c). Then each site, or SITES
of them, has a run in which its call fails. A server may exit with an error only while it starts, and then it prints
why. It never crashes, hangs or allows more than a limit, and a failed operation works the next time."""
# Covers: src/os/process.c

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S  # noqa: E402
from resp_client import Client  # noqa: E402

WEIR, SHIM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ALLOWED = 3
LEAST_SITES = 100
POLICY = """
limits:
  - {name: per-user, key: [user], limit: 3/4000day fixed_window, overrides_from: tiers.csv}
  - {name: events, key: [user], match: {kind: log}, limit: 3/4000day sliding_log}
  - {name: version-%d, match: {kind: none}, limit: 5/s}
"""
SERVES = re.compile(r"process (\d+) serves now")


class Fault(Exception):
    """Something that must not happen, whatever fails."""


def wait_until(holds, what):
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        if time.monotonic() > end:
            raise Fault(f"hangs: {what}")
        time.sleep(0.005)


class PathConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self.path)


class Server:
    """A server that may have a fault, and its successors."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment
        self.log = open(self.path("log"), "wb+")
        self.pids, self.process = [], None
        self.counts = {}  # key -> how often it was allowed

    def path(self, name):
        return os.path.join(self.folder, name)

    def said(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def write_policy(self, version):
        with open(self.path("policy.new"), "w", encoding="ascii") as file:
            file.write(POLICY % version)
        os.rename(self.path("policy.new"), self.path("policy.yaml"))

    def start(self):
        """Returns whether the server runs. Otherwise it has exited with an error that says why."""
        with open(self.path("tiers.csv"), "w", encoding="ascii") as file:
            file.write("user,limit\ngold,6/4000day fixed_window\n")
        self.write_policy(1)
        self.process = subprocess.Popen(
            [WEIR, "serve", "--listen", self.path("resp"), "--http", self.path("http"), "--keys", "1000", "--workers", "2",
             "--file", self.path("table"), "--limits-max", "100", "--arena", "1MiB", "--policy", self.path("policy.yaml"), "--drain", "1s"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=self.environment)
        self.pids.append(self.process.pid)
        wait_until(lambda: self.process.poll() is not None or "try: " in self.said(), f"the start: {self.said()}")
        if self.process.poll() is None:
            return True
        if self.process.returncode < 0 or not self.said().strip():
            raise Fault(f"it has ended at its start with {self.process.returncode}: {self.said()!r}")
        return False

    # A request may get no reply or an error, because the fault may be in its own connection. The next one works.

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(TIMEOUT_S)
        client.connect(self.path("resp"))
        return client

    def resp(self, *words):
        for _ in range(3):
            with contextlib.suppress(OSError, AssertionError, ValueError), Client(self) as client:
                return client.ask(*words)
        raise Fault(f"{words} fails three times: {self.said()}")

    def http(self, method, target, body=None, headers=None):
        for _ in range(3):
            with contextlib.suppress(OSError, http.client.HTTPException):
                client = PathConnection(self.path("http"))
                client.request(method, target, body, headers or {})
                answer = client.getresponse()
                content = answer.read()
                client.close()
                if answer.status < 500:
                    return answer.status, content
        raise Fault(f"{method} {target} fails three times: {self.said()}")

    def check(self, key, kind):
        status, _ = self.http("GET", f"/v1/check?user={key}&kind={kind}")
        self.count(key, status == 200)
        self.count(key, self.resp("WEIR.CHECK", "user", key, "kind", kind)[0])

    def count(self, key, is_allowed):
        self.counts[key] = self.counts.get(key, 0) + is_allowed
        if self.counts[key] > ALLOWED:
            raise Fault(f"{key} was allowed {self.counts[key]} times: {self.said()}")

    def decide(self, keys):
        for key, kind in keys:
            self.check(key, kind)

    def has_version(self, version):
        return f"version-{version}" in self.http("GET", "/v1/limits")[1].decode()

    def change_policy(self, version):
        """If the first read fails, the next change of the file or a reload must work."""
        self.write_policy(version)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            if self.has_version(version):
                return
            time.sleep(0.01)
        os.kill(self.pids[-1], signal.SIGHUP)
        wait_until(lambda: self.has_version(version), f"version {version}: {self.said()}")

    def put_policy(self, version):
        """The first PUT may return an error. The second must succeed."""
        text = (POLICY % version).replace(", overrides_from: tiers.csv", "")
        for _ in range(2):
            status, _ = self.http("PUT", "/v1/policy", text, {"Content-Type": "application/yaml"})
            if status == 200 and self.has_version(version):
                return
        raise Fault(f"PUT /v1/policy fails twice: {self.said()}")

    def hand_over(self):
        """Hands over to a successor. If that fails, this server keeps running, and a later try succeeds."""
        for _ in range(3):
            before = len(SERVES.findall(self.said())), self.said().count("this server keeps running")
            os.kill(self.pids[-1], signal.SIGUSR2)
            wait_until(lambda n=before: (len(SERVES.findall(self.said())), self.said().count("this server keeps running")) != n or not is_there(self.pids[-1]),
                       f"the hand-over: {self.said()}")
            if len(SERVES.findall(self.said())) > before[0]:
                self.pids.append(int(SERVES.findall(self.said())[-1]))
                return
        raise Fault(f"no hand-over succeeds: {self.said()}")

    def end(self):
        os.kill(self.pids[-1], signal.SIGTERM)
        status = self.process.wait(TIMEOUT_S)
        for pid in self.pids[1:]:
            wait_until(lambda one=pid: not is_there(one), f"process {pid} does not end: {self.said()}")
        if status < 0 or re.search(r"Sanitizer|runtime error:", self.said()):
            raise Fault(f"it has ended with {status}: {self.said()}")

    def close(self):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process:
            self.process.wait()
        self.log.close()


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def run(environment):
    """Runs a server from start to end. Returns whether it served."""
    with tempfile.TemporaryDirectory(prefix="weir-faults-") as folder:
        done = os.path.join(folder, "done")
        server = Server(folder, {**os.environ, **environment, "LD_PRELOAD": SHIM, "FAULT_DONE": done})
        try:
            if not server.start():
                return "refused to start"
            keys = [("a", "log"), ("b", "any"), ("c", "log")]
            server.decide(keys)
            server.change_policy(2)
            server.decide(keys)
            server.put_policy(3)
            server.http("PUT", "/v1/limits/version-3", '{"limit": "7/s"}', {"Content-Type": "application/json"})
            server.http("GET", "/metrics")
            server.resp("INFO")
            server.resp("WEIR.RELOAD")
            server.hand_over()
            server.decide(keys + [("d", "any")])
            server.end()
            return "carried on" if os.path.exists(done) else "not reached"
        finally:
            server.close()


def sites():
    with tempfile.NamedTemporaryFile(prefix="weir-sites-") as file:
        run({"FAULT_SITES": file.name})
        with open(file.name, encoding="ascii") as lines:
            return sorted(set(lines.read().splitlines()))


def main():
    known = sites()
    assert len(known) >= LEAST_SITES, f"only {len(known)} sites: the shim is not in use"
    wanted = sys.argv[3] if len(sys.argv) > 3 else "16"
    if wanted == "all":
        chosen = known
    elif wanted.isdigit():
        chosen = known[::max(1, len(known) // int(wanted))]
    else:
        chosen = [" ".join(sys.argv[3:5])]
    outcomes, failed = {}, 0
    for site in chosen:
        try:
            outcome = run({"FAULT_SITE": site})
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
        except (Fault, OSError, subprocess.SubprocessError, ValueError) as fault:
            failed += 1
            print(f"FAIL  {site}: {type(fault).__name__} {fault}", flush=True)
    print(f"{'ok   ' if failed == 0 else 'FAIL '} {len(chosen)} of {len(known)} sites: "
          + ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
