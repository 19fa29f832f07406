#!/usr/bin/env python3
"""weir table on tables that are intact, in use, damaged, not a table, or missing.

    table_test.py WEIR SHARED_TABLE"""
# Covers: src/cli/table.c, src/cli/table_limits.c, src/cli/table_report.c

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone

PATIENCE_S = 60
DAY_NS = 86400 * 10**9
FOLDER = b"/dev/shm/weir."
SIZE = 128 << 10
NOBODY = 65534

# Offsets in a table's memory; see src/store/table/region.h.
VERSION, SIZE_BYTES, LINES, LIMITS_MAX, STRIPES, EPOCH, CLOCK = 12, 16, 24, 32, 36, 80, slice(192, 224)

# Expected message, and the arguments.
WRONG = [
    ("did you mean info?", "inf"), ("did you mean reset?", "rest"), ("did you mean list?", "ls"),
    ("did you mean get?", "gt"), ('unknown command "show"; weir table --help', "show"),
    (r'unknown command "\x1b"', "\x1b"),
    ("info needs TABLE", "info"), ("get needs TABLE", "get"), ("get needs LIMIT", "get", "x"),
    ("reset needs KEY", "reset", "x", "l"),
    ("too many arguments", "list", "x"), ("too many arguments", "get", "x", "l", "k", "y"),
    ("use --json or --help", "info", "--hex", "x"), ("use --hex, --json", "get", "--jsn", "x", "l"),
    ("use --hex, --json", "get", "x", "l", "-k"),
]

WEIR = MAKER = None


def weir(*arguments, **more):
    done = subprocess.run([WEIR, "table", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=PATIENCE_S, check=False, **more)
    # Strict decoding: output is UTF-8 even if names are not.
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout + done.stderr), f"control characters: {done}"
    return done


def good(*arguments):
    done = weir(*arguments)
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout


def read(command, *arguments):
    return json.loads(good(command, "--json", *arguments))


def refused(code, words, *arguments, **more):
    done = weir(*arguments, **more)
    assert done.returncode == code and done.stdout == "", (arguments, done)
    assert done.stderr.startswith("weir table: ") and done.stderr.count("\n") == 1, (arguments, done)
    assert words in done.stderr, (arguments, words, done)


def rows(text):
    """{label: rest of the line} of the text output."""
    return {line[:13].strip(): line[13:] for line in text.splitlines() if line[:1].isalpha()}


def instant_ns(text):
    whole, fraction = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z", text).groups()
    return int(datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp()) * 10**9 + int(fraction)


class Table:
    """A shared table and the process that created it."""

    made = 0

    def __init__(self, name=None, size=SIZE, limits_max=0, mode=0, made_at=0):
        Table.made += 1
        self.name = name or b"cli-test-%d-%d" % (os.getpid(), Table.made)
        self.path = FOLDER + self.name
        self.process = subprocess.Popen([MAKER, self.name, str(size), str(limits_max), str(mode), str(made_at)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.expect("ok")

    def expect(self, wanted):
        answer = self.process.stdout.readline().decode().strip()
        assert answer == wanted, f"{answer!r}, not {wanted!r}"

    def tell(self, line, wanted):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        self.expect(wanted)

    def limit(self, name, text):
        self.tell(f"limit {name.hex()} {text}", "ok")

    def take(self, key, cost, allowed=True):
        self.tell(f"take {key.hex()} {cost}", str(int(allowed)))

    def bytes(self):
        with open(self.path, "rb") as file:
            return bytearray(file.read())

    def write(self, content):
        """Overwrites the memory and sets its length to that of the content."""
        with open(self.path, "r+b") as file:
            file.truncate(len(content))
            file.write(content)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        if os.path.lexists(self.path):
            os.unlink(self.path)


def shop():
    """Two limits. Of the first, alice has used 3 of 20 and was denied 30 times."""
    table = Table()
    table.limit(b"per tenant", "5/day fixed_window align first")
    table.take(b"acme", 5)
    table.limit(b"per user", "100/day burst 20")
    table.take(b"alice", 3)
    table.take(b"alice", 30, False)
    return table


def info_tells_all():
    with shop() as table:
        before = time.time_ns()
        text, told = good("info", table.name), read("info", table.name)
        status = os.stat(table.path)
        people = rows(text)
        assert told["table"] == table.name.decode() and people["table"] == f'"{table.name.decode()}"', text
        assert told["size_bytes"] == status.st_size == SIZE and people["size"] == "131.1 kB (131072 bytes)", text
        assert told["slots"] == 800 and told["live"] == 2 and abs(told["fill_percent"] - 200 / 800) < 1e-4, told
        assert people["slots"] == "800" and people["live keys"] == "2 (0.2 %)", text
        assert told["owner_id"] == os.geteuid() and told["group_id"] == status.st_gid, told
        assert told["mode"] == "0600" and people["owner"].endswith(", mode 0600"), told
        assert told["inserted"] == 2 and told["evicted"] == told["lost_races"] == 0 and people["evicted"] == "0", told
        assert told["probes"] == [1, 0, 0, 0] and told["absent"] == 2, told
        assert people["found in"].startswith("first line 33.3 %, ") and "nowhere 66.7 %" in people["found in"], text
        assert told["limits_max"] == 64 and people["limits"] == "2 of 64", text
        assert told["limits"] == [
            {"name": "per tenant", "text": "5/day fixed_window align first", "allowed": 1, "denied": 0},
            {"name": "per user", "text": "100/day burst 20", "allowed": 1, "denied": 1}], told
        assert re.search(r'\n +1 +0  "per tenant": 5/day fixed_window align first'
                         r'\n +1 +1  "per user": 100/day burst 20\n$', text), text
        assert abs(instant_ns(told["clock"]) - before) < 60 * 10**9, told
        assert told["clock_source"] in ("tsc", "monotonic") and abs(told["clock_ahead_ns"]) < 10**9, told
        assert re.search(r"Z by (tsc|monotonic), .* (ahead of|behind) the wall clock$", people["clock"]), text
        assert abs(instant_ns(told["made_at"]) - before) < 60 * 10**9, told
        assert instant_ns(told["good_until"]) - instant_ns(told["made_at"]) == 2**58, told
        assert instant_ns(told["made_at"]) - instant_ns(told["good_from"]) == 2**58, told
        assert people["made at"] == told["made_at"] and people["good until"] == told["good_until"], text


def times_of_replays():
    for made_at, known in ((10**18, True), (1, False)):
        with Table(made_at=made_at) as table:
            told, people = read("info", table.name), rows(good("info", table.name))
            assert told["made_at"] == ("2001-09-09T01:46:40.000000000Z" if known else None), told
            assert people["made at"] == (told["made_at"] or "unknown"), people
            assert people["good until"] == told["good_until"] + ": the clock stands still", people
            table.limit(b"l", "1/s")
            table.take(b"k", 1)
            assert read("get", table.name, "l", "k")["full_in_ns"] == 10**9, "not by the time of the table"


def get_tells_what_a_key_owes():
    with shop() as table:
        now = time.time_ns()
        told = read("get", table.name, "per user", "alice")
        assert (told["table"], told["limit"], told["key"]) == (table.name.decode(), "per user", "alice"), told
        assert told["text"] == "100/day burst 20" and told["stored"] and "key_hex" not in told, told
        assert (told["remaining"], told["most"], told["retry_after_ns"], told["delay_ns"]) == (17, 20, 0, 0), told
        assert 0 < told["full_in_ns"] <= 3 * DAY_NS // 100, told
        assert abs(instant_ns(told["full_at"]) - told["full_in_ns"] - now) < 60 * 10**9, told
        people = rows(good("get", table.name, "per user", "alice"))
        assert people["key"] == '"alice" under "per user": 100/day burst 20', people
        assert people["stored"] == "yes" and people["remaining"] == "17 of 20", people
        assert people["retry after"] == "0 s, for one", people
        assert re.fullmatch(r"\S+Z, in 4[0-3] min \d+ s", people["full at"]), people

        told = read("get", table.name, "per tenant", "acme")
        assert told["remaining"] == 0 and told["retry_after_ns"] == told["full_in_ns"] > 0, told
        assert DAY_NS - 60 * 10**9 < told["full_in_ns"] <= DAY_NS, told

        told, people = read("get", table.name, "per user", "bob"), rows(good("get", table.name, "per user", "bob"))
        assert not told["stored"] and told["remaining"] == told["most"] == 20, told
        assert told["full_at"] is None and told["full_in_ns"] == told["retry_after_ns"] == 0, told
        assert people["stored"].startswith("no") and people["full at"] == "now", people


def get_of_other_kinds():
    with Table() as table:
        table.limit(b"queue", "1/hour leaky queue 5")
        table.take(b"k", 2)
        table.limit(b"short", "1000/s")
        table.take(b"k", 1)
        table.limit(b"sliding", "4/3000day sliding_counter")
        table.take(b"k", 1)
        told, people = read("get", table.name, "queue", "k"), rows(good("get", table.name, "queue", "k"))
        assert told["remaining"] == 3 and 1.9 * 3600e9 < told["delay_ns"] <= 2 * 3600e9, told
        assert people["delay"].endswith(", for a request now"), people
        time.sleep(0.02)
        told, people = read("get", table.name, "short", "k"), rows(good("get", table.name, "short", "k"))
        assert told["stored"] and told["remaining"] == 1000 and told["full_in_ns"] == 0, told
        assert people["full at"] == told["full_at"] + ": its slot is free for others", people
        told = read("get", table.name, "sliding", "k")
        assert told["remaining"] == 3 and told["full_in_ns"] > 3000 * DAY_NS, told


def keys_are_any_bytes():
    with Table() as table:
        table.limit(b"l", "10/day")
        for cost, key in enumerate([b"\x00\xff", b"-json", b"--", b"K\xc3\xb6ln", b"\xed\xa0\x80", b'"\\\n'], 1):
            table.take(key, cost)
            told = read("get", "--hex", table.name, "l", key.hex())
            assert told["stored"] and told["remaining"] == 10 - cost, (key, told)
            assert told["key"] == key.decode(errors="replace"), (key, told)
            assert told.get("key_hex", key.decode(errors="replace").encode().hex()) == key.hex(), (key, told)
            assert read("get", table.name, "l", key.hex().upper(), "--hex")["remaining"] == 10 - cost, key
            if b"\x00" not in key:
                assert read("get", table.name, "--", "l", key)["remaining"] == 10 - cost, key
        assert not read("get", table.name, "l", "")["stored"]
        assert not read("get", table.name, "l", "-")["stored"]
        assert good("get", table.name, "l", "00ff0a", "--hex").startswith(r'key          "\x00\xff\x0a" under "l"')
        for digits in ("0", "0g", "zz", "0x12", "12 "):
            refused(2, "use pairs of the digits", "get", table.name, "l", digits, "--hex")


def reset_forgets():
    with shop() as table:
        people = rows(good("reset", table.name, "per user", "alice"))
        assert people["forgotten"] == '"alice" under "per user": 100/day burst 20', people
        assert people["used"] == "3 of 20" and ", in 4" in people["until"], people
        assert not read("get", table.name, "per user", "alice")["stored"]
        refused(1, 'nothing is stored for "alice" under "per user": the key is full',
                "reset", table.name, "per user", "alice")
        refused(1, "nothing is stored", "reset", table.name, "per user", "alice", "--json")
        told = read("reset", table.name, "per tenant", "61636d65", "--hex")
        assert told["key"] == "acme" and told["stored"] and told["remaining"] == 0, told
        table.limit(b"per tenant", "5/day fixed_window align first")
        table.take(b"acme", 5)


def what_is_not_there():
    name = b"cli-test-%d-none" % os.getpid()
    for arguments in (["info"], ["info", "--json"], ["get", "l", "k"], ["reset", "l", "k"]):
        refused(1, f'unknown shared table "{name.decode()}"', arguments[0], name, *arguments[1:])
        assert not os.path.exists(FOLDER + name), f"{arguments} made a table"
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "limits"), "w").close()
        refused(1, "for the file of this name, write ./ before it", "info", "limits", cwd=folder)
    with shop() as table:
        for command in ("get", "reset"):
            refused(1, ' has no limit "per usr"; it has "per ', command, table.name, "per usr", "alice")
        assert len(read("info", table.name)["limits"]) == 2, "a limit was added"
    with Table(limits_max=20) as table:
        refused(1, 'has no limit "l"; it has none yet', "get", table.name, "l", "k")
        for i in range(12):
            table.limit(b"l%d" % i, "1/s")
        refused(1, '", ...', "get", table.name, "l", "k")
        for i in range(12, 20):
            table.limit(b"l%d" % i, "1/s")
        refused(1, 'has no limit "l"', "get", table.name, "l", "k")


def looking_changes_nothing():
    with shop() as table:
        before = table.bytes()
        for arguments in (["info"], ["get", "per user", "alice"], ["get", "per user", "bob"],
                          ["get", "per tenant", "x"]):
            good(arguments[0], table.name, *arguments[1:])
        weir("get", table.name, "no such limit", "k")
        weir("reset", table.name, "per user", "bob")
        good("list")
        after = table.bytes()
        before[CLOCK] = after[CLOCK]  # the command moves the clock's anchor if it takes a tenth of a second or more
        assert before == after, [at for at in range(len(before)) if before[at] != after[at]]


def list_names_them():
    with shop() as table, Table(size=1 << 20, mode=0o640) as other:
        foreign = FOLDER + b"cli-test-%d-foreign" % os.getpid()
        with open(foreign, "wb") as file:
            file.write(b"hello")
        try:
            listed = {row["table"].encode(): row for row in read("list")}
            text = good("list")
        finally:
            os.unlink(foreign)
        assert listed[table.name] == {"table": table.name.decode(), "size_bytes": SIZE, "problem": None, "mode": "0600",
            **{name: read("info", table.name)[name] for name in ("owner", "owner_id", "group", "group_id")}}, listed
        assert listed[other.name]["size_bytes"] == 1 << 20 and listed[other.name]["mode"] == "0640", listed
        problem = listed[foreign[len(FOLDER):]]["problem"]
        assert "not a table" in problem, listed
        lines = text.splitlines()
        assert re.fullmatch(r" +size  mode  owner +table", lines[0]), text
        assert any(re.fullmatch(rf' +131.1 kB  0600  \S+ +"{table.name.decode()}"', line) for line in lines), text
        assert any(re.fullmatch(rf' +1.0 MB  0640  \S+ +"{other.name.decode()}"', line) for line in lines), text
        assert any(line.endswith(f'-foreign": {problem}') and " 5 B  " in line for line in lines), text
    assert table.name not in [row["table"].encode() for row in read("list")]


def damaged_tables_are_refused():
    def changed(at, form, value):
        return lambda whole: whole.__setitem__(slice(at, at + struct.calcsize(form)), struct.pack(form, value))

    def cut(size):
        return lambda whole: whole.__delitem__(slice(size, None))

    for damage, why in [
            (changed(0, "8s", b"weirdtab"), "not a table of Weir"),
            (changed(8, "<I", 0x04030201), "another byte order"),
            (changed(VERSION, "<I", 5), "the table has version 5; remove it, and a new table is made in which all keys are full: this Weir reads only version 6"),
            (changed(SIZE_BYTES, "<Q", 1 << 40), "was made with 1099511627776 bytes"),
            (changed(LINES, "<Q", 1 << 60), "damaged"),
            (changed(LIMITS_MAX, "<I", 0), "damaged"),
            (changed(LIMITS_MAX, "<I", 0xffffffff), "damaged"),
            (changed(STRIPES, "<I", 1), "damaged"),
            (changed(EPOCH, "<Q", 2**64 - 1), "damaged"),
            (changed(EPOCH, "<Q", 1), "damaged"),
            (cut(SIZE // 2), "it now has 65536"),
            (cut(100), "not a table of Weir"),
            (cut(0), "not a table of Weir")]:
        with shop() as table:
            whole = table.bytes()
            damage(whole)
            table.write(whole)
            for arguments in (["info"], ["info", "--json"], ["get", "per user", "alice"],
                              ["reset", "per user", "alice"]):
                refused(2, why, arguments[0], table.name, *arguments[1:])
            row = next(row for row in read("list") if row["table"].encode() == table.name)
            assert "not a table that this program can use" in row["problem"], row


def what_is_no_memory_is_refused():
    def link(path):
        os.symlink("/etc/passwd", path)

    for number, (make, why) in enumerate(((os.mkdir, "a directory, not a table"), (os.mkfifo, "a FIFO, socket or device"),
                                          (link, "a symbolic link, which is not followed"))):
        name = b"cli-test-%d-odd-%d" % (os.getpid(), number)
        make(FOLDER + name)
        try:
            refused(2, why, "info", name)
            row = next(row for row in read("list") if row["table"].encode() == name)
            assert row["problem"].startswith("not a regular file"), row
        finally:
            os.rmdir(FOLDER + name) if make is os.mkdir else os.unlink(FOLDER + name)
    for name in ("", ".", ".x", "n" * 64):
        refused(2, "invalid name; use 1 to 63 bytes, no slash", "info", name)


def damaged_limits_are_told():
    for old, new in ((b"per user\0", b"\0" * 9), (b"100/day burst 20\0", b"900/day burst 20\0"),
                     (b"100/day burst 20\0", b"\xff" * 160), (b"per user\0", b"x" * 64)):
        with shop() as table:
            whole = table.bytes()
            at = whole.index(old)
            whole[at:at + len(new)] = new
            table.write(whole)
            told, text = read("info", table.name), good("info", table.name)
            assert {"name": None, "text": None, "allowed": 1, "denied": 1} in told["limits"], told
            assert "per tenant" in [limit["name"] for limit in told["limits"]], told
            assert re.search(r"^ +1 +1  \(not written, or damaged\)$", text, re.M), text
            for command in ("get", "reset"):
                refused(2, 'the limit "per user" cannot be read', command, table.name, "per user", "alice")
            assert table.bytes()[at:at + len(new)] == new, "was mended"
            if new[0] == 0:  # as if its creator had been killed
                table.limit(b"per user", "100/day burst 20")
                assert read("get", table.name, "per user", "alice")["remaining"] == 17


def has_controls(name):
    return any(each < " " or "\x7f" <= each < "\xa0" for each in name.decode(errors="replace"))


def any_name_is_printed():
    """Names of tables may be any bytes. Names of limits may not have control characters."""
    strange = [b"%d-" % os.getpid() + rest for rest in
               (b"\xff\xfe", b"a b", b'"q"\\', b"new\nline", b"\x1b[31mred", "Köln 🚦".encode(),
                b"\xc2\x85\xc2\x9b2J")]
    for name in strange:
        limit = b"limit" if has_controls(name) else name
        with Table(name) as table:
            table.limit(limit, "7/day")
            table.take(name, 1)
            told = read("info", name)
            assert told["table"] == name.decode(errors="replace"), (name, told)
            assert told["limits"][0]["name"] == limit.decode(errors="replace"), (name, told)
            assert told.get("table_hex", name.hex()) == name.hex() and ("table_hex" in told) == (b"\xff" in name), told
            assert read("get", name, limit, name)["remaining"] == 6, name
            assert name.decode(errors="replace") in [row["table"] for row in read("list")], name
            for arguments in (["info", name], ["get", name, limit, name], ["reset", name, limit, name], ["list"]):
                good(*arguments)
            refused(1, "has no limit", "get", name, b"\x1b" + name, "k")
            refused(1, "unknown shared table", "info", name + b"\x1b")
            table.write(b"no table")
            refused(2, "not a table of Weir", "info", name)
            good("list")


def names_as_other_decoders_read_them():
    chance = random.Random(4)
    pieces = [b"\x80", b"\xbf", b"\xc0\x80", b"\xc1", b"\xc2", b"\xe0\x80", b"\xe0\xa0", b"\xed\x9f\xbf",
              b"\xed\xa0\x80", b"\xef\xbf\xbf", b"\xf0\x90\x80", b"\xf0\x8f", b"\xf4\x8f\xbf\xbf", b"\xf4\x90",
              b"\xf5", b"\xff", b"a", b'"', b"\\", b"\n", b"\x7f", "é€🚦".encode()]
    names = set()
    while len(names) < 300:
        if chance.random() < 0.5:
            name = b"".join(chance.choices(pieces, k=chance.randint(1, 12)))
        else:
            name = bytes(chance.choices(range(1, 256), k=chance.randint(1, 63)))
        if not has_controls(name[:63]):
            names.add(name[:63])
    with Table(size=1 << 20, limits_max=400) as table:
        for name in sorted(names):
            table.limit(name, "1/s")
        limits = read("info", table.name)["limits"]
        good("info", table.name)
    assert sorted(limit["name"] for limit in limits) == sorted(name.decode(errors="replace") for name in names)
    exact = {bytes.fromhex(limit["name_hex"]) if "name_hex" in limit else limit["name"].encode() for limit in limits}
    assert exact == names, exact ^ names


def wait_until_used(table, more_than):
    """Waits for more decisions than that, and returns how many."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        limit = read("info", table.name)["limits"][0]
        if limit["allowed"] + limit["denied"] > more_than:
            return limit["allowed"] + limit["denied"]
    raise AssertionError("no process uses it")


def tables_in_use():
    with Table(size=1 << 20) as table, Table() as full:
        table.limit(b"l", "100000/s burst 5")
        table.tell("hammer 1000", "ok")
        full.limit(b"l", "10/day burst 5")
        full.tell("hammer 100000", "ok")
        start = wait_until_used(table, 0)
        wait_until_used(full, 0)
        for i in range(15):
            told = read("info", table.name)
            assert 0 <= told["live"] <= 1000 and sum(told["probes"]) + told["absent"] > 0, told
            key = struct.pack("I", i).hex()
            told = read("get", table.name, "l", "--hex", key)
            assert told["stored"] or told["remaining"] == 5, told
            assert weir("reset", table.name, "l", "--hex", key).returncode in (0, 1)
            assert {table.name, full.name} <= {row["table"].encode() for row in read("list")}
            told = read("info", full.name)
            assert told["live"] <= told["slots"], told
        wait_until_used(table, start)
        assert table.process.poll() is None and full.process.poll() is None


def memory_that_is_cut_short():
    """The signal comes only if the memory is cut between attaching and the last read, so repeat until that happens."""
    with Table(size=4 << 20) as table:
        whole, mark = table.bytes(), table.path[1:]
        for _ in range(200):
            with subprocess.Popen([WEIR, "table", "info", table.name], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE) as looking:
                while looking.poll() is None:
                    try:
                        with open(f"/proc/{looking.pid}/maps", "rb") as maps:
                            if mark in maps.read():
                                break
                    except OSError:
                        break
                looking.send_signal(signal.SIGSTOP)
                os.truncate(table.path, 4096)
                looking.send_signal(signal.SIGCONT)
                why = looking.communicate(timeout=PATIENCE_S)[1].decode()
            table.write(whole)
            assert looking.returncode in (0, 2), (looking.returncode, why)
            if "truncated" in why:
                assert looking.returncode == 2 and why.startswith("weir table: "), why
                return
    raise AssertionError("never cut in time")


def other_users():
    if os.geteuid() != 0:
        print("#     other users: needs root")
        return
    with shop() as table, tempfile.TemporaryDirectory() as folder:
        os.chown(table.path, NOBODY, NOBODY)
        told = read("info", table.name)
        assert told["owner_id"] == told["group_id"] == NOBODY, told
        assert read("get", table.name, "per user", "alice")["remaining"] == 17
        os.chown(table.path, 0, 0)
        os.chmod(folder, 0o755)
        mine = shutil.copy(WEIR, folder)
        for mode, may in ((0o600, False), (0o604, False), (0o666, True)):
            os.chmod(table.path, mode)
            done = subprocess.run([mine, "table", "info", table.name], user=NOBODY, group=NOBODY, extra_groups=[],
                                  capture_output=True, text=True, check=False)
            if may:
                assert done.returncode == 0 and f"mode {mode:04o}" in done.stdout, done
            else:
                assert done.returncode == 2 and "Permission denied; you need to be its owner" in done.stderr, done
        os.chmod(table.path, 0o600)
        done = subprocess.run([mine, "table", "list", "--json"], user=NOBODY, group=NOBODY, extra_groups=[],
                              capture_output=True, check=True)
        row = next(row for row in json.loads(done.stdout) if row["table"].encode() == table.name)
        assert row["problem"] == "Permission denied" and row["size_bytes"] == SIZE, row


def wrong_arguments_are_refused():
    for words, *arguments in WRONG:
        refused(2, words, *arguments)
    nothing = weir()
    assert nothing.returncode == 2 and nothing.stdout == "" and nothing.stderr.startswith("usage: weir table"), nothing
    main = subprocess.run([WEIR, "tabel"], capture_output=True, text=True, check=False)
    assert main.returncode == 2, main
    assert main.stderr == 'weir: unknown command "tabel"; did you mean table? weir help lists them\n', main


def help_is_given():
    for arguments in (["--help"], ["-h"], ["help"], ["info", "--help"], ["get", "x", "-h"]):
        text = good(*arguments)
        assert text.startswith("usage: weir table") and "Exit status" in text and "--hex" in text, text
        assert all(len(line) <= 88 for line in text.splitlines()), text
    help_of = [subprocess.run([WEIR, *words], capture_output=True, text=True, check=False)
               for words in (["help", "table"], ["table", "--help"], ["help", "tabel"])]
    assert help_of[0].stdout == help_of[1].stdout != "" and help_of[2].returncode == 2, help_of
    main = subprocess.run([WEIR, "--help"], capture_output=True, text=True, check=True)
    assert re.search(r"^  table +\w", main.stdout, re.M), main.stdout


def full_disks_are_told():
    with shop() as table, open("/dev/full", "wb") as full:
        for arguments in (["info", table.name], ["get", table.name, "per user", "alice"], ["list", "--json"]):
            done = subprocess.run([WEIR, "table", *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
            assert done.returncode == 3 and b"standard output: No space left" in done.stderr, done


def files_are_tables():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "limits")
        refused(1, f'file not found: "{path}"', "info", path)
        with Table(path.encode()) as table:
            table.path = path
            table.limit(b"per user", "100/day burst 20")
            table.take(b"alice", 3)
            assert read("get", path, "per user", "alice")["remaining"] == 17
            table.take(b"alice", 3)
            told, people = read("info", path), rows(good("info", path))
            assert told["damaged_pages"] == told["damaged_slots"] == 0 and told["damaged_at"] is None, told
            assert told["live"] == 1 and told["slots"] % 255 == 0 and people["damaged"] == "0 pages, 0 slots, 0 limits, 0 fields", told
            read("reset", path, "per user", "alice")
            table.take(b"alice", 20)
            table.process.kill()
            table.process.wait()
            assert read("get", path, "per user", "alice")["remaining"] == 0, "another process used it"
            whole = table.bytes()
            whole[-4096:] = bytes(4096)
            table.write(whole)
            told, people = read("info", path), rows(good("info", path))
            assert told["damaged_pages"] == 1 and abs(instant_ns(told["damaged_at"]) - time.time_ns()) < 60 * 10**9, told
            assert people["damaged"] == f"1 pages, 0 slots, 0 limits, 0 fields; started over, last at {told['damaged_at']}", people
            whole = table.bytes()
            at = whole.index(b"per user\0")
            whole[at:at + 160] = os.urandom(160)
            table.write(whole)
            told = read("info", path)
            assert told["damaged_limits"] == 1 and told["limits"] == [], told
            whole[EPOCH] ^= 1
            table.write(whole)
            refused(2, "the table's header is damaged", "info", path)
            assert table.bytes() == whole, "what is refused is left as it is"


TESTS = [info_tells_all, times_of_replays, get_tells_what_a_key_owes, get_of_other_kinds, keys_are_any_bytes,
         reset_forgets, what_is_not_there, looking_changes_nothing, list_names_them, damaged_tables_are_refused,
         what_is_no_memory_is_refused, damaged_limits_are_told, any_name_is_printed, names_as_other_decoders_read_them,
         tables_in_use, memory_that_is_cut_short, other_users, wrong_arguments_are_refused, help_is_given,
         full_disks_are_told, files_are_tables]


def main():
    failed = 0
    for test in TESTS:
        try:
            test()
            print(f"ok    {test.__name__}")
        except (AssertionError, subprocess.SubprocessError, ValueError, KeyError, IndexError, OSError) as fault:
            failed += 1
            print(f"FAIL  {test.__name__}: {type(fault).__name__}: {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    WEIR, MAKER = map(os.path.abspath, sys.argv[1:])
    sys.exit(main())
