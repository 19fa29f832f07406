#!/usr/bin/env python3
"""weir record: real traffic of several workers is recorded from a real server and decided again, with 0 differences.

    record_test.py WEIR [--requests N]

Covers: src/cli/record.c, src/cli/recording.c, src/observe/recorder.c, src/server/resp/resp_record.c,
src/server/recorder_policy.c, src/replay/recording_lines.c, src/replay/recording_reader.c,
src/replay/recording_replay.c"""

import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

from daemon import TIMEOUT_S, daemon, run
from redis_server import redis
from resp_client import Client, until

WEIR = sys.argv[1]
REQUESTS = int(sys.argv[sys.argv.index("--requests") + 1]) if "--requests" in sys.argv else 6000
CONNECTIONS, PIPELINE, USERS, CHANGES = 6, 8, 5, 100

LIMITS = """
- {name: token, key: [user], limit: 2000/s burst 50}
- {name: interval, key: [user], limit: 500/s refill interval burst 900}
- {name: shaping, key: [user], limit: 3000/s leaky queue 300}
- {name: policing, key: [user], limit: 3000/s leaky burst 90}
- {name: window, key: [user, path], limit: 400/s fixed_window}
- {name: first, key: [user], limit: 900/2s fixed_window align first}
- {name: counter, key: [user], limit: 1500/s sliding_counter}
- {name: segments, key: [user], limit: 1500/s sliding_counter segments 5}
- {name: logged, key: [user], limit: 1200/s sliding_log}
- {name: counted, key: [user], limit: 700/s fixed_window count all, mode: shadow}
"""


def policy(*more):
    text = LIMITS
    for old, new in more:
        assert old in text
        text = text.replace(old, new)
    return "limits:\n" + "".join(f"  {line}\n" for line in text.strip().splitlines())


def any_request(dice, holds):
    user, names = f"user-{dice.randrange(USERS)}", ["token", "shaping", "window", "logged", "segments", "counter"]
    name = dice.choice(names)
    key = f"user={user} path=/p" if name == "window" else user
    return dice.choice((
        ("WEIR.CHECK", "user", user, "path", f"/p{dice.randrange(3)}?token=secret-query", "method", "GET"),
        ("WEIR.CHECK", "COST", dice.randrange(1, 4), "user", user, "path", "/p"),
        ("WEIR.CHECK", "other", "nothing matches"),
        ("WEIR.TAKE", key, "@" + name),
        ("WEIR.TAKE", key, "@" + name, dice.randrange(5)),
        ("WEIR.UPTO", key, "@" + name, dice.randrange(9)),
        ("WEIR.PEEK", key, "@" + name, 2),
        ("WEIR.REFUND", key, "@" + name, dice.randrange(4)),
        ("WEIR.TAKE", key, f"{dice.randrange(1, 4)}00/s burst 7"),
        ("WEIR.TAKE", user, "40/s sliding_log"),
        ("WEIR.ALL", user, "@token", 1, user, "@logged", 2, user, "@token", 1, user, "90/s", 1),
        ("CL.THROTTLE", user, dice.choice((5, 30)), 100, 1, 1),
        ("THROTTLE", user, 30, 100, 1),
        ("WEIR.TAKE", user, "@token", 1, "WAIT", 2),
        ("WEIR.CHECK", "WAIT", 1, "user", user, "path", "/p"),
        ("WEIR.HOLD", f"{next(holds)}", user, "@token", 3, 50),
        ("WEIR.RESET", user, "@" + dice.choice(["token", "counter", "interval"])),
        ("WEIR.INSPECT", user, "@token"),
    ))


def ids(prefix):
    n = 0
    while True:
        n += 1
        yield f"{prefix}-{n}"


class Traffic:
    """Connections that send this many requests, and then go on until `join`, if they are endless."""

    def __init__(self, server, requests=REQUESTS, is_endless=False):
        self.failures, self.is_endless = [], is_endless
        self.threads = [threading.Thread(target=self.send, args=(server, i, requests // CONNECTIONS))
                        for i in range(CONNECTIONS)]
        for thread in self.threads:
            thread.start()

    def send(self, server, number, requests):
        try:
            dice, holds = random.Random(number), ids(number)
            with Client(server) as client:
                while requests > 0 or self.is_endless:
                    client.pipeline([any_request(dice, holds) for _ in range(PIPELINE)])
                    requests -= PIPELINE
        except Exception as failure:  # noqa: BLE001: the main thread reports it
            self.failures.append(failure)

    def join(self):
        self.is_endless = False
        for thread in self.threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()
        assert not self.failures, self.failures


class Recording:
    """weir record, until `end`."""

    def __init__(self, server, folder, *options, **environment):
        self.path = os.path.join(folder, "decisions.rec")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.process = subprocess.Popen([WEIR, "record", self.path, "--at", server.address, "--json", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        until(lambda: self.size() > 8 or self.process.poll() is not None, "the recording begins")

    def size(self):
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def end(self, how=signal.SIGINT):
        if how:
            self.process.send_signal(how)
        out, said = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0, said
        self.told = json.loads(out)
        return self.told


def check(path, expected=0):
    done = subprocess.run([WEIR, "record", "--check", path, "--json"], capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=False)
    assert done.returncode == expected, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


@contextlib.contextmanager
def server_with(text, *options, workers=4):
    with tempfile.TemporaryDirectory(prefix="weir-record-") as folder:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        with daemon(WEIR, "--policy", path, "--workers", str(workers), *options) as server:
            yield server, folder, path


def reload_with(server, path, text):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.replace(path + ".new", path)
    with Client(server) as client:
        ticket = client.ask("WEIR.RELOAD")
        until(lambda: int(client.info("policy")["policy_reloads"]) >= ticket, "the policy is reloaded")


def nothing_is_lost(told, found):
    assert found["is_complete"] and found["differences"] == 0, found
    assert found["decisions"] + found["unmatched"] == told["decisions"] > 0 and told["missing"] == 0, (told, found)
    assert found["compared"] + found["raced"] >= found["decisions"] - found["raced"], found
    for name in ("by_fallback", "by_store", "by_none", "partial", "unknown", "unusable", "evicted", "folded", "elsewhere",
                 "lost", "own_evicted"):
        assert found[name] == 0, (name, found)


def a_recording_replays_identically():
    with server_with(policy()) as (server, folder, path):
        Traffic(server, REQUESTS // 4).join()  # so that keys have usage when the recording begins
        recording = Recording(server, folder)
        traffic = Traffic(server, is_endless=True)
        until(lambda: recording.size() > 100000, "something is recorded")
        reload_with(server, path, policy(("2000/s burst 50", "1000/s burst 80"), ("1500/s sliding_counter}", "90/s sliding_counter}")))
        with Client(server) as client:
            assert client.ask("WEIR.CHANGE", "logged", "300/s sliding_log") == "OK"
            assert client.ask("WEIR.CHANGE", "first", "100/2s fixed_window align first") == "OK"
            for turn in range(CHANGES):  # some during a decision
                assert client.ask("WEIR.CHANGE", "logged", f"{200 + 900 * (turn % 2)}/s sliding_log") == "OK"
                assert client.ask("WEIR.CHANGE", "first", f"{90 + 900 * (turn % 2)}/2s fixed_window align first") == "OK"
        since = recording.size()
        until(lambda: recording.size() > since + 100000, "more is recorded")
        traffic.join()
        told = recording.end()
        found = check(recording.path)
        nothing_is_lost(told, found)
        assert found["policies"] == 2 and found["limits_changed"] >= 4 and found["compared"] > REQUESTS / 2, found
        assert stat.S_IMODE(os.stat(recording.path).st_mode) == 0o600
        with open(recording.path, "rb") as file:
            bytes_ = file.read()
        assert b"user-" not in bytes_ and b"secret-query" not in bytes_ and b"1000/s burst 80" in bytes_
        a_cut_recording_is_usable(recording.path, bytes_)


def another_policy_decides_a_recording():
    with server_with(policy()) as (server, folder, path):
        recording = Recording(server, folder, "--keys", "plain")
        with Client(server) as client:
            client.pipeline([("WEIR.CHECK", "COST", 2, "user", f"user-{i % 4}", "path", f"/p?q={i}", "method", "GET") for i in range(400)])
            client.pipeline([("WEIR.CHECK", "WAIT", 1, "user", "waits", "path", "/p") for i in range(5)])
            client.pipeline([("WEIR.CHECK", "other", "x") for i in range(7)])
            client.pipeline([("WEIR.TAKE", "k", "@token") for i in range(9)])
        recording.end()
        with open(path, "w", encoding="ascii") as file:
            file.write("limits:\n  - {name: few, key: [user], limit: 10/day}\n  - {name: others, key: [other], limit: 3/day}\n")
        done = subprocess.run([WEIR, "replay", "--policy", path, "--client", "user", "--json", recording.path], capture_output=True,
                              text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        told = json.loads(done.stdout)
        denied = {limit["name"]: limit["denied"] for limit in told["replay"]["limits"]}
        assert told["replay"]["requests"] == 412 and denied == {"few": 400 - 4 * 5, "others": 4}, told["replay"]
        assert told["inputs"][0]["format"] == "recording" and 1 <= told["inputs"][0]["bad_lines"] <= 9, told["inputs"]


def replay(recording, path, *options):
    """Decides a recording by the policy at the path; returns the report and the document."""
    told = []
    for option in ((), ("--json",)):
        done = subprocess.run([WEIR, "replay", "--policy", path, *options, *option, recording.path], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        told.append(done.stdout)
    return told[0], json.loads(told[1])


def addresses_of_a_network_stay_together():
    with server_with("limits:\n  - {name: a, key: [ip], limit: 1000/day}\n") as (server, folder, path):
        recording = Recording(server, folder)
        with Client(server) as client:
            client.pipeline([("WEIR.CHECK", "ip", f"2001:db8:{i % 3}::{i + 1:x}") for i in range(60)])
            client.pipeline([("WEIR.CHECK", "ip", f"203.0.113.{i % 5}") for i in range(60)])
        recording.end()
        _, told = replay(recording, path)
        assert (told["replay"]["requests"], told["replay"]["clients"]) == (120, 8), told["replay"]
        with open(recording.path, "rb") as file:
            bytes_ = file.read()
        assert b"2001:db8" not in bytes_ and b"203.0.113" not in bytes_ and bytes_.count(b"fd") >= 120


def a_replay_says_what_a_recording_lacks():
    with server_with("limits:\n  - {name: a, key: [user], limit: 1000/day}\n") as (server, folder, path):
        recording = Recording(server, folder, "--sample", "3")
        with Client(server) as client:
            client.pipeline([("WEIR.CHECK", "user", f"user-{i % 90}") for i in range(270)])
        recording.end()
        report, told = replay(recording, path, "--client", "user")
        assert told["inputs"][0]["sample"] == 3 and told["replay"]["clients"] < 90, told
        assert "The recording has one in 3 keys." in report and "gaps" not in report, report


def a_cut_recording_is_usable(path, bytes_):
    dice = random.Random(1)
    for n in [0, 1, 8, 9, 12, 13] + [dice.randrange(len(bytes_)) for _ in range(6)]:
        with open(path, "wb") as file:
            file.write(bytes_[:n])
        found = check(path, 3 if n < 8 else 0) if n >= 8 else None
        if n < 8:
            done = subprocess.run([WEIR, "record", "--check", path], capture_output=True, text=True, timeout=TIMEOUT_S,
                                  check=False)
            assert done.returncode == 3 and "this is not a recording" in done.stderr, done
        else:
            assert found["differences"] == 0 and not found["is_complete"], found


def keys_are_kept_if_asked_for_and_queries_never():
    with server_with(policy()) as (server, folder, _):
        recording = Recording(server, folder, "--keys", "plain")
        Traffic(server, 600).join()
        nothing_is_lost(recording.end(), check(recording.path))
        with open(recording.path, "rb") as file:
            bytes_ = file.read()
        assert b"user-1" in bytes_ and b"/p1" in bytes_, bytes_[:400]
        recording = Recording(server, folder, "--keep", "user")
        Traffic(server, 600).join()
        recording.end()
        with open(recording.path, "rb") as file:
            bytes_ = file.read()
        assert b"user-1" in bytes_ and b"secret-query" not in bytes_


def a_sample_has_all_decisions_of_its_keys():
    with server_with("limits:\n  - {name: a, key: [user], limit: 5/s burst 40}\n") as (server, folder, _):
        recording = Recording(server, folder, "--sample", "10")
        with Client(server) as client:
            for _ in range(10):
                client.pipeline([("WEIR.TAKE", f"key-{i}", "@a") for i in range(300)])
        told = recording.end()
        found = check(recording.path)
        assert found["differences"] == 0 and found["sample"] == 10 and 5 < found["keys"] < 80, found
        assert found["decisions"] == told["decisions"] and found["elsewhere"] == found["evicted"] == 0, found


def evictions_are_marked():
    with server_with("limits:\n  - {name: a, key: [user], limit: 1/min burst 40}\n", "--keys", "1000") as (server, folder, _):
        recording = Recording(server, folder)
        with Client(server) as client:
            for _ in range(3):
                for start in range(0, 20000, 500):
                    client.pipeline([("WEIR.TAKE", f"key-{i}", "@a") for i in range(start, start + 500)])
        recording.end()
        found = check(recording.path)
        assert found["differences"] == 0 and found["evicted"] > 1000 and found["compared"] == 60000, found
        assert found["elsewhere"] == 0, found


def a_gap_is_marked_and_the_replay_goes_on():
    with server_with(policy()) as (server, folder, rules):
        recording = Recording(server, folder)
        recording.process.send_signal(signal.SIGSTOP)  # the ring is not read; it is full before the recording lapses
        path = "/" + "x" * 2000
        with Client(server) as client:
            for _ in range(200):
                client.pipeline([("WEIR.CHECK", "user", f"u{i}", "path", path) for i in range(30)])
        recording.process.send_signal(signal.SIGCONT)
        until(lambda: recording.size() > 7 << 20, "the ring is read")
        Traffic(server, 600).join()
        told = recording.end()
        found = check(recording.path)
        assert told["missing"] == found["lost"] > 0 and found["gaps"] > 0, (told, found)
        assert found["differences"] == 0 and found["unknown"] == found["unusable"] == 0, found
        assert found["decisions"] + found["unmatched"] == told["decisions"], (told, found)
        report, document = replay(recording, rules)
        assert document["inputs"][0]["missing"] == told["missing"], document["inputs"]
        assert f"The recording has gaps: {told['missing']} decisions" in report, report


def decisions_of_redis_and_of_the_fallback_are_marked():
    with redis() as behind, server_with(
            "limits:\n  - {name: a, key: [user], limit: 500/s burst 9, on_store_failure: open}\n  - {name: b, key: [user], limit: 90/s, store: table}\n",
            "--store", behind.url) as (server, folder, _):
        recording = Recording(server, folder)
        with Client(server) as client:
            client.pipeline([("WEIR.TAKE", f"u{i % 7}", "@a") for i in range(200)])
            client.pipeline([("WEIR.TAKE", f"u{i % 7}", "@b") for i in range(200)])
            behind.end()
            client.pipeline([("WEIR.TAKE", f"u{i % 7}", "@a") for i in range(50)])
        recording.end()
        found = check(recording.path)
        assert found["differences"] == 0 and found["by_store"] == 200 and found["compared"] > 0, found
        assert found["by_fallback"] == 50, found


def bounds_end_a_recording():
    with server_with(policy()) as (server, folder, _):
        recording = Recording(server, folder, "--max-bytes", "64KiB")
        Traffic(server, 2000).join()
        told = recording.end(None)
        found = check(recording.path)
        assert told["is_full"] and recording.size() <= 64 << 10 and recording.size() > 60 << 10, (told, recording.size())
        assert found["differences"] == 0 and found["is_complete"], found
        recording = Recording(server, folder, "--for", "1s")
        told = recording.end(None)
        assert not told["is_full"] and check(recording.path)["is_complete"]


def a_decision_on_an_unknown_key_is_not_followed():
    """A key with more events than a recording has room for. What was charged together with it is written again."""
    text = """limits:
  - {name: large, key: [user], limit: 100000/hour sliding_log}
  - {name: small, key: [user], limit: 1000/hour sliding_log}
"""
    with server_with(text, "--arena", "16MiB") as (server, folder, _):
        with Client(server) as client:
            for _ in range(4200):  # each at another instant
                client.ask("WEIR.TAKE", "u", "@large")
            recording = Recording(server, folder)
            for cost in 1, 2, 3, 4:
                client.ask("WEIR.TAKE", "u", "@small", cost)
                client.ask("WEIR.ALL", "u", "@large", 1, "u", "@small", cost)
                client.ask("WEIR.TAKE", "u", "@small", cost)
        recording.end()
        found = check(recording.path)
        assert found["differences"] == 0 and found["unknown"] == 4 and found["compared"] == 8, found
        assert found["elsewhere"] == 0, found


def limits_of_one_decision_have_ids_of_their_own():
    """Of 16 limits, two have the same place among the ids in one decision of 34."""
    with server_with(policy()) as (server, folder, _):
        recording = Recording(server, folder)
        with Client(server) as client:
            for first in range(1, 300 * 16, 16):
                client.ask("WEIR.ALL", *(word for n in range(first, first + 16) for word in ("user", f"{n}/s", 1)))
        recording.end()
        found = check(recording.path)
        assert found["compared"] == 300 and found["differences"] == 0, found


def one_recording_at_a_time():
    with server_with(policy()) as (server, folder, _):
        recording = Recording(server, folder)
        with Client(server) as client:
            assert client.refusal("WEIR.RECORD", "START").startswith("BUSY another recording"), "START"
            assert client.refusal("WEIR.RECORD", "READ", "99").startswith("NORECORDING"), "READ"
            assert client.refusal("WEIR.RECORD", "STOP", "99").startswith("NORECORDING"), "STOP"
        recording.end()
        with Client(server) as client:
            for words in (("SAMPLE", "0"), ("SAMPLE", "x"), ("KEYS", "some"), ("KEYS",), ("NOISE", "1")):
                assert "WEIR.RECORD START" in client.refusal("WEIR.RECORD", "START", *words), words
            number = client.ask("WEIR.RECORD", "START")
            assert client.ask("WEIR.RECORD", "STOP", number) == "OK"
        assert "recording_started" in server.said() and "recording_stopped" in server.said(), server.said()


def wrong_usage_is_explained():
    with tempfile.TemporaryDirectory(prefix="weir-record-") as folder:
        there = os.path.join(folder, "there")
        with open(there, "w", encoding="ascii") as file:
            file.write("not a recording")
        for words, status, text in (
                ((), 2, "FILE is missing"), (("a", "b"), 2, "only one FILE"), (("a", "--smaple", "2"), 2, "--sample"),
                (("a", "--sample", "0"), 2, "1 to 1000000"), (("a", "--keys", "x"), 2, "hashed or plain"),
                (("a", "--for", "0s"), 2, "1s to 7day"), (("a", "--max-bytes", "1"), 2, "64KiB"),
                (("a", "--for"), 2, "needs a value"), (("a", "--for=0s"), 2, "1s to 7day"), (("a", "--smaple=2"), 2, "--sample"),
                (("a", "--json=1"), 2, '"--json": this option takes no value'),
                (("--check", there), 3, "this is not a recording"),
                (("--check", folder), 3, "directory"), (("--check", there + "2"), 3, "No such file"),
                (("--check", "-"), 3, "must be a file"),
                ((there + "3", "--at", "127.0.0.1:1"), 3, "no server")):
            done = subprocess.run([WEIR, "record", *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert done.returncode == status and text in done.stderr, (words, done)
        with server_with(policy()) as (server, _, _):
            done = subprocess.run([WEIR, "record", there, "--at", server.address], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False)
            assert done.returncode == 3 and "remove it" in done.stderr, done


TESTS = (a_recording_replays_identically, another_policy_decides_a_recording, keys_are_kept_if_asked_for_and_queries_never,
         addresses_of_a_network_stay_together, a_replay_says_what_a_recording_lacks,
         a_sample_has_all_decisions_of_its_keys, evictions_are_marked, a_gap_is_marked_and_the_replay_goes_on,
         decisions_of_redis_and_of_the_fallback_are_marked, bounds_end_a_recording, a_decision_on_an_unknown_key_is_not_followed,
         limits_of_one_decision_have_ids_of_their_own, one_recording_at_a_time, wrong_usage_is_explained)

sys.exit(run([(test.__name__.replace("_", " "), test) for test in TESTS]))
