#!/usr/bin/env python3
"""A server under all kinds of load at once, for as long as requested: its memory stays stable and its decisions right.

    soak.py WEIR [--seconds S] [--growth-most MIB] [--seed N]

Clients of several kinds run at the same time: some send every command in pipelines; some connect and leave, politely or
in the middle of a request; some do not read their replies; some send garbage; some send nothing; and `weir bench resp`
runs at full speed.

Beside them:
- *followed* keys: every reply is what tests/model/weir_model.py gives at the instant that its reset_after implies, and
  that instant lies between sending the request and reading the reply;
- *emptied* keys: taken from over several connections until nothing is left; the sum of the grants is exactly the burst.

The test samples the server's resident memory and descriptors. In the second half, memory is at most --growth-most above
the maximum of the first half. When all clients are gone, there are as many descriptors as before the first. The exit
status is 1 if any of this does not hold. No result depends on the machine's speed."""

import argparse
import contextlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))
sys.dont_write_bytecode = True  # the source may be read-only
os.environ["WEIR_CORE_DUMPS"] = "true"  # otherwise only root could count the server's descriptors
import weir_model
from daemon import bulks

PATIENCE_S = 120
KEYS = 200_000
IDLE = 100
SAMPLE_S = 0.1
DRIFT_PPM = 1000  # how much the two clocks may drift: 500 ppm by the server's adjustment, and the kernel's own
SLACK_NS = 1_000_000  # far more than two readings of a clock on two processors differ


class Fault(Exception):
    """A property that does not hold."""


def check(holds, what):
    if not holds:
        raise Fault(what)


# --- a client -------------------------------------------------------------------------------------------------------

class Error(str):
    """An error reply."""


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, *requests):
        self.socket.sendall(b"".join(bulks(*words) for words in requests))

    def answer(self):
        line = self.file.readline()
        check(line.endswith(b"\r\n"), f"the server closed a connection: {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        check(kind == b"*", f"no answer begins so: {line!r}")
        return [self.answer() for _ in range(int(rest))]

    def ask(self, *words):
        self.send(words)
        return self.answer()

    def hang_up(self):
        """Closes with a reset: the server's next read or write fails."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.__exit__()


# --- every command --------------------------------------------------------------------------------------------------

def is_verdict(answer):
    return isinstance(answer, list) and len(answer) >= 7 and answer[0] in (0, 1) and 0 <= answer[2] <= answer[1]


def is_five(answer):
    return isinstance(answer, list) and len(answer) == 5


def is_list(answer):
    return isinstance(answer, list)


def is_known_hold(answer):
    """A hold may have ended, been settled, have another key, or have been denied."""
    return not isinstance(answer, Error) or answer.startswith(("NOHOLD", "HELDOTHER", "SETTLED", "BUSY"))


def any_limit(chance):
    return chance.choice(["100/s burst 50", "5/min", "3/10s fixed_window", "20/min leaky_bucket", "9/min sliding_counter"])


def key(chance):
    return f"mixed:{chance.randrange(2000)}"


# A command, a check of its reply, and its weight.
COMMANDS = [
    (8, lambda chance: ["CL.THROTTLE", key(chance), 15, 30, 60, chance.randrange(4)], is_five),
    (4, lambda chance: ["THROTTLE", key(chance), 15, 30, 60], is_five),
    (8, lambda chance: ["WEIR.TAKE", key(chance), any_limit(chance), chance.randrange(3)], is_verdict),
    (2, lambda chance: ["WEIR.TAKE", key(chance), any_limit(chance), 1, "WAIT", chance.randrange(5)], is_verdict),
    (2, lambda chance: ["WEIR.UPTO", key(chance), any_limit(chance), 5], is_verdict),
    (2, lambda chance: ["WEIR.PEEK", key(chance), any_limit(chance)], is_verdict),
    (2, lambda chance: ["WEIR.REFUND", key(chance), any_limit(chance), 1], is_verdict),
    (1, lambda chance: ["WEIR.RESET", key(chance), any_limit(chance)], lambda answer: answer in (0, 1)),
    (1, lambda chance: ["WEIR.INSPECT", key(chance), any_limit(chance)], is_list),
    (2, lambda chance: ["WEIR.ALL", key(chance), any_limit(chance), 1, key(chance), any_limit(chance), 2], is_list),
    (2, lambda chance: ["WEIR.HOLD", chance.randrange(500), key(chance), "100/s burst 50", 2, 50], is_known_hold),
    (1, lambda chance: ["WEIR.SETTLE", chance.randrange(500), chance.randrange(4)], is_known_hold),
    (1, lambda chance: ["WEIR.RELEASE", chance.randrange(500)], is_known_hold),
    (1, lambda chance: ["PING"], lambda answer: answer == "PONG"),
    (1, lambda chance: ["ECHO", b"\x00\r\n"], lambda answer: answer == b"\x00\r\n"),
    (1, lambda chance: ["INFO"], lambda answer: b"allowed:" in answer),
    (1, lambda chance: ["COMMAND", "COUNT"], lambda answer: answer > 0),
    (1, lambda chance: ["CONFIG", "GET", "save"], is_list),
    (1, lambda chance: ["SELECT", 0], lambda answer: answer == "OK"),
    (1, lambda chance: ["CLIENT", "ID"], lambda answer: answer > 0),
    (1, lambda chance: ["HELP"], is_list),
    (1, lambda chance: ["WEIR.TAKE", key(chance), "5/fortnight"], lambda answer: isinstance(answer, Error)),
    (1, lambda chance: ["no such thing"], lambda answer: isinstance(answer, Error)),
]


def known_commands(port):
    """The rows that this server supports, and the names of the others."""
    rows, missing = [], []
    with Client(port) as client:
        for row in COMMANDS:
            words = row[1](random.Random(0))
            answer = client.ask(*words)
            if isinstance(answer, Error) and words[0] != "no such thing" and re.match(
                    r"ERR (unknown command|wrong number)", answer):
                missing.append(words[0])
            else:
                rows.append(row)
    return rows, missing


# --- clients of several kinds ---------------------------------------------------------------------------------------
# Each runs until soak.stop is set, and counts what it did.

class Soak:
    def __init__(self, port, rows):
        self.port, self.rows = port, rows
        self.stop = threading.Event()
        self.faults = []
        self.counts, self.lock = {}, threading.Lock()

    def count(self, what, n=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + n


def mix(soak, chance):
    with Client(soak.port) as client:
        while not soak.stop.is_set():
            rows = chance.choices(soak.rows, [row[0] for row in soak.rows], k=chance.randrange(1, 40))
            asked = [row[1](chance) for row in rows]
            client.send(*asked)
            for words, row in zip(asked, rows):
                answer = client.answer()
                check(row[2](answer), f"{words}: {answer!r}")
            soak.count("mixed", len(asked))


def come_and_go(soak, chance):
    while not soak.stop.is_set():
        client = Client(soak.port)
        for _ in range(chance.randrange(3)):
            check(is_five(client.ask("CL.THROTTLE", key(chance), 15, 30, 60)), "no answer to who has just come")
        half = bulks("CL.THROTTLE", key(chance), 15, 30, 60)
        client.socket.sendall(half[:chance.randrange(len(half))])
        if chance.randrange(2):
            client.hang_up()
        else:
            client.__exit__()
        soak.count("came and went")


def do_not_read(soak, chance):
    """Sends until the server reads no more or disconnects. Then leaves, sometimes after reading some."""
    piece = bulks("ECHO", b"x" * 60000)
    while not soak.stop.is_set():
        with Client(soak.port) as client, contextlib.suppress(ConnectionError):
            client.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(1000):
                    client.socket.sendall(piece)
            soak.stop.wait(chance.random() / 10)
            client.socket.settimeout(PATIENCE_S)
            for _ in range(chance.randrange(3)):
                client.socket.recv(65536)
        soak.count("did not read")


def send_rubbish(soak, chance):
    starts = [b"*3\r\n$3\r\n", b"*-5\r\n", b"*1\r\n$99999999999\r\n", b"*1\r\n:1\r\n", b"\x00", b'"', b"GET / HTTP/1.1\r\n\r\n", b""]
    while not soak.stop.is_set():
        with Client(soak.port) as client, contextlib.suppress(ConnectionError):
            client.socket.sendall(chance.choice(starts) + chance.randbytes(chance.randrange(1000)))
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(65536):
                pass
        soak.count("rubbish")


# --- keys that are followed -----------------------------------------------------------------------------------------

class Followed:
    """A bucket and its model. The server's clock is not visible, but if a bucket is not full, its reset_after gives the
    instant of the decision to the ns."""

    def __init__(self, count, period_ns, burst):
        self.bucket = weir_model.make_limit("token_bucket", count, period_ns, burst)
        self.burst = burst
        self.now = None
        self.sent = self.read = 0

    def instant(self, granted, remaining, reset_after, sent):
        charged = self.bucket.span_of(granted)
        if self.now is None:
            return sent
        # It was full, since an unknown time. A bucket that lacked a fraction of a ns is full at the same ns, but has a
        # unit less.
        if granted and remaining == self.burst - granted:
            since = self.now + max(0, sent - self.read) * (10**6 - DRIFT_PPM) // 10**6
            return max(self.bucket.whole_ns(), since)
        return -(-(self.bucket.full_at + charged - reset_after) // 1)

    def follow(self, cost, answer, sent, read):
        allowed, _, remaining, granted, retry_after, reset_after = answer[:6]
        now = self.instant(granted, remaining, reset_after, sent)
        if self.now is not None:
            most = (read - self.sent) * (10**6 + DRIFT_PPM) // 10**6 + SLACK_NS
            least = (sent - self.read) * (10**6 - DRIFT_PPM) // 10**6 - SLACK_NS
            check(least <= now - self.now <= most,
                  f"{now - self.now} ns passed by what {answer} says, and {least} to {most} did")
        expected = self.bucket.take(now, cost)
        found = (bool(allowed), remaining, retry_after if not allowed else None, reset_after)
        check(found == (expected.verdict == weir_model.ALLOW, expected.remaining, expected.retry, expected.reset),
              f"{answer}, but the model says {expected}")
        check(granted == (cost if allowed else 0), f"{answer}: granted something else than was asked for")
        self.now, self.sent, self.read = now, sent, read


def follow(soak, chance):
    count, period, burst = chance.choice([(200, "s", 20), (1000, "s", 5), (7, "s", 3), (900, "s", 100)])
    name, text = f"followed:{chance.randrange(10**9)}", f"{count}/{period} burst {burst}"
    followed = Followed(count, 10**9, burst)
    with Client(soak.port) as client:
        while not soak.stop.is_set():
            cost = chance.randrange(1, min(4, burst + 1))
            sent = time.monotonic_ns()
            answer = client.ask("WEIR.TAKE", name, text, cost)
            read = time.monotonic_ns()
            check(is_verdict(answer), f"{text}: {answer!r}")
            followed.follow(cost, answer, sent, read)
            soak.count("followed")
            soak.count("followed and admitted", answer[0])


# --- keys that are emptied ------------------------------------------------------------------------------------------

def empty_one(soak, chance, clients, name):
    burst = chance.randrange(1, 500)
    limit = f"1/7day burst {burst}"
    granted, left = 0, True
    while left:
        costs = [[chance.randrange(1, 4) for _ in range(chance.randrange(1, 30))] for _ in clients]
        costs[0].append(1)  # a cost that fits as long as anything is left
        for client, of_client in zip(clients, costs):
            client.send(*(["WEIR.TAKE", name, limit, cost] for cost in of_client))
        for client, of_client in zip(clients, costs):
            for cost in of_client:
                answer = client.answer()
                check(is_verdict(answer), f"{limit}: {answer!r}")
                granted += answer[3]
                if client is clients[0]:
                    left = bool(answer[0])
        check(granted <= burst, f"{granted} were granted of {limit}")
    check(granted == burst, f"{granted} were granted of {limit} when nothing was left")
    check(clients[0].ask("WEIR.RESET", name, limit) == 1, f"{name} owed {burst} and could not be reset")
    soak.count("emptied")


def empty(soak, chance):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(soak.port)) for _ in range(4)]
        prefix, number = chance.randrange(10**9), 0
        while not soak.stop.is_set():
            empty_one(soak, chance, clients, f"emptied:{prefix}:{number}")
            number += 1


# --- what the server takes ------------------------------------------------------------------------------------------

def resident_bytes(pid):
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.M)
    check(found, "the server has ended")
    return int(found[1]) * 1024


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def sample(soak, pid, until):
    """(elapsed time, memory, descriptors) of each sample."""
    begun, samples = time.monotonic(), []
    while time.monotonic() < until and not soak.stop.is_set():
        part = (time.monotonic() - begun) / max(until - begun, SAMPLE_S)
        samples.append((part, resident_bytes(pid), descriptors(pid)))
        soak.stop.wait(SAMPLE_S)
    return samples


def wait_for(holds, what):
    until = time.monotonic() + PATIENCE_S
    while not holds():
        check(time.monotonic() < until, what)
        time.sleep(0.01)


# --- the whole ------------------------------------------------------------------------------------------------------

def start_server(weir):
    process = subprocess.Popen([weir, "serve", "--listen", "127.0.0.1:0", "--http", "none", "--keys", str(KEYS), "--workers", "2",
                                "--output", "256KiB", "--stall", "1s"],
                               stdout=subprocess.PIPE)
    found = re.search(rb"127\.0\.0\.1:(\d+)\n", process.stdout.readline())
    check(found, "the server does not say where it is")
    return process, int(found[1])


def run_clients(soak, pid, arguments):
    """Runs all clients until the time is over. Returns the samples."""
    kinds = [(mix, 3), (come_and_go, 2), (do_not_read, 2), (send_rubbish, 1), (follow, 4), (empty, 2)]
    jobs = [kind for kind, n in kinds for _ in range(n)]

    def guarded(number, kind):
        try:
            kind(soak, random.Random(arguments.seed * 1000 + number))
        except Exception as fault:  # any error ends the soak and is reported
            soak.faults.append(f"{kind.__name__}: {type(fault).__name__}: {fault}")
            soak.stop.set()

    threads = [threading.Thread(target=guarded, args=job) for job in enumerate(jobs)]
    with contextlib.ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(Client(soak.port))
        load = subprocess.Popen([arguments.weir, "bench", "resp", "--at", f"127.0.0.1:{soak.port}", "--keys", "50k",
                                 "--seconds", str(max(1, arguments.seconds)), "--pipeline", "4"], stdout=subprocess.PIPE,
                                text=True)
        for thread in threads:
            thread.start()
        try:
            samples = sample(soak, pid, time.monotonic() + arguments.seconds)
        finally:
            soak.stop.set()
            for thread in threads:
                thread.join()
            if soak.faults:
                load.terminate()
            said = load.communicate()[0]
    if not soak.faults:
        check(load.returncode == 0, f"weir bench resp: exit status {load.returncode}")
    return samples, said


def judge_samples(samples, growth_most):
    early = max(memory for part, memory, _ in samples if part <= 0.5 or part == samples[0][0])
    late = max([memory for part, memory, _ in samples if part > 0.5], default=early)
    most = max(open_now for _, _, open_now in samples)
    print(f"memory: {early >> 10} KiB at most in the first half, {late >> 10} in the second; at most {most} descriptors")
    check(late - early <= growth_most << 20,
          f"memory grew by {late - early} bytes in the second half, and may by {growth_most} MiB")


def soak_it(arguments):
    process, port = start_server(arguments.weir)
    try:
        before = descriptors(process.pid)
        rows, missing = known_commands(port)
        if missing:
            print(f"this server has no {', '.join(missing)}")
        soak = Soak(port, rows)
        samples, said = run_clients(soak, process.pid, arguments)
        print(said, end="")
        print("; ".join(f"{what} {n}" for what, n in sorted(soak.counts.items())))
        check(not soak.faults, "; ".join(soak.faults))
        check(process.poll() is None, f"the server has ended: {process.returncode}")
        for what in ("mixed", "came and went", "did not read", "rubbish", "followed and admitted", "emptied"):
            check(soak.counts.get(what), f"nothing was done of: {what}")
        judge_samples(samples, arguments.growth_most)
        wait_for(lambda: descriptors(process.pid) == before,
                 f"all are gone, and {descriptors(process.pid)} descriptors are open; {before} were at first")
        process.send_signal(signal.SIGTERM)
        check(process.wait(PATIENCE_S) == 0, f"the server ended with {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("weir")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--growth-most", type=int, default=4, help="MiB")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    print(f"{arguments.seconds} s, --seed {arguments.seed}", flush=True)
    try:
        soak_it(arguments)
    except Fault as fault:
        print(f"FAIL  {fault}")
        return 1
    print("ok    as it was, and as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
