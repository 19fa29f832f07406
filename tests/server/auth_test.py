#!/usr/bin/env python3
"""Authentication over sockets. A Redis with the same users gets the same requests and must send the same replies.

    auth_test.py WEIR

Redis and Weir run on sockets in temporary folders.

Some requests are left out, because their replies are known to differ. Before AUTH: PING with two texts, and CONFIG or
CLIENT with an unknown subcommand, where Redis and Weir report different errors first; more arguments than Weir accepts
from any client, which Weir calls an invalid length; and hundreds of requests at once, which Redis cuts off later.
Always: CONFIG GET SAVE, where Redis repeats the name as it was written and Weir prints its own."""
# Covers: src/engine/users.c, src/server/resp/resp_config.c

import contextlib
import hashlib
import http.client
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source may be read-only
os.environ["WEIR_AUTH_LIMIT"] = "1000000/s"  # guessing_test.py tests the limit of wrong passwords
import toy  # noqa: E402
from daemon import TIMEOUT_S, bulks, expect, receive_all  # noqa: E402
from redis_server import Redis  # noqa: E402
from serve_test import WEIR, Server, integers, receive_line  # noqa: E402

SEED, ROUNDS = 6, 400

USERS = """
users:
  ops:
    password: s3cret of ops
    role: admin
  web:
    password: s3cret-of-web
"""
WITH_DEFAULT = USERS + """
  default:
    password: s3cret-of-all
    role: admin
"""
REDIS_USERS = """
user ops on >s3cret~of~ops ~* +@all
user web on >s3cret-of-web ~* +@all -config
"""
NOAUTH = b"-NOAUTH Authentication required.\r\n"


@contextlib.contextmanager
def redis(lines):
    with tempfile.TemporaryDirectory(prefix="weir-auth-") as folder:
        config = os.path.join(folder, "users.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(lines)
        one = Redis(folder, "--include", config)
        try:
            one.start()
            yield one
        finally:
            one.end()


@contextlib.contextmanager
def weir(users, *options):
    """A server with these users in its configuration file."""
    with tempfile.TemporaryDirectory(prefix="weir-auth-") as folder:
        config = os.path.join(folder, "weir.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(users)
        with Server(folder, "--workers", "1", "--config", config, *options) as one:
            yield one


def everything(client, request):
    """All replies until the server closes."""
    answers = b""
    with contextlib.closing(client), contextlib.suppress(ConnectionError):
        client.sendall(request)
        while True:
            piece = client.recv(65536)
            if not piece:
                break
            answers += piece
    return answers


# --- the answers of Redis --------------------------------------------------------------------------------------------

def plain(answers):
    """Replaces what must differ: the server's name and version, and connection ids."""
    answers = re.sub(rb"(-NOPERM [^\r:]* command): it needs the role [^\r]*", rb"\1", answers)  # Redis has no roles
    answers = re.sub(rb"\$\d+\r\n(?:weir|redis)\r\n\$7\r\nversion\r\n\$\d+\r\n[\d.]+\r\n", b"(who)", answers)
    return re.sub(rb"\$2\r\nid\r\n:\d+\r\n", b"(id)", answers)


def requests(secret):
    """`secret` is the password of ops."""
    words = [
        ["PING"], ["PING", "x"], ["ECHO", "x"], ["ECHO"], ["nonsense", "a", "b"], ["SELECT", "0"],
        ["AUTH"], ["AUTH", ""], ["AUTH", "x"], ["AUTH", "s3cret-of-all"], ["AUTH", "default", "s3cret-of-all"],
        ["AUTH", "default", "x"], ["AUTH", "ops", secret], ["auth", "ops", secret + "x"], ["AUTH", "ops", ""],
        ["AUTH", "Ops", secret], ["AUTH", "web", "s3cret-of-web"], ["AUTH", "web", secret], ["AUTH", "", ""],
        ["AUTH", "nobody", "x"], ["AUTH", "a", "b", "c"], ["AUTH", "ops", b"\x00\xff"],
        ["HELLO"], ["HELLO", "2"], ["HELLO", "3"], ["HELLO", "4"], ["HELLO", "1"], ["HELLO", "x"], ["HELLO", ""],
        ["HELLO", "AUTH", "ops", secret], ["HELLO", "3", "AUTH", "ops", secret], ["HELLO", "3", "AUTH", "ops", "x"],
        ["HELLO", "3", "AUTH", "web", "s3cret-of-web", "SETNAME", "heron"], ["HELLO", "2", "SETNAME", "a b"],
        ["HELLO", "2", "SETNAME", "teal", "AUTH", "ops", secret], ["hello", "3", "auth", "ops", secret, "setname", "a\n"],
        ["HELLO", "3", "AUTH", "ops"], ["HELLO", "3", "AUTH"], ["HELLO", "3", "SETNAME"], ["HELLO", "3", "what", "x"],
        ["HELLO", "3", "AUTH", "nobody", "x", "AUTH", "ops", secret], ["HELLO", "2", "AUTH", "default", "s3cret-of-all"],
        ["CLIENT", "GETNAME"], ["CLIENT", "SETNAME", "coot"], ["CLIENT", "SETNAME", ""], ["CLIENT", "SETNAME", "a b"],
        ["CONFIG", "GET", "save"], ["CONFIG", "GET", "appendonly"], ["config", "get", "save"], ["CONFIG", "GET", "sav[e]"],
        ["RESET"], ["reset"], ["RESET", "x"], ["ACL", "WHOAMI"], ["CLUSTER", "INFO"], ["cluster", "slots"],
        ["READONLY"], ["READWRITE"], ["CLIENT", "NO-EVICT", "on"], ["CLIENT", "NO-EVICT", "x"],
        ["COMMAND", "LIST", "FILTERBY"], ["COMMAND", "LIST", "FILTERBY", "x", "y"],
        ["QUIT"],
    ]
    return [bulks(*command) for command in words]


def compare(redis_lines, users):
    """Sends each request alone, then several in a row, so that the state that one leaves shows in the others."""
    dice = random.Random(SEED)
    with redis(redis_lines) as theirs, weir(users) as ours:
        secret = "s3cret~of~ops"
        some = requests(secret)
        # Four, so that the replies before AUTH stay below the limit of both servers.
        rows = [[one] for one in some] + [dice.choices(some, k=4) for _ in range(ROUNDS)]
        signed = bulks("AUTH", "ops", secret)
        rows += [[signed, *dice.choices(some, k=12)] for _ in range(ROUNDS // 4)]
        for row in rows:
            whole = b"".join(row) + bulks("QUIT")
            found, wanted = everything(ours.connect(by_path=True), whole), everything(theirs.connect(), whole)
            assert plain(found) == plain(wanted), (row, found, wanted)


def answers_are_those_of_redis_without_a_default_user():
    compare(REDIS_USERS + "user default off resetpass\n", USERS.replace("s3cret of ops", "s3cret~of~ops"))


def answers_are_those_of_redis_with_a_default_user():
    compare(REDIS_USERS + "user default on >s3cret-of-all ~* +@all\n", WITH_DEFAULT.replace("s3cret of ops", "s3cret~of~ops"))


def answers_are_those_of_redis_without_users():
    compare("", "")


def lists_of_commands_are_those_of_redis():
    """Separate, because Redis disconnects a client whose list takes too much memory, and then replies with RESET."""
    with redis("") as theirs, weir("") as ours:
        for words in (["MODULE", "x"], ["ACLCAT", "nothing"], ["pattern", "sele[c]*"], ["PATTERN", "x"]):
            whole = bulks("COMMAND", "LIST", "FILTERBY", *words) + bulks("QUIT")
            assert everything(ours.connect(), whole) == everything(theirs.connect(), whole), words


def strangers_are_capped_as_in_redis():
    rows = [bulks(*["AUTH"] * 10), bulks(*["AUTH"] * 11), bulks("AUTH", "x" * 16384), bulks("AUTH", "x" * 16385),
            b"*1\r\n$16385\r\n", b"*11\r\n"]
    with redis(REDIS_USERS + "user default off resetpass\n") as theirs, weir(USERS) as ours:
        for row in rows:
            row += bulks("QUIT")
            assert everything(ours.connect(by_path=True), row) == everything(theirs.connect(), row), row[:60]


def hashes_are_those_of_redis():
    """A hash from a Redis ACL can be used in the configuration file."""
    with redis("user heron on >s3cret-of-heron ~* +@all\n") as theirs:
        listed = everything(theirs.connect(), bulks("ACL", "LIST") + bulks("QUIT")).decode()
    digest = re.search(r"user heron on (?:\S+ )*?(#[0-9a-f]{64})", listed).group(1)
    with weir(f'users:\n  heron:\n    sha256: "{digest}"\n') as ours, ours.connect() as client:
        expect(client, bulks("AUTH", "heron", digest), b"-WRONGPASS ")
    with weir(f'users:\n  heron:\n    sha256: "{digest}"\n') as ours, ours.connect() as client:
        expect(client, bulks("AUTH", "heron", "s3cret-of-heron") + bulks("PING"), b"+OK\r\n+PONG\r\n")


# --- strangers and roles ---------------------------------------------------------------------------------------------

def nothing_is_decided_for_strangers():
    throttle, taken = bulks("CL.THROTTLE", "k", 1, 1, 86400), integers(0, 2, 1, -1, 86400)
    with weir(USERS) as one, one.connect() as stranger, one.connect() as client:
        expect(stranger, throttle * 5, NOAUTH * 5)
        expect(stranger, bulks("HELP") + bulks("INFO") + bulks("COMMAND") + bulks("WEIR.RESET", "k", "1/s"), NOAUTH * 4)
        expect(client, bulks("AUTH", "web", "s3cret-of-web") + throttle, b"+OK\r\n" + taken)
        expect(stranger, bulks("AUTH", "web", "no") + throttle,
               b"-WRONGPASS invalid username-password pair or user is disabled.\r\n" + NOAUTH)
        # A wrong password later changes nothing.
        expect(client, bulks("AUTH", "web", "no"), b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        expect(client, throttle, b"*5\r\n:0\r\n:2\r\n:0\r\n")


def strangers_are_owed_little():
    with weir(USERS) as one, one.connect() as other:
        answers = everything(one.connect(by_path=True), bulks("PING") * 1000)
        assert answers.count(NOAUTH) * len(NOAUTH) == len(answers) <= 1024 + len(NOAUTH), answers[-100:]
        expect(other, bulks("AUTH", "web", "s3cret-of-web") + bulks("PING") * 1000, b"+OK\r\n" + b"+PONG\r\n" * 1000)


def roles_are_asked_for():
    limit = "3/5000day fixed_window"
    denied = b"-NOPERM this user has no permissions to run the 'weir.reset' command: it needs the role operate, and web has decide\r\n"
    config = b"-NOPERM this user has no permissions to run the 'config|get' command: it needs the role read, and web has decide\r\n"
    reset = bulks("WEIR.RESET", "k", limit)
    web, ops = bulks("AUTH", "web", "s3cret-of-web"), bulks("AUTH", "ops", "s3cret of ops")
    with weir(USERS) as one, one.connect() as client:
        expect(client, web + reset + bulks("CONFIG", "GET", "keys"), b"+OK\r\n" + denied + config)
        expect(client, bulks("CL.THROTTLE", "k", 0, 1, 86400) + reset + bulks("PING"),
               integers(0, 1, 0, -1, 86400) + denied + b"+PONG\r\n")
        expect(client, bulks("WEIR.TAKE", "k", limit), b"*7\r\n:1\r\n:3\r\n:2\r\n:1\r\n")
        for _ in range(3):  # times
            receive_line(client)
        expect(client, ops + reset + web + reset + ops + reset, b"+OK\r\n:1\r\n+OK\r\n" + denied + b"+OK\r\n:0\r\n")
        expect(client, bulks("CONFIG", "GET", "keys"), b"*2\r\n$4\r\nkeys\r\n$5\r\n10000\r\n")


def failures(one):
    with one.connect() as client:
        client.sendall(bulks("AUTH", "ops", "s3cret of ops") + bulks("INFO", "clients") + bulks("QUIT"))
        return int(re.search(rb"auth_failures:(\d+)", receive_all(client)).group(1))


def wrong_passwords_are_counted_and_told():
    """The server counts all wrong passwords. A log line reports some of them, and how many it left out. Unknown user
    names are not repeated, because they may be passwords."""
    with weir(USERS, "--http", "127.0.0.1:0") as one:
        n, port = 100, int(re.search(r"HTTP at 127\.0\.0\.1:(\d+)", one.lines).group(1))
        with one.connect() as client:
            expect(client, bulks("AUTH", "ops", "s3cret-wrong") + bulks("HELLO", "2", "AUTH", "s3cret-swapped", "ops"), b"-WRONGPASS ")
            for _ in range(2):
                receive_line(client)
        for word in ("Bearer s3cret-token", "Bearer s3cret-other"):
            asker = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
            asker.request("GET", "/metrics", headers={"Authorization": word})
            assert asker.getresponse().status == 401
            asker.close()
        assert failures(one) == 4
        for _ in range(n // 5):  # fewer than a client may send before AUTH
            everything(one.connect(), bulks("AUTH", "web", "no") * 5 + bulks("QUIT"))
        assert failures(one) == 4 + n
        time.sleep(0.3)  # until the next log line is allowed
        everything(one.connect(), bulks("AUTH", "web", "no") + bulks("QUIT"))
        assert one.end() == 0
        lines = [line for line in one.process.stderr.read().decode().splitlines() if " auth_failed " in line]
    assert "user=ops " in lines[0] and lines[0].endswith('peer=127.0.0.1 by=resp result="wrong password"'), lines
    assert "user=- " in lines[1] and lines[1].endswith('result="unknown user"'), lines
    assert lines[2].endswith('user=- peer=127.0.0.1 by=http result="wrong token"'), lines
    left_out = sum(int(found) for line in lines for found in re.findall(r"left_out=(\d+)", line))
    assert len(lines) < n and len(lines) + left_out == 5 + n, lines
    assert "s3cret" not in "".join(lines), lines


ROLES = """
users:
  d: {password: p, token: d-token}
  d2: {password: p, role: decide}
  o: {password: p, roles: [operate]}
  r: {password: p, role: read}
  od: {password: p, roles: [decide, operate]}
  a: {password: p, role: admin}
"""
LIMIT = "9/5000day fixed_window"
# The role that each command needs. Each command is valid.
COMMANDS = [
    ({"d", "d2", "od", "a"}, ("WEIR.TAKE", "k", LIMIT)), ({"d", "d2", "od", "a"}, ("WEIR.PEEK", "k", LIMIT)),
    ({"d", "d2", "od", "a"}, ("WEIR.UPTO", "k", LIMIT, 1)), ({"d", "d2", "od", "a"}, ("WEIR.ALL", "k", LIMIT, 0)),
    ({"d", "d2", "od", "a"}, ("CL.THROTTLE", "k", 9, 1, 86400)), ({"d", "d2", "od", "a"}, ("THROTTLE", "k", 9, 1, 86400)),
    ({"d", "d2", "od", "a"}, ("WEIR.CHECK", "user", "ann")), ({"o", "od", "a"}, ("WEIR.REFUND", "k", LIMIT, 1)),
    ({"od", "a"}, ("CL.THROTTLE", "k", 9, 1, 86400, -1)), ({"o", "od", "a"}, ("WEIR.RESET", "k", LIMIT)),
    ({"o", "od", "a"}, ("WEIR.CHANGE", "per-user", "7/hour")), ({"r", "a"}, ("WEIR.INSPECT", "k", LIMIT)),
    ({"r", "a"}, ("WEIR.LIVE",)), ({"r", "a"}, ("WEIR.EXPLAIN", "user", "ann")), ({"r", "a"}, ("CONFIG", "GET", "keys")),
    ({"a"}, ("WEIR.RELOAD",)), ({"a"}, ("WEIR.RECORD", "HELP")), ({"d", "d2", "o", "r", "od", "a"}, ("WEIR.LIMITS",)),
    ({"d", "d2", "o", "r", "od", "a"}, ("INFO", "clients")), ({"d", "d2", "o", "r", "od", "a"}, ("PING",)),
]


def every_role_does_its_part():
    policy = "limits:\n  - name: per-user\n    key: user\n    limit: 9/hour\n"
    with weir(ROLES + policy) as one:
        for name in ("d", "d2", "o", "r", "od", "a"):
            for may, words in COMMANDS:
                with one.connect() as client:
                    client.sendall(bulks("AUTH", name, "p") + bulks(*words) + bulks("QUIT"))
                    reply = receive_all(client)[len(b"+OK\r\n"):]
                assert reply.startswith(b"-NOPERM ") == (name not in may), (name, words, reply)
                assert name in may or b", and " + name.encode() + b" has " in reply, reply
                assert not reply.startswith(b"-") or name not in may, (name, words, reply)
            with one.connect() as client:  # if one command is denied, none of the transaction runs
                expect(client, bulks("AUTH", name, "p") + bulks("MULTI"), b"+OK\r\n+OK\r\n")
                client.sendall(bulks("WEIR.RESET", "k", LIMIT) + bulks("EXEC") + bulks("QUIT"))
                assert (b"-EXECABORT" in receive_all(client)) == (name not in ("o", "od", "a")), name


def holds_are_settled_by_their_owner():
    def reply(name, *words):
        with one.connect() as client:
            client.sendall(bulks("AUTH", name, "p") + bulks(*words) + bulks("QUIT"))
            return receive_all(client)[len(b"+OK\r\n"):-len(b"+OK\r\n")]

    with weir(ROLES) as one:
        never = reply("d2", "WEIR.SETTLE", "never", 1)
        assert never.startswith(b"-NOHOLD "), never
        assert reply("d", "WEIR.HOLD", "h1", "k", LIMIT, 4, 60000).startswith(b"*7\r\n:1\r\n")
        for words in (("WEIR.SETTLE", "h1", 0), ("WEIR.RELEASE", "h1")):
            assert reply("d2", *words) == never, words
        assert reply("r", "WEIR.RELEASE", "h1").startswith(b"-NOPERM ")
        assert reply("d2", "WEIR.HOLD", "h1", "k", LIMIT, 4, 60000).startswith(b"-")  # other users cannot repeat it
        assert reply("d", "WEIR.HOLD", "h1", "k", LIMIT, 4, 60000).startswith(b"*7\r\n:1\r\n")
        assert reply("d", "WEIR.SETTLE", "h1", 1).startswith(b"*8\r\n:4\r\n:1\r\n:0\r\n:3\r\n")
        assert reply("d2", "WEIR.SETTLE", "h1", 1) == never  # also after it was settled
        assert reply("d", "WEIR.HOLD", "h2", "k", LIMIT, 4, 60000).startswith(b"*7\r\n:1\r\n")
        assert reply("o", "WEIR.RELEASE", "h2").startswith(b"*8\r\n:4\r\n:0\r\n:0\r\n:4\r\n")


def refunds_are_logged():
    limit = "3/5000day fixed_window"
    with weir(USERS) as one:
        for who, secret, n in (("web", "s3cret-of-web", 1), ("ops", "s3cret of ops", 2)):
            with one.connect() as client:
                client.sendall(bulks("AUTH", who, secret) + bulks("WEIR.TAKE", "k", limit) + bulks("WEIR.REFUND", "k", limit, 1)
                               + bulks("QUIT"))
                assert receive_all(client).count(b"*7\r\n:1\r\n") == n
        assert one.end() == 0
        lines = [line for line in one.process.stderr.read().decode().splitlines() if " key_refunded " in line]
    assert len(lines) == 1 and " user=ops " in lines[0], lines


def redis_cli_passes():
    with weir(WITH_DEFAULT) as one:
        for who, answer in ((["--user", "ops", "--pass", "s3cret of ops"], "PONG"), (["--pass", "s3cret-of-all"], "PONG"),
                            (["-3", "--user", "web", "--pass", "s3cret-of-web"], "PONG"), (["--pass", "x"], "NOAUTH"),
                            ([], "NOAUTH")):
            asked = subprocess.run(["redis-cli", "-p", str(one.port), "--no-auth-warning", *who, "PING"],
                                   capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert answer in asked.stdout, (who, asked)


# --- where, and what is shown ----------------------------------------------------------------------------------------

def others_reach_it_only_with_users():
    command = [WEIR, "serve", "--listen", "0.0.0.0:0", "--listen", "[::]:0", "--http", "none", "--keys", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2 and done.stdout == "", done
    assert done.stderr.count("other machines can reach this address, and the server has no users") == 2, done
    with tempfile.TemporaryDirectory(prefix="weir-auth-") as folder:
        config = os.path.join(folder, "weir.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("listen: 0.0.0.0:0\nkeys: 1k\n")
        done = subprocess.run([WEIR, "serve", "--config", config], capture_output=True, text=True, timeout=TIMEOUT_S,
                              check=False)
        assert done.returncode == 2 and done.stderr.startswith(f"{config}:1:9: listen: 0.0.0.0:0: other machines can reach this address"), done
    with weir(USERS, "--listen", "0.0.0.0:0") as one:
        port = int(re.search(r"0\.0\.0\.0:(\d+)", one.lines).group(1))
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as client:
            expect(client, bulks("PING") + bulks("AUTH", "web", "s3cret-of-web"), NOAUTH + b"+OK\r\n")


def secrets_are_told_to_nobody():
    digests = [hashlib.sha256(word).hexdigest() for word in (b"s3cret of ops", b"s3cret-of-web")]
    with weir(USERS) as one:
        shown = one.lines.encode()
        request = b"".join(bulks(*words) for words in (
            ["AUTH", "ops", "s3cret of ops"], ["CONFIG", "GET", "*"], ["INFO"], ["INFO", "everything"], ["HELP"],
            ["COMMAND"], ["COMMAND", "DOCS"], ["CLIENT", "HELP"], ["CONFIG", "HELP"], ["AUTH", "ops", "s3cret-wrong"],
            ["HELLO", "2", "AUTH", "ops", "s3cret-wrong"], ["QUIT"]))
        shown += everything(one.connect(), request)
        with open(f"/proc/{one.process.pid}/cmdline", "rb") as line:
            shown += line.read()
        assert one.end() == 0
        shown += one.process.stdout.read() + one.process.stderr.read()
    assert b"ops:admin,web:decide" in shown, shown
    assert b"s3cret" not in shown, shown
    for digest in digests:
        assert digest.encode() not in shown and bytes.fromhex(digest) not in shown, shown


def settings_are_shown():
    with weir("idle: 90s\noutput: 1MiB\n", "--holds", "77") as one, one.connect() as client:
        for patterns, answer in ((["idle"], ["idle", "90"]), (["OUT*"], ["output", "1048576"]), (["holds"], ["holds", "77"]),
                                 (["k?ys", "keys", "KEYS"], ["keys", "10000"]), (["users"], ["users", ""]),
                                 (["work*"], ["workers", "1"]), (["save", "app*"], ["save", "", "appendonly", "no"]),
                                 (["nothing"], []), ([""], []), (["listen"], ["listen", f"127.0.0.1:0,{one.path}"])):
            expect(client, bulks("CONFIG", "GET", *patterns), bulks(*answer))
        expect(client, bulks("CONFIG", "SET", "keys", "1"), b"-ERR settings cannot be changed at run time: restart weir serve with the new value\r\n")
        expect(client, bulks("CONFIG", "what"), b"-ERR unknown subcommand 'what'. Try CONFIG HELP.\r\n")
        expect(client, bulks("CONFIG", "GET"), b"-ERR wrong number of arguments for 'config|get' command\r\n")


def patterns_are_those_of_redis():
    """Setting names become keys of a Redis, so KEYS must match as CONFIG GET does."""
    dice = random.Random(SEED)
    names = ["listen", "http", "metrics_listen", "metrics_open", "tls_cert", "tls_key", "tls_client_ca", "tls_client_auth", "denial_reveals", "denial_body", "denial_type", "keys", "arena", "inline_share", "shared", "file", "overcommit", "workers", "spin", "connections", "connections_per_address", "client_memory", "idle", "http_idle", "socket_mode", "header_time",
             "ratelimit_headers", "trusted_proxies", "authorize_headers", "allowed_hosts", "output", "stall", "end_delay", "drain", "keep_pid", "pid_file", "core_dumps", "holds", "policy", "policy_copy", "envoy_counts", "envoy_headers", "envoy_metadata", "grpc", "http2_idle", "http2_age", "limits_max", "users",
             "store", "store_budget", "on_store_failure", "deferred_memory", "service", "observe", "top_keys", "trace_to", "trace_one_in",
             "log_format", "log_denials", "log_denials_limit", "auth_limit", "save", "appendonly"]
    with redis("") as theirs, weir("") as ours, theirs.connect() as their, ours.connect() as our:
        for name in names:
            expect(their, bulks("SET", name, ""), b"+OK\r\n")
        for _ in range(3000):
            wanted = "".join(dice.choice(["*", "*", "?", "[", "]", "^", "-", "\\", *"aeiklnoprsuy"])
                             for _ in range(dice.randint(0, 4)))
            name = dice.choice(names)
            at = dice.randint(0, len(name))
            pattern = name[:at] + wanted + name[at + dice.randint(0, 3):]
            found = {name for name in ask(our, bulks("CONFIG", "GET", pattern))[::2]}
            assert found == set(ask(their, bulks("KEYS", pattern))), (pattern, found)


def ask(client, request):
    """The strings of an array reply."""
    client.sendall(request)
    with client.makefile("rb") as answer:
        n = int(answer.readline()[1:])
        return [answer.read(int(answer.readline()[1:]) + 2)[:-2].decode() for _ in range(n)]


def redis_benchmark_asks_without_a_warning():
    with weir("") as one:
        done = subprocess.run(["redis-benchmark", "-s", one.path, "-n", "100", "-c", "2", "-q", "-t", "ping_mbulk"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0 and "WARN" not in done.stdout + done.stderr and "requests per second" in done.stdout, done


TESTS = [answers_are_those_of_redis_without_a_default_user, answers_are_those_of_redis_with_a_default_user,
         answers_are_those_of_redis_without_users, lists_of_commands_are_those_of_redis, strangers_are_capped_as_in_redis, hashes_are_those_of_redis,
         nothing_is_decided_for_strangers, strangers_are_owed_little, roles_are_asked_for, every_role_does_its_part, holds_are_settled_by_their_owner,
         wrong_passwords_are_counted_and_told, refunds_are_logged, redis_cli_passes,
         others_reach_it_only_with_users, secrets_are_told_to_nobody, settings_are_shown, patterns_are_those_of_redis,
         redis_benchmark_asks_without_a_warning]


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
        except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as fault:
            failed += 1
            print(f"not ok {number} - {test.__name__}")
            print(f"# {type(fault).__name__}: {fault}".replace("\n", "\n# "), flush=True)
    if toy.IS_TOY:
        print("#", toy.summary(len(TESTS) - failed, failed, [test.__name__ for test in TESTS]))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
