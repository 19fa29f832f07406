#!/usr/bin/env python3
"""Changes of limits reach every server on one Redis.

    fleet_test.py WEIR

Servers learn of a change by their heartbeat, once a second. Each test waits for the result without a fixed delay."""
# Covers: src/server/shared_changes.c, src/store/redis/redis_changes.c

import contextlib
import http.client
import json
import os
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, bulks, daemon, run
from redis_server import redis
from resp_client import Client, until

WEIR = sys.argv[1]

POLICY = """
limits:
  - {name: per-ip, key: [ip], limit: 50/1000day burst 50}
  - {name: everyone, limit: 1000/1000day burst 1000}
  - {name: window, match: {path: /window}, limit: 10/1000day fixed_window}
"""
OTHER = POLICY.replace("1000/1000day burst 1000", "2000/1000day burst 2000")


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


class Fleet:
    """Servers on one Redis, each with its own policy file, as on separate machines."""

    def __init__(self, stack, server, folder):
        self.stack, self.server, self.folder, self.n = stack, server, folder, 0

    def add(self, text=POLICY, option="--policy", login=None):
        self.n += 1
        path = os.path.join(self.folder, f"policy{self.n}.yaml")
        write(path, text)
        os.chmod(path, 0o600)  # it may contain passwords
        one = self.stack.enter_context(daemon(WEIR, "--store", self.server.url, "--store-budget", "10s", "--workers", "2",
                                              option, path, http="127.0.0.1:0"))
        one.policy = path
        one.client = self.stack.enter_context(Client(one))
        if login:
            assert one.client.ask("AUTH", *login) == "OK"
        until(lambda: one.client.info()["store_state"] == "up", "the store came up")
        return one


@contextlib.contextmanager
def fleet(*options):
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(prefix="weir-fleet-") as folder, redis(*options) as server:
        with stack:
            yield Fleet(stack, server, folder)


def tell_redis(server, *words):
    with contextlib.closing(server.connect()) as connection:
        connection.sendall(bulks(*words))
        return connection.recv(65536)


def rows(one):
    """The limits of a server, by name."""
    return {row["name"]: row for row in (dict(zip(flat[::2], flat[1::2])) for flat in one.client.ask("WEIR.LIMITS"))}


def limit(one, name="per-ip"):
    return rows(one)[name]["limit"]


def until_limit(one, text, name="per-ip"):
    until(lambda: limit(one, name) == text, f"{name} is {text}, not {limit(one, name)}")


def reload(one, text):
    write(one.policy, text)
    ticket = one.client.ask("WEIR.RELOAD")
    until(lambda: int(one.client.info("policy")["policy_reloads"]) >= ticket, "the policy was read")


def restart(one, how=signal.SIGTERM):
    one.client.close()
    one.end(how)
    one.start()
    one.client = Client(one)
    until(lambda: one.client.info()["store_state"] == "up", "the store came up")


def visit(one, method, target, body=None):
    host, port = one.http_at.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request(method, target, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or "null")


def settle(servers):
    """Waits until each server has received all changes so far: each changes another limit, and that change comes
    last."""
    for one in servers:
        settle.n += 1
        text = f"{settle.n}/1000day fixed_window"
        assert one.client.ask("WEIR.CHANGE", "window", text) == "OK"
        for other in servers:
            until_limit(other, text, "window")


settle.n = 100


# --- one command ----------------------------------------------------------------------------------------------------


def one_command_changes_all_servers():
    """Two servers must not decide one key by 50 and by 5 in turn. A server that joins later gets the change, too."""
    with fleet() as servers:
        first, second = servers.add(), servers.add()
        before_s = int(time.time()) - 1
        assert first.client.ask("WEIR.CHANGE", "per-ip", "5/1000day burst 5") == "OK"
        assert limit(first) == "5/1000day"
        until_limit(second, "5/1000day")
        assert [one.client.ask("WEIR.CHECK", "ip", "1.1.1.1")[1] for one in (first, second, first, second)] == [5] * 4
        third = servers.add()
        until_limit(third, "5/1000day")
        for one in (first, second, third):
            row = rows(one)["per-ip"]
            assert row["changed"] == "all" and row["changed_by"] == "127.0.0.1", row
            assert before_s <= row["changed_at"] <= time.time() + 1, row
            assert rows(one)["everyone"]["changed"] == "" and rows(one)["everyone"]["changed_at"] == 0
            status, body = visit(one, "GET", "/v1/limits/per-ip")
            assert status == 200 and body["changed"] == {"by": row["changed_by"], "at": row["changed_at"], "servers": "all"}, body
            assert visit(one, "GET", "/v1/limits/everyone")[1]["changed"] is None
            lines = [line for line in one.client.ask("WEIR.EXPLAIN", "ip", "1.1.1.1") if line.startswith("per-ip: applies")]
            assert f"changed to 5/1000day on all servers by {row['changed_by']} at 20" in lines[0], lines
            live = visit(one, "GET", "/v1/live?seconds=1")[1]
            changed = {shown["name"]: shown["changed"] for shown in live["limits"] if shown["name"] in ("per-ip", "everyone")}
            assert changed["per-ip"]["servers"] == "all" and changed["everyone"] is None, changed
            assert one.client.info()["policy_changed_limits"] == "1"
        audits = {one: [line for line in one.said().splitlines() if "limit_changed" in line and "limit=per-ip" in line]
                  for one in (first, second, third)}
        assert [len(lines) for lines in audits.values()] == [1, 1, 1], audits
        assert "by=resp" in audits[first][0] and "servers=all" in audits[first][0], audits
        assert "by=store" in audits[second][0] and "result=ok" in audits[second][0], audits


def the_later_command_wins_everywhere():
    with fleet() as servers:
        both = servers.add(), servers.add()
        for turn in range(20):
            status, body = visit(both[turn % 2], "PUT", "/v1/limits/per-ip", {"limit": f"{turn + 1}/1000day"})
            assert status == 200 and body["limit"] == f"{turn + 1}/1000day" and body["changed"]["servers"] == "all", body
        settle(both)
        assert [limit(one) for one in both] == ["20/1000day"] * 2


def here_changes_one_server():
    with fleet() as servers:
        first, second = servers.add(), servers.add()
        assert first.client.ask("WEIR.CHANGE", "per-ip", "7/1000day", "HERE") == "OK"
        assert rows(first)["per-ip"]["changed"] == "here"
        assert "changed to 7/1000day by" in " ".join(first.client.ask("WEIR.EXPLAIN", "ip", "1.1.1.1"))
        status, body = visit(second, "PUT", "/v1/limits/everyone?here=true", {"limit": "8/1000day"})
        assert status == 200 and body["changed"]["servers"] == "here", body
        settle((first, second))
        assert limit(first) == "7/1000day" and limit(second) == "50/1000day"
        assert limit(second, "everyone") == "8/1000day" and limit(first, "everyone") == "1000/1000day"
        assert second.client.ask("WEIR.CHANGE", "per-ip", "9/1000day") == "OK"
        until_limit(first, "9/1000day")
        assert first.client.ask("WEIR.CHANGE", "per-ip", "6/1000day", "here") == "OK"
        settle((second, first))  # it reads all changes again
        assert limit(first) == "6/1000day" and limit(second) == "9/1000day"


def what_is_wrong_is_refused():
    with fleet() as servers:
        one = servers.add()
        for words, part in ((("per-ip", "5/1000day", "THERE"), "HERE"), (("none", "5/day"), "NOLIMIT"),
                            (("per-ip", "5/fortnight"), "the limit: "), (("per-ip", "5/day fixed_window"), "algorithm"),
                            (("window", "5/day fixed_window"), "period"),
                            (("per-ip", "1/hour burst 999999999999999"), "in Redis")):
            assert part in one.client.refusal("WEIR.CHANGE", *words), words
        for query in ("here", "here=maybe", "her=true", "here=true&here=true"):
            assert visit(one, "PUT", f"/v1/limits/per-ip?{query}", {"limit": "5/day"})[0] == 400, query
        assert visit(one, "PUT", "/v1/limits/none", {"limit": "5/day"})[0] == 404
        assert b"per-ip" not in tell_redis(servers.server, "HGETALL", "weir:~changes")
        assert limit(one) == "50/1000day"


def commands_behind_a_change_wait_for_it():
    with fleet() as servers:
        one = servers.add()
        answers = one.client.pipeline([("WEIR.CHECK", "ip", "1.1.1.1"), ("WEIR.CHANGE", "per-ip", "9/1000day burst 9"),
                                       ("WEIR.CHECK", "ip", "1.1.1.1"), ("WEIR.CHANGE", "per-ip", "8/1000day burst 8"),
                                       ("PING",), ("WEIR.CHECK", "ip", "1.1.1.1")])
        assert (answers[0][1], answers[1], answers[2][1], answers[3], answers[4], answers[5][1]) == \
               (50, "OK", 9, "OK", "PONG", 8), answers


def who_leaves_meanwhile_has_changed_it():
    with fleet() as servers:
        one = servers.add()
        servers.server.tell(signal.SIGSTOP)
        for _ in range(5):
            with one.connect() as gone:
                gone.sendall(bulks("WEIR.CHANGE", "per-ip", "5/1000day"))
        servers.server.tell(signal.SIGCONT)
        settle((one,))


# --- without Redis --------------------------------------------------------------------------------------------------


def without_redis_only_this_server_can_be_changed():
    with fleet() as servers:
        one = servers.add()
        servers.server.end()
        error = one.client.refusal("WEIR.CHANGE", "per-ip", "5/1000day")
        assert error.startswith("UNSHARED ") and "HERE" in error, error
        status, body = visit(one, "PUT", "/v1/limits/per-ip", {"limit": "5/1000day"})
        assert status == 503 and "here" in body["detail"].lower(), body
        assert limit(one) == "50/1000day"
        until(lambda: any("limit_changed" in line and "result=ok" not in line for line in one.said().splitlines()),
              "the refusal is not in the log")
        assert one.client.ask("WEIR.CHANGE", "per-ip", "5/1000day", "HERE") == "OK" and limit(one) == "5/1000day"


def a_replica_does_not_take_changes():
    with fleet() as servers:
        one = servers.add()
        tell_redis(servers.server, "REPLICAOF", "127.0.0.1", "1")
        assert "READONLY" in one.client.refusal("WEIR.CHANGE", "per-ip", "5/1000day")
        assert limit(one) == "50/1000day"
        tell_redis(servers.server, "REPLICAOF", "NO", "ONE")
        assert one.client.ask("WEIR.CHANGE", "per-ip", "5/1000day") == "OK"


def a_redis_that_lost_the_changes_gets_them_back():
    """Redis may restart without its data. A server that joins then must not differ from the others."""
    with fleet() as servers:
        first, second = servers.add(), servers.add()
        assert first.client.ask("WEIR.CHANGE", "per-ip", "5/1000day") == "OK"
        until_limit(second, "5/1000day")
        first.client.ask("WEIR.CHANGE", "everyone", "6/1000day", "HERE")
        servers.server.end()
        servers.server.start()
        third = servers.add()
        until_limit(third, "5/1000day")
        assert rows(third)["per-ip"]["changed_by"] == rows(first)["per-ip"]["changed_by"]
        assert limit(third, "everyone") == "1000/1000day" and limit(first, "everyone") == "6/1000day"


def damaged_and_foreign_values_are_ignored():
    with fleet() as servers:
        one = servers.add()
        settle((one,))
        keys = tell_redis(servers.server, "HKEYS", "weir:~changes").split(b"\r\n")
        field = next(key for key in keys if key.endswith(b"window"))
        identity = field[:16]
        for name, value in ((b"per-ip", b""), (b"everyone", b"x"), (b"", b"1 1\n5/day\na\nb"), (b"none", b"9999999999999999 1\n5/day\na\nb"),
                            (b"per-ip", b"99999999999999999999999 1\n5/day\na\nb"), (b"a" * 64, b"1 1\n5/day\na\nb"),
                            (b"everyone", b"8000000000000000 1\n5/fortnight\na\nb"), (b"b", b"1 1\n5/day\na"), (b"c", b"\xff" * 400),
                            (b"d", b"1 1\n" + b"9" * 5000 + b"/day\na\nb"), (b"window", b"8000000000000001 5\n7/1000day fixed_window\n\x1b[2Jx\n\x00")):
            tell_redis(servers.server, "HSET", "weir:~changes", identity + name, value)
        tell_redis(servers.server, "HSET", "weir:~changes", "foreign", "1", "version", "8000000000000001")
        until_limit(one, "7/1000day fixed_window", "window")
        assert "\x1b" not in rows(one)["window"]["changed_by"]
        until(lambda: "invalid limit changes" in one.said(), "it was logged")
        assert one.client.ask("WEIR.CHANGE", "per-ip", "5/1000day") == "OK"
        assert limit(one) == "5/1000day" and limit(one, "everyone") == "1000/1000day"
        second = servers.add()
        until_limit(second, "5/1000day")
        tell_redis(servers.server, "DEL", "weir:~changes")
        tell_redis(servers.server, "SET", "weir:~changes", "not a hash")
        assert "WRONGTYPE" in one.client.refusal("WEIR.CHANGE", "per-ip", "6/1000day")
        assert limit(one) == "5/1000day"


# --- policies -------------------------------------------------------------------------------------------------------


def a_change_outlives_restarts_but_not_its_policy():
    with fleet() as servers:
        first, second = servers.add(), servers.add()
        assert first.client.ask("WEIR.CHANGE", "per-ip", "5/1000day") == "OK"
        until_limit(second, "5/1000day")
        restart(second)
        until_limit(second, "5/1000day")
        for one in (first, second):  # both at once
            one.client.close()
            one.end()
        for one in (first, second):
            one.start()
            one.client = Client(one)
        for one in (first, second):
            until_limit(one, "5/1000day")
        reload(first, POLICY + "# a comment changes nothing\n")
        until_limit(first, "5/1000day")
        for one in (first, second):
            reload(one, OTHER)
            assert limit(one) == "50/1000day", rows(one)
        settle((first, second))
        assert [limit(one) for one in (first, second)] == ["50/1000day"] * 2, [rows(first), rows(second)]
        for one in (first, second):  # back again: the change was made under a policy that is gone
            reload(one, POLICY)
        settle((first, second))
        assert [limit(one) for one in (first, second)] == ["50/1000day"] * 2, [rows(first), rows(second)]


def a_killed_server_gets_its_changes_back():
    with fleet() as servers:
        one = servers.add()
        assert one.client.ask("WEIR.CHANGE", "per-ip", "5/1000day") == "OK"
        restart(one, signal.SIGKILL)
        until_limit(one, "5/1000day")


def policies_come_with_restarts_too():
    """The policy file differs when the server restarts, and then is the old one again."""
    with fleet() as servers:
        one = servers.add()
        assert one.client.ask("WEIR.CHANGE", "per-ip", "5/1000day") == "OK"
        for text in (OTHER, POLICY):
            write(one.policy, text)
            restart(one)
            settle((one,))
            assert limit(one) == "50/1000day"


def servers_are_reloaded_one_after_another():
    with fleet() as servers:
        first, second = servers.add(), servers.add()
        assert first.client.ask("WEIR.CHANGE", "per-ip", "5/1000day") == "OK"
        until_limit(second, "5/1000day")
        reload(first, OTHER)
        assert first.client.ask("WEIR.CHANGE", "per-ip", "6/1000day") == "OK"
        third = servers.add()  # the second server still runs the old policy, with its change
        until_limit(third, "5/1000day")
        settle((second, third))
        assert (limit(first), limit(second)) == ("6/1000day", "5/1000day")
        reload(second, OTHER)
        until_limit(second, "6/1000day")
        reload(third, OTHER)
        until_limit(third, "6/1000day")
        reload(third, POLICY)
        settle((third,))
        assert limit(third) == "50/1000day"


def the_policy_may_be_at_other_places():
    """A configuration file with limits on one server and an uploaded policy on another: the same limits are the same
    policy."""
    with fleet() as servers:
        first, second, third = servers.add(), servers.add(), servers.add(OTHER)
        host, port = third.http_at.rsplit(":", 1)
        with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)) as connection:
            connection.request("PUT", "/v1/policy", POLICY)
            assert connection.getresponse().status == 200
        assert second.client.ask("WEIR.CHANGE", "per-ip", "5/1000day") == "OK"
        until_limit(first, "5/1000day")
        until_limit(third, "5/1000day")
        settings = "keys: 5000\nusers:\n  alice: {password: s3cret, role: admin}\n  web: {password: s3cret2}\n"
        fourth = servers.add(settings + POLICY, "--config", ("alice", "s3cret"))
        until_limit(fourth, "5/1000day")
        assert fourth.client.ask("WEIR.CHANGE", "per-ip", "6/1000day") == "OK"
        until_limit(first, "6/1000day")
        assert rows(first)["per-ip"]["changed_by"] == "alice (127.0.0.1)"
        audits = [line for line in first.said().splitlines() if "limit_changed" in line and "after=6/1000day" in line]
        assert len(audits) == 1 and "user=alice" in audits[0] and "by=store" in audits[0], audits
        with Client(fourth) as other:
            assert other.ask("AUTH", "web", "s3cret2") == "OK"
            assert other.refusal("WEIR.CHANGE", "per-ip", "7/1000day").startswith("NOPERM ")


TESTS = [
    one_command_changes_all_servers,
    the_later_command_wins_everywhere,
    here_changes_one_server,
    what_is_wrong_is_refused,
    commands_behind_a_change_wait_for_it,
    who_leaves_meanwhile_has_changed_it,
    without_redis_only_this_server_can_be_changed,
    a_replica_does_not_take_changes,
    a_redis_that_lost_the_changes_gets_them_back,
    damaged_and_foreign_values_are_ignored,
    a_change_outlives_restarts_but_not_its_policy,
    a_killed_server_gets_its_changes_back,
    policies_come_with_restarts_too,
    servers_are_reloaded_one_after_another,
    the_policy_may_be_at_other_places,
]

if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
