#!/usr/bin/env python3
"""The library with real Redis servers, also when they are slow, down, replaced or not Redis at all.

    redis_test.py ASKER EXAMPLE THEME|TEST...

ASKER is built from redis_asker.c, EXAMPLE from examples/redis.c. The themes are at the end of this file. Servers
have their own ports. No test asserts how long anything takes."""
# Covers: src/store/redis/redis.c

import contextlib
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_proxy import FaultProxy
from redis_servers import TIMEOUT_S, Certificates, Redis, Trio, until

ASKER, EXAMPLE = sys.argv[1:3]
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/guides/many-servers.md")
PATIENT = "timeout=10s&connect_timeout=10s"  # for busy machines: the tests are not about speed
WAIT = f"wait {TIMEOUT_S * 1000}"
UNREACHABLE, UNANSWERED = -14, -15


class Refused(Exception):
    def __init__(self, code, why):
        super().__init__(f"{code} {why}")
        self.code, self.why = code, why


class Verdict:
    def __init__(self, text):
        numbers = [int(word) for word in text.split()]
        self.allowed, self.never, self.limit, self.remaining, self.granted, self.retry_after, self.reset_after = numbers

    def __repr__(self):
        return str(vars(self))


class Asker:
    def __init__(self, url):
        self.process = subprocess.Popen([ASKER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self._answer()
        except Refused:
            self.end(1)
            raise

    def _answer(self):
        line = self.process.stdout.readline().rstrip("\n")
        assert line or self.process.poll() is None, f"it ended with {self.process.wait(TIMEOUT_S)}"
        if line.startswith("error "):
            _, code, why = line.split(" ", 2)
            raise Refused(int(code), why)
        return line

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def take(self, name, key, cost=1, how="take"):
        return Verdict(self.ask(how, name, key, cost))

    def many(self, how, *claims):
        """Verdicts. For a decision the joint verdict comes first, after the index of the claim that decided."""
        parts = self.ask(how, *[word for claim in claims for word in claim]).split(" | ")
        if how == "decide":
            return int(parts[0]), [Verdict(part) for part in parts[1:]]
        return [Verdict(part) for part in parts]

    def status(self):
        is_up, connections, decided, unreachable, unanswered, calls, failovers, *error = self.ask("status").split(" ", 7)
        return {"is_up": is_up == "1", "connections": int(connections), "decided": int(decided),
                "unreachable": int(unreachable), "unanswered": int(unanswered), "calls": int(calls),
                "failovers": int(failovers), "last_error": "".join(error)}

    def end(self, expected=0):
        self.process.stdin.close()
        status = self.process.wait(TIMEOUT_S)
        self.process.stdout.close()
        assert status == expected, status


@contextlib.contextmanager
def asker(url, waits=True):
    one = Asker(url)
    try:
        if waits:
            one.ask(WAIT)
        yield one
        one.end()
    finally:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(TIMEOUT_S)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="weir-redis-") as name:
        yield name


@contextlib.contextmanager
def redis(*options):
    with folder() as name, Redis(name, "redis", *options) as one:
        yield one


def url_of(server, more=PATIENT, scheme="redis", host="127.0.0.1"):
    return f"{scheme}://{host}:{server.port}/?{more}"


def refused(code, function, *arguments, says=""):
    try:
        found = function(*arguments)
    except Refused as refusal:
        assert refusal.code == code and says in refusal.why, (code, says, refusal)
        return refusal.why
    raise AssertionError(f"{arguments}: not refused, but {found}")


def takes_until_decided(one, name, key):
    """The first verdict; Redis may need time to start."""
    def take():
        try:
            return one.take(name, key)
        except Refused as refusal:
            assert refusal.code in (UNREACHABLE, UNANSWERED), refusal
            return None
    return until(take, f"a decision: {one.status()}")


class NoRedis(threading.Thread):
    """A server that replies to each request with the same bytes."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                with client, contextlib.suppress(OSError):
                    client.settimeout(TIMEOUT_S)
                    while client.recv(65536):
                        client.sendall(self.answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.join()


# --- a Redis that is well -------------------------------------------------------------------------------------------


def every_operation():
    with redis() as server, asker(url_of(server)) as one:
        one.ask("limit bucket 5/hour")
        first = one.take("bucket", "k")
        assert (first.allowed, first.limit, first.remaining, first.granted) == (1, 5, 4, 1), first
        assert one.take("bucket", "k", 3).remaining == 1
        denied = one.take("bucket", "k", 2)
        assert (denied.allowed, denied.never, denied.remaining) == (0, 0, 1) and denied.retry_after > 0, denied
        assert one.take("bucket", "k", 6).never
        peeked = one.take("bucket", "k", 1, "peek")
        assert (peeked.allowed, peeked.remaining) == (1, 1), peeked
        some = one.take("bucket", "k", 4, "upto")
        assert (some.allowed, some.granted, some.remaining) == (1, 1, 0), some
        assert one.take("bucket", "k", 2, "refund").remaining == 2
        assert one.take("bucket", "k", 1, "peek").remaining == 2
        assert one.ask("reset bucket k") == "1" and one.ask("reset bucket k") == "0"
        assert one.take("bucket", "k", 0, "peek").remaining == 5
        assert one.take("bucket", "other").remaining == 4
        status = one.status()
        assert status["is_up"] and status["decided"] == 12 and status["last_error"] == "", status


def every_algorithm():
    with redis() as server, asker(url_of(server)) as one:
        for i, text in enumerate(("3/hour", "3/hour leaky burst 3", "3/hour refill interval", "3/5000day fixed_window",
                                  "3/5000day sliding_counter", "3/5000day sliding_counter segments 6", "3/hour sliding_log")):
            one.ask(f"limit l{i} {text}")
            admitted = [one.take(f"l{i}", "k").allowed for _ in range(5)]
            assert admitted == [1, 1, 1, 0, 0], (text, admitted)


def several_limits_are_all_or_nothing():
    with redis() as server, asker(url_of(server)) as one:
        one.ask("limit wide 100/hour")
        one.ask("limit narrow 2/hour")
        claims = (("wide", "a", 1), ("narrow", "a", 1))
        for left in (1, 0):
            by, (joint, wide, narrow) = one.many("decide", *claims)
            assert by == 1 and joint.allowed and (joint.remaining, narrow.remaining) == (left, left), (joint, narrow)
        by, (joint, wide, narrow) = one.many("decide", *claims)
        assert (by, joint.allowed, wide.remaining, narrow.allowed) == (1, 0, 98, 0), (by, joint, wide, narrow)
        assert one.take("wide", "a", 0, "peek").remaining == 98
        verdicts = one.many("batch", *[("narrow", "b", 1)] * 3, ("wide", "b", 100))
        assert [verdict.allowed for verdict in verdicts] == [1, 1, 0, 1], verdicts
        refused(-2, one.ask, "decide", *[word for i in range(17) for word in ("wide", i, 1)])
        # As many limits as a batch may have requests.
        for i in range(64):
            one.ask(f"limit of{i} {i + 1}/hour")
        verdicts = one.many("batch", *[(f"of{i}", "k", 1) for i in range(64)])
        assert [verdict.remaining for verdict in verdicts] == list(range(64)), verdicts


def what_cannot_be_is_refused():
    with redis() as server, asker(url_of(server)) as one:
        refused(-3, one.ask, "limit a 2000000/hour sliding_log", says="is 1000000")
        refused(-1, one.ask, "limit a 10/fortnight", says="unknown period")
        refused(-2, one.ask, "limit a:b 10/s", says="a colon")
        refused(-2, one.ask, f"limit {'a' * 128} 10/s", says="1 to 127 bytes")
        one.ask("limit a 10/s")
        one.ask("limit a 10/s")
        refused(-4, one.ask, "limit a 11/s", says="a limit of this name exists")
    for url, says in (("http://127.0.0.1", "redis://"), ("redis://", ""), ("redis://:secret@127.0.0.1/x", ""),
                      ("redis://u:secret@h:99999999", ""), ("redis://h/?timeout=soon", "soon")):
        why = refused(-1, Asker, url, says=says)
        assert "secret" not in why, why


def a_limit_changes():
    with redis() as server, asker(url_of(server)) as one, asker(url_of(server)) as other:
        for each in (one, other):
            each.ask("limit a 10/hour")
        assert one.take("a", "k", 4).remaining == 6
        # Now it knows when its limit was set. Until the first reply, that is late by the duration of a call.
        assert other.take("a", "k", how="peek").remaining == 6
        one.ask("change a 20/hour")
        changed = one.take("a", "k")
        assert (changed.limit, changed.remaining) == (20, 15), changed
        behind = other.take("a", "k")  # decided by the limit that was set last
        assert (behind.limit, behind.remaining) == (20, 14), behind
        other.ask("change a 20/hour")  # as of its own time
        assert other.take("a", "k").remaining == 13
        with asker(url_of(server)) as third:  # the first decision of a program that was started later
            third.ask("limit a 9/hour")
            last = third.take("a", "k")
            assert (last.limit, last.remaining) == (9, 1), last
        for each in (one, other):
            found = each.take("a", "k", how="peek")
            assert (found.limit, found.remaining) == (9, 1), found
        refused(-4, one.ask, "change a 20/hour fixed_window")
        refused(-3, one.ask, f"change a {2**50}/hour")


def threads_share_a_limit_exactly():
    with redis() as server, asker(url_of(server)) as one, asker(url_of(server)) as other:
        for each in (one, other):
            each.ask("limit a 300/5000day fixed_window")
        answers = []
        threads = [threading.Thread(target=lambda each=each: answers.append(each.ask("flood 8 100 a k")))
                   for each in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = [list(map(int, answer.split())) for answer in answers]
        assert sum(count[0] for count in counts) == 300 and sum(count[1] for count in counts) == 1300, counts
        assert one.status()["connections"] >= 1


def the_example_does_what_it_says():
    with redis() as server:
        done = subprocess.run([EXAMPLE, url_of(server)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "24 requests of one user: 5 allowed here, 5 there\n", done.stdout


def users_databases_prefixes_and_paths():
    with redis("--user default off", "--user weir on >se:cret ~shop:* +@all") as server:
        for url in (f"redis://weir:se%3Acret@127.0.0.1:{server.port}/3?prefix=shop:&{PATIENT}",
                    f"redis+unix://weir:se%3Acret@{server.path}?database=3&prefix=shop:&{PATIENT}"):
            with asker(url) as one:
                one.ask("limit a 10/hour")
                one.take("a", "k")
        assert server.command(("AUTH", "weir", "se:cret"), ("SELECT", 3), ("EXISTS", "shop:a:k")) == 1
        for user in ("weir:wrong@", "nobody:se%3Acret@", ""):
            with asker(f"redis://{user}127.0.0.1:{server.port}/?{PATIENT}", waits=False) as one:
                until(lambda: one.status()["last_error"], "an error that is told")
                why = refused(UNREACHABLE, one.ask, "wait 1")
                assert "WRONGPASS" in why or "NOAUTH" in why, why
                assert "wrong" not in why and "cret" not in why, why
                one.ask("limit a 10/hour")
                refused(UNREACHABLE, one.ask, "take a k 1")


def the_documented_user_is_enough():
    with open(DOCS, encoding="utf-8") as page:
        user = re.search(r"^user weir on >secret .*$", page.read(), re.MULTILINE)[0]
    with redis("--user default off", f"--{user}") as server:
        with asker(f"redis://weir:secret@127.0.0.1:{server.port}/?{PATIENT}") as one:
            for i, text in enumerate(("3/hour", "3/hour refill interval", "3/5000day fixed_window", "3/hour sliding_log")):
                one.ask(f"limit l{i} {text}")
                for how in ("take", "upto", "peek", "refund"):
                    one.take(f"l{i}", "k", 1, how)
                one.ask(f"reset l{i} k")
            assert one.status()["last_error"] == "", one.status()


def a_script_that_is_gone_is_loaded_again():
    with redis() as server, asker(url_of(server)) as one:
        one.ask("limit a 10/hour")
        for left in (9, 8, 7):
            assert one.take("a", "k").remaining == left
            server.command("SCRIPT", "FLUSH")
        status = one.status()
        assert (status["decided"], status["unreachable"], status["unanswered"]) == (3, 0, 0), status


# --- TLS ------------------------------------------------------------------------------------------------------------


def tls_with_certificates_of_clients():
    with folder() as name:
        ours, theirs = Certificates(name, "ours"), Certificates(name, "theirs")
        client = f"cert={ours.file('client.pem')}&key={ours.file('client.key')}"
        with Redis(name, "tls", certificates=ours) as server:
            for host in ("localhost", "127.0.0.1"):
                with asker(url_of(server, f"ca={ours.file('ca.pem')}&{client}&{PATIENT}", "rediss", host)) as one:
                    one.ask("limit a 100000/hour")
                    assert one.take("a", host).allowed
            with asker(url_of(server, f"ca={ours.file('ca.pem')}&{client}&{PATIENT}", "rediss", "localhost")) as one:
                one.ask("limit a 1000/5000day fixed_window")
                assert one.ask("flood 8 150 a flood").split()[:4] == ["1000", "200", "0", "0"]
            for more, says in ((f"ca={theirs.file('ca.pem')}&{client}", "certificate not trusted"),
                               (client, "certificate not trusted"),
                               (f"ca={ours.file('ca.pem')}&{client}&tls_name=elsewhere", "mismatch"),
                               (f"ca={ours.file('ca.pem')}", "certificate")):
                with asker(url_of(server, f"{more}&{PATIENT}", "rediss", "localhost"), waits=False) as one:
                    until(lambda: one.status()["last_error"], "an error that is told")
                    refused(UNREACHABLE, one.ask, "wait 1", says=says)
            with asker(url_of(server, f"verify=none&{client}&{PATIENT}", "rediss")) as one:
                one.ask("limit a 10/hour")
                assert one.take("a", "unverified").allowed
        for more, says in ((f"ca={name}/none.pem", "none.pem"),
                           (f"cert={ours.file('client.csr')}&key={ours.file('client.key')}", "client.csr"),
                           (f"cert={ours.file('client.pem')}&key={theirs.file('client.key')}", "client.key")):
            refused(-2, Asker, f"rediss://localhost/?{more}", says=says)


def tls_where_there_is_none():
    # Redis takes the TLS handshake for the beginning of a command, and waits for its end.
    with redis() as server, asker(url_of(server, "connect_timeout=300ms", "rediss"), waits=False) as one:
        until(lambda: one.status()["last_error"], "an error that is told")
        refused(UNREACHABLE, one.ask, "wait 1", says="could not be reached with TLS within 300 ms")
    with NoRedis(b"-ERR no TLS here\r\n") as server, asker(url_of(server, PATIENT, "rediss"), waits=False) as one:
        until(lambda: one.status()["last_error"], "an error that is told")
        refused(UNREACHABLE, one.ask, "wait 1", says="TLS: ")


# --- a Redis that is not well ---------------------------------------------------------------------------------------


def nobody_listens():
    with redis() as server:
        server.kill()
        with asker(url_of(server), waits=False) as one:
            until(lambda: one.status()["last_error"], "an error that is told")
            refused(UNREACHABLE, one.ask, "wait 1", says="refused")
            one.ask("limit a 10/hour")
            refused(UNREACHABLE, one.ask, "take a k 1")
            server.start()
            one.ask(WAIT)
            assert one.take("a", "k").remaining == 9


def a_name_that_nobody_knows():
    with asker(f"redis://no-such-host.invalid/?{PATIENT}", waits=False) as one:
        until(lambda: one.status()["last_error"], "an error that is told")
        refused(UNREACHABLE, one.ask, "wait 1", says="no-such-host.invalid")


def servers_that_are_no_redis():
    for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n", b"*3\r\n+a\r\n:1\r\n$-1\r\n", b"\0\xff" * 100,
                   b"-ERR unknown command\r\n" * 3, b"$999999999999\r\n"):
        with NoRedis(answer) as server, asker(url_of(server), waits=False) as one:
            until(lambda: one.status()["last_error"], f"an error that is told, after {answer[:20]}")
            one.ask("limit a 10/hour")
            refused(UNREACHABLE, one.ask, "take a k 1")


def a_restart():
    with redis() as server, asker(url_of(server, "timeout=10s")) as one:
        one.ask("limit a 10/hour")
        assert one.take("a", "k").remaining == 9
        server.kill()
        until(lambda: not one.status()["is_up"], "a store that is not up")
        refused(UNREACHABLE, one.ask, "take a k 1")
        server.start()
        assert takes_until_decided(one, "a", "k").remaining == 9  # it keeps nothing on a disk


def a_redis_that_sleeps():
    with redis() as server, asker(url_of(server, "timeout=50ms")) as one:
        one.ask("limit a 1000/5000day fixed_window")
        before = takes_until_decided(one, "a", "k").remaining
        counted = one.status()
        server.pause()
        try:
            def is_given_up():
                try:
                    one.take("a", "k")
                except Refused as refusal:
                    assert refusal.code in (UNREACHABLE, UNANSWERED), refusal
                return one.status()["unreachable"] > counted["unreachable"]
            until(is_given_up, "that it is not asked any more")
        finally:
            server.go_on()
        left = takes_until_decided(one, "a", "k").remaining
        after = one.status()
        unanswered = after["unanswered"] - counted["unanswered"]
        decided = after["decided"] - counted["decided"]
        # Requests without a reply may be counted, each once; requests that were not sent are not.
        assert before - decided - unanswered <= left <= before - decided, (before, left, counted, after)


def replies_that_are_late_lost_or_cut():
    with redis() as server, FaultProxy(server.port) as proxy, asker(url_of(proxy, "timeout=100ms")) as one:
        one.ask("limit a 100000/5000day fixed_window")
        for fault, *arguments in (("delay", 0.3), ("drop_replies",), ("hold",), ("cut_replies_after", 7), ("cut",), ("refuse",)):
            before = takes_until_decided(one, "a", "k").remaining
            counted = one.status()
            getattr(proxy, fault)(*arguments)
            one.ask("pause 5 20 a k")
            proxy.restore()
            left = takes_until_decided(one, "a", "k").remaining
            after = one.status()
            # Held or delayed requests may arrive after their callers have gone, and after this check.
            decided = after["decided"] - counted["decided"]
            unanswered = after["unanswered"] - counted["unanswered"]
            assert before - decided - unanswered <= left <= before - decided, (fault, before, left, counted, after)
            if fault in ("drop_replies", "hold", "delay"):
                assert unanswered > 0, (fault, counted, after)
            if fault == "refuse":
                assert after["unreachable"] > counted["unreachable"], (counted, after)


def nothing_is_counted_twice(rounds=12):
    """Faults in any order, while threads send requests all the time."""
    dice = random.Random(20)
    with redis() as server, FaultProxy(server.port) as proxy, asker(url_of(proxy, "timeout=20ms&pool=3")) as one:
        one.ask("limit a 1000000000/5000day fixed_window")
        one.take("a", "before")
        counted = one.status()

        def sleep_for_a_while():
            server.pause()
            time.sleep(0.1)
            server.go_on()
        faults = [lambda: proxy.delay(dice.choice((0.005, 0.015, 0.04))), proxy.drop_replies, proxy.hold, proxy.cut,
                  lambda: proxy.cut_replies_after(dice.randrange(200)), proxy.refuse, sleep_for_a_while,
                  lambda: server.command("SCRIPT", "FLUSH"), lambda: server.command("CLIENT", "KILL", "TYPE", "normal")]
        order = [fault for _ in range(-(-rounds // len(faults))) for fault in dice.sample(faults, len(faults))][:rounds]

        def meddle():
            for fault in order:
                with contextlib.suppress(ConnectionError):  # killing all connections kills its own
                    fault()
                time.sleep(0.1)
                proxy.restore()
                time.sleep(0.1)
        meddler = threading.Thread(target=meddle)
        meddler.start()
        admitted, denied, unreachable, unanswered, _ = map(int, one.ask(f"storm 6 {rounds * 200} a k").split())
        meddler.join()
        assert admitted and not denied, (admitted, denied)
        takes_until_decided(one, "a", "after")
        after = one.status()
        assert after["decided"] - counted["decided"] >= admitted, (counted, after, admitted)

        def used():
            return 1000000000 - one.take("a", "k", 0, "peek").remaining

        def is_steady():  # what was held on its way has arrived
            with contextlib.suppress(Refused):
                before = used()
                time.sleep(0.2)
                return used() == before and before
        charged = until(is_steady, "requests that have all arrived")
        assert admitted <= charged <= admitted + unanswered, (admitted, charged, unanswered)
        print(f"# {admitted} decided, {unreachable} not asked, {unanswered} not answered, of which "
              f"{charged - admitted} were counted", flush=True)


def nothing_is_counted_twice_in_minutes():
    nothing_is_counted_twice(1000)


def memory_that_is_full_and_replicas():
    with redis() as server, asker(url_of(server)) as one:
        one.ask("limit a 10/hour")
        assert one.take("a", "k").remaining == 9
        server.command("CONFIG", "SET", "maxmemory", "1")
        refused(UNREACHABLE, one.ask, "take a k 1")
        server.command("CONFIG", "SET", "maxmemory", "0")
        assert takes_until_decided(one, "a", "k").remaining == 8
        server.command("REPLICAOF", "127.0.0.1", "1")
        refused(UNREACHABLE, one.ask, "take a k 1")
        server.command("REPLICAOF", "NO", "ONE")
        assert takes_until_decided(one, "a", "k").remaining == 7


def sentinels_name_another_primary():
    with folder() as name, Trio(name) as trio:
        with asker(f"redis+sentinel://{trio.places()}/{trio.NAME}/2?{PATIENT}") as one:
            one.ask("limit a 10/hour")
            assert one.take("a", "k").remaining == 9
            old = trio.primary_port()
            replica = next(server for server in trio.servers if server.port != old)
            # Replication is asynchronous: wait for it, so that there is one right answer.
            until(lambda: replica.command("INFO", "keyspace").count("db2:"), "a replica that has the key")
            trio.server_at(old).kill()
            until(lambda: trio.primary_port() != old, "another primary")
            assert takes_until_decided(one, "a", "k").remaining == 8
            status = one.status()
            assert status["failovers"] >= 1 and status["is_up"], status
        with asker(f"redis+sentinel://{trio.places()}/egret?{PATIENT}", waits=False) as one:
            until(lambda: one.status()["last_error"], "an error that is told")
            refused(UNREACHABLE, one.ask, "wait 1", says="does not know a primary of this name")


def sentinels_by_tls():
    with folder() as name:
        ours = Certificates(name)
        more = f"ca={ours.file('ca.pem')}&cert={ours.file('client.pem')}&key={ours.file('client.key')}&{PATIENT}"
        with Trio(name, ours) as trio, asker(f"rediss+sentinel://{trio.places()}/{trio.NAME}?{more}") as one:
            one.ask("limit a 10/hour")
            assert one.take("a", "k").remaining == 9


TESTS = {
    "well": [every_operation, every_algorithm, several_limits_are_all_or_nothing, what_cannot_be_is_refused, a_limit_changes,
             threads_share_a_limit_exactly, the_example_does_what_it_says, users_databases_prefixes_and_paths,
             the_documented_user_is_enough, a_script_that_is_gone_is_loaded_again, tls_with_certificates_of_clients,
             tls_where_there_is_none],
    "faults": [nobody_listens, a_name_that_nobody_knows, servers_that_are_no_redis, a_restart, a_redis_that_sleeps,
               replies_that_are_late_lost_or_cut, nothing_is_counted_twice, memory_that_is_full_and_replicas],
    "storm": [nothing_is_counted_twice_in_minutes],
    "sentinels": [sentinels_name_another_primary, sentinels_by_tls],
}


def main(words):
    tests = [test for theme, those in TESTS.items() for test in those
             if theme in words or test.__name__ in words]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
        except Exception:  # any error; the other tests continue
            failed += 1
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            print(f"not ok {number} - {test.__name__}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[3:]))
