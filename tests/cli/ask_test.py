#!/usr/bin/env python3
"""weir take and the other commands that query a server, run from a shell.

    ask_test.py WEIR"""
# Covers: src/cli/ask.c, src/cli/ask_report.c, src/cli/command.c, src/cli/json.c, src/cli/link.c, src/cli/main.c,
# src/cli/password.c

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))
sys.dont_write_bytecode = True

from daemon import daemon, run  # noqa: E402

WEIR = sys.argv[1]
os.environ.pop("WEIR_PASSWORD", None)
PATIENCE_S = 60
SPAN = r"[0-9][0-9.a-z ]*"


@contextlib.contextmanager
def server(*options):
    """A server; yields its address and the path of its Unix socket."""
    with daemon(WEIR, "--keys", "1000", "--workers", "1", *options) as one:
        yield one.address, one.path


@contextlib.contextmanager
def stranger(answer):
    """A server that is not Weir: replies to the first bytes it receives with `answer`, then closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def meet():
            with listener.accept()[0] as peer:
                peer.recv(65536)
                peer.sendall(answer)
                peer.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    while peer.recv(65536):  # unread bytes would reset the connection
                        pass

        thread = threading.Thread(target=meet)
        thread.start()
        yield "127.0.0.1:%d" % listener.getsockname()[1]
        thread.join(PATIENCE_S)


def weir(*arguments, env=None):
    done = subprocess.run([WEIR, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, env={**os.environ, **(env or {})})
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout + done.stderr), f"control characters: {done}"
    return done


def expect(code, pattern, *arguments, env=None):
    """Exit codes 0 and 1 print to standard output, others to standard error. The other stream must be empty."""
    done = weir(*arguments, env=env)
    said, other = (done.stdout, done.stderr) if code < 2 else (done.stderr, done.stdout)
    assert done.returncode == code and re.fullmatch(pattern + r"\n", said) and other == "", (arguments, pattern, done)


def decisions_are_told_in_a_sentence():
    with server() as (address, path):
        for where in (address, path):
            key, limit, at = f"by {where}", "20/day", ("--at", where)
            expect(0, f"allowed, 19 of 20 left, full again in {SPAN}", "take", key, limit, *at)
            expect(0, f"allowed, 14 of 20 left, full again in {SPAN}", "take", key, limit, "5", *at)
            expect(1, f"denied, 14 of 20 left, retry in {SPAN}, full again in {SPAN}", "take", *at, key, limit, "15")
            expect(1, f"denied, 14 of 20 left, full again in {SPAN}; no wait will help: the cost exceeds "
                   "the limit's capacity", "take", key, limit, "21", *at)
            expect(0, f"would be allowed, 14 of 20 left, full again in {SPAN}", "peek", key, limit, *at)
            expect(1, f"would be denied, 14 of 20 left, retry in {SPAN}, full again in {SPAN}", "peek", key, limit,
                   "15", *at)
            expect(0, f"allowed 14 of 100, 0 of 20 left, full again in {SPAN}", "upto", key, limit, "100", *at)
            expect(0, f"refunded, 3 of 20 left, full again in {SPAN}", "refund", key, limit, "3", *at)
            expect(0, "reset", "reset", key, limit, *at)
            expect(0, "nothing to reset: the key was full", "reset", key, limit, *at)
            expect(0, "PONG", "ping", *at)


def programs_get_json():
    with server() as (address, _):
        def ask(code, *arguments):
            done = weir(*arguments, "--json", "--at", address)
            assert done.returncode == code and done.stderr == "", done
            return json.loads(done.stdout)

        got = ask(0, "take", "user", "20/day", "5")
        assert 0 < got.pop("reset_after_ns") <= 5 * 86400 * 10**9 // 20, got
        assert got == {"allowed": True, "limit": 20, "remaining": 15, "granted": 5, "retry_after_ns": 0, "delay_ns": 0}, got
        got = ask(1, "take", "user", "20/day", "21")
        assert got["allowed"] is False and got["retry_after_ns"] is None and got["granted"] == 0, got
        assert ask(0, "reset", "user", "20/day") == {"answer": 1}
        assert ask(0, "ping") == {"answer": "PONG"}


def words_may_be_anything():
    with server() as (address, _):
        at = ("--at", address)
        expect(2, r'weir take: "-key": unknown option; .*', "take", "-key", "2/day", *at)
        expect(0, "allowed, 1 of 2 left, .*", "take", *at, "--", "-key", "2/day")
        expect(0, "allowed, 1 of 2 left, .*", "take", "\x1b\udcff", "2/day", *at)
        expect(0, "allowed, 1 of 2 left, .*", "take", "", "2/day", *at)
        expect(0, "allowed, 0 of 2 left, .*", "take", "", "2/day", *at)
        expect(3, r"weir take: the server replied: ERR the limit: .*\?.*", "take", "key", "2/\x1b", *at)
        expect(3, "weir take: the server replied: ERR the limit: .*fortnight.*", "take", "key", "2/fortnight", *at)
        for words in (("take", "key", "2/day"), ("upto", "key", "2/day"), ("refund", "key", "2/day"), ("settle", "id"),
                      ("all", "a", "2/day", "1", "b", "2/day"), ("hold", "id", "a", "2/day", "1")):
            for number in ("-1", "many", "", "1.5", "9223372036854775808", "9" * 30):
                expect(2, f'weir {words[0]}: "{number}": use a whole number, 0 to 9223372036854775807', *words, number, *at)
        expect(2, 'weir check: "x": use a whole number, .*', "check", "ip=::1", "--cost", "x", *at)
        expect(2, 'weir take: "-1": unknown option; .*', "take", "-1", "2/day", *at)
        expect(1, "denied, 2 of 2 left; no wait .*", "take", "key", "2/day", "9223372036854775807", *at)


def what_was_called_wrongly_is_told():
    for pattern, *arguments in (
            ("weir take: takes KEY LIMIT .COST., not 1 argument; see weir take --help", "take", "key"),
            ("weir take: takes .*, not 4 arguments; .*", "take", "a", "b", "c", "d"),
            ("weir ping: takes none, not 1 argument; .*", "ping", "a"),
            ("weir all: takes KEY LIMIT COST, once or more, not 4 arguments; .*", "all", "a", "1/s", "1", "b"),
            ("weir all: takes .*, not 0 arguments; .*", "all"),
            ('weir all: "x": too many arguments; use at most 48', "all", *["x"] * 49),
            ("weir take: --at needs a value; see weir take --help", "take", "a", "1/s", "--at"),
            ('weir take: "--json": this option takes no value', "take", "a", "1/s", "--json=1"),
            ('weir take: "9x": --wait takes milliseconds, 0 to 86400000', "take", "a", "1/s", "--wait=9x"),
            ('weir peek: "--wait": unknown option; .*', "peek", "a", "1/s", "--wait", "5"),
            ('weir take: "soon": --wait takes milliseconds, 0 to 86400000', "take", "a", "1/s", "--wait", "soon"),
            ('weir take: "86400001": --wait takes .*', "take", "a", "1/s", "--wait", "86400001"),
            ('weir take: "": --wait takes .*', "take", "a", "1/s", "--wait", ""),
            ("weir ping: http://127.0.0.1:8080: invalid address; use HOST:PORT, .*", "ping", "--at", "http://127.0.0.1:8080"),
            ("weir ping: nowhere: invalid address; use HOST:PORT, .*", "ping", "--at", "nowhere"),
            ('weir ping: "me": missing password: use --password-file, or set WEIR_PASSWORD', "ping", "--user", "me"),
            ('weir ping: "./no-such-file": No such file or directory', "ping", "--password-file", "./no-such-file"),
            ('weir ping: "/dev/null": the first line must be a password, .*', "ping", "--password-file", "/dev/null")):
        expect(2, pattern, *arguments)


def who_does_not_answer_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = "127.0.0.1:%d" % taken.getsockname()[1]
    expect(3, f"weir ping: no server at {nobody}: start one with `weir serve`", "ping", "--at", nobody)
    expect(3, "weir ping: no server at ./no-such-socket: start one with `weir serve`", "ping", "--at",
           "./no-such-socket")
    for answer, pattern in ((b"", "the server closed the connection without a reply"),
                            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the server does not speak RESP: .*"),
                            (b"-NOPROTO \x1b[31m\r\n", r"the server replied: NOPROTO \\x1b\[31m"),
                            (b"%1\r\n+a\r\n", "the server closed the connection without a reply"),
                            (b"$270000\r\n" + b"x" * 270000 + b"\r\n", "the server does not speak RESP: .*")):
        with stranger(answer) as where:
            expect(3, f"weir ping: {pattern}", "ping", "--at", where)


def members_and_words_of_strangers_are_kept_harmless():
    answer = b'%4\r\n+al"l\r\n$3\r\na"\x1b\r\n+list\r\n*2\r\n:1\r\n_\r\n+retry_after\r\n:-1\r\n+yes\r\n#t\r\n'
    with stranger(b"+OK\r\n>1\r\n+news\r\n+OK\r\n" + answer) as where:
        done = weir("inspect", "key", "1/s", "--json", "--at", where)
        assert json.loads(done.stdout) == {"al_l": 'a"\x1b', "list": [1, None], "retry_after_ns": None, "yes": True}, done
    with stranger(b"+OK\r\n-ERR unknown command\r\n" + answer) as where:
        expect(0, 'al_l         "a\\\\"\\\\x1b"\nlist         1, none\nretry_after  never\nyes          yes', "inspect", "key",
               "1/s", "--at", where)


def instants_are_dates():
    answer = b"%2\r\n+full_at\r\n:1794808653069819151\r\n+other\r\n%1\r\n+full_at\r\n:0\r\n"
    with stranger(b"+OK\r\n+OK\r\n" + answer) as where:
        done = weir("inspect", "key", "1/s", "--json", "--at", where)
        assert json.loads(done.stdout) == {"full_at": "2026-11-16T05:57:33.069819151Z", "other": {"full_at": None}}, done


def clients_are_unblocked():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as policy:
        policy.write("limits:\n  - {name: logins, key: [ip], limit: 3/day}\n")
        policy.flush()
        with server("--policy", policy.name) as (_, path):
            at = ("--at", path)
            expect(0, f'allowed by "logins", 0 of 3 left, full again in {SPAN}', "check", "ip=2001:db8::1", "--cost", "3", *at)
            for key in ("2001:db8::1", "ip=2001:db8::/64", "2001:DB8:0:0::2"):
                expect(1, f"would be denied, 0 of 3 left, retry in {SPAN}, full again in {SPAN}", "peek", key, "@logins", *at)
                assert re.search(r"^is_stored +yes$", weir("inspect", key, "@logins", *at).stdout, re.M), key
            expect(3, 'weir reset: the server replied: ERR the key: "2001:db8::/48" is not a key of @logins, whose keys are made of ip, as in '
                   r"ip=192\.0\.2\.1 or 192\.0\.2\.1", "reset", "2001:db8::/48", "@logins", *at)
            expect(0, "reset", "reset", "2001:db8::2", "@logins", *at)
            expect(0, "nothing to reset: the key was full", "reset", "2001:db8::2", "@logins", *at)
            expect(0, f'allowed by "logins", 2 of 3 left, full again in {SPAN}', "check", "ip=2001:db8::1", *at)


def checks_wait_for_limits_that_delay():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as policy:
        policy.write("limits:\n  - {name: queue, key: [ip], limit: 100/s leaky queue 9}\n")
        policy.flush()
        with server("--policy", policy.name) as (_, path):
            waited = [json.loads(weir("check", "ip=::1", "--cost", "4", "--wait", "5000", "--json", "--at", path).stdout) for _ in range(2)]
            assert [one["allowed"] for one in waited] == [True, True] and waited[0]["waited"] == 0, waited
            assert "waited" not in json.loads(weir("check", "ip=::1", "--json", "--at", path).stdout)
            expect(2, "weir check: \"x\": --wait takes milliseconds, 0 to 86400000.*", "check", "ip=::1", "--wait", "x", "--at", path)


def several_limits_say_which_refused():
    answer = (b"%8\r\n+allowed\r\n#f\r\n+limit\r\n:3\r\n+remaining\r\n:1\r\n+granted\r\n:0\r\n+retry_after\r\n:20000000000\r\n"
              b"+reset_after\r\n:40000000000\r\n+delay\r\n:0\r\n+decided_by\r\n:2\r\n")
    with stranger(b"+OK\r\n+OK\r\n" + answer) as where:
        expect(1, "denied by limit 2, 1 of 3 left, retry in 20 s, full again in 40 s", "all", "a", "1/s", "1", "b", "3/min",
               "2", "--at", where)


def passwords_are_sent():
    """From WEIR_PASSWORD and from a file. The server's reply does not matter here."""
    with tempfile.NamedTemporaryFile("w", prefix="weir-ask-") as file:
        file.write("of a file\nnot this\n")
        file.flush()
        by_file = ["--password-file", file.name]
        for arguments, wanted in ((["--user", "me"], (b"me", b"secret")), ([], (b"default", b"secret")),
                                  (by_file, (b"default", b"of a file"))):
            tell_password(arguments, wanted)


def users_are_asked_for():
    """The message names the options of the command."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write("users:\n  web:\n    password: s3cret\n")
        config.flush()
        with server("--config", config.name) as (_, path):
            for words in (("take", "k", "2/day"), ("ping",)):
                expect(3, f"weir {words[0]}: authentication required: use --user USER, and give the password with "
                       "--password-file FILE or WEIR_PASSWORD in the environment", *words, "--at", path)
            expect(0, "allowed, 1 of 2 left, .*", "take", "k", "2/day", "--wait", "86400000", "--user", "web", "--at", path,
                   env={"WEIR_PASSWORD": "s3cret"})
            expect(3, "weir ping: the server replied: WRONGPASS .*", "ping", "--user", "web", "--at", path, env={"WEIR_PASSWORD": "x"})


def tell_password(arguments, wanted):
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def meet():
            with listener.accept()[0] as peer:
                heard.append(peer.recv(65536))
                peer.sendall(b"-WRONGPASS no\r\n")

        thread = threading.Thread(target=meet)
        thread.start()
        expect(3, "weir ping: the server replied: WRONGPASS no", "ping", "--at",
               "127.0.0.1:%d" % listener.getsockname()[1], *arguments, env={"WEIR_PASSWORD": "secret"})
        thread.join(PATIENCE_S)
    assert heard[0].split(b"\r\n")[2::2] == [b"HELLO", b"3", b"AUTH", *wanted], heard


def help_is_help():
    for name in ("take", "upto", "peek", "refund", "reset", "inspect", "all", "hold", "settle", "release", "ping"):
        done = weir(name, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"usage: weir {name}") and done.stderr == "", done
        assert ("--wait" in done.stdout) == (name == "take"), done
        assert re.search(rf"^  {name} ", weir("help").stdout, re.M), name
    errors = weir("help", "errors")
    assert errors.returncode == 0 and re.search("^NOHOLD .*\n    there is nothing to settle", errors.stdout, re.M), errors
    assert weir("serve", "--version").stdout == weir("version").stdout == weir("--version").stdout != ""


TESTS = [decisions_are_told_in_a_sentence, programs_get_json, words_may_be_anything, what_was_called_wrongly_is_told,
         who_does_not_answer_is_told, members_and_words_of_strangers_are_kept_harmless,
         instants_are_dates, clients_are_unblocked, checks_wait_for_limits_that_delay, several_limits_say_which_refused, passwords_are_sent, users_are_asked_for, help_is_help]


if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
