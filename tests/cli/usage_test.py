#!/usr/bin/env python3
"""What all commands share: help, unknown words, and output that cannot be written.

    usage_test.py WEIR

The test takes the commands from `weir help` and the subcommands from their usage lines, so it includes new ones."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))
sys.dont_write_bytecode = True

from daemon import daemon, run  # noqa: E402

WEIR = sys.argv[1]
PATIENCE_S = 60
POLICY = "limits:\n  - name: a\n    limit: 5/day\n    key: ip\n"
for name in ("WEIR_AT", "WEIR_PASSWORD"):
    os.environ.pop(name, None)


def weir(*arguments, stdout=subprocess.PIPE, env=None):
    return subprocess.run([WEIR, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          timeout=PATIENCE_S, check=False, env={**os.environ, **(env or {})})


def commands():
    names = re.findall(r"^  (\S+) ", weir("help").stdout, re.M)
    assert len(names) > 20 and {"serve", "table", "reload", "limits", "change", "info"} <= set(names), names
    return [name for name in names if name not in ("help", "version")]


def subcommands():
    """Subcommands with their name in a usage line: weir table get TABLE ..."""
    found = [(name, sub) for name in commands()
             for sub in re.findall(rf"^(?:usage:|      ) weir {name} ([a-z]+)\b", weir(name, "--help").stdout, re.M)]
    assert ("table", "get") in found and ("bench", "resp") in found and ("demo", "redis") in found, found
    return found


def every_command_has_help():
    for words in [(name,) for name in commands()] + subcommands():
        pages = [weir(*words, "-h"), weir(*words, "--help"), weir("help", *words)]
        for page in pages:
            assert page.returncode == 0 and page.stderr == "" and page.stdout == pages[0].stdout, (words, page)
        assert re.match(r"usage: weir ", pages[0].stdout) and f"weir {words[0]}" in pages[0].stdout, (words, pages[0])
    for words in (("-h",), ("--help",), ("help",)):
        page = weir(*words)
        assert page.returncode == 0 and page.stderr == "" and "usage: weir COMMAND" in page.stdout, (words, page)


def wrong_usage_is_told_on_standard_error():
    for words in [()] + [(name, "--no-such-option", "x") for name in commands()]:
        done = weir(*words)
        assert done.returncode == 2 and done.stdout == "" and done.stderr, (words, done)


def the_nearest_word_is_suggested():
    for words, meant in ((("tabel",), "table"), (("relaod",), "reload"), (("chek-config",), "check-config"),
                         (("limit",), "limits"), (("chnage",), "change"), (("help", "serv"), "serve"),
                         (("table", "lst"), "list"), (("table", "rest"), "reset"), (("bench", "rsp"), "resp"),
                         (("take", "k", "1/s", "--jsn"), "--json"), (("take", "k", "1/s", "--wiat", "5"), "--wait"),
                         (("change", "a", "1/s", "--her"), "--here"), (("top", "--onec"), "--once"),
                         (("bench", "resp", "--conections", "5"), "--connections"), (("demo", "--sped", "0"), "--speed"),
                         (("table", "list", "--jason"), "--json"), (("serve", "--lisen", "127.0.0.1:0"), "--listen"),
                         (("serve", "--log-formt", "json"), "--log-format"), (("check-config", "--aganst", "a", "b"), "--against")):
        done = weir(*words)
        assert done.returncode == 2 and f"did you mean {meant}? " in done.stderr, (words, done)
    for words in (("frobnicate",), ("take", "k", "1/s", "--frobnicate"), ("serve", "--frobnicate", "1")):
        done = weir(*words)
        assert done.returncode == 2 and "did you mean" not in done.stderr and "nknown" in done.stderr, (words, done)


def output_that_cannot_be_written_is_a_failure():
    def refuse(*words, env=None):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = weir(*words, stdout=full, env=env)
        assert done.returncode != 0 and "weir: standard output: No space left on device" in done.stderr, (words, done)

    with tempfile.TemporaryDirectory() as folder:
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write(POLICY)
        for words in [(name, "--help") for name in commands()] + subcommands_with_help():
            refuse(*words)
        for words in (("help",), ("help", "errors"), ("version",), ("--version",), ("check-config", policy),
                      ("explain", policy, "ip=::1"), ("demo", "--speed", "0"), ("serve", "--help-man"), ("serve", "--version"),
                      ("table", "list", "--json")):
            refuse(*words)
        with daemon(WEIR, "--keys", "1000", "--workers", "1", "--policy", policy) as one:
            at = {"WEIR_AT": one.address}
            for words in (("take", "k", "9/day"), ("take", "k", "9/day", "99"), ("upto", "k", "9/day", "1"), ("peek", "k", "9/day"),
                          ("refund", "k", "9/day", "1"), ("inspect", "k", "9/day"), ("reset", "k", "9/day"),
                          ("all", "k", "9/day", "1"), ("hold", "i", "k", "9/day", "1", "60000"), ("settle", "i", "1"),
                          ("hold", "j", "k", "9/day", "1", "60000"), ("release", "j"), ("check", "ip=::1"), ("ping",),
                          ("limits",), ("limits", "--json"), ("info",), ("reload",), ("change", "a", "6/day"), ("top", "--once"),
                          ("top", "--json"), ("bench", "resp", "--seconds", "1", "--connections", "1")):
                refuse(*words, env=at)


def subcommands_with_help():
    return [(*words, "-h") for words in subcommands()]


def a_server_whose_output_is_lost_ends_as_always():
    with open("/dev/full", "w", encoding="ascii") as full, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        with subprocess.Popen([WEIR, "serve", "--listen", path, "--http", "none", "--keys", "1000", "--workers", "1"],
                              stdout=full, stderr=subprocess.PIPE) as process:
            while weir("ping", "--at", path).returncode != 0:
                assert process.poll() is None, process.stderr.read()
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, process.stderr.read()


def the_environment_names_the_server():
    with daemon(WEIR, "--keys", "1000", "--workers", "1") as one, daemon(WEIR, "--keys", "1000", "--workers", "1") as other:
        for where in (one.address, one.path):
            done = weir("take", where, "5/day", env={"WEIR_AT": where})
            assert done.returncode == 0 and done.stdout.startswith("allowed, 4 of 5 left"), done
        done = weir("take", one.address, "5/day", "--at", other.address, env={"WEIR_AT": one.address})
        assert done.stdout.startswith("allowed, 4 of 5 left"), ("--at comes first", done)
        done = weir("take", one.address, "5/day", env={"WEIR_AT": one.address})
        assert done.stdout.startswith("allowed, 3 of 5 left"), done
        assert weir("top", "--once", env={"WEIR_AT": one.path}).returncode == 0
        done = weir("bench", "resp", "--seconds", "1", "--connections", "1", "--json", env={"WEIR_AT": one.path})
        assert done.returncode == 0 and one.path in done.stdout, done
    done = weir("ping", env={"WEIR_AT": "/no/such/socket"})
    assert done.returncode == 3 and "/no/such/socket" in done.stderr, done


TESTS = [every_command_has_help, wrong_usage_is_told_on_standard_error, the_nearest_word_is_suggested,
         output_that_cannot_be_written_is_a_failure, a_server_whose_output_is_lost_ends_as_always,
         the_environment_names_the_server]


if __name__ == "__main__":
    sys.exit(run([(test.__name__, test) for test in TESTS]))
