#!/usr/bin/env python3
"""Users of weir serve that change under load.

    users_test.py WEIR"""
# Covers: src/server/user_reload.c, src/server/worker_users.c

import contextlib
import http.client
import os
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import toy  # noqa: E402
from daemon import TIMEOUT_S, bulks, daemon, expect, receive_all, run  # noqa: E402

WEIR = sys.argv[1]
OK, PONG = b"+OK\r\n", b"+PONG\r\n"


def user(name, password=None, token=None, role="decide"):
    lines = [f"  {name}:", f"    role: {role}"]
    lines += [f"    password: {password}"] if password else []
    lines += [f"    token: {token}"] if token else []
    return "\n".join(lines) + "\n"


def users(*them):
    return "users:\n" + "".join(them)


def wait_until(holds, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


class Changing:
    """A daemon whose configuration file may change."""

    def __init__(self, folder, one, path):
        self.folder, self.one, self.path, self.changes = folder, one, path, 0

    def write(self, text):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path + ".new", self.path)

    def changed(self):
        self.changes += 1
        wait_until(lambda: self.one.said().count("users changed") >= self.changes, self.one.said)

    def change(self, text):
        self.write(text)
        self.changed()

    def is_refused(self, text, why):
        """The server reports the error and keeps the current users."""
        n = self.one.said().count("keeping the current users")
        self.write(text)
        wait_until(lambda: self.one.said().count("keeping the current users") > n and why in self.one.said(),
                   self.one.said)
        assert self.one.said().count("users changed") == self.changes, self.one.said()

    def auth(self, name, password):
        client = self.one.connect()
        expect(client, bulks("AUTH", name, password), OK)
        return client

    def status(self, token):
        client = self.http()
        client.request("GET", "/v1/check?ip=10.0.0.1", headers={"Authorization": f"Bearer {token}"})
        status = client.getresponse().status
        client.close()
        return status

    def http(self):
        return http.client.HTTPConnection("127.0.0.1", int(self.one.http_at.rsplit(":", 1)[1]), timeout=TIMEOUT_S)


@contextlib.contextmanager
def changing(text, *options):
    with tempfile.TemporaryDirectory(prefix="weir-users-") as folder:
        path = os.path.join(folder, "weir.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        with daemon(WEIR, "--keys", "10000", "--workers", "2", "--config", path, *options, http="127.0.0.1:0") as one:
            yield Changing(folder, one, path)


LIMITS = "limits:\n  - name: many\n    key: ip\n    limit: 1000000000/s\n"
CONFIG_USERS = bulks("CONFIG", "GET", "users")


def tokens_rotate_under_load():
    tokens, failures, answered = ["first"], [], [0]
    is_stopping = threading.Event()

    def ask():
        client = one.http()
        while not is_stopping.is_set():
            client.request("GET", "/v1/check?ip=10.0.0.1", headers={"Authorization": f"Bearer {tokens[0]}"})
            answer = client.getresponse()
            answer.read()
            answered[0] += 1
            if answer.status != 200 or answer.will_close:
                failures.append(answer.status)
        client.close()

    def wait_for_more():
        until = answered[0] + 100
        wait_until(lambda: answered[0] >= until or failures, lambda: f"{answered} {failures}")

    with changing(LIMITS + users(user("a", token="first"))) as one:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for before, after in (("first", "second"), ("second", "third"), ("third", "fourth")):
                wait_for_more()
                one.change(LIMITS + users(user("a", token=before), user("b", token=after)))
                wait_until(lambda: one.status(after) == 200, one.one.said)
                tokens[0] = after
                wait_for_more()
                one.change(LIMITS + users(user("a", token=after)))
                wait_for_more()
                wait_until(lambda: one.status(before) == 401, one.one.said)
        finally:
            is_stopping.set()
            for thread in threads:
                thread.join(TIMEOUT_S)
        assert not failures, failures
        return f"{answered[0]} requests"


def ten_thousand_users():
    """All users may send requests. A change of one is applied, and the others keep their connections."""
    many = [user(f"tenant{i}", f"p{i}", f"t{i}") for i in range(9999)]
    with changing(LIMITS + users(*many)) as one:
        for i in (0, 31, 32, 5000, 9998):
            one.auth(f"tenant{i}", f"p{i}").close()
            assert one.status(f"t{i}") == 200
        assert one.status("t9999") == 401
        stays = one.auth("tenant9998", "p9998")
        one.change(LIMITS + users(*many[1:], user("last", "p", "t9999")))
        assert one.status("t9999") == 200 and one.status("t9998") == 200
        wait_until(lambda: one.status("t0") == 401, one.one.said)
        expect(stays, bulks("PING"), PONG)
        stays.close()
        one.is_refused(LIMITS + users(*many, user("a", "p"), user("b", "p")), "users.b: too many; use at most 10000")


def connections_of_users_who_changed_are_closed():
    with changing(users(*(user(name, "p") for name in ("stays", "goes", "other")), user("rises", "p"),
                        user("ops", "p", role="admin"))) as one:
        names = ("stays", "goes", "other", "rises", "ops")
        clients = {name: one.auth(name, "p") for name in names}
        one.change(users(user("new", "q", "t"), user("stays", "p", "t2"), user("other", "q"),
                         user("rises", "p", role="admin"), user("ops", "p", role="admin")))
        for name in ("goes", "other", "rises"):
            assert receive_all(clients[name]) == b"", name
        for name in ("stays", "ops"):
            expect(clients[name], bulks("PING"), PONG)
        shown = b"new:decide,stays:decide,other:decide,rises:admin,ops:admin"
        expect(clients["ops"], CONFIG_USERS, b"*2\r\n$5\r\nusers\r\n$%d\r\n%s\r\n" % (len(shown), shown))
        one.auth("other", "q").close()
        with one.one.connect() as client:
            expect(client, bulks("AUTH", "goes", "p"), b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        for client in clients.values():
            client.close()


def who_waits_is_closed_too():
    with changing(users(user("goes", "p"), user("stays", "p"))) as one:
        client = one.auth("goes", "p")
        expect(client, bulks("PING"), PONG)
        client.sendall(bulks("WEIR.TAKE", "k", "1/hour", 1) + bulks("WEIR.TAKE", "k", "1/hour", 1, "WAIT", 3600000))
        assert client.recv(1) == b"*"  # the first is allowed, the other waits
        one.change(users(user("stays", "p")))
        rest = receive_all(client).split(b"*7\r\n")[1:]  # if the store has not replied to the wait yet, it is denied
        assert not rest or toy.IS_TOY and [one[:4] for one in rest] == [b":0\r\n"], rest
        client.close()


def what_is_wrong_changes_nothing():
    text = users(user("a", "p"), user("ops", "p", role="admin"))
    with changing(text) as one:
        client = one.auth("a", "p")
        one.is_refused(users(user("a", "p"), user("b")), "users.b: found neither password, token nor certificate")
        one.is_refused(users(user("b", "p")) + "keys: none\n", "keys: \"none\"")
        one.is_refused("", "users: no users found; to remove all users, restart the server")
        os.unlink(one.path)
        one.one.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "No such file or directory" in one.one.said(), one.one.said)
        expect(client, bulks("PING"), PONG)
        one.change(text + user("c", "p"))
        expect(client, bulks("PING"), PONG)
        one.auth("c", "p").close()
        client.close()


def first_users_close_the_door():
    with changing("keys: 10k\n") as one, one.one.connect() as client:
        expect(client, bulks("PING"), PONG)
        one.change(users(user("a", "p")))
        wait_until(lambda: refused(client), one.one.said)
        expect(client, bulks("AUTH", "a", "p"), OK)
        expect(client, bulks("PING"), PONG)


def refused(client):
    client.sendall(bulks("PING"))
    return client.recv(4096).startswith(b"-NOAUTH")


def a_signal_reads_files_of_passwords():
    with tempfile.TemporaryDirectory(prefix="weir-users-") as folder:
        secret = os.path.join(folder, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("before\n")
        with changing(f"users:\n  a:\n    password_file: {secret}\n", "--policy", policy_in(folder)) as one:
            client = one.auth("a", "before")
            with open(secret, "w", encoding="ascii") as file:
                file.write("after\n")
            one.one.process.send_signal(signal.SIGHUP)
            one.changed()
            assert receive_all(client) == b""
            one.auth("a", "after").close()
            client.close()


def policy_in(folder):
    path = os.path.join(folder, "policy.yaml")
    with open(path, "w", encoding="ascii") as file:
        file.write(LIMITS)
    return path


TESTS = [
    ("tokens rotate under load", tokens_rotate_under_load),
    ("ten thousand users", ten_thousand_users),
    ("connections of users who changed are closed", connections_of_users_who_changed_are_closed),
    ("who waits is closed, too", who_waits_is_closed_too),
    ("what is wrong changes nothing", what_is_wrong_changes_nothing),
    ("first users close the door", first_users_close_the_door),
    ("a signal reads files of passwords", a_signal_reads_files_of_passwords),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
