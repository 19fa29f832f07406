#!/usr/bin/env python3
"""weir serve hands over to the next server under load. Clients notice only that they are told to reconnect.

    upgrade_test.py WEIR plain|sanitized|thread

Under the thread sanitizer, swaps of 16 bytes take a lock of the process, so two processes on one table may allow too
much."""
# Covers: src/os/process.c, src/server/handover.c

import contextlib
import ctypes
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, connect_to, daemon, expect, receive, receive_all, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client  # noqa: E402

WEIR, HAS_TRUE_SWAPS = sys.argv[1], sys.argv[2] != "thread"
PONG = b"+PONG\r\n"
POLICY = """limits:
  - name: few
    key: user
    limit: 300/1000day fixed_window
  - name: many
    key: ip
    limit: 1000000000/s
"""
FEW = 300


def wait_until(holds, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.01)


def adopt_orphans():
    """Makes this program the parent of orphaned servers, so that it can wait for them."""
    assert ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER


def children():
    found = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found += [int(pid) for pid in file.read().split()]
    return found


class Line:
    """Servers that succeed each other, with one configuration file that may change."""

    def __init__(self, folder, settings, *options):
        self.folder, self.options = folder, options
        self.config = os.path.join(folder, "weir.yaml")
        self.path, self.http_path = os.path.join(folder, "resp"), os.path.join(folder, "http")
        self.program = os.path.join(folder, "weir")
        self.handed = 0
        os.symlink(os.path.abspath(WEIR), self.program)
        self.set(settings)

    def set(self, text):
        with open(self.config + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.config + ".new", self.config)

    def start(self, stdout):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            process = subprocess.Popen([self.program, "serve", "--config", self.config, *self.options],
                                       stdout=stdout or log, stderr=log)
        self.pid = process.pid
        process.returncode = 0  # waited for by its pid, like its successors
        if stdout:
            return
        wait_until(lambda: "try: " in self.said() or os.waitpid(self.pid, os.WNOHANG)[0], self.said)
        assert "try: " in self.said(), self.said()
        self.ports = [int(port) for port in re.findall(r" at 127\.0\.0\.1:(\d+)\n", self.said())]

    def said(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def attempt(self):
        os.kill(self.pid, signal.SIGUSR2)

    def upgrade(self):
        """Returns the previous process, which ends when its connections have."""
        before, serving = self.pid, re.compile(r"process (\d+) serves now")
        self.attempt()
        wait_until(lambda: len(serving.findall(self.said())) > self.handed, self.said)
        self.handed += 1
        self.pid = int(serving.findall(self.said())[-1])
        return before

    def fail(self, words):
        n = self.said().count(words)
        self.attempt()
        wait_until(lambda: self.said().count(words) > n, self.said)
        wait_until(lambda: "this server keeps running" in self.said(), self.said)

    def ended(self, pid):
        """The exit status of a process after it has ended. Its own parent must end first, because only then it is our
        child."""
        status = []

        def has_ended():
            try:
                got, how = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                return False
            if got:
                status.append(os.waitstatus_to_exitcode(how))
            return got

        wait_until(has_ended, self.said)
        return status[0]

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        assert self.ended(self.pid) == 0, self.said()


@contextlib.contextmanager
def line(settings, *options, stdout=None):
    with tempfile.TemporaryDirectory(prefix="weir-upgrade-") as folder:
        one = Line(folder, settings, *options)
        try:
            one.start(stdout)
            yield one
            one.end()
            assert not children(), one.said()
        finally:
            for pid in children():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def settings_of(*more, resp="127.0.0.1:0", web="127.0.0.1:0"):
    return "\n".join([f"listen: {resp}", f"http: {web}", "keys: 10000", "drain: 1hour", *more]) + "\n"


# --- load ------------------------------------------------------------------------------------------------------------

class Load:
    """Threads that send requests until they are stopped. Anything but a reply is a failure."""

    def __init__(self, one, n_http, n_resp):
        self.one, self.is_stopping, self.failures = one, False, []
        self.answered, self.asked_few, self.admitted, self.closed = 0, 0, 0, 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.guard, args=(self.ask_http, i)) for i in range(n_http)]
        self.threads += [threading.Thread(target=self.guard, args=(self.ask_resp, i)) for i in range(n_resp)]

    def guard(self, ask, number):
        try:
            ask(number)
        except Exception as fault:  # pylint: disable=broad-except
            self.failures.append(f"{ask.__name__} {number}: {type(fault).__name__}: {fault}")

    def note(self, is_few, admitted, closed):
        with self.lock:
            self.answered += 1
            self.asked_few += is_few
            self.admitted += is_few and admitted
            self.closed += closed

    def http_client(self, number):
        if number % 2:
            client = http.client.HTTPConnection("localhost", timeout=TIMEOUT_S)
            client.sock = connect_to(self.one.http_path)
            return client
        return http.client.HTTPConnection("127.0.0.1", self.one.ports[1], timeout=TIMEOUT_S)

    def ask_http(self, number):
        client, n = self.http_client(number), 0
        while not self.is_stopping:
            is_few = n % 4 == 0
            client.request("GET", "/v1/check?user=u" if is_few else f"/v1/check?ip=10.0.{number}.{n % 200}")
            answer = client.getresponse()
            answer.read()
            assert answer.status == 200 or is_few and answer.status == 429, answer.status
            self.note(is_few, answer.status == 200, answer.will_close)
            if answer.will_close:
                client.close()
                client = self.http_client(number)
            n += 1
        client.close()

    def ask_resp(self, number):
        with connect_to(self.one.path if number % 2 else self.one.ports[0]) as client:
            while not self.is_stopping:
                client.sendall(bulks("WEIR.CHECK", "user", "u") + bulks("PING"))
                got = receive(client, 4)
                while not got.endswith(PONG):
                    piece = client.recv(4096)
                    assert piece, got
                    got += piece
                assert got.startswith(b"*"), got
                self.note(True, got.split(b"\r\n")[1] == b":1", False)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def wait_for_more(self, n=100):
        until = self.answered + n
        wait_until(lambda: self.answered >= until or self.failures, f"{self.answered} answers, {until} expected")

    def __exit__(self, *what):
        self.is_stopping = True
        for thread in self.threads:
            thread.join(TIMEOUT_S)


def upgrades_under_load_lose_nothing():
    name = f"weir-upgrade-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="weir-upgrade-") as places:
        paths = [os.path.join(places, "resp"), os.path.join(places, "http")]
        policy = os.path.join(places, "policy.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(POLICY)

        def settings(workers):
            return settings_of(f"shared: {name}", f"workers: {workers}", f"policy: {policy}",
                               resp=f"[127.0.0.1:0, {paths[0]}]", web=f"[127.0.0.1:0, {paths[1]}]")

        try:
            with line(settings(2)) as one:
                one.path, one.http_path = paths
                with Load(one, 4, 4) as load:
                    before = []
                    for workers in (1, 3, 2):
                        load.wait_for_more()
                        one.set(settings(workers))
                        before.append(one.upgrade())
                        load.wait_for_more()
                        one.set("workers: many\n")
                        one.fail("exit status 2")
                    load.wait_for_more()
                    wait_until(lambda: load.asked_few >= 2 * FEW or load.failures, lambda: f"{load.asked_few} of {FEW}")
                assert not load.failures, (load.failures, one.said())
                assert load.closed >= 3 and (load.admitted == FEW or not HAS_TRUE_SWAPS), (load.closed, load.admitted)
                for pid in before:
                    assert one.ended(pid) == 0, one.said()
                wait_until(lambda: one.said().count("uses the same table") == 3, one.said)
            assert not os.path.exists(paths[0]) and not os.path.exists(paths[1])
            return f"{load.answered} requests, {load.admitted} of {FEW} admitted, {load.closed} times told to close"
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/dev/shm/weir.{name}")


# --- one thing at a time ----------------------------------------------------------------------------------------------

def get(port, target="/healthz"):
    """A request on a new connection: returns the open connection and the response."""
    client = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    return client, ask(client, target)


def ask(client, target="/healthz"):
    client.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    got = b""
    while not got.endswith((b"ok\n", b"}\n", b"ready\n")):
        piece = client.recv(65536)
        assert piece, got
        got += piece
    return got


def connections_end_as_they_should():
    with line(settings_of("workers: 2")) as one:
        resp = connect_to(one.ports[0])
        expect(resp, bulks("PING"), PONG)
        web, answer = get(one.ports[1])
        assert b"Connection:" not in answer, answer
        before = one.upgrade()
        expect(resp, bulks("PING"), PONG)  # by the previous server
        web.sendall(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        answer = receive_all(web)
        assert answer.count(b"200 OK") == 3 and answer.count(b"\r\nConnection: close\r\n") == 1, answer
        web.close()
        web, answer = get(one.ports[1])
        assert b"Connection:" not in answer, answer
        web.close()
        with connect_to(one.ports[0]) as other:
            expect(other, bulks("PING"), PONG)
        resp.close()
        assert one.ended(before) == 0, one.said()


def who_waits_to_be_accepted_is_not_lost():
    with line(settings_of("workers: 1", "connections: 1")) as one:
        first = connect_to(one.ports[0])
        expect(first, bulks("PING"), PONG)
        with connect_to(one.ports[0]) as second, connect_to(one.ports[1]) as third:
            second.sendall(bulks("PING"))
            one.set(settings_of("workers: 2"))
            before = one.upgrade()
            assert receive(second, len(PONG)) == PONG
            assert b"200 OK" in ask(third)
        first.close()
        assert one.ended(before) == 0, one.said()


def fewer_workers_keep_all_sockets():
    with line(settings_of("workers: 4")) as one:
        one.set(settings_of("workers: 1"))
        assert one.ended(one.upgrade()) == 0
        for _ in range(40):  # the kernel distributes them to all four
            with connect_to(one.ports[0]) as client:
                expect(client, bulks("PING"), PONG)


def places_come_and_go():
    with tempfile.TemporaryDirectory(prefix="weir-upgrade-") as places:
        stays, goes, comes = (os.path.join(places, name) for name in ("stays", "goes", "comes"))
        with line(settings_of(resp=f"[127.0.0.1:0, {stays}, {goes}]")) as one:
            port = one.ports[0]
            one.set(settings_of(resp=f"[{comes}, 127.0.0.1:0, {stays}]"))
            assert one.ended(one.upgrade()) == 0
            for where in (stays, comes, port):
                with connect_to(where) as client:
                    expect(client, bulks("PING"), PONG)
            assert not os.path.exists(goes) and os.path.exists(stays)
        assert os.listdir(places) == [], os.listdir(places)


def what_cannot_start_changes_nothing():
    with line(settings_of()) as one:
        client = connect_to(one.ports[0])
        good = one.config
        one.set(settings_of("keys: none"))
        one.fail("exit status 2")
        one.set(settings_of("file: /"))
        one.fail("exit status 1")
        one.set(settings_of())
        os.unlink(one.program)
        one.fail("No such file or directory")
        with open(one.program, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 7\n")
        one.fail("Permission denied")
        os.chmod(one.program, 0o755)
        one.fail("exit status 7")
        expect(client, bulks("PING"), PONG)
        os.unlink(one.program)
        shutil.copy(WEIR, one.program)
        assert good == one.config
        client.close()
        assert one.ended(one.upgrade()) == 0
        with connect_to(one.ports[0]) as client:
            expect(client, bulks("PING"), PONG)


def take(client):
    """Takes all that the key has for a day."""
    client.sendall(bulks("WEIR.TAKE", "k", "1/day") + bulks("PING"))
    got = receive(client, 8)
    assert got.endswith(b":1\r\n"), got
    while not got.endswith(PONG):
        got += client.recv(4096)


def a_private_table_begins_anew():
    with line(settings_of()) as one:
        with connect_to(one.ports[0]) as client:
            expect(client, bulks("WEIR.RESET", "k", "1/day"), b":0\r\n")
            take(client)
        assert one.ended(one.upgrade()) == 0
        wait_until(lambda: "the next server has a new table" in one.said(), one.said)
        with connect_to(one.ports[0]) as client:
            expect(client, bulks("WEIR.RESET", "k", "1/day"), b":0\r\n")


def limits_in_redis_go_on():
    with line(settings_of()) as one, redis() as store:
        one.set(settings_of(f"store: {store.url}", "store_budget: 10s"))
        assert one.ended(one.upgrade()) == 0
        with connect_to(one.ports[0]) as client:
            take(client)
        assert one.ended(one.upgrade()) == 0
        wait_until(lambda: "the next server uses the same store" in one.said(), one.said)
        with connect_to(one.ports[0]) as client:
            expect(client, bulks("WEIR.TAKE", "k", "1/day"), b"*7\r\n:0\r\n:1\r\n:0\r\n")


LEASED = """limits:
  - {name: leased, key: [user], limit: 600/1000day, consistency: {lease: {stranded: 50%}}, on_store_failure: closed}"""


class Serving:
    """What serves at the first port now, for Client."""

    def __init__(self, one):
        self.connect = lambda: connect_to(one.ports[0])


def held_units_go_on_with_a_table_that_does():
    for is_file in (True, False):
        with line(settings_of()) as one, redis() as store:
            one.set(settings_of(*([f"file: {one.folder}/table"] if is_file else []), f"store: {store.url}", "store_budget: 10s",
                                "workers: 1", LEASED))
            assert one.ended(one.upgrade()) == 0
            with Client(Serving(one)) as client:
                wait_until(lambda client=client: client.info()["store_state"] == "up", one.said)
                while int(client.info()["lease_held"]) < 20:
                    assert client.ask("WEIR.TAKE", "k", "@leased")[0] == 1
            assert one.ended(one.upgrade()) == 0
            with Client(Serving(one)) as client:
                wait_until(lambda client=client: client.info()["store_state"] == "up", one.said)
                assert all(client.ask("WEIR.TAKE", "k", "@leased")[0] == 1 for _ in range(2))
                here = int(client.info()["lease_allowed"])
                assert here == (2 if is_file else 0), (is_file, here)


EVENTUAL = """limits:
  - {name: later, key: [user], limit: 600/1000day fixed_window, consistency: {eventual: {sync: 10s, ahead: 10%}}, on_store_failure: closed}"""


def waiting(client):
    return int(client.info()["eventual_waiting"])


def take_later(client, n):
    assert [client.ask("WEIR.TAKE", "k", "@later")[0] for _ in range(n)] == [1] * n


def later_left(client):
    return client.ask("WEIR.PEEK", "k", "@later")[2]


@contextlib.contextmanager
def line_with_eventual(is_file):
    """Servers that may take over the table from each other, and another server on the same Redis."""
    with line(settings_of()) as one, redis() as store:
        path = os.path.join(one.folder, "later.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(EVENTUAL)
        one.set(settings_of(*([f"file: {one.folder}/table"] if is_file else []), f"store: {store.url}", "store_budget: 10s",
                            "workers: 2", f"policy: {path}"))
        assert one.ended(one.upgrade()) == 0
        with daemon(WEIR, "--store", store.url, "--store_budget", "10s", "--policy", path) as other:
            for server in (Serving(one), other):
                with Client(server) as client:
                    wait_until(lambda client=client: client.info()["store_state"] == "up", one.said)
            yield one, other


def waiting_units_are_pushed_before_the_process_ends():
    """Otherwise they would be pushed after 10 s, or when half of `ahead` waits. If the next process takes over the table, both
    processes decide by one mirror meanwhile."""
    for is_file in (True, False):
        with line_with_eventual(is_file) as (one, other):
            with Client(Serving(one)) as client:
                take_later(client, 21)  # the first one goes to Redis
                wait_until(lambda client=client: waiting(client) == 20, client.info)
                before = one.upgrade()
                with Client(Serving(one)) as after:
                    wait_until(lambda client=after: client.info()["store_state"] == "up", one.said)
                    if is_file:
                        take_later(after, 3)
                        assert later_left(after) == later_left(client) == 600 - 24
                        assert int(after.info()["eventual_allowed"]) == 3, after.info()
                    take_later(client, 2)
            assert one.ended(before) == 0
            used = 26 if is_file else 23
            with Client(other) as client:  # by Redis, because it has not used the key
                assert later_left(client) == 600 - used, (is_file, later_left(client))
            with Client(Serving(one)) as client:
                assert later_left(client) == 600 - used, (is_file, later_left(client))
                assert waiting(client) == 0, (is_file, client.info())
                take_later(client, 5)
            assert one.ended(one.upgrade()) == 0
            with Client(Serving(one)) as client:
                assert later_left(client) == 600 - used - 5, (is_file, later_left(client))


BUSY = EVENTUAL.replace("sync: 10s", "sync: 200ms").replace("600/1000day", "10000000/1000day").replace("ahead: 10%", "ahead: 1%")


def a_busy_key_is_decided_by_its_mirror_after_a_hand_over():
    """While the previous process pushes what waits, and ends, the next one uses the key all the time. After that, the next one
    owns the key: it pushes what it allowed, and decides nearly all requests without Redis."""
    with line(settings_of()) as one, redis() as store:
        path = os.path.join(one.folder, "later.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(BUSY)
        one.set(settings_of(f"file: {one.folder}/table", f"store: {store.url}", "store_budget: 10s", "workers: 2", f"policy: {path}"))
        assert one.ended(one.upgrade()) == 0
        allowed, is_over = 0, threading.Event()

        def take(client, n=100):
            nonlocal allowed
            allowed += sum(reply[0] for reply in client.pipeline([["WEIR.TAKE", "k", "@later"]] * n))

        def use(server):
            with Client(server) as client:
                while not is_over.is_set():
                    take(client)

        for _ in range(2):
            with Client(Serving(one)) as client:
                wait_until(lambda client=client: client.info()["store_state"] == "up", one.said)
                take(client, 3000)
                before = one.upgrade()
                take(client)
            is_over.clear()
            user = threading.Thread(target=use, args=(Serving(one),))
            user.start()
            try:
                assert one.ended(before) == 0
            finally:
                is_over.set()
                user.join()
        with Client(Serving(one)) as client:
            asked, here = allowed, int(client.info()["eventual_allowed"])
            for _ in range(100):
                take(client)
            here = int(client.info()["eventual_allowed"]) - here
            assert here > 0.9 * (allowed - asked), (here, allowed - asked)
            wait_until(lambda: waiting(client) == 0, client.info)
        with daemon(WEIR, "--store", store.url, "--store_budget", "10s", "--policy", path) as other, Client(other) as client:
            wait_until(lambda: client.info()["store_state"] == "up", one.said)
            used = 10000000 - later_left(client)
        assert allowed <= used <= allowed + 2 * 65535, (allowed, used)  # a push that was under way may count twice
        return f"{allowed} allowed, {used} used, the last {here} of 10000 without Redis"


SOON = EVENTUAL.replace("sync: 10s", "sync: 200ms")


def waiting_units_outlive_a_hand_over_without_redis():
    """The process that ends cannot push. The next one takes over the units that wait, and may push them a second time."""
    with line(settings_of()) as one, redis() as store:
        one.set(settings_of(f"file: {one.folder}/table", f"store: {store.url}", "store_budget: 2s", "workers: 2", SOON))
        assert one.ended(one.upgrade()) == 0
        allowed, asked = 0, 0

        def take(client, n=1):
            nonlocal allowed, asked
            for _ in range(n):
                allowed, asked = allowed + client.ask("WEIR.TAKE", "k", "@later")[0], asked + 1
            return allowed

        with Client(Serving(one)) as client:
            wait_until(lambda: client.info()["store_state"] == "up", one.said)
            take(client, 5)
            assert allowed > 0
            store.tell(signal.SIGSTOP)
            take(client, 20)
            before = one.upgrade()
        assert one.ended(before) == 0
        store.tell(signal.SIGCONT)
        with Client(Serving(one)) as client:
            before = allowed
            wait_until(lambda: take(client) > before and int(client.info()["eventual_pushes"]) > 0, client.info)
            wait_until(lambda: waiting(client) == 0, client.info)
        path = os.path.join(one.folder, "later.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SOON)
        with daemon(WEIR, "--store", store.url, "--store_budget", "10s", "--policy", path) as other, Client(other) as client:
            wait_until(lambda: client.info()["store_state"] == "up", one.said)
            used = 600 - later_left(client)
        assert allowed <= used <= asked + 2 * 60, (allowed, used, asked)  # 60: what one lost reply may count twice
        return f"{allowed} allowed, {used} used"


def patience_has_an_end():
    with line(settings_of() + "stall: 1\n", "--drain", "100ms") as one:
        idle = connect_to(one.ports[0])
        expect(idle, bulks("PING"), PONG)
        before = one.upgrade()
        assert one.ended(before) == 0 and receive_all(idle) == b""
        idle.close()


def both_end_before_the_next_one_serves():
    with line(settings_of()) as one:
        os.unlink(one.program)
        with open(one.program, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho it has begun\nexec sleep 1000\n")
        os.chmod(one.program, 0o755)
        one.attempt()
        wait_until(lambda: "it has begun" in one.said(), one.said)


def nobody_need_read_what_is_printed():
    reading, writing = os.pipe()
    with line(settings_of(), stdout=writing) as one:
        os.close(writing)
        with open(reading, encoding="ascii") as lines:
            while "curl" not in lines.readline():
                pass
        assert one.ended(one.upgrade()) == 0


def a_server_that_drains_ends_when_told():
    with line(settings_of()) as one:
        idle = connect_to(one.ports[0])
        expect(idle, bulks("PING"), PONG)
        before = one.upgrade()
        os.kill(before, signal.SIGUSR2)
        wait_until(lambda: "an upgrade is already in progress" in one.said(), one.said)
        os.kill(before, signal.SIGTERM)
        assert one.ended(before) == 0 and receive_all(idle) == b""
        idle.close()
        with connect_to(one.ports[0]) as client:
            expect(client, bulks("PING"), PONG)


def a_table_in_a_file_goes_on():
    with tempfile.TemporaryDirectory(prefix="weir-upgrade-") as folder:
        with line(settings_of(f"file: {os.path.join(folder, 'table')}")) as one:
            with connect_to(one.ports[0]) as client:
                take(client)
                before = one.upgrade()
                with connect_to(one.ports[0]) as other:
                    expect(other, bulks("WEIR.RESET", "k", "1/day"), b":1\r\n")
                    expect(client, bulks("WEIR.RESET", "k", "1/day"), b":0\r\n")
            assert one.ended(before) == 0, one.said()
            assert "uses the same table" in one.said() and "was removed" not in one.said(), one.said()


def a_table_that_was_removed_is_told():
    name = f"weir-upgrade-removed-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="weir-upgrade-") as folder:
        for setting, value, path in (("file", os.path.join(folder, "table"), os.path.join(folder, "table")),
                                     ("shared", name, f"/dev/shm/weir.{name}")):
            try:
                with line(settings_of(f"{setting}: {value}")) as one:
                    os.unlink(path)
                    before = one.upgrade()
                    assert one.ended(before) == 0, one.said()
                    said = one.said()
                    assert f"{setting}: the table of the previous server was removed: this server uses a new table" in said, said
                    assert "the next server has a new table, because the table of this server was removed" in said, said
                    assert "uses the same table" not in said, said
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def lent(listeners, *options):
    """A server that gets these sockets as from systemd, and the path of its output."""
    for number, listener in enumerate(listeners):
        os.dup2(listener.fileno(), 100 + number)
    script = " ".join(f"{3 + number}<&{100 + number}" for number in range(len(listeners)))
    script = f'LISTEN_PID=$$ LISTEN_FDS={len(listeners)} exec "$@" {script}'
    process = subprocess.Popen(["bash", "-c", script, "-", WEIR, "serve", "--keys", "1000", *options],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               pass_fds=[100 + number for number in range(len(listeners))])
    for number in range(len(listeners)):
        os.close(100 + number)
    return process


def sockets_of_systemd_are_taken():
    with tempfile.TemporaryDirectory(prefix="weir-upgrade-") as folder, socket.socket() as web, \
            socket.socket(socket.AF_UNIX) as resp:
        path = os.path.join(folder, "resp")
        web.bind(("127.0.0.1", 0))
        resp.bind(path)
        web.listen()
        resp.listen()
        port = web.getsockname()[1]
        for workers in ("1", "3"):  # one after the other, with the same sockets
            process = lent([web, resp], "--listen", path, "--http", f"127.0.0.1:{port}", "--workers", workers)
            with contextlib.closing(process.stdout):
                for _ in range(10):
                    with connect_to(path) as client:
                        expect(client, bulks("PING"), PONG)
                    client, answer = get(port)
                    client.close()
                    assert b"200 OK" in answer, answer
                process.terminate()
                assert process.wait(TIMEOUT_S) == 0, process.stdout.read()
            assert os.path.exists(path)
        process = lent([web, tempfile.TemporaryFile()], "--listen", path)
        with contextlib.closing(process.stdout):
            assert b"LISTEN_FDS: found 2, and descriptor 4 is not a listening socket" in process.stdout.read()
            assert process.wait(TIMEOUT_S) == 2


def metrics_are_handed_over():
    def status(path):
        client = http.client.HTTPConnection("127.0.0.1", one.ports[2], timeout=TIMEOUT_S)
        client.request("GET", path)
        found = client.getresponse().status
        client.close()
        return found

    with line(settings_of("metrics_listen: 127.0.0.1:0")) as one:
        assert (status("/metrics"), status("/v1/limits")) == (200, 404)
        assert one.ended(one.upgrade()) == 0
        assert (status("/metrics"), status("/v1/limits")) == (200, 404)
        assert f" metrics at 127.0.0.1:{one.ports[2]}\n" in one.said().split("serves now")[-2], one.said()


def what_nobody_handed_over_is_refused():
    for value in ("x", "0", "99999", "N,resp", "N,resp,a,b,N", "N,resp,a,b,", "N,x,a,b,N"):
        with open(os.devnull, "rb") as file:
            value = value.replace("N", str(file.fileno()))
            done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none"],
                                  env={**os.environ, "WEIR_HANDOVER": value}, capture_output=True, text=True,
                                  pass_fds=[file.fileno()], timeout=TIMEOUT_S, check=False)
        assert done.returncode == 2 and "WEIR_HANDOVER: unexpected value" in done.stderr, (value, done)


TESTS = [
    ("upgrades under load lose nothing", upgrades_under_load_lose_nothing),
    ("connections end as they should", connections_end_as_they_should),
    ("who waits to be accepted is not lost", who_waits_to_be_accepted_is_not_lost),
    ("fewer workers keep all sockets", fewer_workers_keep_all_sockets),
    ("places come and go", places_come_and_go),
    ("what cannot start changes nothing", what_cannot_start_changes_nothing),
    ("a private table begins anew", a_private_table_begins_anew),
    ("limits in Redis go on", limits_in_redis_go_on),
    ("held units go on with a table that does", held_units_go_on_with_a_table_that_does),
    ("waiting units are pushed before the process ends", waiting_units_are_pushed_before_the_process_ends),
    ("a busy key is decided by its mirror after a hand-over", a_busy_key_is_decided_by_its_mirror_after_a_hand_over),
    ("waiting units outlive a hand-over without Redis", waiting_units_outlive_a_hand_over_without_redis),
    ("a table in a file goes on", a_table_in_a_file_goes_on),
    ("a table that was removed is told", a_table_that_was_removed_is_told),
    ("patience has an end", patience_has_an_end),
    ("both end before the next one serves", both_end_before_the_next_one_serves),
    ("output need not be read", nobody_need_read_what_is_printed),
    ("a server that drains ends when told", a_server_that_drains_ends_when_told),
    ("sockets of systemd are taken", sockets_of_systemd_are_taken),
    ("metrics are handed over", metrics_are_handed_over),
    ("descriptors that were not handed over are refused", what_nobody_handed_over_is_refused),
]

if __name__ == "__main__":
    adopt_orphans()
    sys.exit(run(TESTS))
