#!/usr/bin/env python3
"""weir top: in a terminal (tmux) with a server under load, killed, stopped, piped, and with wrong arguments.

    top_test.py WEIR POLICY OBSERVE.MD [--record]

POLICY is examples/policies/shop.yaml. --record prints the screen for OBSERVE.MD. Otherwise the test compares the screen
in that page with the real one."""
# Covers: src/cli/top.c, src/cli/top_draw.c, src/cli/top_screen.c, src/cli/top_view.c

import concurrent.futures
import contextlib
import fcntl
import itertools
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../server"))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client  # noqa: E402

WEIR, POLICY, PAGE = sys.argv[1:4]
ENTER, LEAVE = "\033[?1049h", "\033[?1049l"
NAMES = ["everyone", "per-client", "orders-writes", "signup-canary"]
LAST = "q quit  s sort  / filter  p pause  +- every 1.00 s  ? help"


def environment(**changes):
    kept = {name: value for name, value in os.environ.items()
            if name not in ("NO_COLOR", "WEIR_PASSWORD", "LC_ALL", "LC_CTYPE", "TMUX")}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **changes}


def until(holds, what):
    """Waits until `holds` returns something true, and returns that."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.03)
    return found


def piped(*arguments, **changes):
    return subprocess.run([WEIR, "top", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT_S, env=environment(**changes), check=False)


# --- a server under load --------------------------------------------------------------------------------------------

class Load:
    """Clients of which some exceed their limits, until end()."""

    def __init__(self, one):
        self.one, self.is_over = one, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with Client(self.one) as client:
            for number in itertools.count():
                if self.is_over.wait(0.05):
                    break
                client.pipeline([self.request(20 * number + i) for i in range(20)])

    @staticmethod
    def request(number):
        if number % 25 == 0:
            return "WEIR.CHECK", "api_key", f"k{number % 3}", "method", "POST", "path", "/v1/orders/7", "items", 2
        if number % 41 == 0:
            return "WEIR.CHECK", "ip", f"198.51.100.{number % 4}", "path", "/signup"
        return "WEIR.CHECK", "ip", f"203.0.113.{min(int(1 / (number * 0.6180339887 % 1 + 0.02)), 30)}"

    def end(self):
        self.is_over.set()
        self.thread.join()


@contextlib.contextmanager
def serving(policy=POLICY, load=True, options=()):
    with daemon(WEIR, "--keys", "10000", "--workers", "2", *options, *(["--policy", policy] if policy else []), http="127.0.0.1:0") as one:
        loaded = Load(one) if load else None
        try:
            yield one
        finally:
            if loaded:
                loaded.end()


# --- a terminal -----------------------------------------------------------------------------------------------------

class Tmux:
    """weir top in its own tmux, started by a shell that prints a line before and after."""

    def __init__(self, folder, where, columns=100, rows=30):
        self.socket = os.path.join(folder, "tmux")
        script = f"printf 'before\\n'; '{WEIR}' top --at '{where}'; printf 'after %s\\n' $?; stty -a; exec sleep 1000"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), script)

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-u", "-S", self.socket, *words], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env=environment(), check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def until(self, *texts, gone=()):
        """The first screen that has all of `texts` and none of `gone`."""
        last = [""]

        def holds():
            last[0] = self.screen()
            return last[0] if all(text in last[0] for text in texts) and not any(text in last[0] for text in gone) else None
        return until(holds, lambda: (texts, gone, last[0]))

    def rows(self):
        """The rows of the limits, split into words."""
        lines = self.screen().splitlines()
        head = [i for i, line in enumerate(lines) if "ALLOWED/s" in line]
        last = [i for i, line in enumerate(lines) if ": top keys" in line]
        if not head or not last:  # only half drawn yet
            return []
        return [line[2:].split() for line in lines[head[0] + 1:last[0]] if line.strip()]

    def order(self):
        return [row[0] for row in self.rows()]

    def sorted_by(self):
        """The column with the sort mark. None: that column is hidden, or the line is half drawn."""
        found = re.search(r"^  LIMIT.*$", self.screen(), re.MULTILINE)
        found = found and re.search(r"([A-Z%]+(?:/s)?)v", found[0])
        return found and found[1]

    def sort_by_next(self):
        before = self.sorted_by()
        self.press("s")
        return until(lambda: (now := self.sorted_by()) != before and now, self.screen)

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, timeout=TIMEOUT_S, check=False)


@contextlib.contextmanager
def terminal(where, **size):
    with tempfile.TemporaryDirectory(prefix="weir-top-") as folder:
        one = Tmux(folder, where, **size)
        try:
            yield one
        finally:
            one.close()


class Pty:
    """weir top in a pseudo-terminal, byte by byte."""

    def __init__(self, where, **changes):
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen([WEIR, "top", "--at", where], stdin=self.theirs, stdout=self.theirs,
                                        stderr=self.theirs, start_new_session=True, env=environment(**changes))
        self.bytes = b""

    def read_until(self, holds):
        deadline = time.monotonic() + TIMEOUT_S
        while not holds(self.bytes.decode(errors="replace")):
            ready, _, _ = select.select([self.ours], [], [], max(0, deadline - time.monotonic()))
            assert ready, self.bytes[-2000:]
            self.bytes += os.read(self.ours, 65536)
        return self.bytes.decode(errors="replace")

    def set_size(self, columns, rows):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def resize(self, columns, rows, holds):
        """The first screen of this size for which `holds` is true. Lines are not cut to the width, so that a test can
        see long ones."""
        clear = self.bytes.count(b"\033[2J")
        self.set_size(columns, rows)

        def lines():
            if self.bytes.count(b"\033[2J") == clear:
                return None
            written = re.findall(r"\033\[(\d+);1H(.*?)\033\[K", self.bytes.rsplit(b"\033[2J", 1)[1].decode(errors="replace"), re.DOTALL)
            shown = {int(row): re.sub(r"\033\[\d*m", "", text) for row, text in written}
            return [shown.get(row, "") for row in range(1, rows + 1)] if max(shown, default=0) <= rows else None

        self.read_until(lambda _: (shown := lines()) and holds(shown))
        return lines()

    def is_stopped(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT_S)
        os.close(self.ours)
        os.close(self.theirs)


@contextlib.contextmanager
def pseudo_terminal(where, **changes):
    one = Pty(where, **changes)
    try:
        yield one
    finally:
        one.close()


# --- tests ----------------------------------------------------------------------------------------------------------

def shown_in(page):
    """The screen in the page: the block after the sentence that announces it."""
    with open(page, encoding="utf-8") as file:
        return re.search(r"<!-- recorded by tests/cli/top_test.py --record -->\n\n```text\n(.*?)```", file.read(), re.DOTALL)[1].splitlines()


def shape(line):
    """The line without what differs from run to run."""
    return re.sub(r"[\d.]+[kM]?", "0", re.sub(r"127\.0\.0\.1:\d+|\d+ (min|h|d) \d+ (s|min|h)|\d+ s", "X", line)).rstrip()


def limits_under_load():
    with serving() as one, terminal(one.address) as top:
        top.until(*NAMES, "ip=203.0.113.", "denied most, in", "allowed ", "/s, denied ", "RESP ", "/s on", "policy of 4 limits", LAST)
        until(lambda: any(float(row[3]) > 1 and row[0] == "everyone" for row in top.rows()), top.screen)
        top.press("G")
        top.until("> per-client|", "per-client|plan=gold, exact: top keys")
        top.press("k")
        top.press("Up")
        until(lambda: top.screen().count("> ") == 1 and "> per-client|" not in top.screen(), top.screen)
        top.press("s")
        top.until("LIMITv")
        names = until(lambda: (order := top.order()) == sorted(order) and order, top.screen)
        top.press("S")
        top.until("LIMIT^")
        until(lambda: top.order() == names[::-1], top.screen)
        top.press("s")
        top.press("S")
        top.until("MODEv")
        # The search narrows as each letter is typed.
        top.press("/")
        top.until("/_")
        top.press("CLI")
        until(lambda: (order := top.order()) and all("per-client" in name for name in order), top.screen)
        top.press("x")
        top.until("no limit matches")
        top.press("BSpace")
        top.press("Enter")
        top.until("/CLI  Esc shows all", "> per-client")
        top.press("Escape")
        top.until(*NAMES, LAST)
        top.press("+")
        top.until("every 0.50 s")
        top.press("-", "-")
        top.until("every 2.00 s")
        top.press("+")
        top.press("?")
        top.until("pause, and resume", gone=["ALLOWED/s"])
        top.press("?")
        top.until("ALLOWED/s")


def pause():
    with serving() as one, terminal(one.address) as top, Client(one) as client:
        top.until("up ", "ALLOWED/s")
        top.press("p")
        paused = top.until("paused")
        up = json.loads(client.ask("WEIR.LIVE", 1))["uptime_s"]
        until(lambda: json.loads(client.ask("WEIR.LIVE", 1))["uptime_s"] >= up + 2, "the server does not get older")
        assert top.screen() == paused, (paused, top.screen())
        top.press("Down")  # keys work while paused
        until(lambda: top.screen() != paused, paused)
        top.press("Space")
        top.until("up ", gone=["paused", re.search(r"up \d+ s", paused)[0] + " "])


def consistency():
    """Redis is not reachable, which changes nothing about how limits are leased."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as policy:
        policy.write("limits:\n  - {name: leased, key: [ip], limit: 100/s burst 1000, consistency: lease}\n"
                     "  - {name: few, key: [ip], limit: 5/min, consistency: lease}\n")
        policy.flush()
        with serving(policy.name, load=False, options=("--store", "redis://127.0.0.1:1")) as one, terminal(one.address) as top:
            top.until("leased", "few")
            top.press("G")
            top.until("> leased", "leased, leased up to 50 units: top keys")
            top.press("k")
            top.until("> few", "few, exact: top keys")


def eventual():
    """Both servers may be ahead by 30 units, which are pushed at last when 15 wait."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as policy, redis() as store:
        policy.write("limits:\n  - {name: later, key: [user], limit: 600/3000day fixed_window, consistency: {eventual: {sync: 10s, ahead: 5%}}}\n"
                     "  - {name: few, key: [user], limit: 99/s, consistency: eventual}\n")
        policy.flush()
        options = ("--store", store.url, "--store_budget", "10s")
        with serving(policy.name, load=False, options=options) as one, terminal(one.address) as top, Client(one) as client:
            top.until("store up, 1 node,", "later", "few")
            top.press("G", "k")
            top.until("> few", "few, exact: top keys")
            top.press("j")
            top.until("> later", "later, eventual within 0 units: top keys", "0 calls per 1,000 decisions")
            with serving(policy.name, load=False, options=options):
                top.until("2 nodes", "later, eventual within 30 units: top keys")
                for _ in range(11):  # the first one goes to Redis
                    assert client.ask("WEIR.TAKE", "k", "@later")[0] == 1
                top.until("2 nodes, 91 calls per 1,000 decisions, 0 units held, 10 units waiting")
                assert client.ask("WEIR.TAKE", "k", "@later", 5)[0] == 1
                top.until("0 units held", gone=["waiting"])


def sizes():
    with serving() as one, terminal(one.address) as top:
        top.until(*NAMES)
        for columns, rows in ((60, 15), (80, 24), (200, 60)):
            top.tmux("resize-window", "-x", str(columns), "-y", str(rows))
            screen = until(lambda: "ip=" in (screen := top.screen()) and "? help" in screen.splitlines()[-1] and screen, top.screen)
            assert len(screen.splitlines()) == rows and all(len(line) <= columns for line in screen.splitlines()), screen
            assert "DEN%" in screen and "LEFT" in screen and ("ALGORITHM" in screen) == (columns == 200), screen
            # A limit in shadow is marked. Hidden columns are not used for sorting.
            assert re.search(r"signup-can\S* +shadow", screen), screen
            heads = screen.splitlines()[4].replace("v", "").split()
            assert ("MODE" in heads) == (columns > 60), heads
            assert {top.sort_by_next() for _ in heads} == set(heads)
        top.tmux("resize-window", "-x", "20", "-y", "4")
        top.until("terminal too small", gone=["ALLOWED/s", "DEN/s"])
        top.tmux("resize-window", "-x", "100", "-y", "30")
        top.until(*NAMES, "ALGORITHM", gone=["too small"])
        top.press("q")
        screen = top.until("before", "after 0", "icanon", " echo", gone=["ALLOWED/s"])
        assert re.search(r"[^-]icanon", screen) and re.search(r"[^-]echo\b", screen), screen


def small_sizes():
    """No line is wider than the terminal, and each size shows the most useful parts."""
    with serving() as one, pseudo_terminal(one.address) as top:
        for columns, rows in [*itertools.product((20, 29, 59, 60), (5, 8, 12)), (21, 7), (45, 11), (20, 15), (59, 15)]:
            lines = top.resize(columns, rows, lambda lines: any("everyone" in line for line in lines) and lines[-1].strip())
            assert all(len(line) <= columns for line in lines) and len(lines) == rows, (columns, rows, lines)
            text, head = "\n".join(lines), next(line for line in lines if "LIMIT" in line)
            assert "DEN" in head and ("ALLOW" in head) == (columns >= 29), (columns, rows, lines)
            assert lines[0].startswith("weir top") and ("help" in lines[-1]), (columns, rows, lines)
            if rows >= 12:  # keys appear after a moment
                top.resize(columns, rows, lambda lines: any(re.search(r"\d~? +ip=\S*|denied most", line) for line in lines))
            else:
                assert "ip=" not in text and "top keys" not in text, (columns, rows, lines)
        # The help, the search and the pause line fit, too.
        for keys in (b"?", b"?/everyone-", b"\x1b", b"pp"):
            os.write(top.ours, keys)
            for columns, rows in ((20, 5), (33, 9), (59, 13)):
                lines = top.resize(columns, rows, lambda lines: any(line.strip() for line in lines))
                assert all(len(line) <= columns for line in lines), (keys, lines)
        for columns, rows in ((19, 5), (20, 4), (19, 40), (200, 4), (1, 1), (2, 1), (1, 50), (3, 3)):
            said = "terminal too small: 20x5 at least"
            shown = said if columns >= len(said) else said[:columns - 1] + "…"
            lines = top.resize(columns, rows, lambda lines: lines[0].rstrip() == shown)
            assert not any(line.strip() for line in lines[1:]), lines
        top.resize(100, 30, lambda lines: all(any(name in line for line in lines) for name in NAMES))
        for columns, rows in ((1, 1), (500, 300), (1, 300), (500, 1), (0, 0), (20, 5), (80, 24)) * 5:
            top.set_size(columns, rows)
        top.resize(80, 24, lambda lines: all(any(name in line for line in lines) for name in NAMES))
        os.write(top.ours, b"q")
        assert top.process.wait(TIMEOUT_S) == 0


def with_observe_off():
    """With observe off, rates come from the totals, and the screen says so."""
    with serving(options=["--observe", "off"]) as one, terminal(one.address) as top:
        top.until("observe is off: allowed ", " by limits", "policy of 4 limits")
        until(lambda: any(row[0] == "per-client" and float(row[3]) > 1 and float(row[4]) > 1 for row in top.rows()), top.screen)
        told = r"observe is off: allowed [1-9]\S*/s, denied [1-9]\S*/s, [1-9]\S* % by limits"
        until(lambda: re.search(told, piped("--at", one.address).stdout), "no rates of denials by totals")


def more_limits_than_are_told():
    limits = "limits:\n" + "".join(f"  - {{name: limit-{n}, key: [user], match: {{path: /{n}}}, limit: 5/hour}}\n" for n in range(300))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(limits)
        file.flush()
        with serving(file.name, load=False) as one, terminal(one.address) as top, Client(one) as client:
            assert "101 limits not shown" in piped("--at", one.address).stdout
            top.until("limit-0", "101 limits not shown")
            top.press("p")
            top.until("paused")
            top.press("/")
            top.press("t-299")
            top.until("no match among these; 101 more limits")
            top.press("Enter")
            top.press("p")
            top.until("limit-299", gone=["limit-0"])
            # Long keys look the same, so their hashes are shown.
            for end in ("a", "b"):
                client.ask("WEIR.CHECK", "user", "k" * 70 + end, "path", "/299")
            until(lambda: len(set(re.findall(r"#([0-9a-f]{16}) user=kkk", top.screen()))) == 2, top.screen)


def the_server_is_started_anew():
    with serving(load=False) as one, terminal(one.address) as top:
        top.until(*NAMES)
        assert one.end() == 0
        top.until("retrying", *NAMES)
        one.start()
        top.until(*NAMES, gone=["retrying"])
    with tempfile.TemporaryDirectory() as folder, terminal(os.path.join(folder, "socket")) as top:
        top.until("no server at", "weir serve", "retrying", "? help")
        top.press("q")
        top.until("after 0")


def names_that_a_terminal_would_obey():
    hostile = [b"\x1b]0;obeyed\x07", b"\x1b[2J\x1b[Hobeyed", b"\xc2\x9b31m", "\u202egnorw".encode(), b"\r\n\x08", b"\xff\xfe",
               "e\u0301\u0301\u0301".encode(), "ü漢字".encode()]
    with serving(None, load=False) as one, Client(one) as client, terminal(one.address) as top:
        for number, key in enumerate(hostile):
            for _ in range(number + 1):
                client.ask("WEIR.TAKE", key, "1/hour")
        shown = ["\\x1b]0;obeyed\\x07", "\\x1b[2J\\x1b[Hobeyed", "\\xc2\\x9b31m", "\\xe2\\x80\\xaegnorw", "\\x0d\\x0a\\x08",
                 "\\xff\\xfe", "e\\xcc\\x81", "ü漢字"]
        top.until("(inline)", *shown)
        assert top.tmux("display-message", "-p", "#{pane_title}").strip() != "obeyed"
    with serving(None, load=False) as one, Client(one) as client, pseudo_terminal(one.address) as top:
        for key in hostile[:4] * 2:
            client.ask("WEIR.TAKE", key, "1/hour")
        top.read_until(lambda text: "]0;obeyed" in text and "31m" in text and "gnorw" in text)
        assert b"\x1b]" not in top.bytes and b"\xc2\x9b" not in top.bytes and b"\x07" not in top.bytes, top.bytes


def the_terminal_is_as_it_was():
    with serving(load=False) as one:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with pseudo_terminal(one.address) as top:
                top.read_until(lambda text: ENTER in text and "? help" in text)
                assert termios.tcgetattr(top.theirs) != top.before
                top.process.send_signal(number)
                text = top.read_until(lambda text: LEAVE in text)
                assert "\033[?25h" in text[text.rindex("\033[?25l"):], text[-200:]
                assert top.process.wait(TIMEOUT_S) == -number
                assert termios.tcgetattr(top.theirs) == top.before, number
        with pseudo_terminal(one.address) as top:
            top.read_until(lambda text: "? help" in text)
            top.process.send_signal(signal.SIGTSTP)
            top.read_until(lambda text: LEAVE in text)
            until(top.is_stopped, "it is not stopped")
            assert termios.tcgetattr(top.theirs) == top.before
            top.process.send_signal(signal.SIGCONT)
            top.read_until(lambda text: "? help" in text[text.rindex(LEAVE):] and ENTER in text[text.rindex(LEAVE):])
            os.write(top.ours, b"q")
            top.read_until(lambda text: text.count(LEAVE) == 2)
            assert top.process.wait(TIMEOUT_S) == 0 and termios.tcgetattr(top.theirs) == top.before


def few_bytes_and_plain_ones():
    """Unchanged lines are not written again. There are no colours and no characters beyond ASCII unless they were asked
    for."""
    with serving(load=False) as one:
        with pseudo_terminal(one.address, NO_COLOR="1", LANG="C") as top:
            text = top.read_until(lambda text: len(set(re.findall(r"up \d+ s", text))) >= 4)
            assert text.count("DEN%") == 1 and text.count("signup-canary") == 1, text
            assert not re.search(r"\033\[\d[\d;]*m", text.replace("\033[0m", "")) and all(byte < 128 for byte in top.bytes), text
        with pseudo_terminal(one.address) as top:
            assert re.search(r"\033\[[127]m", top.read_until(lambda text: "? help" in text))


def once():
    with serving() as one:
        until(lambda: "ip=203.0.113." in piped("--at", one.address).stdout, "no client was denied")
        for arguments, changes in (((), {}), (("--once",), {}), (("--once",), {"LANG": "C"})):
            done = piped("--server", one.address, *arguments, **changes)
            assert done.returncode == 0 and not done.stderr and "\033" not in done.stdout, done
            assert all(name in done.stdout for name in [*NAMES, "ALGORITHM", "token_bucket", "top keys", "ip=203.0.113."]), done.stdout
            assert done.stdout.isascii() == (changes != {}), done.stdout
        with pseudo_terminal(one.address, TERM="dumb") as top:
            assert ENTER not in top.read_until(lambda text: "denied most" in text) and top.process.wait(TIMEOUT_S) == 0
        live = json.loads(piped("--at", one.path, "--json").stdout)
        assert live["policy"]["limits"] == 4 and live["seconds"] == 120


def called_wrongly():
    for code, said, words in ((2, "unknown option", ["--all"]), (2, "needs a value", ["--at"]), (2, "invalid address", ["--at", "nowhere"]),
                              (2, "invalid address", ["--at=nowhere"]), (2, "takes no value", ["--once=1"]),
                             
                              (2, "unknown option", ["x"]), (3, "no server at", ["--at", "/nowhere/socket", "--once"]),
                              (2, "", ["--password-file", "/nowhere/file"])):
        done = piped(*words)
        assert done.returncode == code and said in done.stderr and not done.stdout, (words, done)
    assert "--once" in piped("--help").stdout
    settings = "users:\n  app: {password: app-secret-1, role: decide}\n  ops: {password: ops-secret-1, role: admin}\n"
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.yaml"), "w", encoding="utf-8") as file:
            file.write(settings)
        with daemon(WEIR, "--keys", "1000", "--config", file.name) as one:
            done = piped("--at", one.address)
            assert done.returncode == 3 and "--user" in done.stderr and "WEIR_PASSWORD" in done.stderr, done
            done = piped("--at", one.address, "--user", "app", WEIR_PASSWORD="app-secret-1")
            assert done.returncode == 3 and "NOPERM" in done.stderr, done
            assert piped("--at", one.address, "--user", "ops", WEIR_PASSWORD="ops-secret-1").returncode == 0


def the_page_shows_it():
    """The screen in docs/guides/observe.md has the shape of a real one."""
    with serving() as one, terminal(one.address, rows=20) as top:
        screen = top.until(*NAMES, "up 8 s" if RECORDS else "up ", "denied most, in", "ip=203.0.113.1").replace(one.address, "127.0.0.1:6380")
        lines = [line.rstrip() for line in screen.splitlines()]
    if RECORDS:
        return "\n" + "\n".join(lines)
    page = shown_in(PAGE)
    assert len(page) == len(lines), (len(page), len(lines))
    for number in (0, 4, -1):
        assert shape(page[number]) == shape(lines[number]), (page[number], lines[number])
    assert {line[2:].split()[0] for line in page[5:] if "token_bucket" in line or "leaky_bucket" in line} >= {"everyone", "per-client", "orders-writes"}
    return None


def requests_that_match_no_limit():
    with tempfile.TemporaryDirectory(prefix="weir-top-") as folder:
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write("limits:\n  - {name: per-user, key: [user], limit: 5/s}\n")
        with serving(policy, load=False) as one, contextlib.closing(Client(one)) as client, terminal(one.address) as top:
            top.until("policy of 1 limit")
            assert "matched no limit" not in top.screen()
            client.ask("WEIR.CHECK", "usr", "ann")
            top.until("policy of 1 limit, 1 request matched no limit")


RECORDS = "--record" in sys.argv[4:]
TESTS = [limits_under_load, pause, consistency, eventual, sizes, small_sizes, with_observe_off, more_limits_than_are_told, the_server_is_started_anew, names_that_a_terminal_would_obey, the_terminal_is_as_it_was,
         few_bytes_and_plain_ones, once, called_wrongly, the_page_shows_it, requests_that_match_no_limit]

if __name__ == "__main__":
    # Each test has its own server and terminal, and mostly waits for the next second.
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        begun = [(test.__name__.replace("_", " "), pool.submit(test).result) for test in (TESTS[-1:] if RECORDS else TESTS)]
        sys.exit(run(begun))
