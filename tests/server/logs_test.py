#!/usr/bin/env python3
"""The log of weir serve: messages, denials and the audit log.

    logs_test.py WEIR"""
# Covers: src/engine/request_audit.c, src/observe/audit.c, src/observe/log_key.c

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, connect_to, daemon, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client, until  # noqa: E402

WEIR = sys.argv[1]
SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LIMIT = "limits:\n  - name: per-client\n    key: [user]\n    limit: {limit}\n"
USERS = "users:\n  ops:\n    role: admin\n    password: secret\n    token: token-of-ops\n"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
HOSTILE = [b"line\nweir serve: audit key_reset user=root", b"\x1b[2J\x1b]0;title\x07", b"\xff\xfe\x80", b"\x00", b'"\\',
           "\u202egrün\u009b".encode()]


class Json:
    """A server with a JSON log. Standard output has the addresses where it listens."""

    def __init__(self, process, folder):
        self.process, self.path = process, os.path.join(folder, "socket")
        places = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [(one["event"], one["protocol"]) for one in places] == [("listening", "resp"), ("listening", "http")], places
        self.http_at = places[1]["at"]

    def connect(self):
        return connect_to(self.path)


@contextlib.contextmanager
def json_server(*options):
    with tempfile.TemporaryDirectory(prefix="weir-logs-") as folder, open(os.path.join(folder, "log"), "ab+") as log:
        process = subprocess.Popen([WEIR, "serve", "--listen", os.path.join(folder, "socket"), "--http", "127.0.0.1:0",
                                    "--log_format", "json", *options], stdout=subprocess.PIPE, stderr=log)
        try:
            one = Json(process, folder)

            def lines():
                log.seek(0)
                return [json.loads(line) for line in log.read().split(b"\n")[:-1]]

            one.lines = lines
            yield one
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
            process.wait(TIMEOUT_S)
            process.stdout.close()


def ask(server, method, target, body=None, **headers):
    connection = http.client.HTTPConnection(server.http_at, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request(method, target, body if isinstance(body, str) or body is None else json.dumps(body),
                           {"Content-Type": "application/json"} |
                           {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        answer.read()
        return answer.status


def unescaped(text):
    """The bytes of a quoted value in a line of text."""
    return re.sub(rb"\\x(..)|\\(.)", lambda one: bytes.fromhex(one[1].decode()) if one[1] else one[2], text)


def texts_of(said, event):
    """The lines of an event as dicts of values, which stay escaped."""
    part = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')
    found = []
    for line in said.splitlines():
        if line.startswith(f"weir serve: {event} "):
            parts = dict(part.findall(line))
            assert TIME.fullmatch(parts["time"]), line
            found.append(parts)
    return found


def denials_as_text():
    with daemon(WEIR, "--log_denials", "key", http="127.0.0.1:0") as server, Client(server) as client:
        for key in HOSTILE:
            client.ask("WEIR.TAKE", key, "1/hour", 2)
        until(lambda: len(texts_of(server.said(), "denied")) == len(HOSTILE), "a line each")
        server.log.seek(0)
        raw = server.log.read()
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", raw) and len(raw.splitlines()) == len(HOSTILE), raw
        raw.decode()
        for key, line in zip(HOSTILE, texts_of(server.said(), "denied")):
            assert unescaped(line["key"][1:-1].encode()) == key, (key, line)
            assert (line["limit"], line["cost"], line["retry_after"]) == ("1/hour", "2", "never"), line
            assert (line["protocol"], line["shadow"]) == ("resp", "false") and "path" not in line, line


def denials_as_json():
    with json_server("--log_denials", "key") as server, Client(server) as client:
        for key in HOSTILE:
            client.ask("WEIR.TAKE", key, "1/hour", 2)
        until(lambda: len(server.lines()) == len(HOSTILE), "a line each")
        for key, line in zip(HOSTILE, server.lines()):
            expected = key.decode(errors="backslashreplace")
            assert line["key"] == expected and line["event"] == "denied" and line["level"] == "info", (line, expected)
            assert TIME.fullmatch(line["ts"]), line


def what_is_known_of_a_request():
    with tempfile.TemporaryDirectory() as folder:
        policy = os.path.join(folder, "limits.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(LIMIT.format(limit="1/hour") + "  - name: tried\n    limit: 1/hour\n    mode: shadow\n")
        with json_server("--policy", policy, "--log_denials", "hash", "--trace_to", "http://127.0.0.1:1/v1/traces",
                         "--trace_one_in", "0") as server, Client(server) as client:
            assert ask(server, "GET", "/v1/check?user=jane&path=/pay%0a", traceparent=SAMPLED) == 200
            assert ask(server, "GET", "/v1/check?user=jane&path=/pay%0a", traceparent=SAMPLED) == 429
            assert ask(server, "GET", "/v1/check?user=joe") == 200  # the limit in shadow would have denied it
            assert ask(server, "POST", "/v1/take", {"key": "jane", "limit": "1/day", "cost": 9}) == 429
            assert client.ask("WEIR.CHECK", "user", "jane", "path", "/other")[0] == 0
            assert client.ask("WEIR.TAKE", "jane", "1/hour", 5, "WAIT", 1)[0] == 0
            assert client.ask("WEIR.HOLD", "id", "jane", "1/day", 9, 1000)[0] == 0
            until(lambda: len(server.lines()) == 6, "a line each")
            first, shadow, taken, checked, waited, held = server.lines()
            assert (first["limit"], first["path"], first["protocol"]) == ("per-client", "/pay\n", "http"), first
            assert first["trace_id"] == SAMPLED.split("-")[1] and not first["shadow"], first
            assert 0 < first["retry_after_ns"] <= 3600 * 10**9 and first["cost"] == 1, first
            assert (shadow["limit"], shadow["shadow"], shadow["path"]) == ("tried", True, "/v1/check"), shadow
            assert "trace_id" not in shadow, shadow
            assert (taken["limit"], taken["path"], taken["cost"]) == ("1/day", "/v1/take", 9), taken
            assert (checked["limit"], checked["path"], checked["protocol"]) == ("per-client", "/other", "resp"), checked
            assert checked["key_hash"] == first["key_hash"] != taken["key_hash"] == held["key_hash"], (first, taken, held)
            assert waited["limit"] == "1/hour" and waited["cost"] == 5 and "path" not in waited, waited
            for line in server.lines():
                assert "key" not in line and re.fullmatch("[0-9a-f]{16}", line["key_hash"]), line


def keys_of_a_policy():
    """An address in a key is 4 or 16 bytes, and text in the log."""
    with tempfile.TemporaryDirectory() as folder:
        policy = os.path.join(folder, "limits.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write("limits:\n  - name: both\n    key: [ip, user]\n    limit: 1/hour\n")
        with json_server("--policy", policy, "--log_denials", "key") as server:
            for ip in ("203.0.113.6", "2001:db8:0:1::6"):
                assert ask(server, "GET", f"/v1/check?ip={ip}&user=jane") == 200
                assert ask(server, "GET", f"/v1/check?ip={ip}&user=jane") == 429
            until(lambda: len(server.lines()) == 2, "a line each")
            assert [line["key"] for line in server.lines()] == [
                "ip=203.0.113.6 user=jane", "ip=2001:db8:0:1::/64 user=jane"], server.lines()


def rejections_by_redis():
    with redis() as store, json_server("--log_denials", "key", "--store", store.url, "--store_budget", "10s") as server, \
            Client(server) as client:
        client.pipeline([("WEIR.TAKE", "k", "1/hour")] * 3 + [("WEIR.REFUND", "k", "1/hour", 1), ("WEIR.RESET", "k", "1/hour")])
        client.ask("WEIR.RESET", "k", "1/hour")
        until(lambda: [line["event"] for line in server.lines() if "event" in line] ==
              ["denied"] * 2 + ["key_refunded", "key_reset", "key_reset"], "a line each, in order")


def lines_are_limited():
    """Every dropped line is accounted for: in a later line, or as a count."""
    with json_server("--log_denials", "key", "--log_denials_limit", "2/100ms burst 2") as server, \
            Client(server) as client:
        asked = 0
        client.ask("WEIR.TAKE", "k", "1/hour")
        while not any("left_out" in line for line in server.lines()):
            client.pipeline([("WEIR.TAKE", "k", "1/hour")] * 50)
            asked += 50
        left_out = int(client.info()["denials_left_out"])
        until(lambda: len(server.lines()) + left_out == asked, "all are lines or left out")
        assert 0 < sum(line.get("left_out", 0) for line in server.lines()) <= left_out
    got = subprocess.run([WEIR, "serve", "--log_denials_limit", "many"], capture_output=True, text=True,
                         timeout=TIMEOUT_S)
    assert got.returncode == 2 and "weir serve: --log-denials-limit: " in got.stderr, got
    assert "expected a rate, COUNT/PERIOD" in got.stderr, got


def nobody_reads():
    """A full pipe blocks neither decisions nor the shutdown. Dropped lines are counted."""
    ends = os.pipe()
    with tempfile.TemporaryDirectory(prefix="weir-logs-") as folder:
        path = os.path.join(folder, "socket")
        process = subprocess.Popen([WEIR, "serve", "--listen", path, "--http", "none", "--log_denials", "key",
                                    "--log_denials_limit", "1000000/s"], stdout=subprocess.PIPE, stderr=ends[1])
        try:
            assert process.stdout.readline().startswith(b"weir serve: RESP at"), "it does not start"
            process.connect = lambda: connect_to(path)
            with Client(process) as client:
                client.ask("WEIR.TAKE", "k", "1/hour")
                while int(client.info()["log_lines_left_out"]) == 0:
                    assert all(one[0] == 0 for one in client.pipeline([("WEIR.TAKE", "k" * 200, "1/hour", 2)] * 500))
                assert client.ask("WEIR.TAKE", "another", "1/hour")[0] == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
            process.wait(TIMEOUT_S)
            process.stdout.close()
            os.close(ends[0])
            os.close(ends[1])


@contextlib.contextmanager
def administered(*options):
    """A server with users and a policy, and a client that may change everything."""
    with tempfile.TemporaryDirectory(prefix="weir-logs-") as folder:
        config, policy = os.path.join(folder, "weir.yaml"), os.path.join(folder, "limits.yaml")

        def write(path, text):
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(path + ".new", path)

        write(config, USERS)
        write(policy, LIMIT.format(limit="10/hour"))
        with json_server("--config", config, "--policy", policy, *options) as server, Client(server) as client:
            assert client.ask("AUTH", "ops", "secret") == "OK"
            yield server, client, lambda text: write(config, text), lambda text: write(policy, text)


def next_audit(server, n, event, **parts):
    """Checks that audit line n has this event and these fields."""
    until(lambda: len([line for line in server.lines() if line["level"] == "audit"]) > n, f"no line of {event}")
    line = [line for line in server.lines() if line["level"] == "audit"][n]
    assert line["event"] == event and {name: line.get(name) for name in parts} == parts, line
    return line


def who_changed_what():
    with administered() as (server, client, write_config, write_policy):
        by_resp = {"user": "ops", "peer": "unix", "by": "resp"}
        by_http = {"user": "ops", "peer": "127.0.0.1", "by": "http"}
        nobody = {"user": "-", "peer": "-"}
        token = {"authorization": "Bearer token-of-ops"}
        client.ask("WEIR.TAKE", "a\nb", "3/hour", 2)
        client.ask("WEIR.REFUND", "a\nb", "3/hour", 1)
        next_audit(server, 0, "key_refunded", limit="3/hour", key="a\nb", given_back=1, remaining=2, result="ok", **by_resp)
        client.ask("WEIR.RESET", "a\nb", "3/hour")
        next_audit(server, 1, "key_reset", key="a\nb", was_stored=True, result="ok", **by_resp)
        client.ask("WEIR.CHANGE", "per-client", "20/hour")
        next_audit(server, 2, "limit_changed", limit="per-client", before="10/hour", after="20/hour", result="ok", **by_resp)
        ticket = client.ask("WEIR.RELOAD")
        next_audit(server, 3, "reload_asked", result="ok", **by_resp)
        until(lambda: int(client.info("policy")["policy_reloads"]) >= ticket, "a reload, which would undo what is put below")
        assert ask(server, "POST", "/v1/take", {"key": "k", "limit": "3/hour", "mode": "refund"}, **token) == 200
        next_audit(server, 4, "key_refunded", limit="3/hour", key="k", result="ok", **by_http)
        assert ask(server, "DELETE", "/v1/keys/3%2Fhour/k", **token) == 200
        next_audit(server, 5, "key_reset", key="k", was_stored=False, result="ok", **by_http)
        assert ask(server, "PUT", "/v1/limits/per-client", {"limit": "30/hour"}, **token) == 200
        next_audit(server, 6, "limit_changed", before="20/hour", after="30/hour", result="ok", **by_http)
        assert ask(server, "PUT", "/v1/policy", LIMIT.format(limit="40/hour") + "  - {name: all, limit: 9/s}\n", **token) == 200
        next_audit(server, 7, "policy_put", limits=2, added=1, removed=0, changed=1, result="ok", **by_http)
        assert ask(server, "PUT", "/v1/policy", "limits: 5\n", **token) == 422
        assert next_audit(server, 8, "policy_put", **by_http)["result"].startswith("1:"), server.lines()
        write_policy(LIMIT.format(limit="50/hour"))
        next_audit(server, 9, "policy_reloaded", by="file", limits=1, result="ok", **nobody)
        write_policy(LIMIT.format(limit="50/fortnight"))
        assert "unknown period" in next_audit(server, 10, "policy_reloaded", by="file", limits=1, **nobody)["result"]
        write_config(USERS + "  web:\n    role: decide\n    token: token-of-web\n")
        next_audit(server, 11, "users_changed", by="file", before=1, after=2, result="ok", **nobody)
        server.process.send_signal(signal.SIGHUP)
        next_audit(server, 12, "reload_asked", by="signal", result="ok", **nobody)
        # Neither a request without permission nor a query is in the audit log.
        assert ask(server, "PUT", "/v1/limits/per-client", {"limit": "1/hour"}, authorization="Bearer token-of-web") == 403
        assert client.ask("WEIR.TAKE", "k", "3/hour")[0] == 1
        client.ask("WEIR.CHANGE", "per-client", "60/hour")
        next_audit(server, 13, "limit_changed", after="60/hour", result="ok", **by_resp)
    with administered("--log_denials", "hash") as (server, client, _, _):
        client.ask("WEIR.RESET", "jane", "3/hour")
        assert "key" not in next_audit(server, 0, "key_reset", result="ok"), server.lines()


def the_next_server():
    with daemon(WEIR, "--drain", "0s") as server:
        server.process.send_signal(signal.SIGUSR2)
        assert server.process.wait(TIMEOUT_S) == 0, server.said()
        line, = texts_of(server.said(), "audit handed_over")
        assert (line["user"], line["by"], line["result"]) == ("-", "signal", "ok"), line
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line["to_process"]), signal.SIGTERM)
        server.process.stdout.close()
        server.process = None


def sentences():
    """The text log has the plain message; the JSON log has it in a field."""
    with redis() as store, daemon(WEIR, "--store", store.url) as server, Client(server) as client:
        client.ask("WEIR.TAKE", "k", "3/hour")
        store.end()
        until(lambda: client.ask("WEIR.TAKE", "k", "3/hour") and server.said(), "that the store is gone")
        said = server.said()
        assert said.startswith("weir serve: ") and "time=" not in said, said
    with redis() as store, json_server("--store", store.url) as server, Client(server) as client:
        client.ask("WEIR.TAKE", "k", "3/hour")
        store.end()
        until(lambda: client.ask("WEIR.TAKE", "k", "3/hour") and server.lines(), "that the store is gone")
        line = server.lines()[0]
        assert line["level"] == "warning" and line["message"] and not line["message"].startswith("weir serve"), line


TESTS = [("denials as text", denials_as_text), ("denials as JSON", denials_as_json),
         ("what is known of a request", what_is_known_of_a_request), ("keys of a policy", keys_of_a_policy), ("decided by Redis", rejections_by_redis),
         ("lines are limited", lines_are_limited), ("the log is not read", nobody_reads), ("who changed what", who_changed_what),
         ("the next server", the_next_server), ("sentences", sentences)]

if __name__ == "__main__":
    sys.exit(run(TESTS))
