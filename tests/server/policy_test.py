#!/usr/bin/env python3
"""Policies of weir serve: decisions by attributes, and changes while it runs, in every way that files are changed.

    policy_test.py WEIR"""
# Covers: src/policy/source/policy_identity.c, src/policy/source/policy_source.c, src/policy/source/policy_text.c,
# src/server/policy_loader.c, src/server/policy_upload.c, src/server/resp/resp_policy.c

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import resp_client
from daemon import TIMEOUT_S, bulks, daemon, run
from resp_client import until

WEIR = sys.argv[1]
CLIENTS, RELOADS = 4, 200

EXAMPLE = """
limits:
  - name: everyone
    limit: 50000/s
  - name: per-client
    key: [ip]
    limit: 100/s burst 200
    overrides:
      - when: {plan: gold}
        limit: 1000/s burst 2000
      - when: {ip: 10.0.0.0/8}
        mode: off
  - name: orders-writes
    key: [api_key]
    match: {method: [POST, PUT], path: /v1/orders/**}
    limit: 20/s leaky queue 100
    cost: {attribute: items}
  - name: signup-canary
    key: [ip]
    match: {path: /signup}
    limit: 5/hour sliding_log
    mode: shadow
"""


def one_limit(limit, name="per-user", more=""):
    return f"limits:\n  - name: {name}\n    key: [user]\n    limit: {limit}\n{more}"


# --- a client -----------------------------------------------------------------------------------------------------


class Client(resp_client.Client):
    def limit(self, name="per-user"):
        return next((row["limit"] for row in self.ask("WEIR.LIMITS") if row["name"] == name), None)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def replace(path, text):
    write(path + ".new", text)
    os.rename(path + ".new", path)


@contextlib.contextmanager
def serving(text, name="policy.yaml", option="--policy", **more):
    """A server with a policy in its own directory: the server, a RESP3 client, and the path of the file."""
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        path = os.path.join(folder, name)
        write(path, text)
        with daemon(WEIR, option, path, "--workers", "2", **more) as server:
            client = Client(server, protocol=3)
            try:
                yield server, client, path
            finally:
                client.close()


def refused_start(*options):
    done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", *options], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2 and done.stdout == "", done
    return done.stderr


# --- decisions ----------------------------------------------------------------------------------------------------


def the_example_decides():
    with serving(EXAMPLE) as (_, client, _path):
        answer = client.ask("WEIR.CHECK", "ip", "203.0.113.7")
        assert list(answer) == ["allowed", "limit", "remaining", "granted", "retry_after", "reset_after", "delay",
                                "limits", "shadow_denied", "decided_by"], answer
        assert answer["allowed"] is True and answer["limit"] == 200 and answer["remaining"] == 199, answer
        assert answer["limits"] == 2 and answer["decided_by"] == "per-client", answer
        answer = client.ask("WEIR.CHECK", "cost", 7, "ip", "203.0.113.8", "plan", "gold")
        assert answer["limit"] == 2000 and answer["remaining"] == 1993, answer
        assert answer["decided_by"] == "per-client|plan=gold", answer
        answer = client.ask("WEIR.CHECK", "ip", "10.1.2.3")
        assert answer["limits"] == 1 and answer["decided_by"] == "everyone", answer
        answer = client.ask("WEIR.CHECK", "COST", 201, "ip", "203.0.113.9")
        assert answer["allowed"] is False and answer["retry_after"] == -1, answer
        assert answer["decided_by"] == "per-client", answer
        order = ("WEIR.CHECK", "api_key", "k", "method", "POST", "path", "/v1//orders/%37", "items", 50)
        assert client.ask(*order)["decided_by"] == "orders-writes"
        assert client.ask(*order)["delay"] > 0  # after the first 50
        assert client.ask(*order[:-1], 100)["allowed"] is False


def shadows_deny_nothing():
    with serving(EXAMPLE) as (_, client, _path):
        answers = [client.ask("WEIR.CHECK", "ip", "203.0.113.7", "path", "/signup") for _ in range(7)]
        assert all(answer["allowed"] for answer in answers), answers
        assert [answer["shadow_denied"] for answer in answers] == [0] * 5 + [1] * 2, answers
        row = next(row for row in client.ask("WEIR.LIMITS") if row["name"] == "signup-canary")
        assert row == {"name": "signup-canary", "limit": "5/hour sliding_log", "mode": "shadow", "key": "ip",
                       "allowed": 5, "denied": 2, "changed": "", "changed_by": "", "changed_at": 0, "store": "table", "wait": 0, "consistency": "exact"}, row


def info_counts_requests_of_the_policy():
    with serving(one_limit("2/day")) as (_, client, _path):
        for _ in range(3):
            client.ask("WEIR.CHECK", "user", "u")
        client.ask("WEIR.TAKE", "u", "@per-user")
        told = client.info()
        assert (told["allowed"], told["denied"]) == ("2", "2"), told


def resp2_has_numbers_in_the_same_order():
    with serving(EXAMPLE) as (server, _, _path):
        client = Client(server)
        answer = client.ask("WEIR.CHECK", "ip", "203.0.113.7")
        assert answer[:5] == [1, 200, 199, 1, 0] and answer[6:] == [0, 2, 0, "per-client"], answer
        client.close()


def a_pipeline_is_answered_in_order():
    with serving(one_limit("100/day")) as (server, client, _):
        client.socket.sendall(b"".join(
            bulks("WEIR.TAKE", "other", "1000/day") + bulks("WEIR.CHECK", "user", "a") + bulks("WEIR.TAKE", "b", "@per-user")
            for _ in range(100)))
        for i in range(100):
            found = [client.read()["remaining"] for _ in range(3)]
            assert found == [999 - i, 99 - i, 99 - i], (i, found)
        assert client.ask("WEIR.CHECK", "user", "a")["allowed"] is False


def limits_have_names():
    with serving(one_limit("10/day")) as (_, client, _path):
        assert client.ask("WEIR.TAKE", "a", "@per-user", 4)["remaining"] == 6
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 5  # a key of one text is that text
        assert client.ask("WEIR.PEEK", "a", "@per-user")["remaining"] == 5
        assert client.ask("WEIR.REFUND", "a", "@per-user", 2)["remaining"] == 7
        assert client.ask("WEIR.UPTO", "a", "@per-user", 100)["granted"] == 7
        assert client.ask("WEIR.ALL", "a", "@per-user", 1, "b", "10/day", 1)["decided_by"] == 1
        assert client.ask("WEIR.ALL", "b", "@per-user", 1, "b", "10/day", 1, "b", "@per-user", 1)["remaining"] == 8
        assert client.ask("WEIR.INSPECT", "a", "@per-user")["text"] == "10/day"
        assert client.ask("WEIR.RESET", "a", "@per-user") == 1
        assert client.refusal("WEIR.TAKE", "a", "@other") == "NOLIMIT the policy has no limit named @other"
        assert client.refusal("WEIR.TAKE", "a", "per-user") == 'ERR the limit: "per-user" is a limit of the policy: write @per-user'
        assert client.refusal("WEIR.TAKE", "a", "@").startswith("NOLIMIT ")
        assert client.refusal("WEIR.TAKE", "a", "@" + 5000 * "x").startswith("NOLIMIT ")


KEYED = """
attributes: {ip: {type: ip}, path: {type: path}, host: {lower: true}}
limits:
  - {name: all, limit: 100000/day}
  - {name: client, key: [ip], limit: 100/day}
  - {name: host, key: [host], limit: 100/day}
  - {name: route, key: [user, path], limit: 100/day, mode: shadow}
"""


def keys_are_given_as_they_are_shown():
    with serving(KEYED) as (_, client, _path):
        client.ask("WEIR.CHECK", "COST", 7, "ip", "192.0.2.1", "host", "Shop", "user", "a b", "path", "/x/../y")
        for key, limit in (("", "@all"), ("192.0.2.1", "@client"), ("ip=192.0.2.1", "@client"), ("::ffff:c000:201", "@client"),
                           ("SHOP", "@host"), ("host=shop", "@host"), ("user=a b path=/y", "@route"), ("user=a b path=//y/", "@route")):
            known = client.ask("WEIR.INSPECT", key, limit)
            assert known["is_stored"] is True and known["limit"] - known["remaining"] == 7, (key, limit, known)
        for key, limit, made_of in (("-", "@all", "share the empty key"), ("192.0.2.0/24", "@client", "made of ip, as in ip=192.0.2.1 or"),
                                    (b"\x04\xc0\x00\x02\x01", "@client", "made of ip, as in"),
                                    ("a b", "@route", "made of user and path, as in user=abc path=/abc")):
            for words in (("WEIR.TAKE", key, limit), ("WEIR.TAKE", key, limit, 1, "WAIT", 5), ("WEIR.UPTO", key, limit, 1),
                          ("WEIR.PEEK", key, limit), ("WEIR.REFUND", key, limit, 1), ("WEIR.RESET", key, limit),
                          ("WEIR.ALL", "k", "1/s", 1, key, limit, 1), ("WEIR.HOLD", "i", key, limit, 1, 1000)):
                why = client.refusal(*words)
                assert why.startswith("ERR the key: ") and made_of in why, (words, why)
        assert client.ask("WEIR.PEEK", "192.0.2.1", "@client")["remaining"] == 93
        assert client.ask("WEIR.ALL", "192.0.2.1", "@client", 1, "ip=192.0.2.2", "@client", 1, "Shop", "@host", 1)["remaining"] == 92
        assert client.ask("WEIR.TAKE", "192.0.2.1", "@client", 1, "WAIT", 60000)["remaining"] == 91
        assert client.ask("WEIR.HOLD", "i", "ip=192.0.2.1", "@client", 2, 60000)["remaining"] == 89
        assert client.ask("WEIR.HOLD", "i", "192.0.2.1", "@client", 2, 60000)["remaining"] == 89  # the same hold
        assert client.ask("WEIR.SETTLE", "i", 1)["remaining"] == 90
        assert client.ask("WEIR.REFUND", "192.0.2.1", "@client", 1)["remaining"] == 91
        assert [client.ask("WEIR.RESET", "192.0.2.1", "@client") for _ in range(2)] == [1, 0]
        assert client.ask("WEIR.CHECK", "ip", "192.0.2.1")["remaining"] == 99


def keys_of_a_pipeline_do_not_meet():
    """Rewritten keys stay valid until their group is decided, even if they fill their buffer."""
    with serving(KEYED) as (_, client, _path):
        keys = [f"192.0.2.{i % 50}" for i in range(200)]
        client.socket.sendall(b"".join(bulks("WEIR.TAKE", key, "@client") for key in keys))
        assert [client.read()["remaining"] for _ in keys] == [99 - i // 50 for i in range(200)]
        hosts = [(12000 + i % 3) * "X" for i in range(60)]
        client.socket.sendall(b"".join(bulks("WEIR.TAKE", host, "@host") for host in hosts))
        assert [client.read()["remaining"] for _ in hosts] == [99 - i // 3 for i in range(60)]
        assert client.ask("WEIR.ALL", hosts[0], "@host", 1, hosts[1].lower(), "@host", 1)["remaining"] == 79
        assert "is too long" in client.refusal("WEIR.ALL", *[hosts[0], "@host", 1] * 3)
        assert "is too long" in client.refusal("WEIR.TAKE", 40000 * "x", "@host")


def named_limits_answer_for_themselves():
    """In any mode."""
    with serving(KEYED.replace("mode: shadow", "mode: off")) as (_, client, _path):
        assert client.ask("WEIR.TAKE", "user=a path=/", "@route", 100)["remaining"] == 0
        assert client.ask("WEIR.TAKE", "user=a path=/", "@route")["allowed"] is False
        assert client.ask("WEIR.CHECK", "user", "a", "path", "/")["allowed"] is True


def named_limits_are_waited_for():
    """Also while the limit changes: the current limit counts."""
    with serving(one_limit("1/day burst 2")) as (server, client, path):
        waits = ("WEIR.TAKE", "a", "@per-user", 1, "WAIT", 86400000)
        assert client.ask(*waits)["remaining"] == 1
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 0
        assert client.ask("WEIR.TAKE", "a", "@per-user", "WAIT", 0)["allowed"] is False
        assert client.ask("WEIR.TAKE", "a", "@per-user", 3, "WAIT", 86400000)["retry_after"] == -1
        assert client.refusal("WEIR.TAKE", "a", "@other", "WAIT", 5) == "NOLIMIT the policy has no limit named @other"
        waiting = Client(server, protocol=3)
        waiting.socket.sendall(bulks(*waits))
        replace(path, one_limit("1000/s burst 2"))
        assert waiting.read()["allowed"] is True
        waiting.close()
    with serving(one_limit("50/s burst 1")) as (_, client, _path):
        for _ in range(5):
            answer = client.ask("WEIR.TAKE", "a", "@per-user", 1, "WAIT", 60000)
            assert answer["allowed"] is True and answer["granted"] == 1, answer
    with serving(one_limit("50/s leaky queue 10")) as (_, client, _path):
        for _ in range(5):
            assert client.ask("WEIR.TAKE", "a", "@per-user", 1, "WAIT", 60000)["allowed"] is True


def named_limits_are_held():
    with serving(one_limit("100/day")) as (_, client, path):
        hold = ("WEIR.HOLD", "i", "a", "@per-user", 10, 60000)
        assert client.ask(*hold)["remaining"] == 90
        assert client.ask(*hold)["remaining"] == 90  # the same hold
        assert client.refusal("WEIR.HOLD", "i", "a", "100/day", 10, 60000).startswith("HELDOTHER "), "another limit"
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 89
        replace(path, one_limit("100/day burst 105"))
        until(lambda: client.limit() == "100/day burst 105", "another burst")
        before = client.ask("WEIR.PEEK", "a", "@per-user")["remaining"]
        settled = client.ask("WEIR.SETTLE", "i", 5)
        assert settled["refunded"] == 5 and settled["limit"] == 105 and settled["remaining"] == before + 5, settled
        assert client.ask("WEIR.HOLD", "j", "b", "@per-user", 10, 60000)["remaining"] == 95
        settled = client.ask("WEIR.SETTLE", "j", 15)
        assert settled["charged"] == 5 and settled["remaining"] == 90, settled
        assert client.refusal("WEIR.HOLD", "k", "a", "@other", 1, 1000).startswith("NOLIMIT "), "no such limit"


def one_limit_changes_by_call():
    with serving(one_limit("10/day")) as (_, client, path):
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 9
        assert client.ask("WEIR.CHANGE", "per-user", "5/day") == "OK"
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 3
        assert client.limit() == "5/day"
        assert client.ask("WEIR.CHANGE", "@per-user", "6/day") == "OK"
        row = client.ask("WEIR.LIMITS")[0]
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row["changed_at"]))
        assert row["changed"] == "here" and row["changed_by"] == "127.0.0.1" and abs(row["changed_at"] - time.time()) < 3600, row
        assert client.ask("WEIR.EXPLAIN", "user", "a") == [
            f"per-user: applies: 10/day, changed to 6/day by 127.0.0.1 at {at}, key user=a"]
        assert client.ask("WEIR.CHANGE", "per-user", "6/day", "HERE") == "OK"  # without a store, changes are local anyway
        assert "HERE" in client.refusal("WEIR.CHANGE", "per-user", "6/day", "THERE")
        assert "no limit" in client.refusal("WEIR.CHANGE", "other", "5/day")
        assert "no limit" in client.refusal("WEIR.CHANGE", 64 * "x", "5/day")
        assert client.refusal("WEIR.CHANGE", "per-user", "5/fortnight").startswith("ERR the limit: ")
        assert "algorithm" in client.refusal("WEIR.CHANGE", "per-user", "5/day fixed_window")
        replace(path, one_limit("20/day"))
        until(lambda: client.limit() == "20/day", "the next policy")


def explained_line_by_line():
    with serving(EXAMPLE) as (_, client, _path):
        assert client.ask("WEIR.EXPLAIN", "ip", "10.0.0.1", "path", "/signup") == [
            "everyone: applies: 50000/s, one for all requests",
            "signup-canary: applies in shadow: 5/hour sliding_log, key ip=10.0.0.1",
            "per-client: does not apply: it is off by an override",
            "orders-writes: does not apply: the request has no method"]


def many_limits_are_listed_in_parts():
    many = "limits:\n" + "".join(
        f"  - {{name: limit-{i:04}, match: {{tenant: t{i}}}, key: [user], limit: {i + 1}/s}}\n" for i in range(1000))
    with serving(many) as (_, client, _path):
        lines = client.ask("WEIR.EXPLAIN", "tenant", "t998", "user", "ann")
        assert lines[:2] == ["limit-0998: applies: 999/s, key user=ann",
                             "limit-0000: does not apply: tenant is 't998'"], lines[:3]
        assert lines[-1] == f"and {1000 - len(lines) + 1} more", lines[-1]
        rows = []
        while part := client.ask("WEIR.LIMITS", len(rows)):
            rows += part
        assert [row["name"] for row in rows] == [f"limit-{i:04}" for i in range(1000)]
        assert rows[999]["limit"] == "1000/s" and rows[999]["key"] == "user", rows[999]
        lines = client.ask("WEIR.EXPLAIN", "tenant", "t0")
        assert lines[0] == "no limit applies: allowed", lines[0]
        assert lines[1].startswith("limit-0000: does not apply: its key needs user"), lines[1]
        assert lines[-1] == f"and {1000 - len(lines) + 2} more", lines[-1]


def inline_limits_do_not_evict_keys_of_the_policy():
    """Twenty times as many keys of a 16-year inline limit as the table is sized for, by each command with inline
    limits."""
    limits = {"bucket": "5/hour", "leaky": "5/hour leaky burst 5", "window": "5/day fixed_window", "counter": "5/hour sliding_counter",
              "log": "5/hour sliding_log"}
    policy = "keys: 1000\nlimits:\n" + "".join(f"  - name: {name}\n    key: [user]\n    limit: {limit}\n" for name, limit in limits.items())
    ways = (lambda i: ("WEIR.TAKE", f"t{i}", "1/6000day"), lambda i: ("WEIR.TAKE", f"w{i}", "1/5000day fixed_window"),
            lambda i: ("WEIR.TAKE", f"l{i}", "1/5000day sliding_log"), lambda i: ("CL.THROTTLE", f"c{i}", 0, 1, 6000 * 86400))
    with serving(policy, option="--config") as (_, client, _path):
        for name in limits:
            assert client.ask("WEIR.TAKE", "victim", f"@{name}", 5)["allowed"] is True
        for way in ways:
            for first in range(0, 5000, 1000):
                client.pipeline([way(i) for i in range(first, first + 1000)])
        assert int(client.info()["table_evicted_keys"]) > 15000
        for name in limits:
            assert client.ask("WEIR.TAKE", "victim", f"@{name}")["allowed"] is False, name


def bad_requests_are_told_so():
    with serving(EXAMPLE) as (_, client, _path):
        assert client.refusal("WEIR.CHECK", "ip", "1.2.3.4", "path").startswith("ERR invalid attributes")
        assert client.refusal("WEIR.CHECK", "COST", "x", "ip", "1.2.3.4").startswith("ERR invalid cost")
        assert "wrong number of arguments" in client.refusal("WEIR.CHECK", "ip")
        for words in (("WEIR.CHECK",), ("WEIR.CHECK", "COST", 1), ("WEIR.EXPLAIN",)):
            assert client.refusal(*words, "user", "ann", "ip", "1.2.3.4", "user", "bob") == "ERR attribute given twice: user"
        assert "is a cost" in client.refusal("WEIR.CHECK", "api_key", "k", "method", "PUT", "path", "/v1/orders/1",
                                             "items", "many")
        assert "whole number" in client.refusal("WEIR.LIMITS", "first")
        assert client.ask("WEIR.CHECK", "ip", "no address", "Päth", "ü")["allowed"] is True


def without_a_policy():
    with daemon(WEIR, "--workers", "1") as server:
        client = Client(server)
        for words in (("WEIR.CHECK", "ip", "::1"), ("WEIR.EXPLAIN", "ip", "::1"), ("WEIR.LIMITS",), ("WEIR.RELOAD",),
                      ("WEIR.CHANGE", "a", "1/s"), ("WEIR.TAKE", "a", "@b")):
            assert client.refusal(*words).startswith("NOPOLICY no policy is loaded"), words
        assert not any(name.startswith("policy") for name in client.info())
        server.process.send_signal(signal.SIGHUP)
        assert client.ask("PING") == "PONG"
        client.close()


def admins_alone_change_it():
    users = "users:\n  web: {password: a}\n  ops: {password: b, role: admin}\n"
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        path = os.path.join(folder, "weir.yaml")
        write(path, users + one_limit("10/day"))
        with daemon(WEIR, "--config", path, "--workers", "1") as server:
            client = Client(server)
            client.ask("AUTH", "web", "a")
            assert client.ask("WEIR.CHECK", "user", "a")[0] == 1
            for words in (("WEIR.RELOAD",), ("WEIR.CHANGE", "per-user", "1/s"), ("WEIR.EXPLAIN", "user", "a")):
                assert client.refusal(*words).startswith("NOPERM "), words
            client.ask("AUTH", "ops", "b")
            assert client.ask("WEIR.RELOAD") == 1
            client.close()


def weir_check_asks():
    with serving(EXAMPLE) as (server, _, _path):
        def check(*words):
            return subprocess.run([WEIR, "check", "--at", server.address, *words], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False)
        done = check("ip=203.0.113.7", "cost=3", "--json")
        told = json.loads(done.stdout)
        assert done.returncode == 0 and told["remaining"] == 199 and told["decided_by"] == "per-client", done
        done = check("--cost", "500", "ip=203.0.113.7")
        assert done.returncode == 1 and done.stdout.startswith('denied by "per-client", '), done
        done = check("ip=10.0.0.1", "path=/signup", "--cost", "9")
        assert done.returncode == 0 and done.stdout.endswith("; in shadow 1 would have denied it\n"), done
        done = check("ip")
        assert done.returncode == 2 and "NAME=VALUE" in done.stderr, done


# --- changes ------------------------------------------------------------------------------------------------------


def by_rename(_, path, text):
    replace(path, text)


def by_truncating(_, path, text):
    write(path, text)


def by_a_backup(_, path, text):
    os.rename(path, path + "~")
    write(path, text)
    os.unlink(path + "~")


def by_its_directory(_, path, text):
    folder = os.path.dirname(path)
    os.rename(folder, folder + ".old")
    os.mkdir(folder)
    write(path, text)
    shutil.rmtree(folder + ".old")


def every_habit_of_editors():
    with serving(one_limit("10/day")) as (_, client, path):
        for i, change in enumerate((by_rename, by_truncating, by_a_backup, by_its_directory, by_truncating)):
            taken = client.ask("WEIR.CHECK", "user", f"user {i}")
            assert taken["allowed"], taken
            change(client, path, one_limit(f"{20 + i}/day"))
            until(lambda limit=f"{20 + i}/day": client.limit() == limit, change.__name__)
        info = client.info()
        assert info["policy_failures"] == "0" or "No such file" not in info["policy_last_error"], info


def a_configmap():
    """With links as Kubernetes makes and swaps them."""
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        def publish(version, text):
            os.mkdir(os.path.join(folder, f"..{version}"))
            write(os.path.join(folder, f"..{version}", "policy.yaml"), text)
            os.symlink(f"..{version}", os.path.join(folder, "..data_tmp"))
            os.rename(os.path.join(folder, "..data_tmp"), os.path.join(folder, "..data"))

        publish(1, one_limit("1/day"))
        path = os.path.join(folder, "policy.yaml")
        os.symlink("..data/policy.yaml", path)
        for policy in (path, folder):
            with daemon(WEIR, "--policy", policy, "--workers", "1") as server:
                client = Client(server, protocol=3)
                for version in range(2, 5):
                    name = f"{os.path.basename(policy)}-{version}"
                    publish(name, one_limit(f"{version}/day"))
                    until(lambda limit=f"{version}/day": client.limit() == limit, name)
                client.close()
            publish(f"{os.path.basename(policy)}-end", one_limit("1/day"))


def a_directory_is_one_policy():
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        write(os.path.join(folder, "20-users.yaml"), one_limit("10/day"))
        write(os.path.join(folder, "10-all.yaml"), "attributes: {user: {lower: true}}\n" + one_limit("99/day", "all"))
        write(os.path.join(folder, "30.yaml.disabled"), "no: policy")
        write(os.path.join(folder, ".hidden.yaml"), "no: policy")
        with daemon(WEIR, "--policy", folder, "--workers", "1") as server:
            client = Client(server, protocol=3)
            assert [row["name"] for row in client.ask("WEIR.LIMITS")] == ["all", "per-user"]
            assert client.ask("WEIR.CHECK", "user", "A")["limits"] == 2
            assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 8
            write(os.path.join(folder, "30-more.yaml"), one_limit("5/day", "more"))
            until(lambda: client.limit("more") == "5/day", "a file more")
            os.unlink(os.path.join(folder, "30-more.yaml"))
            until(lambda: client.limit("more") is None, "a file less")
            assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 7
            write(os.path.join(folder, "40-twice.yaml"), "\n" + one_limit("5/day"))
            until(lambda: client.info()["policy_failures"] == "1", "a name twice")
            assert client.info()["policy_last_error"] == (
                f"{folder}/40-twice.yaml:3:5: duplicate name 'per-user'; it was first given in line 2 of "
                f"{folder}/20-users.yaml"), client.info()
            client.close()


def links_of_a_directory():
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        available, enabled = os.path.join(folder, "available"), os.path.join(folder, "enabled")
        os.mkdir(available)
        os.mkdir(enabled)
        write(os.path.join(available, "users.yaml"), one_limit("10/day"))
        os.symlink("../available/users.yaml", os.path.join(enabled, "users.yaml"))
        with daemon(WEIR, "--policy", enabled, "--workers", "1") as server:
            client = Client(server, protocol=3)
            replace(os.path.join(available, "users.yaml"), one_limit("20/day"))
            until(lambda: client.limit() == "20/day", "where the link leads")
            client.close()


def where_nothing_can_be_watched():
    """All directories that could report the next version are gone when it comes."""
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        above = os.path.join(folder, "a")
        path = os.path.join(above, "b", "policy.yaml")
        os.makedirs(os.path.dirname(path))
        write(path, one_limit("10/day"))
        with daemon(WEIR, "--policy", path, "--workers", "1") as server:
            client = Client(server, protocol=3)
            shutil.rmtree(above)
            until(lambda: "No such file" in client.info()["policy_last_error"], "nothing")
            assert client.limit() == "10/day"
            os.makedirs(os.path.dirname(path))
            write(path, one_limit("20/day"))
            until(lambda: client.limit() == "20/day", "made anew")
            replace(path, one_limit("30/day"))
            until(lambda: client.limit() == "30/day", "and changed")
            client.close()


def files_that_a_policy_names():
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as elsewhere:
        table = os.path.join(elsewhere, "customers.csv")
        write(table, "user,limit\nbig,100/day\n")
        with serving(one_limit("10/day", more=f"    overrides_from: {table}\n")) as (_, client, _path):
            assert client.ask("WEIR.CHECK", "user", "big")["limit"] == 100
            replace(table, "user,limit\nbig,200/day\n")
            until(lambda: client.ask("WEIR.CHECK", "COST", 0, "user", "big")["limit"] == 200, "another table")
            assert client.ask("WEIR.CHECK", "user", "small")["remaining"] == 9


def by_signal_and_by_command():
    """Also without a change: then nothing happens."""
    with serving(one_limit("10/day")) as (server, client, path):
        ticket = client.ask("WEIR.RELOAD")
        until(lambda: int(client.info("policy")["policy_reloads"]) >= ticket, "WEIR.RELOAD")
        assert client.info()["policy_changes"] == "0", client.info()
        server.process.send_signal(signal.SIGHUP)
        until(lambda: int(client.info("policy")["policy_reloads"]) > ticket, "SIGHUP")
        assert client.info()["policy_changes"] == "0", client.info()
        replace(path, one_limit("20/day"))
        server.process.send_signal(signal.SIGHUP)
        until(lambda: client.limit() == "20/day", "SIGHUP after a change")
        os.utime(path)
        ticket = client.ask("WEIR.RELOAD")
        until(lambda: int(client.info("policy")["policy_reloads"]) >= ticket, "WEIR.RELOAD of the same")
        assert client.info()["policy_changes"] == "1", client.info()


def state_is_kept():
    with serving(one_limit("10/day")) as (_, client, path):
        assert client.ask("WEIR.CHECK", "COST", 4, "user", "a")["remaining"] == 6
        replace(path, one_limit("5/day"))
        until(lambda: client.limit() == "5/day", "less")
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 0
        replace(path, one_limit("10/day", "another") + one_limit("5/day")[len("limits:\n"):])
        until(lambda: client.limit("another") == "10/day", "one more")
        assert not client.ask("WEIR.CHECK", "user", "a")["allowed"]
        assert client.ask("WEIR.CHECK", "user", "b")["remaining"] == 4


def a_bad_version_changes_nothing():
    with serving(one_limit("10/day")) as (server, client, path):
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 9
        before = client.info()
        replace(path, one_limit("10/fortnight") + "    kee: [ip]\n")
        until(lambda: client.info()["policy_failures"] == "1", "a bad version")
        info = client.info()
        assert info["policy_last_error"].startswith(f"{path}:"), info
        for name in ("policy_changes", "policy_loaded_at", "policy_limits"):
            assert info[name] == before[name], info
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 8
        until(lambda: f"{path}:5:5: unknown key 'kee' in a limit" in server.told(), "what is wrong")
        said = server.told()
        assert f"{path}:4:" in said and "unknown period" in said, said
        ticket = client.ask("WEIR.RELOAD")
        until(lambda: int(client.info("policy")["policy_reloads"]) >= ticket, "the same bad version")
        assert client.info()["policy_failures"] == "1" and server.told().count("unknown key 'kee' in a limit") == 1, "told once"
        replace(path, "# nothing\n")
        until(lambda: "write limits: []" in client.info()["policy_last_error"], "an empty file")
        os.unlink(path)
        until(lambda: "No such file" in client.info()["policy_last_error"], "no file")
        write(path, one_limit("10/day"))
        until(lambda: client.info()["policy_last_error"] == "", "as it was")
        assert client.info()["policy_changes"] == "0", client.info()
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 7
        replace(path, "limits: []\n")
        until(lambda: client.info()["policy_limits"] == "0", "none")
        assert client.ask("WEIR.CHECK", "user", "a")["limits"] == 0


def a_policy_that_the_table_cannot_have():
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        path = os.path.join(folder, "policy.yaml")
        write(path, one_limit("10/day"))
        with daemon(WEIR, "--policy", path, "--limits-max", "2", "--workers", "1") as server:
            client = Client(server, protocol=3)
            for i in range(2):
                replace(path, one_limit("10/day", f"name-{i}"))
                until(lambda number=i: client.limit(f"name-{number}") or client.info()["policy_failures"] == "1", "a name")
            assert client.limit("name-0") and not client.limit("name-1"), client.info()
            assert "limits" in client.info()["policy_last_error"], client.info()
            assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 9
            client.close()


def settings_stay():
    with serving("connections: 100\n" + one_limit("10/day"), "weir.yaml", "--config") as (server, client, path):
        replace(path, "connections: 200\n" + one_limit("20/day"))
        until(lambda: client.limit() == "20/day", "the limits")
        assert client.ask("CONFIG", "GET", "connections") == {"connections": "100"}
        until(lambda: f"{path}: changed, but not in effect until you restart: connections;" in server.said(), "it is not told")
        replace(path, "connectoins: 200\n" + one_limit("30/day"))
        until(lambda: client.info()["policy_failures"] == "1", "a bad setting")
        assert "connectoins: found an unknown setting" in client.info()["policy_last_error"]
        assert client.limit() == "20/day"


def variables_that_are_no_settings_are_told():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    with serving(one_limit("10/day"), env=kept | {"WEIR_POLCY": "p.yaml", "WEIR_CONNECTIONS": "100", "WEIR_PASSWORD": "x",
                                                  "WEIR_GRPC": "none", "WEIRD": "1"}) as (server, client, _):
        assert client.ask("CONFIG", "GET", "connections") == {"connections": "100"}
        until(lambda: server.said() == ('weir serve: warning: unknown environment variable "WEIR_POLCY"; weir serve --help '
                                        'lists the settings\n'), "it is not told")


def a_bad_policy_does_not_start():
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        path = os.path.join(folder, "weir.yaml")
        write(path, one_limit("1/fortnight") + "    kee: 1\n")
        for option in ("--policy", "--config"):
            said = refused_start(option, path)
            assert said.count(f"{path}:") == 2 and "unknown period" in said and "'kee'" in said, said
        assert "No such file" in refused_start("--policy", path + ".missing")
        os.mkdir(os.path.join(folder, "empty"))
        assert "no .yaml file found" in refused_start("--policy", os.path.join(folder, "empty"))
        assert "no limits found" in refused_start("--policy", os.devnull)
        said = refused_start("--config", path, "--policy", path)
        assert f"--policy: {path} has limits or attributes, too; use one of the two" in said, said


def logs_that_do_not_fit_the_arena_are_told():
    """At the start, when the file changes, when a policy is uploaded, and by check-config."""
    text, warning = one_limit("100/hour sliding_log"), "an arena of 1048576 bytes holds {} of 20000 keys that have used all of "
    with serving("keys: 20000\narena: 1MiB\n" + text, option="--config", http="127.0.0.1:0") as (server, client, path):
        line = "weir serve: the policy: warning: per-user: " + warning.format(1038) + "100/hour sliding_log; "
        until(lambda: line in server.said(), "a warning at the start")
        done = subprocess.run([WEIR, "check-config", path], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0 and done.stderr.startswith(f"{path}: warning: per-user: " + warning.format(1038)), done
        assert client.info()["arena_bytes"] == str(1 << 20)
        replace(path, "keys: 20000\narena: 1MiB\n" + one_limit("50/hour sliding_log"))
        until(lambda: "used all of 50/hour sliding_log; " in server.said(), "a warning for the new version")
        replace(path, "keys: 20000\narena: 1MiB\n" + one_limit("50/hour"))
        until(lambda: client.limit() == "50/hour", "a version that fits")
        assert server.said().count("warning: ") == 2, server.said()
    with serving("keys: 20000\n" + text, option="--config") as (server, client, _):  # the default is large enough
        needed = int(client.info()["arena_bytes"])
        assert 20000 * 975 <= needed < 20000 * 1100 and "warning" not in server.said(), (needed, server.said())
        assert client.ask("CONFIG", "GET", "arena") == {"arena": str(needed)}
    with serving("keys: 20000\n" + one_limit("100/hour"), option="--config") as (_, client, _):
        assert client.info()["arena_bytes"] == str(16 << 20)


def check_config_checks_both():
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        path = os.path.join(folder, "weir.yaml")

        def check(text):
            write(path, text)
            return subprocess.run([WEIR, "check-config", path], capture_output=True, text=True, timeout=TIMEOUT_S,
                                  check=False)
        done = check("keys: 5m\n" + EXAMPLE)
        assert done.returncode == 0 and done.stdout == f"{path}: OK: limits: 4, overrides: 1\n", done
        assert check("keys: 5m\n").returncode == 0
        done = check("plans: 7\n" + EXAMPLE)
        assert done.returncode == 0 and done.stderr == "weir serve: warning: the setting plans is now named limits_max\n", done
        for text in ("", "# nothing yet\n", "attributes: {user: {lower: true}}\n", "keys: 5m\nattributes: {}\n"):
            done = check(text)
            assert done.returncode == 1, done
            assert done.stderr == f"{path}:1:1: no limits found; for a policy without limits, write limits: []\n", done
        # check-config rejects everything that serve would reject.
        beyond = "".join(f"  - {{name: l{i}, limit: {limit}}}\n" for i, limit in
                         enumerate(("1/10000day", "18446744073709551615/s", "4294967295/s fixed_window align first")))
        done = check("limits:\n" + beyond)
        assert done.returncode == 1 and [line.split(" in a table")[0] for line in done.stderr.splitlines()] == [
            f"{path}:2:23: limit '1/10000day' of 'l0':", f"{path}:3:23: limit '18446744073709551615/s' of 'l1':",
            f"{path}:4:23: limit '4294967295/s fixed_window align first' of 'l2':"], done
        assert refused_start("--policy", path) == done.stderr
        done = check("keyz: 5m\nkeys: none\n" + one_limit("1/fortnight") + "idle: 1\nidle: 2\n")
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 4, done
        assert "keyz" in done.stderr and '"none"' in done.stderr and "fortnight" in done.stderr, done
        done = subprocess.run([WEIR, "check-config", folder], capture_output=True, text=True, timeout=TIMEOUT_S,
                              check=False)
        assert done.returncode == 1 and f"{folder}/weir.yaml:" in done.stderr, done


ANEW = "per-user: keys start over, because the period of the window changed: 5/5000day fixed_window, before 5/4000day fixed_window"


def check_config_says_what_becomes_of_keys():
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        paths = [os.path.join(folder, name) for name in ("old.yaml", "new.yaml")]

        def check(*words):
            return subprocess.run([WEIR, "check-config", *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        write(paths[0], one_limit("5/4000day fixed_window") + "  - {name: b, limit: 5/s}\n  - {name: c, limit: 5/s}\n  - {name: d, limit: 5/s}\n")
        write(paths[1], "keys: 5m\n" + one_limit("5/5000day fixed_window") + "  - {name: b, limit: 6/s}\n  - {name: c, limit: 5/s}\n  - {name: e, limit: 5/s}\n")
        wanted = (f"{paths[1]}: OK: limits: 4, overrides: 0\nif it replaces {paths[0]}:\n  {ANEW}\n"
                  "  b: converted, keys keep their usage: 6/s, before 5/s\n  c: kept: 5/s\n  e: new: 5/s\n  d: removed: 5/s\n"
                  "  kept: 1, converted: 1, anew: 1, new: 1, removed: 1\n")
        for words in (("--against", paths[0], paths[1]), (paths[1], "--against", paths[0])):
            done = check(*words)
            assert (done.returncode, done.stdout, done.stderr) == (0, wanted, ""), done
        write(paths[0], one_limit("5/s"))
        write(paths[1], "unmatched: deny\n" + one_limit("5/s"))
        assert check("--against", *paths).stdout == (f"{paths[1]}: OK: limits: 1, overrides: 0, unmatched: deny\nif it replaces {paths[0]}:\n"
                                                     "  per-user: kept: 5/s\n  requests that no limit applies to: denied, before allowed\n"
                                                     "  kept: 1, converted: 0, anew: 0, new: 0, removed: 0\n")
        assert "  requests that no limit applies to: allowed, before denied\n" in check("--against", paths[1], paths[0]).stdout
        write(paths[1], "keys: 5m\n" + one_limit("5/5000day fixed_window") + "  - {name: b, limit: 6/s}\n  - {name: c, limit: 5/s}\n  - {name: e, limit: 5/s}\n")
        for words in (("--against",), ("--against", paths[0]), (paths[1], "--against"), ("--against", paths[0], "--against", paths[0], paths[1])):
            assert check(*words).returncode == 2, words
        write(paths[0], one_limit("5/fortnight"))
        done = check("--against", paths[0], paths[1])
        assert done.returncode == 1 and f"{paths[0]}:" in done.stderr and f"--against {paths[0]}: it has errors" in done.stderr, done
        assert done.stdout == f"{paths[1]}: OK: limits: 4, overrides: 0\n", done
        done = check("--against", paths[1], paths[0])
        assert done.returncode == 1 and "--against" not in done.stderr and f"{paths[0]}:" in done.stderr, done


def who_starts_anew_is_said():
    with serving(one_limit("5/4000day fixed_window")) as (server, client, path):
        assert client.info()["policy_anew_limits"] == "0"
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 4
        replace(path, one_limit("6/4000day fixed_window"))
        until(lambda: client.limit() == "6/4000day fixed_window", "another count")
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 4 and "start anew" not in server.said()
        replace(path, one_limit("5/4000day fixed_window"))
        until(lambda: client.limit() == "5/4000day fixed_window", "the first count")
        replace(path, one_limit("5/5000day fixed_window"))
        until(lambda: client.limit() == "5/5000day fixed_window", "another period")
        assert client.ask("WEIR.CHECK", "user", "a")["remaining"] == 4
        until(lambda: client.info()["policy_anew_limits"] == "1", "it is counted")
        until(lambda: f"weir serve: the policy: {ANEW}\n" in server.said(), "it is said")
        until(lambda: "anew=1" in [line for line in server.said().splitlines() if "policy_reloaded" in line][-1], "it is audited")
        many = "limits:\n" + "".join(f"  - {{name: l{i}, match: {{path: /{i}}}, limit: 5/4000day fixed_window}}\n" for i in range(50))
        replace(path, many)
        until(lambda: client.limit("l49") is not None, "many limits")
        replace(path, many.replace("4000day", "5000day"))
        until(lambda: client.info()["policy_anew_limits"] == "50", "they are counted")
        until(lambda: "keys of 40 more limits start over" in server.said(), "the last line")
        assert server.said().count("start over, because") == 11, server.said()


def who_starts_anew_in_a_file_is_said():
    with tempfile.TemporaryDirectory(prefix="weir-policy-") as folder:
        options = ("--file", os.path.join(folder, "table"), "--keys", "1000", "--limits-max", "100")
        for limit, says in (("5/4000day fixed_window", False), ("6/4000day fixed_window", False), ("5/5000day fixed_window", True)):
            path = os.path.join(folder, "policy.yaml")
            write(path, one_limit(limit))
            with daemon(WEIR, "--policy", path, *options) as server, Client(server, protocol=3) as client:
                assert client.ask("WEIR.CHECK", "user", "a")["allowed"]
                said = "per-user: keys start over, because the table has"
                until(lambda text=said, is_said=says: (text in server.said()) == is_said, "what starts anew")
                assert client.info()["policy_anew_limits"] == str(int(says))


# --- under load ---------------------------------------------------------------------------------------------------


# What a reply of each version says about a request that all its limits match: limit, limits, decided_by. Limits are
# added, removed and changed together. `quiet` is in shadow, and only in the first version it may deny. All are windows:
# remaining is the limit minus the usage, whatever the limit was before.
VERSIONS = (
    ((1000001, 2, "per-user"), (("per-user", "user", "1000001/s"), ("quiet", "extra", "1/day", "shadow"))),
    ((1000002, 3, "wide"), (("per-user", "user", "20000000/s"), ("wide", "extra", "1000002/s"),
                            ("quiet", "extra", "200000000/day", "shadow"))),
    ((1000003, 2, "per-user"), (("wide", "extra", "20000001/s"), ("per-user", "user", "1000003/s"))),
    ((1000004, 1, "wide"), (("wide", "extra", "1000004/s"),)),
)


def version(number):
    rows = VERSIONS[number % len(VERSIONS)][1]
    return "limits:\n" + "".join(
        f"  - {{name: {name}, key: [{key}], limit: {limit} fixed_window{''.join(f', mode: {each}' for each in mode)}}}\n"
        for name, key, limit, *mode in rows)


class Asking(threading.Thread):
    """Sends requests without a pause, and keeps every reply that belongs to no version."""

    def __init__(self, server, number):
        super().__init__()
        self.client, self.number = Client(server, protocol=3), number
        self.is_over, self.asked, self.wrong, self.seen = False, 0, [], set()

    def run(self):
        request = b"".join(bulks("WEIR.CHECK", "user", f"{self.number}-{i}", "extra", "x") for i in range(16))
        try:
            while not self.is_over:
                self.client.socket.sendall(request)
                for _ in range(16):
                    self.look_at(self.client.read())
        except (OSError, ValueError) as fault:
            self.wrong.append(repr(fault))
        finally:
            self.client.close()

    def look_at(self, answer):
        self.asked += 1
        seen = answer["limit"], answer["limits"], answer["decided_by"]
        self.seen.add(seen)
        # Only that version has a limit in shadow that denies.
        may_deny = seen == VERSIONS[0][0]
        if (seen not in (told for told, _ in VERSIONS) or not answer["allowed"] or answer["remaining"] > answer["limit"]
                or answer["shadow_denied"] > may_deny):
            self.wrong.append(answer)


def nobody_notices():
    with serving(version(0)) as (server, client, path):
        asking = [Asking(server, i) for i in range(CLIENTS)]
        for one in asking:
            one.start()
        try:
            for i in range(1, RELOADS + 1):
                replace(path, version(i))
                ticket = client.ask("WEIR.RELOAD")
                until(lambda at=ticket: int(client.info("policy")["policy_reloads"]) >= at, "a reload")
        finally:
            for one in asking:
                one.is_over = True
            for one in asking:
                one.join(TIMEOUT_S)
        info = client.info()
        assert info["policy_changes"] == str(RELOADS) and info["policy_failures"] == "0", info
        for one in asking:
            assert not one.wrong, one.wrong[:5]
            assert one.seen == {told for told, _ in VERSIONS}, one.seen
        return f"{sum(one.asked for one in asking)} answers"


TESTS = (the_example_decides, shadows_deny_nothing, info_counts_requests_of_the_policy, resp2_has_numbers_in_the_same_order, a_pipeline_is_answered_in_order,
         limits_have_names, keys_are_given_as_they_are_shown, keys_of_a_pipeline_do_not_meet, named_limits_answer_for_themselves,
         named_limits_are_waited_for, named_limits_are_held, one_limit_changes_by_call, explained_line_by_line, many_limits_are_listed_in_parts,
         inline_limits_do_not_evict_keys_of_the_policy,
         bad_requests_are_told_so, without_a_policy, admins_alone_change_it, weir_check_asks, every_habit_of_editors,
         a_configmap, a_directory_is_one_policy, links_of_a_directory, where_nothing_can_be_watched,
         files_that_a_policy_names, by_signal_and_by_command, state_is_kept,
         a_bad_version_changes_nothing, a_policy_that_the_table_cannot_have, settings_stay,
         variables_that_are_no_settings_are_told, a_bad_policy_does_not_start,
         check_config_says_what_becomes_of_keys, who_starts_anew_is_said, who_starts_anew_in_a_file_is_said,
         logs_that_do_not_fit_the_arena_are_told, check_config_checks_both, nobody_notices)

if __name__ == "__main__":
    sys.exit(run([(test.__name__.replace("_", " "), test) for test in TESTS]))
