#!/usr/bin/env python3
"""The commands of weir serve for holds, waits, several limits and introspection, over sockets.

    commands_test.py WEIR

The test measures no time: it tests a wait by what happens before it is over, and by its end."""
# Covers: src/engine/errors.c, src/engine/limit_ref.c, src/engine/inline_limits.c, src/server/resp/client_info.c,
# src/server/resp/resp_client.c, src/server/resp/resp_commands.c, src/server/resp/resp_decide.c, src/server/resp/resp_hold.c,
# src/server/resp/resp_info.c, src/server/resp/resp_introspect.c, src/server/resp/resp_transaction.c

import contextlib
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time

from daemon import TIMEOUT_S, bulks, run
from resp_client import Client, Refused, until
from serve_test import is_closed, server

os.environ["WEIR_CORE_DUMPS"] = "true"  # otherwise only root could count the server's descriptors

HOUR = "10/hour"
HOUR_NS = 3600 * 10**9


def left(client, key, limit):
    return client.ask("WEIR.PEEK", key, limit, 0)[2]


# --- several limits, and what is known ---------------------------------------------------------------------------


def a_key_is_inspected():
    with server() as one, Client(one) as client, Client(one, protocol=3) as third:
        assert client.ask("WEIR.INSPECT", "k", HOUR) == [
            "is_stored", 0, "full_at", 0, "limit", 10, "remaining", 10, "reset_after", 0, "algorithm", "token_bucket",
            "text", HOUR]
        client.ask("WEIR.TAKE", "k", HOUR, 4)
        known = third.ask("WEIR.INSPECT", "k", "10/60min")
        assert known["is_stored"] is True and known["remaining"] == 6 and known["text"] == HOUR, known
        assert known["full_at"] > 10**18 and 0 < known["reset_after"] <= HOUR_NS, known


def all_or_none_are_charged():
    with server() as one, Client(one) as client, Client(one, protocol=3) as third:
        answer = client.ask("WEIR.ALL", "a", HOUR, 3, "b", "5/hour", 2)
        assert answer[:5] == [1, 5, 3, 2, 0] and answer[7] == 2, answer
        answer = third.ask("WEIR.ALL", "a", HOUR, 3, "b", "5/hour", 4)
        assert answer["allowed"] is False and answer["decided_by"] == 2 and answer["retry_after"] > 0, answer
        assert (left(client, "a", HOUR), left(client, "b", "5/hour")) == (7, 3)
        # the same key twice is one claim
        answer = client.ask("WEIR.ALL", "c", HOUR, 6, "c", "10/60min", 5)
        assert answer[0] == 0 and answer[4] == -1 and left(client, "c", HOUR) == 10, answer
        assert client.refusal("WEIR.ALL", "a", HOUR).startswith("ERR wrong number of arguments")
        assert client.refusal("WEIR.ALL", "a", HOUR, 1, "b") == (
            "ERR WEIR.ALL takes 1 to 16 groups of key, limit and cost")
        assert client.refusal("WEIR.ALL", *["a", HOUR, 1] * 17).startswith("ERR wrong number of arguments")
        assert client.refusal("WEIR.ALL", "a", HOUR, 1, "b", "x", 1).startswith("ERR the limit: ")
        assert client.refusal("WEIR.ALL", "a", HOUR, 1, "b", HOUR, -1).startswith("ERR invalid cost")
        assert left(client, "a", HOUR) == 7


def limits_of_one_request_do_not_displace_each_other():
    """More limits than a worker caches, so some limits of one request share a place in the cache."""
    with server("--workers", "1") as one, Client(one) as client:
        for first in range(0, 640, 16):
            words = [word for i in range(first, first + 16) for word in ("k", f"{i + 1}/hour", 1)]
            assert client.ask("WEIR.ALL", *words)[0] == 1
            for i in range(first, first + 16):
                assert left(client, "k", f"{i + 1}/hour") == i, i


# --- arrays and maps ---------------------------------------------------------------------------------------------

# Every command of Weir that replies with several values: its arguments, and the names in maps. None stands for a number
# that depends on the clock.
NAMES = ["allowed", "limit", "remaining", "granted", "retry_after", "reset_after", "delay"]
ARRAYS = [
    (("WEIR.TAKE", "k", HOUR, 4), [1, 10, 6, 4, 0, None, 0], NAMES),
    (("WEIR.TAKE", "k", HOUR, 7), [0, 10, 6, 0, None, None, 0], NAMES),
    (("WEIR.TAKE", "k", HOUR, 1, "WAIT", 10), [1, 10, 5, 1, 0, None, 0, 0], [*NAMES, "waited"]),
    (("WEIR.UPTO", "k", HOUR, 2), [1, 10, 3, 2, 0, None, 0], NAMES),
    (("WEIR.PEEK", "k", HOUR), [1, 10, 3, 0, 0, None, 0], NAMES),
    (("WEIR.REFUND", "k", HOUR, 1), [1, 10, 4, 0, 0, None, 0], NAMES),
    (("WEIR.ALL", "k", HOUR, 1, "l", HOUR, 2), [1, 10, 3, 1, 0, None, 0, 1], [*NAMES, "decided_by"]),
    (("WEIR.HOLD", "id", "k", HOUR, 2, 60000), [1, 10, 1, 2, 0, None, 0], NAMES),
    (("WEIR.SETTLE", "id", 1), [2, 1, 0, 1, 0, 10, 2, None],
     ["held", "actual", "charged", "refunded", "beyond", "limit", "remaining", "reset_after"]),
    (("WEIR.CHECK", "ip", "192.0.2.1"), [1, 5, 4, 1, 0, None, 0, 1, 0, "per-ip"], [*NAMES, "limits", "shadow_denied", "decided_by"]),
]


def without_times(answer, wanted):
    return [value if want is not None else None for value, want in zip(answer, wanted)] if len(answer) == len(wanted) else answer


@contextlib.contextmanager
def server_with_policy():
    with tempfile.TemporaryDirectory(prefix="weir-commands-") as folder:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write("limits:\n  - {name: per-ip, key: [ip], limit: 5/hour}\n")
        with server("--policy", path) as one:
            yield one


def replies_are_arrays_in_both_protocols():
    """Arrays of integers, so that all libraries read the first element as true or false alike."""
    for protocol in 2, 3:
        with server_with_policy() as one, Client(one) as client:
            if protocol == 3:
                assert client.ask("HELLO", 3)["proto"] == 3
            for words, wanted, _ in ARRAYS:
                answer = client.ask(*words)
                assert without_times(answer, wanted) == wanted, (protocol, words, answer)
                assert not any(isinstance(value, bool) for value in answer), (protocol, words, answer)
            known = client.ask("WEIR.INSPECT", "k", HOUR)
            assert known[:2] == ["is_stored", 1] and not isinstance(known[1], bool) and len(known) == 14, (protocol, known)
            (row,) = client.ask("WEIR.LIMITS")
            assert row[:4] == ["name", "per-ip", "limit", "5/hour"] and len(row) == 24, (protocol, row)
            client.ask("MULTI")
            client.ask("WEIR.TAKE", "k", HOUR)
            (taken,) = client.ask("EXEC")
            assert taken[:3] == [1, 10, 1], (protocol, taken)


def maps_are_for_connections_that_ask_for_them():
    with server_with_policy() as one, Client(one) as client, Client(one) as other:
        assert client.refusal("WEIR.REPLIES", "MAP") == "ERR RESP2 does not support maps: send HELLO 3 before WEIR.REPLIES MAP"
        assert client.refusal("WEIR.REPLIES", "SET") == "ERR invalid argument of WEIR.REPLIES: use MAP or ARRAY"
        assert client.refusal("WEIR.REPLIES").startswith("ERR wrong number of arguments")
        assert client.ask("WEIR.REPLIES", "ARRAY") == "OK"  # what it does anyway
        client.ask("HELLO", 3)
        assert client.ask("weir.replies", "map") == "OK"
        for words, wanted, names in ARRAYS:
            answer = client.ask(*words)
            assert list(answer) == names, (words, answer)
            assert without_times(list(answer.values()), wanted) == wanted, (words, answer)
            assert all(isinstance(value, bool) == (name == "allowed") for name, value in answer.items()), (words, answer)
        assert client.ask("WEIR.INSPECT", "k", HOUR)["is_stored"] is True
        (row,) = client.ask("WEIR.LIMITS")
        assert row["name"] == "per-ip" and row["limit"] == "5/hour", row
        assert isinstance(other.ask("WEIR.PEEK", "k", HOUR), list)  # another connection is not affected
        # replies that Redis and redis-cell define stay the same
        assert client.ask("CL.THROTTLE", "c", 1, 1, 86400) == [0, 2, 1, -1, 86400] and client.ask("WEIR.RESET", "k", HOUR) == 1
        asked = [("WEIR.PEEK", "k", HOUR), ("WEIR.REPLIES", "ARRAY"), ("WEIR.PEEK", "k", HOUR), ("WEIR.REPLIES", "MAP"),
                 ("HELLO", 3), ("WEIR.PEEK", "k", HOUR), ("HELLO", 2), ("WEIR.PEEK", "k", HOUR), ("HELLO", 3),
                 ("WEIR.PEEK", "k", HOUR), ("WEIR.REPLIES", "MAP"), ("WEIR.PEEK", "k", HOUR), ("RESET",), ("HELLO", 3),
                 ("WEIR.PEEK", "k", HOUR)]
        kinds = [type(answer) for answer, words in zip(client.pipeline(asked), asked) if words[0] == "WEIR.PEEK"]
        assert kinds == [dict, list, dict, list, list, dict, list], kinds
        client.ask("MULTI")
        assert client.refusal("WEIR.REPLIES", "MAP").startswith("ERR MULTI queues")


# --- holds -------------------------------------------------------------------------------------------------------


def holds_are_settled_by_anybody_once():
    with server("--workers", "2") as one:
        with Client(one) as first:
            answer = first.ask("WEIR.HOLD", "id", "k", HOUR, 4, 3600000)
            assert answer[:5] == [1, 10, 6, 4, 0], answer
        with Client(one, by_path=True) as client, Client(one, protocol=3) as third:
            assert client.ask("WEIR.HOLD", "id", "k", HOUR, 4, 3600000) == answer
            assert client.refusal("WEIR.HOLD", "id", "k", HOUR, 5, 3600000).startswith("HELDOTHER ")
            assert left(client, "k", HOUR) == 6
            settled = third.ask("WEIR.SETTLE", "id", 1)
            assert [settled[name] for name in ("held", "actual", "charged", "refunded", "beyond", "limit", "remaining")
                    ] == [4, 1, 0, 3, 0, 10, 9], settled
            assert client.ask("WEIR.SETTLE", "id", 1) == list(settled.values())
            assert client.refusal("WEIR.RELEASE", "id").startswith("SETTLED ")
            assert client.ask("WEIR.HOLD", "id", "k", HOUR, 4, 3600000) == answer
            assert left(client, "k", HOUR) == 9

            assert client.ask("WEIR.HOLD", b"\x00\xff", "k", HOUR, 4, 60000)[0] == 1
            released = client.ask("WEIR.RELEASE", b"\x00\xff")
            assert released[:5] == [4, 0, 0, 4, 0] and client.ask("WEIR.RELEASE", b"\x00\xff") == released

            assert client.ask("WEIR.HOLD", "more", "k", HOUR, 4, 60000)[0] == 1
            assert client.ask("WEIR.SETTLE", "more", 100)[:7] == [4, 100, 5, 0, 91, 10, 0]


# Limits that do not refill during the test, and how much of a hold of 4 a release gives back.
RELEASED = {"10/1000day": 4, "10/1000day leaky_bucket": 4, "10/1000day refill interval": 4,
            "10/1000day fixed_window align first": 4, "10/1000day sliding_log": 4, "10/1000day fixed_window align first count all": 0,
            "10/1000day sliding_log count all": 0}


def a_release_gives_back_what_still_counts():
    with server("--workers", "2") as one, Client(one) as client:
        for limit, refunded in RELEASED.items():
            assert client.ask("WEIR.HOLD", limit, "k", limit, 4, 60000)[0] == 1, limit
            assert client.ask("WEIR.TAKE", "k", limit, 5)[0] == 1, limit
            released = client.ask("WEIR.RELEASE", limit)
            assert (released[3], released[6]) == (refunded, 1 + refunded), (limit, released)


def what_another_took_is_not_given_back():
    """After everything has refilled, nothing is left of a hold to give back, and others may have taken it."""
    with server("--workers", "2") as one, Client(one) as client:
        limit = "10/s burst 30"
        assert client.ask("WEIR.HOLD", "a", "k", limit, 20, 60000)[0] == 1
        assert client.ask("WEIR.HOLD", "b", "k", limit, 10, 60000)[0] == 1
        client.ask("WEIR.RELEASE", "a")
        while client.ask("WEIR.TAKE", "k", limit, 30)[0] == 0:
            pass
        assert client.ask("WEIR.RELEASE", "b")[3] == 0


def bad_holds_are_refused():
    with server() as one, Client(one) as client:
        for words, error in ((("WEIR.HOLD", "", "k", HOUR, 1, 1), "ERR invalid id: use 1 to 64 bytes"),
                             (("WEIR.HOLD", "i" * 65, "k", HOUR, 1, 1), "ERR invalid id: use 1 to 64 bytes"),
                             (("WEIR.HOLD", "i", "k" * 257, HOUR, 1, 1), "ERR the key is too long: a hold's key has at most 256 bytes"),
                             (("WEIR.HOLD", "i", "k", "often", 1, 1), "ERR the limit: "),
                             (("WEIR.HOLD", "i", "k", HOUR, "x", 1), "ERR invalid cost"),
                             (("WEIR.HOLD", "i", "k", HOUR, 1, 0), "ERR invalid ttl: use 1 to 86400000 ms"),
                             (("WEIR.HOLD", "i", "k", HOUR, 1, 86400001), "ERR invalid ttl: use 1 to 86400000 ms"),
                             (("WEIR.SETTLE", "i", -1), "ERR invalid actual cost"),
                             (("WEIR.SETTLE", "i", 1), "NOHOLD "), (("WEIR.RELEASE", "i"), "NOHOLD ")):
            assert client.refusal(*words).startswith(error), words
        assert client.ask("WEIR.HOLD", "i" * 64, "k" * 256, HOUR, 11, 1)[4] == -1
        assert client.refusal("WEIR.RELEASE", "i" * 64).startswith("NOHOLD ")
        assert client.ask("WEIR.HOLD", "short", "k", HOUR, 2, 1)[0] == 1
        while True:  # until it ends, which settles it
            try:
                client.ask("WEIR.SETTLE", "short", 2)
            except Refused as error:
                assert str(error).startswith("NOHOLD "), error
                break
        assert left(client, "k", HOUR) == 8


def holds_are_bounded():
    with server("--holds", "2", "--workers", "2") as one, Client(one) as client, Client(one) as other:
        assert client.ask("WEIR.HOLD", "a", "k", HOUR, 1, 3600000)[0] == 1
        assert other.ask("WEIR.HOLD", "b", "k", HOUR, 1, 1)[0] == 1
        while True:  # there is room as soon as the second has ended
            try:
                assert other.ask("WEIR.HOLD", "c", "k", HOUR, 1, 3600000)[2] == 7
                break
            except Refused as error:
                assert str(error).startswith("BUSY ") and left(client, "k", HOUR) == 8, error
        assert client.refusal("WEIR.HOLD", "d", "k", HOUR, 1, 3600000).startswith("BUSY ")
        assert left(client, "k", HOUR) == 7 and client.ask("WEIR.RELEASE", "a")[:2] == [1, 0]


# --- waits -------------------------------------------------------------------------------------------------------

# NEVER does not refill during a test; SOON refills quickly.
NEVER, SOON = "1/day", "20/s burst 1"


def waiting(client):
    """How many requests wait, on a server with one worker."""
    return int(next(line for line in client.ask("INFO").split("\r\n") if line.startswith("waiting_here:"))[13:])


def until_waiting(client, n):
    while waiting(client) != n:
        pass


def a_wait_holds_up_its_connection_alone():
    with server("--workers", "1") as one, Client(one) as patient, Client(one) as other:
        patient.ask("WEIR.TAKE", "k", SOON)
        for i in range(5):
            patient.send("WEIR.TAKE", "k", SOON, 1, "WAIT", 60000)
            patient.send("ECHO", i)
        assert other.ask("PING") == "PONG"
        for i in range(5):
            answer = patient.read()
            assert answer[:5] == [1, 1, 0, 1, 0] and answer[6] == 0, answer
            assert patient.read() == str(i)
        assert waiting(other) == 0


def waits_go_in_the_order_in_which_they_came():
    for limit in (SOON, "20/s leaky queue 50", "1/50ms fixed_window"):
        with server("--workers", "1") as one, contextlib.ExitStack() as stack:
            asker = stack.enter_context(Client(one))
            clients = [stack.enter_context(Client(one)) for _ in range(8)]
            asker.ask("WEIR.TAKE", "k", limit)
            for client in clients:
                client.send("WEIR.TAKE", "k", limit, "WAIT", 60000)
                asker.ask("PING")  # earlier requests have been read by now
            for middle in (3, 7):  # all clients before one with a reply have a reply, too
                assert clients[middle].read()[0] == 1
                before = [client.socket for client in clients[:middle] if client is not clients[3]]
                assert select.select(before, [], [], 0)[0] == before


def a_wait_that_is_in_vain_is_denied():
    with server("--workers", "1") as one, Client(one) as client:
        assert client.ask("WEIR.TAKE", "k", NEVER, "WAIT", 60000)[0] == 1
        answer = client.ask("WEIR.TAKE", "k", NEVER, "WAIT", 60000)
        assert answer[0] == 0 and 60 * 10**9 < answer[4] <= 86400 * 10**9, answer
        assert client.ask("WEIR.TAKE", "k", NEVER, 2, "WAIT", 60000)[4] == -1
        assert client.ask("WEIR.TAKE", "q", "1/day leaky queue 5", "WAIT", 0)[0] == 1
        answer = client.ask("WEIR.TAKE", "q", "1/day leaky queue 5", "WAIT", 1000)
        assert answer[0] == 0 and answer[3] == 0 and answer[4] > 10**9, answer
        assert left(client, "q", "1/day leaky queue 5") == 4
        assert client.refusal("WEIR.TAKE", "k", NEVER, "WAIT", -1) == "ERR invalid timeout: use 0 to 86400000 ms"
        assert client.refusal("WEIR.TAKE", "k", NEVER, "WAIT", 86400001) == "ERR invalid timeout: use 0 to 86400000 ms"
        assert client.refusal("WEIR.TAKE", "k", NEVER, 1, "UNTIL", 1).startswith("ERR invalid argument after the limit")
        assert client.refusal("WEIR.TAKE", "k", "x", 1, "WAIT", 1).startswith("ERR the limit: ")


def who_leaves_while_it_waits_leaves_nothing():
    # limit, what is left after one take, and what is left while another waits
    for limit, before, meanwhile in (("1/hour", 0, 0), ("1/hour leaky queue 3", 2, 1)):
        with server("--workers", "1") as one, Client(one) as other:
            other.ask("WEIR.TAKE", "k", limit)
            assert left(other, "k", limit) == before
            with Client(one) as client:
                client.send("WEIR.TAKE", "k", limit, "WAIT", 86400000)
                until_waiting(other, 1)
                assert left(other, "k", limit) == meanwhile
            until_waiting(other, 0)
            assert left(other, "k", limit) == before


def sigterm_denies_who_waits_and_answers_the_rest():
    with server("--workers", "1") as one, Client(one) as client, Client(one) as other:
        client.ask("WEIR.TAKE", "k", NEVER)
        client.send("WEIR.TAKE", "k", NEVER, "WAIT", 86400000)
        client.send("PING")
        client.send("WEIR.TAKE", "k", NEVER, "WAIT", 86400000)
        until_waiting(other, 1)
        one.process.send_signal(signal.SIGTERM)
        assert client.read()[0] == 0 and client.read() == "PONG" and client.read()[0] == 0
        assert client.file.read(1) == b"" and one.process.wait(TIMEOUT_S) == 0


# --- about commands ----------------------------------------------------------------------------------------------


def commands_are_described_as_redis_does():
    with server() as one, Client(one) as client, Client(one, protocol=3) as third:
        rows = client.ask("COMMAND")
        names = [row[0] for row in rows]
        assert client.ask("COMMAND", "COUNT") == len(rows) and client.ask("COMMAND", "LIST") == names
        assert client.ask("COMMAND", "INFO") == rows and all(len(row) == 10 for row in rows)
        assert sorted(third.ask("COMMAND", "DOCS")) == sorted(names)
        take, nothing = client.ask("COMMAND", "INFO", "weir.take", "nothing")
        assert take[:7] == ["weir.take", -3, ["write", "fast"], 1, 1, 1, ["@write", "@fast"]] and nothing is None, take
        assert client.ask("COMMAND", "INFO", "WEIR.all")[0][3:6] == [1, -3, 3]
        docs = third.ask("COMMAND", "DOCS", "weir.take", "nothing", "quit")
        assert list(docs) == ["weir.take", "quit"] and docs["weir.take"]["arguments"] == [
            {"name": "key", "type": "key"}, {"name": "limit", "type": "string"},
            {"name": "cost", "type": "integer", "flags": ["optional"]},
            {"name": "timeout_ms", "type": "integer", "token": "WAIT", "flags": ["optional"]},
            {"name": "value", "type": "string", "token": "TRACEPARENT", "flags": ["optional"]}], docs
        assert client.ask("COMMAND", "GETKEYS", "WEIR.ALL", "a", "l", 1, "b", "l", 2, "c", "l", 3) == ["a", "b", "c"]
        assert client.ask("COMMAND", "GETKEYS", "weir.hold", "i", "k", "l", 1, 1) == ["k"]
        assert client.ask("COMMAND", "GETKEYS", "cl.throttle", "k", 1, 1, 1) == ["k"]
        assert client.refusal("COMMAND", "GETKEYS", "ping") == "ERR The command has no key arguments"
        assert client.refusal("COMMAND", "GETKEYS", "nothing") == "ERR Invalid command specified"
        assert client.refusal("COMMAND", "GETKEYS", "weir.take", "k") == (
            "ERR Invalid number of arguments specified for command")
        assert client.refusal("COMMAND", "GETKEYS", "weir.take", "k" * 60000, "l").startswith("ERR the keys are too long")
        assert client.refusal("COMMAND", "NONE") == "ERR unknown subcommand 'NONE'. Try COMMAND HELP."
        assert len(client.ask("COMMAND", "HELP")) == 5
        # the longest replies
        assert len(client.ask("COMMAND", "DOCS", *["weir.take"] * 62)) == 124
        assert len(third.ask("COMMAND", "INFO", *["weir.all"] * 62)) == 62


def every_command_is_found_by_its_name_alone():
    with server() as one, Client(one) as client:
        for name in client.ask("COMMAND", "LIST"):
            for word in (name, name.upper(), name.title()):
                assert client.ask("COMMAND", "INFO", word)[0][0] == name
            for word in (name + "x", name[:-1], "x" + name, name.replace("e", "\x05"), name.replace(".", "\x0e"),
                         name[:-1] + "\0", name + "\0", name * 3, name[:8] + name[-8:], name[:4] + name[-4:]):
                if word != name:
                    assert client.ask("COMMAND", "INFO", word) == [None], (name, word)


def help_is_a_list():
    with server() as one, Client(one) as client:
        lines = client.ask("HELP")
        assert [line.split(":")[0].split(" ")[0].lower() for line in lines] == client.ask("COMMAND", "LIST")
        assert client.ask("HELP", "weir.release") == [line for line in lines if line.startswith("WEIR.RELEASE")]
        errors = client.ask("HELP", "errors")
        assert any(line.startswith("NOHOLD ") for line in errors) and all(": " in line for line in errors)
        assert client.ask("WEIR.HELP") == lines and client.ask("WEIR.HELP", "errors") == errors
        needs = [line.split(" ")[0].split(":")[0].lower() for line in lines if re.search("; needs role (operate|read|admin)$", line)]
        assert needs == [row[0] for row in client.ask("COMMAND") if "admin" in row[2] and "@admin" in row[6]], needs
        assert needs == client.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "admin") and "weir.reset" in needs, needs
        assert "in ns" in client.ask("WEIR.HELP", "weir.take")[0]
        assert client.refusal("HELP", "nothing") == "ERR unknown help topic 'nothing': use a command, or ERRORS"


def info_has_sections():
    def heads(*sections):
        return re.findall("^# (.*)\r$", client.ask("INFO", *sections), re.MULTILINE)

    with server("--keys", "1000") as one, Client(one) as client:
        every = ["Server", "Clients", "Decisions", "Table", "Observing", "Replication"]
        assert heads() == heads("all") == heads("Everything", "nothing") == every, heads()
        assert heads("TABLE", "server") == ["Server", "Table"] and client.ask("INFO", "keyspace") == ""
        client.ask("WEIR.TAKE", "a", "1/day")
        told = client.info()
        assert (told["allowed"], told["denied"]) == ("1", "0"), told
        assert int(told["process_id"]) == one.process.pid and int(told["uptime_in_seconds"]) >= 0, told
        assert (told["table_live_keys"], told["table_inserted_keys"], told["table_evicted_keys"]) == ("1", "1", "0"), told
        assert int(told["table_capacity_keys"]) >= 1000 and told["role"] == "master", told
        assert (told["table_folded_keys"], told["arena_used_bytes"], told["arena_bytes"]) == ("0", "0", str(16 << 20)), told
    with server("--keys", "1m", "--workers", "1") as one, Client(one) as client:  # a large table, where a sample would miss a few keys
        assert client.ask("DBSIZE") == 0
        for n in range(1, 8):
            client.ask("WEIR.TAKE", f"k{n}", "1/day")
            assert client.ask("DBSIZE") == int(client.info()["table_live_keys"]) == n
        client.ask("WEIR.RESET", "k1", "1/day")
        until(lambda: client.ask("DBSIZE") == 6, "it is counted anew")
    with server("--workers", "2", "--connections", "7") as one, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one)) for _ in range(5)]
        assert [client.ask("PING") for client in clients] == ["PONG"] * 5
        told = clients[0].info()
        assert (told["connected_clients"], told["maxclients"], told["auth_failures"]) == ("5", "14", "0"), told


def fields(line):
    return dict(field.split("=", 1) for field in line.split(" "))


def a_connection_is_told_what_is_known_of_it():
    with server("--workers", "3") as one, contextlib.ExitStack() as stack:
        for i in range(8):
            is_path = i % 4 == 0
            client = stack.enter_context(Client(one, protocol=2 + i % 2, by_path=is_path))
            client.ask("CLIENT", "SETNAME", f"n{i}")
            told = client.ask("CLIENT", "INFO")
            line = fields(told.rstrip("\n"))
            ends = [f"{one.path}:0"] * 2 if is_path else ["%s:%d" % client.socket.getsockname(), f"127.0.0.1:{one.port}"]
            assert told.endswith("\n") and int(line["id"]) == client.ask("CLIENT", "ID"), told
            assert [line["addr"], line["laddr"]] == ends and line["name"] == f"n{i}", line
            assert line["resp"] == str(2 + i % 2) and line["user"] == "default" and line["db"] == "0", line
            assert int(line["fd"]) > 2 and int(line["age"]) >= int(line["idle"]) >= 0, line
            assert line["flags"] == ("U" if is_path else "N"), line


def clients_of_redis_are_answered():
    """Commands that pools and tools send to any Redis."""
    with server() as one, Client(one) as client, Client(one, protocol=3) as third:
        third.ask("CLIENT", "SETNAME", "heron")
        third.ask("MULTI")
        third.ask("WEIR.TAKE", "m", HOUR)
        assert third.ask("RESET") == "RESET" and third.ask("CLIENT", "GETNAME") is None
        assert third.refusal("EXEC") == "ERR EXEC without MULTI" and left(client, "m", HOUR) == 10
        assert isinstance(third.ask("WEIR.PEEK", "m", HOUR), list)  # in RESP3 it used to be a map
        seconds, microseconds = client.ask("TIME")
        assert abs(int(seconds) - time.time()) < TIMEOUT_S and 0 <= int(microseconds) < 10**6
        before = client.ask("DBSIZE")
        client.pipeline([("WEIR.TAKE", f"d{i}", HOUR) for i in range(3)])
        assert client.ask("DBSIZE") == before + 3 and client.ask("ACL", "WHOAMI") == "default"
        for words in (("CLUSTER", "INFO"), ("CLUSTER", "SLOTS"), ("READONLY",), ("READWRITE",)):
            assert client.refusal(*words) == "ERR This instance has cluster support disabled", words
        for words in (("SETINFO", "LIB-NAME", "redis-py"), ("setinfo", "lib-ver", "5.0"), ("SETINFO", "lib-ver", ""),
                      ("NO-EVICT", "ON"), ("no-touch", "off")):
            assert client.ask("CLIENT", *words) == "OK", words
        for words, said in ((("SETINFO", "lib", "x"), "ERR Unrecognized option 'lib'"),
                            (("SETINFO", "LIB-ver", "a b"), "ERR LIB-ver cannot contain spaces, newlines or special characters."),
                            (("NO-EVICT", "maybe"), "ERR syntax error"), (("NO-TOUCH", "1"), "ERR syntax error")):
            assert client.refusal("CLIENT", *words) == said, words
        assert client.ask("COMMAND", "LIST", "FILTERBY", "PATTERN", "weir.re*") == [
            name for name in client.ask("COMMAND", "LIST") if name.startswith("weir.re")]
        assert client.ask("COMMAND", "LIST", "FILTERBY", "MODULE", "weir") == []
        assert client.refusal("WEIR.TAKE", "k", HOUR, "9" * 20) == "ERR invalid cost: use a whole number, 0 to 9223372036854775807"


def redis_cli_shows_hints():
    with server() as one:
        shown = subprocess.run(["redis-cli", "-p", str(one.port), "help", "weir.take"], capture_output=True, text=True,
                               timeout=TIMEOUT_S, check=True).stdout
        assert "key limit [cost] [WAIT timeout_ms]" in shown, shown


# --- workers -----------------------------------------------------------------------------------------------------


def descriptors(one):
    return len(os.listdir(f"/proc/{one.process.pid}/fd"))


def limit_descriptors(one, n):
    resource.prlimit(one.process.pid, resource.RLIMIT_NOFILE, (n, resource.prlimit(one.process.pid,
                                                                                  resource.RLIMIT_NOFILE)[1]))


def out_of_descriptors_others_are_served():
    with server("--workers", "1") as one, contextlib.ExitStack() as stack:
        enough = resource.prlimit(one.process.pid, resource.RLIMIT_NOFILE)[0]
        limit_descriptors(one, descriptors(one))
        lonely = stack.enter_context(Client(one))
        lonely.send("PING")  # no other client can leave and make room
        limit_descriptors(one, enough)
        assert lonely.read() == "PONG"
        limit_descriptors(one, descriptors(one) + 1)
        second, third = (stack.enter_context(Client(one)) for _ in range(2))
        assert second.ask("PING") == "PONG"
        third.send("PING")
        for _ in range(100):
            assert lonely.ask("WEIR.TAKE", "k", "1000/day")[0] == 1
        second.close()
        assert third.read() == "PONG"


def ask_together(one, *requests):
    """A client that has the reply to the first request. Retries if the server closes it as idle before that."""
    while True:
        client = Client(one)
        try:
            client.socket.sendall(b"".join(bulks(*request) for request in requests))
            client.read()
            return client
        except (AssertionError, OSError):
            client.close()


def who_is_silent_for_long_is_cut_off():
    take = ("WEIR.TAKE", "k", "2/s burst 1")
    with server("--idle", "100ms", "--workers", "1") as one:
        with one.connect() as silent:
            assert is_closed(silent)
        with ask_together(one, ("PING",), take, (*take, "WAIT", 60000)) as patient:
            patient.read()
            assert patient.read()[0] == 1  # a client that waits is not idle, however long it waits
            assert is_closed(patient.socket)


def who_does_not_read_is_cut_off_alone():
    with server("--output", "64KiB", "--stall", "100ms", "--workers", "1") as one, Client(one, by_path=True) as deaf, Client(one) as other:
        line, n = deaf.ask("HELP")[-1].encode(), 2000
        deaf.socket.sendall(b"HELP\r\n" * n)
        events = select.poll()
        events.register(deaf.socket, select.POLLRDHUP)
        assert events.poll(TIMEOUT_S * 1000)
        assert other.ask("PING") == "PONG"
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := deaf.socket.recv(1 << 16):
                got += piece
        assert 0 < got.count(line) < n


def the_end_waits_for_those_who_read_slowly():
    with server("--workers", "1") as one, Client(one, by_path=True) as slow:
        line, n = slow.ask("HELP")[-1].encode(), 1000  # more than the socket takes at once
        os.kill(one.process.pid, signal.SIGSTOP)
        slow.socket.sendall(b"HELP\r\n" * n)
        with one.connect() as late:  # not accepted yet
            late.sendall(bulks("PING"))
            os.kill(one.process.pid, signal.SIGTERM)
            os.kill(one.process.pid, signal.SIGCONT)
            assert late.recv(7) == b"+PONG\r\n" and is_closed(late)
        assert one.process.poll() is None
        assert slow.file.read().count(b"+" + line + b"\r\n") == n
        assert one.process.wait(TIMEOUT_S) == 0


def multi_charges_with_exec_or_not_at_all():
    """As redis-py's pipelines send by default."""
    with server() as one, Client(one) as client, Client(one) as other, Client(one, protocol=3) as third:
        assert client.ask("MULTI") == "OK" and client.refusal("MULTI") == "ERR MULTI calls can not be nested"
        assert [client.ask("WEIR.TAKE", "k", HOUR, 3) for _ in range(4)] == ["QUEUED"] * 4
        assert client.ask("CL.THROTTLE", "c", 2, 1, 60) == "QUEUED" and left(other, "k", HOUR) == 10
        answers = client.ask("EXEC")
        assert [answer[0] for answer in answers] == [1, 1, 1, 0, 0] and left(client, "k", HOUR) == 1, answers
        assert client.refusal("EXEC") == "ERR EXEC without MULTI" and client.refusal("DISCARD") == "ERR DISCARD without MULTI"
        for words, said in ((("NOSUCH",), "ERR unknown command"), (("WEIR.TAKE", "k"), "ERR wrong number"),
                            (("INFO",), "ERR MULTI queues only commands that decide"), (("WEIR.TAKE", "x" * 65500, HOUR), "ERR MULTI queues at most")):
            client.ask("MULTI")
            assert client.ask("WEIR.TAKE", "l", HOUR) == "QUEUED" and client.refusal(*words).startswith(said), words
            assert client.refusal("EXEC").startswith("EXECABORT") and left(client, "l", HOUR) == 10
        third.ask("MULTI")
        third.ask("WEIR.TAKE", "m", HOUR)
        assert third.ask("DISCARD") == "OK" and left(other, "m", HOUR) == 10
        third.ask("MULTI")
        third.ask("WEIR.TAKE", "m", HOUR, 1, "WAIT", 1000)
        third.ask("WEIR.TAKE", "m", HOUR)
        third.ask("WEIR.INSPECT", "m", HOUR)
        waits, taken, known = third.ask("EXEC")
        assert "WAIT is not allowed within MULTI" in str(waits) and taken["remaining"] == 9 and known["is_stored"] is True
        n = 440
        answers = client.pipeline([("MULTI",)] + [("WEIR.TAKE", f"n{i % 50}", HOUR) for i in range(n)] + [("EXEC",)])
        assert len(answers[-1]) == n and sum(answer[0] for answer in answers[-1]) == n, answers[-1][-1]
        client.ask("MULTI")
        client.ask("WEIR.TAKE", "k", HOUR)  # a client that leaves now has no effect


def multi_keeps_what_decides_nothing_in_its_place():
    with server() as one, Client(one) as client, Client(one, protocol=3) as third:
        words = [("PING",), ("WEIR.PEEK", "k", HOUR), ("ECHO", "a text"), ("SELECT", 0), ("PING", "another"), ("WEIR.PEEK", "k", HOUR),
                 ("TIME",), ("SELECT", 1)]
        for asker in client, third:
            alone = [asker.answer(*some) for some in words]
            told = asker.pipeline([("MULTI",)] + words + [("EXEC",)])
            assert told[:-1] == ["OK"] + ["QUEUED"] * len(words), told
            assert [type(one) for one in told[-1]] == [type(one) for one in alone], told
            assert told[-1][:6] == alone[:6] and told[-1][7] == alone[7], told
        text = "x" * 20000
        client.ask("MULTI")
        assert [client.ask("ECHO", text) for _ in range(3)] == ["QUEUED"] * 3
        assert client.refusal("ECHO", text).startswith("ERR MULTI queues at most") and client.refusal("EXEC").startswith("EXECABORT")
        fitting = [("ECHO", text)] * 2 + [("WEIR.TAKE", "l", "1000/hour")] * 359  # 440 minus the longer replies
        told = client.pipeline([("MULTI",)] + fitting + [("EXEC",)])
        assert told[-1][:2] == [text] * 2 and [one[0] for one in told[-1][2:]] == [1] * 359
        told = client.pipeline([("MULTI",)] + fitting + [("PING",)] + [("EXEC",)])
        assert str(told[-2]).startswith("ERR MULTI queues at most") and str(told[-1]).startswith("EXECABORT")
        assert left(client, "l", "1000/hour") == 641


TESTS = [a_key_is_inspected, replies_are_arrays_in_both_protocols, maps_are_for_connections_that_ask_for_them, multi_charges_with_exec_or_not_at_all, multi_keeps_what_decides_nothing_in_its_place, all_or_none_are_charged, limits_of_one_request_do_not_displace_each_other,
         holds_are_settled_by_anybody_once, a_release_gives_back_what_still_counts, what_another_took_is_not_given_back, bad_holds_are_refused, holds_are_bounded, a_wait_holds_up_its_connection_alone,
         waits_go_in_the_order_in_which_they_came, a_wait_that_is_in_vain_is_denied,
         who_leaves_while_it_waits_leaves_nothing,
         sigterm_denies_who_waits_and_answers_the_rest, commands_are_described_as_redis_does,
         every_command_is_found_by_its_name_alone, help_is_a_list, info_has_sections,
         a_connection_is_told_what_is_known_of_it, clients_of_redis_are_answered, redis_cli_shows_hints,
         out_of_descriptors_others_are_served, who_is_silent_for_long_is_cut_off,
         who_does_not_read_is_cut_off_alone, the_end_waits_for_those_who_read_slowly]


if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
