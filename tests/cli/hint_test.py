#!/usr/bin/env python3
"""Runs the commands that weir serve suggests when it starts. They must work with the programs on PATH and the server's
policy.

    hint_test.py WEIR EXAMPLES

EXAMPLES is the folder with the example policies."""
# Covers: src/cli/serve_report.c, src/policy/example.c

import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))
sys.dont_write_bytecode = True

from daemon import run  # noqa: E402

WEIR, EXAMPLES = map(os.path.abspath, sys.argv[1:3])
PATIENCE_S = 60
for name in ("WEIR_AT", "WEIR_PASSWORD", "TOKEN"):
    os.environ.pop(name, None)

# Each limit needs different attributes in the suggested request.
LIMITS = [
    "limit: 5/day",
    "limit: 5/day\n    key: [ip]",
    "limit: 5/day\n    key: [user, path]",
    "limit: 5/day\n    match: {plan: gold}\n    key: [user]",
    "limit: 5/day\n    match: {path: '/v1/*/orders/**'}",
    "limit: 5/day\n    match: {ip: [10.0.0.0/8, '::1'], method: [POST, PUT]}",
    "limit: 5/day\n    match: {agent: {not: robot}, path: /it's a path}\n    key: [agent]",
    "limit: 5/day\n    match: {'a b': 'c&d=\"e\" $HOME %41'}",
]


@contextlib.contextmanager
def hints(folder, *options, programs=("redis-cli", "curl"), listen=None, http="127.0.0.1:0"):
    """Starts a server with only these programs on PATH; yields its output and the commands that it suggests."""
    found = os.path.join(folder, "bin")
    shutil.rmtree(found, ignore_errors=True)
    os.makedirs(found)
    for program in programs:
        os.symlink(shutil.which(program), os.path.join(found, program))
    with open(os.path.join(folder, "said"), "w+", encoding="utf-8") as out, subprocess.Popen(
            [WEIR, "serve", "--keys", "10000", "--workers", "1", "--listen", listen or "127.0.0.1:0", "--http", http, *options],
            stdout=out, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": found}) as process:
        try:
            said = ""
            while "\ntry: " not in said:  # the server writes all lines at once
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.01)
                out.seek(0)
                said = out.read()
            lines = said.splitlines()
            yield lines, [line[5:] for line in lines if re.match(r"(try: |     )(redis-cli|curl|/)", line) and " its password_file" not in line]
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, process.returncode


def shell(command, **env):
    done = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, env={**os.environ, **env})
    assert done.returncode == 0 and "ERR" not in done.stdout and "NOAUTH" not in done.stdout, (command, done)
    return done.stdout


def check(commands, programs):
    """All commands must work, and a limit must decide those that use the policy."""
    kinds = {"redis-cli" if command.startswith("redis-cli") else "curl" if command.startswith("curl") else "weir"
             for command in commands}
    assert kinds == ({"redis-cli"} if "redis-cli" in programs else {"weir"}) | ({"curl"} if "curl" in programs else set()), commands
    decided = 0
    for command in commands:
        said = shell(command)
        if "WEIR.CHECK" in command:
            assert said.splitlines()[-1].strip('"') != "", (command, said)
            decided += 1
        elif " check " in command:
            assert "by \"" in said, (command, said)
            decided += 1
        elif "/v1/check" in command:
            assert json.loads(said)["limits"] > 0, (command, said)
            decided += 1
        elif "/v1/take" in command:
            assert said.startswith("HTTP/1.1 200 OK"), (command, said)
    return decided


def the_sixth_is_denied(command):
    for _ in range(4):  # one was sent before
        assert shell(command).startswith("HTTP/1.1 200 OK"), command
    denied = shell(command)
    assert denied.startswith("HTTP/1.1 429 Too Many Requests") and "\nRetry-After: 12\n" in denied, (command, denied)


def without_a_policy():
    with tempfile.TemporaryDirectory() as folder:
        for programs in (("redis-cli", "curl"), ("curl",), ("redis-cli",), ()):
            with hints(folder, programs=programs) as (_, commands):
                assert len(commands) == 1 + ("curl" in programs) and check(commands, programs) == 0, commands
                if programs == ("curl",):  # redis-cli took from the same key
                    weir, curl = sorted(commands)
                    shell(weir.replace(" take ", " reset "))
                    shell(curl)
                    the_sixth_is_denied(curl)


def with_a_policy():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "policy.yaml")
        for limit in LIMITS:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"limits:\n  - name: a\n    {limit}\n")
            with hints(folder, "--policy", path) as (said, commands):
                assert check(commands, ("redis-cli", "curl")) == 2, (limit, said)
        for programs in (("curl",), ()):
            with hints(folder, "--policy", path, programs=programs) as (said, commands):
                assert check(commands, programs) == 1 + len(programs), said


def with_the_policies_of_examples():
    paths = [path for path in sorted(glob.glob(os.path.join(EXAMPLES, "*.yaml")))
             if "store: redis" not in open(path, encoding="utf-8").read()]
    assert len(paths) > 3, paths
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            with hints(folder, "--policy", path) as (said, commands):
                assert check(commands, ("redis-cli", "curl")) == 2, (path, said)


def by_sockets():
    with tempfile.TemporaryDirectory(prefix="weir hint") as folder:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"limits:\n  - name: a\n    {LIMITS[1]}\n")
        for programs in (("redis-cli", "curl"), ("curl",)):
            with hints(folder, "--policy", path, programs=programs, listen=os.path.join(folder, "resp"),
                       http=os.path.join(folder, "http")) as (said, commands):
                assert check(commands, programs) == 2, said
                assert any("--unix-socket" in command for command in commands), said


def with_users():
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("users:\n  web: {token: abc}\n  ops: {password: secret, role: admin}\n"
                       f"limits:\n  - name: a\n    {LIMITS[1]}\n")
        with hints(folder, "--config", config, programs=("curl",)) as (said, commands):
            assert f"     set WEIR_PASSWORD to the password of ops, from {config} or its password_file" in said, said
            assert f"     set TOKEN to the token of web, from {config}" in said, said
            for command in commands:
                shell(command, WEIR_PASSWORD="secret", TOKEN="abc")
            curl = next(command for command in commands if command.startswith("curl"))
            assert json.loads(shell(curl, TOKEN="abc"))["limits"] == 1
        with hints(folder, "--config", config) as (said, commands):
            assert f"     the password of ops is in {config} or its password_file" in said, said
            assert all("--user ops --askpass" in command for command in commands if "redis-cli" in command), said


TESTS = [without_a_policy, with_a_policy, with_the_policies_of_examples, by_sockets, with_users]


if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
