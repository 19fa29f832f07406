#!/usr/bin/env python3
"""weir demo: piped, in a terminal, interrupted, and with wrong arguments.

    demo_test.py WEIR"""
# Covers: src/cli/demo.c, src/cli/demo_redis.c, src/cli/demo_report.c, src/cli/demo_screen.c,
# src/cli/demo_traffic.c

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

LIMITS = ["10/s burst 20", "10/s leaky queue 20", "10/s fixed_window", "10/s sliding_log", "10/s sliding_counter"]
HIDE, SHOW = "\033[?25l", "\033[?25h"
WRONG = [["--speed"], ["--speed", "fast"], ["--speed", "-1"], ["--speed", "0.01"], ["--speed", "nan"],
         ["--speed=1e9"], ["--speed", "4x"], ["--fast"], ["4"]]
AT_ONCE_S = 5  # far less than the 11 s of a run, far more than a busy machine needs to print the first line
PATIENCE_S = 30


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "TERM": "xterm-256color", **changes}


def piped(weir, *arguments, **changes):
    return subprocess.run([weir, "demo", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, env=environment(**changes), check=False)


class Terminal:
    """weir demo in a pseudo-terminal."""

    def __init__(self, weir, arguments, columns=80, rows=24, **changes):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen([weir, "demo", *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
                                        start_new_session=True, env=environment(**changes))
        os.close(theirs)
        self.text = ""

    def read(self, until=None, within=PATIENCE_S):
        """Reads until a text appears, or to the end."""
        deadline, raw = time.monotonic() + within, self.text.encode()
        while until is None or until not in raw.decode(errors="ignore"):
            ready, _, _ = select.select([self.ours], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {until or 'end'!r} within {within} s"
            try:
                some = os.read(self.ours, 65536)
            except OSError:  # Linux reports EIO when the other side has closed
                break
            if not some:
                break
            raw += some
        self.text = raw.decode(errors="ignore")
        return self.text

    def end(self):
        self.read()
        os.close(self.ours)
        return self.process.wait(PATIENCE_S)


def table(text):
    """{limit: (allowed, denied, most in any second)} of the final table."""
    plain = re.sub(r"\033\[[0-9;?]*[A-Za-z]|\r", "", text)
    rows = {}
    for limit in LIMITS:
        found = re.findall(rf"^{re.escape(limit)} +(\d+) +(\d+) +(\d+) ", plain, re.M)
        assert len(found) == 1, f"{limit}: {len(found)} rows in the table\n{plain}"
        rows[limit] = tuple(map(int, found[0]))
    return rows


def piped_prints_the_table(weir):
    first, second = piped(weir, "--speed", "0"), piped(weir, "--speed=0")
    assert first.returncode == 0 and first.stderr == "", first
    assert first.stdout == second.stdout, "two runs differ"
    assert "\033" not in first.stdout, "escape sequences in a pipe"
    lines = first.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("Try")), first.stdout
    assert len([line for line in lines if re.match(r" +\d+ +\d+ ", line)]) == 11, "not a line for each second"


def table_is_true(weir):
    text = piped(weir, "--speed", "0").stdout
    rows = table(text)
    arrived = int(re.search(r"the same (\d+) requests", text)[1])
    assert all(admitted + denied == arrived for admitted, denied, _ in rows.values()), rows
    most = {limit: row[2] for limit, row in rows.items()}
    assert most["10/s fixed_window"] == 20, "the burst does not straddle the edge of a window"
    assert most["10/s leaky queue 20"] == most["10/s sliding_log"] == 10, most
    assert "allowed 20 in 0.145 s: 10 before the edge at 7 s, 10 after" in text, text


def piped_begins_at_once(weir):
    with subprocess.Popen([weir, "demo"], stdout=subprocess.PIPE, env=environment()) as process:
        ready, _, _ = select.select([process.stdout], [], [], AT_ONCE_S)
        process.terminate()
        assert ready and os.read(process.stdout.fileno(), 100).startswith(b"weir demo"), "nothing at once"


def terminal_is_drawn_and_restored(weir):
    terminal = Terminal(weir, ["--speed", "0"])
    assert terminal.end() == 0
    text = terminal.text
    assert HIDE in text and SHOW in text and text.rfind(SHOW) > text.rfind(HIDE), "the cursor stays hidden"
    assert "\033[15A" in text and "█" in text and "×" in text and "\033[32m" in text, "no picture"
    assert table(text[text.rfind(SHOW):]) == table(piped(weir, "--speed", "0").stdout)


def no_color_is_heard(weir):
    terminal = Terminal(weir, ["--speed", "0"], NO_COLOR="1")
    assert terminal.end() == 0
    assert "█" in terminal.text and not re.search(r"\033\[[1-9;]+m", terminal.text), "colours in spite of NO_COLOR"


def poor_terminals_get_lines(weir):
    for how in ({"columns": 40}, {"rows": 10}, {"TERM": "dumb"}, {"TERM": ""}):
        terminal = Terminal(weir, ["--speed", "0"], **how)
        assert terminal.end() == 0
        assert "\033" not in terminal.text, f"{how}: escape sequences"
        table(terminal.text)


def interrupt_restores(weir):
    for number in (signal.SIGINT, signal.SIGTERM):
        terminal = Terminal(weir, [])
        terminal.read(until="seconds", within=AT_ONCE_S)
        began = time.monotonic()
        terminal.process.send_signal(number)
        assert terminal.end() == -number, "ended otherwise than by the signal"
        assert time.monotonic() - began < AT_ONCE_S, "went on after the signal"
        assert terminal.text.rfind(SHOW) > terminal.text.rfind(HIDE), "the cursor stays hidden"


def wrong_arguments_are_refused(weir):
    for arguments in WRONG:
        result = piped(weir, *arguments)
        assert result.returncode == 2 and result.stdout == "", (arguments, result)
        assert result.stderr.startswith("weir demo: ") and "use " in result.stderr, (arguments, result)


def help_is_given(weir):
    result = piped(weir, "--help")
    assert result.returncode == 0 and result.stdout.startswith("usage: weir demo") and "--speed" in result.stdout


def two_servers_share_a_limit(weir):
    result = piped(weir, "redis")
    assert result.returncode == 0 and "together 10 of 10 allowed" in result.stdout, result
    assert len(re.findall(r"server A  allowed", result.stdout)) == 5, result
    result = piped(weir, "redis", "--help")
    assert result.returncode == 0 and result.stdout.startswith("usage: weir demo redis"), result
    result = piped(weir, "redis", "now")
    assert result.returncode == 2 and "--help" in result.stderr, result
    with tempfile.TemporaryDirectory() as folder:
        result = piped(weir, "redis", PATH=folder)
        assert result.returncode == 1 and "install it" in result.stderr, result
        os.symlink(shutil.which("redis-check-rdb"), os.path.join(folder, "redis-check-rdb"))
        result = piped(weir, "redis", PATH=folder)
        assert result.returncode == 0, result


TESTS = [piped_prints_the_table, table_is_true, piped_begins_at_once, terminal_is_drawn_and_restored,
         no_color_is_heard, poor_terminals_get_lines, interrupt_restores, wrong_arguments_are_refused, help_is_given,
         two_servers_share_a_limit]


def main(weir):
    failed = 0
    for test in TESTS:
        try:
            test(weir)
            print(f"ok    {test.__name__}")
        except (AssertionError, subprocess.TimeoutExpired) as fault:
            failed += 1
            print(f"FAIL  {test.__name__}: {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
