#!/usr/bin/env python3
"""weir limits, change, reload and info against a server with a policy.

    manage_test.py WEIR"""
# Covers: src/cli/manage.c

import hashlib
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))
sys.dont_write_bytecode = True

from daemon import daemon, run  # noqa: E402

WEIR = sys.argv[1]
PATIENCE_S = 60
for name in ("WEIR_AT", "WEIR_PASSWORD"):
    os.environ.pop(name, None)


def weir(*arguments, **env):
    return subprocess.run([WEIR, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, env={**os.environ, **env})


def write(path, *limits, more=""):
    """Replaces the file in one step, so that the server never reads half of it."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(more + "limits:\n" + "".join(f"  - name: {name}\n    limit: {limit}\n    key: ip\n    match: {{path: /{name}}}\n" for name, limit in limits))
    os.rename(path + ".new", path)


def the_limits_are_a_table():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "policy.yaml")
        write(path, *[(f"limit-{i}", f"{i + 1}/day") for i in range(120)])  # more than fit one reply of the server
        with daemon(WEIR, "--keys", "1000", "--workers", "1", "--policy", path) as one:
            at = ("--at", one.address)
            done = weir("limits", *at)
            lines = done.stdout.splitlines()
            assert done.returncode == 0 and len(lines) == 121, done
            assert lines[0].split() == ["NAME", "LIMIT", "KEY", "MODE", "ALLOWED", "DENIED", "STORE", "CHANGED"], lines[0]
            assert lines[1].split()[:2] == ["limit-0", "1/day"] and lines[120].split()[:2] == ["limit-119", "120/day"], done
            rows = json.loads(weir("limits", "--json", *at).stdout)
            assert [row["name"] for row in rows] == [f"limit-{i}" for i in range(120)], rows
            assert rows[7]["limit"] == "8/day" and rows[7]["changed"] == "", rows[7]
    with daemon(WEIR, "--keys", "1000", "--workers", "1") as one:
        done = weir("limits", "--at", one.address)
        assert done.returncode == 3 and "weir limits: the server replied: " in done.stderr and done.stdout == "", done


def a_limit_is_changed():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "policy.yaml")
        write(path, ("a", "5/day"), ("b", "5/day"))
        with daemon(WEIR, "--keys", "1000", "--workers", "1", "--policy", path) as one:
            at = ("--at", one.address)
            for words, changed in ((("change", "a", "7/day"), "all"), (("change", "a", "8/day", "--here"), "here")):
                done = weir(*words, *at)
                assert done.returncode == 0 and done.stdout == "OK\n", done
                row = json.loads(weir("limits", "--json", *at).stdout)[0]
                assert row["limit"] == words[2] and row["changed"] in (changed, "here"), row  # without a shared store every change is local
            done = weir("change", "c", "7/day", *at)
            assert done.returncode == 3 and "NOLIMIT" in done.stderr, done
            done = weir("change", "a", "7/fortnight", *at)
            assert done.returncode == 3 and "fortnight" in done.stderr, done


def a_reload_tells_what_was_loaded():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "policy.yaml")
        write(path, ("a", "5/day"))
        with daemon(WEIR, "--keys", "1000", "--workers", "1", "--policy", path) as one:
            at = ("--at", one.address)
            done = weir("reload", *at)
            assert done.returncode == 0 and done.stdout == "reloaded: 1 limit, unchanged\n", done
            write(path, ("a", "5/day"), ("b", "6/day"))
            done = weir("reload", *at)
            assert done.returncode == 0 and done.stdout.startswith("reloaded: 2 limits, "), done
            assert [row["name"] for row in json.loads(weir("limits", "--json", *at).stdout)] == ["a", "b"]
            write(path, ("a", "5/fortnight"))
            for _ in range(2):
                done = weir("reload", *at)
                assert done.returncode == 1 and done.stdout == "", done
                assert done.stderr.startswith(f"weir reload: the previous policy stays in force: {path}:3:"), done
                assert "fortnight" in done.stderr, done
            done = weir("reload", "--json", *at)
            got = json.loads(done.stdout)
            assert done.returncode == 1 and got["is_loaded"] is False and got["limits"] == 2 and "fortnight" in got["error"], done
            write(path, ("a", "5/day"))
            got = json.loads(weir("reload", "--json", *at).stdout)
            assert got["is_loaded"] is True and got["limits"] == 1 and "error" not in got, got
    with daemon(WEIR, "--keys", "1000", "--workers", "1") as one:
        done = weir("reload", "--at", one.address)
        assert done.returncode == 3 and "weir reload: the server replied: " in done.stderr, done


def a_reload_reads_users_too():
    """The server notices a changed password_file only on a reload."""
    with tempfile.TemporaryDirectory() as folder:
        secret = os.path.join(folder, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("first\n")
        config = os.path.join(folder, "config.yaml")
        write(config, ("a", "5/day"), more=f"users:\n  default: {{password_file: {secret}}}\n"
              f"  ops: {{sha256: {hashlib.sha256(b'o').hexdigest()}, role: admin}}\n"
              f"  decider: {{sha256: {hashlib.sha256(b'x').hexdigest()}}}\n")
        with daemon(WEIR, "--keys", "1000", "--workers", "1", "--config", config) as one:
            at = ("--at", one.address)
            done = weir("ping", *at, WEIR_PASSWORD="second")
            assert done.returncode == 3, done
            with open(secret, "w", encoding="ascii") as file:
                file.write("second\n")
            done = weir("reload", *at, "--user", "ops", WEIR_PASSWORD="o")
            assert done.returncode == 0, done
            for _ in range(1000):  # a separate thread reads the users
                if weir("ping", *at, WEIR_PASSWORD="second").returncode == 0:
                    break
            else:
                raise AssertionError("the new password is not known")
            for words in (("reload",), ("change", "a", "6/day")):
                done = weir(*words, "--user", "decider", *at, WEIR_PASSWORD="x")
                assert done.returncode == 3 and "NOPERM" in done.stderr, (words, done)


def the_state_is_told():
    with daemon(WEIR, "--keys", "1000", "--workers", "1") as one:
        at = ("--at", one.address)
        done = weir("info", *at)
        assert done.returncode == 0 and "# Server\n" in done.stdout and "\r" not in done.stdout, done
        some = weir("info", "table", *at)
        assert some.stdout.startswith("# Table\n") and some.stdout in done.stdout + some.stdout, some
        assert "# Server" not in some.stdout, some
        got = json.loads(weir("info", "--json", *at).stdout)
        assert {"server", "clients", "table"} <= set(got) and got["server"], got
        assert set(json.loads(weir("info", "clients", "--json", *at).stdout)) == {"clients"}


TESTS = [the_limits_are_a_table, a_limit_is_changed, a_reload_tells_what_was_loaded, a_reload_reads_users_too,
         the_state_is_told]


if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
