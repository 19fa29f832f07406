#!/usr/bin/env python3
"""The Python binding: its declarations match the C headers, and every call does what its docstring says.

    python_test.py

WEIR_LIBRARY names the library and PYTHONPATH the folder of the package. CC, or gcc, compiles the program that prints
the layouts."""

import contextlib
import copy
import ctypes
import errno
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import weir

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/server"))
from redis_server import redis
from fractions import Fraction
HEADERS = sorted((ROOT / "include" / "weir").glob("*.h"))
MS, S, HOUR = 10**6, 10**9, 3600 * 10**9
THEN = 1_790_000_000 * S
PATIENCE_S = 60


def refused(code, function, *arguments, **named):
    """Returns the text of the weir.Error that the call raises."""
    try:
        answer = function(*arguments, **named)
    except weir.Error as error:
        assert error.code == code, f"{error.code}: {error}"
        return str(error)
    raise AssertionError(f"answered {answer!r}")


def raises(kind, function, *arguments, **named):
    try:
        answer = function(*arguments, **named)
    except kind as error:
        return str(error)
    raise AssertionError(f"answered {answer!r}")


def a_name():
    return f"weir-python-test-{os.getpid()}-{time.monotonic_ns()}"


def in_child(function):
    """Runs the function in a forked process and returns its result, 0 to 250."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(function())
        finally:
            os._exit(251)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_threads(n, function):
    threads = [threading.Thread(target=function) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a thread hangs"


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.001)


# --- the headers ------------------------------------------------------------------------------------------------------


def structs():
    return {name[1:]: value for name, value in vars(weir).items()
            if isinstance(value, type) and issubclass(value, ctypes.Structure)}


def numbers():
    """C expression -> the value that the binding has for it."""
    found = {f"WEIR_{name}": value for name, value in vars(weir).items() if name.startswith("ERR_")}
    found["WEIR_NEVER"] = weir.NEVER
    found["WEIR_LIMITER_ALIGN"] = weir._LIMITER_ALIGN
    found["WEIR_QUEUE_ALIGN"] = weir._QUEUE_ALIGN
    found["WEIR_LIMIT_TEXT_MAX"] = weir._LIMIT_TEXT_MAX
    found["WEIR_TABLE_CLAIMS_MAX"] = weir._CLAIMS_MAX
    found["WEIR_STORE_BATCH_MAX"] = weir._BATCH_MAX
    found["WEIR_STORE_LATENCIES"] = weir._LATENCIES
    found["WEIR_STORE_LATENCY_FIRST_US"] = weir._LATENCY_FIRST_US
    found |= {f"WEIR_STORE_FAILURE_{(mode or 'unset').upper()}": value for mode, value in weir._FAILURES.items()}
    found |= {f"WEIR_STORE_{health.name}": health.value for health in weir.Health}
    for name, struct in structs().items():
        found[f"sizeof(struct {name})"] = ctypes.sizeof(struct)
        found[f"_Alignof(struct {name})"] = ctypes.alignment(struct)
        for field, _ in struct._fields_:
            found[f"offsetof(struct {name}, {field})"] = getattr(struct, field).offset
            found[f"sizeof(((struct {name} *)0)->{field})"] = getattr(struct, field).size
    return found


def layouts_are_those_of_c():
    expected = numbers()
    assert len(structs()) >= 10 and len(expected) > 100, expected
    rows = "\n".join(f'\tprintf("%llu\\n", (unsigned long long)({expression}));' for expression in expected)
    source = f"#include <stdio.h>\n#include <weir/weir.h>\n#include <weir/guard.h>\nint main(void)\n{{\n{rows}\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "layouts")
        subprocess.run([os.environ.get("CC", "gcc"), "-std=c11", "-I", ROOT / "include", "-x", "c", "-", "-o", program],
                       input=source, text=True, check=True)
        printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    faults = [f"{expression}: {found} in C, {value % 2**64} in Python"
              for (expression, value), found in zip(expected.items(), map(int, printed)) if found != value % 2**64]
    assert len(printed) == len(expected) and not faults, "\n".join(faults)


def headers():
    text = "\n".join(header.read_text(encoding="utf-8") for header in HEADERS)
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def fields_are_those_of_c():
    """Compares names too: a field added in the padding at the end of a struct does not change its layout."""
    for name, struct in structs().items():
        body = re.search(rf"struct {name} {{(.*?)}};", headers(), re.DOTALL)[1]
        body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)  # pointers to functions
        declared = [re.sub(r"\[.*\]", "", word.split()[-1].lstrip("*")) for line in body.split(";") if line.strip()
                    for word in line.split(",")]
        assert declared == [field for field, _ in struct._fields_], f"{name}: {declared} in C"


def errors_are_those_of_c():
    listed = dict(re.findall(r"X\(WEIR_(ERR_\w+), (-\d+),", headers()))
    assert {name: int(value) for name, value in listed.items()} == \
        {name: value for name, value in vars(weir).items() if name.startswith("ERR_")}
    assert all(f"ERR_{each.name}" in listed for each in weir.Waited if each is not weir.Waited.GO)


PLAIN = {"bool": ctypes.c_bool, "int": ctypes.c_int, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
         "weir_ns": ctypes.c_uint64, "size_t": ctypes.c_size_t, "enum": ctypes.c_int, "void": None}


def python_type(declaration):
    """The ctypes type of a C type. All pointers are void pointers."""
    words = declaration.replace("const ", "").split()
    if "*" in declaration:
        return "pointer"
    return vars(weir)["_" + words[1]] if words[0] == "struct" else PLAIN[words[0]]


def functions_are_those_of_c():
    declared = {name: (returns, takes) for returns, name, takes in
                re.findall(r"WEIR_API\s+([\w\s]+?[\s*]+)(weir_\w+)\(([^;]*?)\);", headers())}

    def plain(kind):
        return "pointer" if kind in (ctypes.c_void_p, ctypes.c_char_p) else kind

    for name, (returns, takes) in {**weir._FUNCTIONS, **weir._REDIS_FUNCTIONS, **weir._POLICY_FUNCTIONS}.items():
        c_returns, c_takes = declared[name]
        assert plain(returns) == python_type(c_returns), f"{name} returns {c_returns}"
        arguments = [] if c_takes == "void" else c_takes.split(",")
        assert [plain(kind) for kind in takes] == [python_type(each) for each in arguments], f"{name}({c_takes})"


# --- finding the library ----------------------------------------------------------------------------------------------


def imported(folder, library, program="import weir"):
    """Output of a Python that imports the package from the folder, where no library is installed."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "WEIR_LIBRARY": library}
    hide = "import ctypes.util; ctypes.util.find_library = lambda name: None\n"
    done = subprocess.run([sys.executable, "-c", hide + program], capture_output=True, text=True, env=environment,
                          timeout=PATIENCE_S, check=False)
    return done.stdout + done.stderr


def library_is_found():
    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "weir")
        shutil.copytree(os.path.dirname(weir.__file__), package, ignore=shutil.ignore_patterns("__pycache__"))
        assert "ImportError: libweir.so not found: set WEIR_LIBRARY" in imported(folder, "")
        assert "ImportError: cannot load /nowhere/libweir.so" in imported(folder, "/nowhere/libweir.so")
        assert "has no weir_strerror: it is not libweir" in imported(folder, "libc.so.6")
        os.symlink(os.path.realpath(os.environ["WEIR_LIBRARY"]), os.path.join(package, "libweir.so"))
        assert imported(folder, "", "import weir; print(weir.Limiter('1/s'))") == "<weir.Limiter 1/s>\n"


# --- the limiter ------------------------------------------------------------------------------------------------------


def limiter_decides():
    limiter = weir.Limiter("10/s burst 3")
    assert limiter.allow(now=THEN) is True and limiter.allow(2, THEN) is True and limiter.allow(1, THEN) is False
    assert limiter.take(1, THEN) == (False, False, 3, 0, 0, 100 * MS, 300 * MS, 0)
    assert limiter.take(1, THEN + 100 * MS - 1).retry_after == 1
    assert limiter.take(1, THEN + 100 * MS) == (True, False, 3, 0, 1, 0, 300 * MS, 0)
    assert limiter.take(4, THEN).never and limiter.take(4, THEN).retry_after == weir.NEVER
    assert limiter.upto(5, THEN + 300 * MS).granted == 2
    assert limiter.peek(1, THEN + 300 * MS).allowed is False
    assert limiter.peek(1, THEN + 400 * MS).allowed and limiter.tokens(THEN + 400 * MS) == 1
    assert limiter.tokens_exact(THEN + 400 * MS) == 1 and limiter.tokens_exact(THEN + 450 * MS) == Fraction(3, 2)
    assert limiter.tokens_exact(THEN + 400 * MS + 1) == 1 + Fraction(1, 100 * MS)
    assert limiter.refund(9, THEN + 400 * MS).remaining == 3
    assert limiter.take(0, THEN).allowed


def limiter_reads_the_clock():
    limiter = weir.Limiter("3/day")
    assert abs(weir.now() - time.time_ns()) < HOUR
    assert limiter.allow() and limiter.take() and limiter.tokens() == 1 and limiter.peek().remaining == 1
    assert limiter.upto(5).granted == 1 and not limiter.allow()
    assert limiter.refund().remaining == 1


def limiter_changes():
    limiter = weir.Limiter("10/s burst 3")
    limiter.change("20/s burst 2", THEN)
    assert limiter.text == "20/s burst 2" and repr(limiter) == "<weir.Limiter 20/s burst 2>"
    assert limiter.take(2, THEN) and limiter.take(1, THEN).retry_after == 50 * MS
    refused(weir.ERR_CHANGE, limiter.change, "20/s fixed_window")
    refused(weir.ERR_SYNTAX, limiter.change, "20/s burts 2")
    log = weir.Limiter("3/hour sliding_log")
    log.change("2/hour sliding_log")
    log.change("3/hour sliding_log")
    refused(weir.ERR_ROOM, log.change, "1000/hour sliding_log")
    assert limiter.text == "20/s burst 2" and log.text == "3/hour sliding_log"


def every_algorithm_is_there():
    for text in ("5/s", "5/s leaky", "10/s refill interval burst 5", "5/s fixed_window", "5/s fixed_window align first",
                 "5/s sliding_counter", "5/s sliding_counter segments 5", "5/s sliding_log",
                 "5/s fixed_window count all"):
        limiter = weir.Limiter(text)
        assert [limiter.allow(now=THEN) for _ in range(6)] == [True] * 5 + [False], text
    shaped = weir.Limiter("5/s leaky queue 3")
    assert [shaped.take(now=THEN).delay_seconds for _ in range(3)] == [0, 0.2, 0.4]
    large = weir.Limiter("100000/hour sliding_log")
    assert large.upto(200000, THEN).granted == 100000


def verdicts_are_convenient():
    limiter = weir.Limiter("4/s burst 2")
    go = limiter.take(2, THEN)
    no, never = limiter.take(1, THEN), limiter.take(3, THEN)
    assert go and not no and not never
    assert (go.retry_seconds, no.retry_seconds, never.retry_seconds) == (0, 0.25, math.inf)
    assert no.reset_seconds == 0.5 and no.delay_seconds == 0
    allowed, *_, delay = go
    assert allowed is True and delay == 0 and go._asdict()["granted"] == 2
    assert pickle.loads(pickle.dumps(no)) == no


def wrong_limits_are_explained():
    assert 'at 3: "fortnight": unknown period; use ns' in refused(weir.ERR_SYNTAX, weir.Limiter, "10/fortnight")
    refused(weir.ERR_SYNTAX, weir.Limiter, "")
    refused(weir.ERR_SYNTAX, weir.Limiter, "10/s\0burst 3")
    refused(weir.ERR_SYNTAX, weir.Limiter, "10/s \udc80")
    refused(weir.ERR_LIMIT, weir.Limiter, "0/s")
    refused(weir.ERR_MAXIMUM, weir.Limiter, "4294967296/s sliding_log")
    raises(AttributeError, weir.Limiter, 10)


def wrong_numbers_are_not_cut():
    limiter = weir.Limiter("1/day")
    for wrong in (-1, 2**64, 2**64 + 1):
        raises(OverflowError, limiter.allow, wrong)
        raises(OverflowError, limiter.take, 1, wrong)
        raises(OverflowError, limiter.wait, wrong)
    raises(TypeError, limiter.allow, 1.5)
    raises(TypeError, limiter.allow, "1")
    assert limiter.take(2**64 - 1).never and limiter.tokens() == 1


def errors_are_plain():
    error = weir.Error(weir.ERR_ROOM, "too small")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.text, again.errno) == ("too small", weir.ERR_ROOM, "too small", 0)


def nothing_is_pickled_or_copied():
    """A copy would be a second object for the same C state."""
    with weir.Table(keys=100) as table, weir.Store(table) as store, weir.Guard(store, text=SHOP) as guard:
        limiter = weir.Limiter("1/s")
        for thing in (limiter, table, table.add_limit("a", "1/s"), store, store.add_limit("a", "1/s"), guard,
                      weir.Canceller(), weir.Queue("1/s leaky queue 3"), limiter.reserve()):
            for copying in (copy.copy, copy.deepcopy, pickle.dumps):
                why = raises(TypeError, copying, thing)
                assert re.fullmatch(rf"a weir\.{type(thing).__name__} cannot be copied or pickled: .{{20,}}", why), why
        assert guard.check({"ip": "a"}) and limiter.tokens() == 0


FIELDS = {"remaining": "remaining", "retry": "retry_after", "reset": "reset_after"}


def text_of(words):
    """Weir's notation of a limit that is written as in the vectors."""
    fields = dict(word.split("=") for word in words)
    return f"{fields['rate']}ns burst {fields['burst']}"


def play(limiter, now, operation, argument):
    if operation == "set":  # only rates are set here; a text without a burst has burst = count
        rate, _, burst = limiter.text.partition(" burst ")
        limiter.change(f"{argument.removeprefix('rate=')}ns burst {burst or rate.partition('/')[0]}", now)
        return limiter.peek(0, now)
    return getattr(limiter, operation)(int(argument), now)


def vectors_are_answered():
    limiters, rows = {}, 0
    for line in (ROOT / "tests/vectors/token_bucket.vec").read_text(encoding="utf-8").splitlines():
        if line.startswith("vector "):
            limiters = {}
        elif line.startswith("limit ") and "initial=" not in line:
            limiters[line.split()[1]] = weir.Limiter(text_of(line.split()[2:]))
        elif line.startswith("at ") and limiters:
            _, now, operation, name, argument, _, outcome, *fields = line.split()
            verdict = play(limiters[name], int(now), operation, argument)
            assert outcome == ("allow" if verdict else "never" if verdict.never else "deny"), f"{line}\n{verdict}"
            for field, value in (word.split("=") for word in fields):
                assert getattr(verdict, FIELDS[field]) == int(value), f"{line}\n{verdict}"
            rows += 1
    assert rows >= 100, rows


# --- waiting ----------------------------------------------------------------------------------------------------------


def a_wait_goes():
    limiter = weir.Limiter("50/s burst 1")
    began = time.monotonic()
    assert limiter.wait() is weir.Waited.GO and limiter.wait() and limiter.wait(1, 30)
    assert time.monotonic() - began > 0.035
    shaped = weir.Limiter("50/s leaky queue 3")
    began = time.monotonic()
    assert shaped.wait() and shaped.wait(timeout=30) and time.monotonic() - began > 0.018
    assert limiter.wait(0, timeout=0)


def a_wait_is_not_begun_in_vain():
    limiter = weir.Limiter("1/hour")
    assert limiter.wait(2) is weir.Waited.NEVER and not weir.Waited.NEVER
    assert limiter.wait(timeout=0)
    for timeout in (0, -1, 1, 3000.5):
        assert limiter.wait(timeout=timeout) is weir.Waited.DEADLINE
    raises(ValueError, limiter.wait, timeout=math.nan)
    assert limiter.peek().retry_seconds < 3600.1, "those who gave up have charged something"


def a_wait_is_cancelled():
    limiter, canceller, answers = weir.Limiter("1/hour"), weir.Canceller(), []
    table = weir.Table(keys=100)
    limit = table.add_limit("per user", "1/5000day fixed_window")
    assert limiter.allow() and limit.allow("a")
    waits = [threading.Thread(target=lambda: answers.append(limiter.wait(canceller=canceller))),
             threading.Thread(target=lambda: answers.append(limit.wait("a", timeout=math.inf, canceller=canceller)))]
    for wait in waits:
        wait.start()
    threading.Timer(0.05, canceller.cancel).start()
    answers.append(limiter.wait(canceller=canceller))
    for wait in waits:
        wait.join(PATIENCE_S)
    assert answers == [weir.Waited.CANCELLED] * 3, answers
    assert canceller.cancelled and limiter.wait(canceller=canceller) is weir.Waited.CANCELLED
    assert limiter.peek().retry_seconds <= 3600 and not canceller._waits


class Interrupted(Exception):
    pass


def a_signal_ends_a_wait_of_the_main_thread():
    def handler(*_):
        raise Interrupted

    limiter, table = weir.Limiter("1/hour"), weir.Table(keys=100)
    limit = table.add_limit("per user", "1/5000day fixed_window")
    assert limiter.wait() and limit.wait("a")
    previous = signal.signal(signal.SIGALRM, handler)
    try:
        for wait in (limiter.wait, lambda: limit.wait("a")):
            signal.setitimer(signal.ITIMER_REAL, 0.3)  # long enough that the wait has begun, even on a busy machine
            began = time.monotonic()
            raises(Interrupted, wait)
            assert time.monotonic() - began < PATIENCE_S
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert limiter.peek().retry_seconds <= 3600, "what it had reserved is not given back"


# --- the table --------------------------------------------------------------------------------------------------------


def a_table(keys=1000, **options):
    return weir.Table(keys=keys, made_at=THEN, **options)


def table_decides():
    table = a_table()
    limit = table.add_limit("per user", "10/s burst 3")
    assert (limit.name, limit.text, limit.table) == ("per user", "10/s burst 3", table)
    assert repr(limit) == "<weir.Limit 'per user': 10/s burst 3>" and repr(table) == "<weir.Table private>"
    assert limit.allow("alice", now=THEN) is True and limit.take("alice", 2, THEN).remaining == 0
    assert limit.take("alice", 1, THEN) == (False, False, 3, 0, 0, 100 * MS, 300 * MS, 0)
    assert limit.allow("alice", 1, THEN) is False and limit.allow("bob", 3, THEN) is True
    assert limit.upto("carol", 9, THEN).granted == 3 and limit.peek("dave", 3, THEN).allowed
    assert limit.refund("carol", 2, THEN).remaining == 2
    state = limit.inspect("carol", THEN)
    assert state.is_stored and state.full_at == THEN + 100 * MS and state.verdict.remaining == 2
    assert state.tokens == 2 and limit.inspect("carol", THEN + 50 * MS).tokens == Fraction(5, 2)
    assert limit.reset("carol") is True and limit.reset("carol") is False
    assert limit.inspect("carol", THEN).is_stored is False and limit.inspect("carol", THEN).full_at == 0


def table_reads_the_clock():
    table = weir.Table(keys=1000)
    limit = table.add_limit("per user", "3/day")
    assert abs(table.now() - weir.now()) < HOUR
    assert limit.allow("a") and limit.take("a") and limit.upto("a", 5).granted == 1 and not limit.peek("a")
    assert limit.refund("a").remaining == 1 and limit.inspect("a").is_stored and table.stats().live == 1
    assert table.allow_batch([(limit, "a", 1)]) == [True] and not table.take_batch([(limit, "a", 1)])[0]
    assert not table.decide([(limit, "a", 1)])


def table_changes():
    table = a_table()
    limit = table.add_limit("per user", "10/s burst 3")
    assert limit.take("alice", 2, THEN).remaining == 1
    limit.change("20/s burst 9", THEN)
    assert limit.text == "20/s burst 9" and limit.peek("alice", 1, THEN).remaining == 7
    assert limit.peek("alice", 1, THEN + 50 * MS).remaining == 8 and limit.peek("bob", 1, THEN).remaining == 9
    refused(weir.ERR_CHANGE, limit.change, "20/s fixed_window", THEN)
    assert table.add_limit("per user", "20/s burst 9").text == limit.text


def keys_are_text_or_bytes():
    limit = a_table().add_limit("per user", "1/day")
    for key in ("grün", b"a\0b", b"a", "", b"\xff" * 5000, "\ud800"):
        assert limit.allow(key, now=THEN) and not limit.allow(key, now=THEN), key
    assert not limit.allow("grün".encode(), now=THEN), "a str is not its UTF-8"
    for wrong in (7, None, bytearray(b"a"), ["a"]):
        raises(TypeError, limit.allow, wrong)


def several_limits_decide_together():
    table = a_table()
    user, tenant = table.add_limit("per user", "2/s"), table.add_limit("per tenant", "3/min")
    go = table.decide([(user, "alice", 1), weir.Claim(tenant, "acme")], THEN)
    assert go and go.verdict.remaining == 1 and go.decided_by == 0
    assert [verdict.remaining for verdict in go.verdicts] == [1, 2]
    no = table.decide([(user, "alice", 1), (tenant, b"acme", 3)], THEN)
    assert not no and no.decided_by == 1 and no.verdict.retry_after == 20 * S and not no.verdicts[1]
    assert user.peek("alice", 1, THEN).remaining == 1, "charged in spite of the denial"
    assert table.decide([(user, "bob", 3)], THEN).verdict.never
    for wrong in ([], [(user, "a", 1)] * 17):
        assert "use 1 to 16" in refused(weir.ERR_LIMIT, table.decide, wrong)
    stranger = a_table().add_limit("per user", "2/s")
    assert "another table" in raises(ValueError, table.decide, [(stranger, "a", 1)])
    raises(ValueError, table.allow_batch, [(stranger, "a", 1)])


def batches_answer_in_order():
    table = a_table()
    limit = table.add_limit("each", "2/min")
    claims = [(limit, key, 1) for key in ("a", "b", "a", b"a", "c")]
    assert table.allow_batch(claims, THEN) == [True, True, True, False, True]
    assert [verdict.remaining for verdict in table.take_batch(claims, THEN)] == [0, 0, 0, 0, 0]
    assert table.allow_batch([]) == [] and table.take_batch([]) == []
    many = table.allow_batch(((limit, f"user {i}", 1) for i in range(500)), THEN)
    assert many == [True] * 500


def statistics_count():
    table = a_table(limits_max=2)
    limit, other = table.add_limit("a", "1/min"), table.add_limit("b", "1/min")
    for _ in range(3):
        limit.allow("alice", now=THEN)
    stats = table.stats(THEN)
    assert limit.stats() == (1, 2) and limit.stats().denied == 2 and other.stats() == (0, 0)
    assert (stats.live, stats.limits, stats.limits_max, stats.inserted, stats.evicted) == (1, 2, 2, 1, 0)
    assert stats.capacity >= 1000 and stats.size_bytes >= 16 * stats.capacity
    assert sum(stats.probes) + stats.absent == 3 and len(stats.probes) == 4 and stats.lost_races == 0
    refused(weir.ERR_FULL, table.add_limit, "c", "1/min")


def table_refuses():
    table = a_table()
    table.add_limit("per user", "10/s")
    assert table.add_limit("per user", "10/s burst 10").text == "10/s", "the same limit is found again"
    assert 'a limit "per user" of 10/s' in refused(weir.ERR_CHANGE, table.add_limit, "per user", "20/s")
    refused(weir.ERR_SYNTAX, table.add_limit, "x", "10 per s")
    refused(weir.ERR_NO_ARENA, table.add_limit, "x", "10/s sliding_log")
    assert "at 1: a name must not contain control characters" in refused(weir.ERR_LIMIT, table.add_limit, "a\nb", "10/s")
    refused(weir.ERR_MAXIMUM, table.add_limit, "x", "268435456/s fixed_window align first")
    refused(weir.ERR_LIMIT, table.add_limit, "", "10/s")
    raises(ValueError, table.add_limit, "a\0b", "10/s")
    refused(weir.ERR_ROOM, weir.Table)
    refused(weir.ERR_TOO_LARGE, weir.Table, 2**63)
    refused(weir.ERR_TOO_LARGE, weir.Table, 10, limits_max=2**32 - 1)
    refused(weir.ERR_LIMIT, weir.Table, 10, shared="a/b")
    refused(weir.ERR_LIMIT, weir.Table, 10, shared="")
    refused(weir.ERR_LIMIT, weir.Table, 10, shared="x", mode=0o7000)
    for wrong in ({"keys": -1}, {"keys": 2**64}, {"mode": 2**32}, {"limits_max": 2**32}, {"made_at": -1}):
        raises(OverflowError, weir.Table, **{"keys": 10, **wrong})


def closed_tables_say_so():
    with a_table() as table:
        limit = table.add_limit("a", "1/s")
        assert limit.allow("a", now=THEN)
    table.close()
    for use in (table.now, table.stats, limit.stats, lambda: limit.allow("a"), lambda: limit.reset("a"),
                lambda: limit.wait("a"), lambda: limit.inspect("a"), lambda: table.decide([(limit, "a", 1)]),
                lambda: table.add_limit("b", "1/s")):
        assert raises(ValueError, use) == "the table is closed"
    assert repr(table) == "<weir.Table private, closed>"


def close_waits_for_nobody():
    """Threads inside a call keep the table's memory until they return."""
    table, canceller, answers = weir.Table(keys=100), weir.Canceller(), []
    limit = table.add_limit("a", "1/5000day fixed_window")
    assert limit.allow("a")
    wait = threading.Thread(target=lambda: answers.append(limit.wait("a", canceller=canceller)))
    wait.start()
    until(lambda: canceller._waits)
    time.sleep(0.02)
    table.close()
    canceller.cancel()
    wait.join(PATIENCE_S)
    assert answers == [weir.Waited.CANCELLED]


def a_key_is_waited_for():
    limit = weir.Table(keys=100).add_limit("a", "50/s burst 1")
    assert limit.wait("alice") and limit.wait("alice", timeout=30) and limit.wait("bob", 1, 0)
    assert limit.wait("alice", 2) is weir.Waited.NEVER
    slow = weir.Table(keys=100).add_limit("a", "1/hour")
    assert slow.wait("alice", timeout=0) and slow.wait("alice", timeout=1) is weir.Waited.DEADLINE
    assert slow.stats() == (1, 1)


# --- processes and threads --------------------------------------------------------------------------------------------


def shared_tables_are_one():
    name = a_name()
    try:
        with weir.Table(keys=1000, shared=name, mode=0o640) as first, weir.Table(keys=1000, shared=name) as second:
            assert os.stat(f"/dev/shm/weir.{name}").st_mode & 0o777 == 0o640
            one, other = first.add_limit("per user", "2/day"), second.add_limit("per user", "2/day")
            assert one.allow("a") and other.allow("a") and not one.allow("a")
            assert one.stats() == other.stats() == (2, 1) and repr(first) == f"<weir.Table {name!r}>"
            assert abs(first.now() - second.now()) < HOUR
            refused(weir.ERR_CHANGE, second.add_limit, "per user", "3/day")
            assert "requested were" in refused(weir.ERR_REGION, weir.Table, 5000, shared=name)
        with weir.Table(shared=name) as again:
            assert not again.add_limit("per user", "2/day").allow("a"), "what is owed is gone"
    finally:
        weir.Table.unlink(name)
    try:
        weir.Table.unlink(name)
    except weir.Error as error:
        assert (error.code, error.errno) == (weir.ERR_SYSTEM, errno.ENOENT) and name in str(error)
    else:
        raise AssertionError("unlinked twice")
    assert "the table does not exist" in refused(weir.ERR_NO_TABLE, weir.Table, shared=name)
    refused(weir.ERR_LIMIT, weir.Table.unlink, "a/b")
    raises(ValueError, weir.Table.unlink, "a\0b")


def tables_in_files_carry_on():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "limits")
        with weir.Table(keys=1000, file=path) as table:
            limit = table.add_limit("per user", "10/day")
            assert limit.upto("a", 7).granted == 7
            table.sync()
            assert table.stats().damaged_pages == table.stats().damaged_slots == table.stats().damaged_at == 0
            assert repr(table) == f"<weir.Table {path!r}>"
        with weir.Table(file=os.fsencode(path)) as table:
            assert table.add_limit("per user", "10/day").upto("a", 7).granted == 3
        refused(weir.ERR_LIMIT, weir.Table, 10, file=path, shared="x")
        assert "a directory, not a table" in refused(weir.ERR_FILE_TYPE, weir.Table, 10, file=folder)
        os.symlink(path, path + "-link")
        assert "a symbolic link" in refused(weir.ERR_FILE_TYPE, weir.Table, 10, file=path + "-link")
        raises(ValueError, weir.Table, 10, file="a\0b")
        with open(path, "r+b") as file:
            file.write(b"no table")
        assert "not a table of Weir" in refused(weir.ERR_REGION, weir.Table, file=path)


def fork_doubles_what_is_private():
    limiter, table = weir.Limiter("10/day"), weir.Table(keys=100)
    limit = table.add_limit("per user", "10/day")
    assert in_child(lambda: limiter.upto(20).granted) == 10 and limiter.tokens() == 10
    assert in_child(lambda: limit.upto("a", 20).granted) == 10 and limit.peek("a").remaining == 10


def fork_shares_what_is_shared():
    name = a_name()
    table = weir.Table(keys=100, shared=name)
    try:
        limit = table.add_limit("per user", "10/day")
        assert in_child(lambda: limit.upto("a", 4).granted) == 4
        assert limit.peek("a").remaining == 6 and limit.stats().allowed == 1
        assert in_child(lambda: weir.Table(shared=name).add_limit("per user", "10/day").upto("a", 20).granted) == 6
        assert in_child(lambda: (table.close(), 0)[1]) == 0 and not limit.allow("a")
    finally:
        weir.Table.unlink(name)


def waits_work_after_fork():
    limiter = weir.Limiter("50/s burst 1")
    assert in_child(lambda: int(limiter.wait() and limiter.wait() is weir.Waited.GO)) == 1


def threads_share_exactly():
    limiter, table = weir.Limiter("500/day"), weir.Table(keys=100)
    limit, went = table.add_limit("per user", "500/day"), []

    def spend():
        went.append((sum(limiter.allow() for _ in range(200)), sum(limit.allow("a") for _ in range(200))))

    in_threads(4, spend)
    assert [sum(column) for column in zip(*went)] == [500, 500], went
    assert limit.stats() == (500, 300)


# --- stores and policies ----------------------------------------------------------------------------------------------

SHOP = """
limits:
  - name: all
    limit: 50/day
  - name: each
    key: [ip]
    limit: 20/day
  - name: canary
    key: [ip]
    limit: 5/day
    mode: shadow
"""


@contextlib.contextmanager
def on_redis(timeout="10s", **options):
    """A store on a new Redis, and that Redis."""
    with redis() as server, weir.Store(f"{server.url}?timeout={timeout}", **options) as store:
        store.wait(PATIENCE_S)
        yield store, server


def a_store_on_a_table_decides():
    with weir.Table(keys=100) as table, weir.Store(table) as store:
        decides_in(store)
        assert store.stats().health is weir.Health.UP and store.stats().keys_live > 0
        assert [(each.name, each.text, each.allowed) for each in store.limits()] == \
            [("per user", "10/day", 4), ("twice", "20/day", 2)]
        assert table.add_limit("per user", "10/day").peek("a").remaining == 10


def a_store_on_redis_decides():
    with on_redis() as (store, _):
        decides_in(store)
        stats = store.stats()
        assert stats.decided == sum(stats.latency_counts) == 12 and stats.by_fallback == 0, stats
        assert len(stats.latency_seconds) == len(stats.latency_counts) and stats.latency_seconds[0] == 64e-6
        assert [each.name for each in store.limits()] == ["per user", "twice"]


def decides_in(store):
    limit, twice = store.add_limit("per user", "10/day"), store.add_limit("twice", "20/day")
    answer = limit.take("a", 4)
    assert answer and answer.verdict.remaining == 6 and answer.fallback_nodes == 0 and answer.decided_at > THEN / 2
    assert limit.upto("a", 99).verdict.granted == 6 and not limit.take("a")
    assert limit.refund("a", 3).verdict.remaining == 3 and limit.peek("a", 3)
    assert limit.reset("a") and not limit.reset("a")
    joint = store.decide([(limit, "b", 11), (twice, "b", 1)])
    assert not joint and joint.decided_by == 0 and joint.verdicts[1].allowed and joint.verdict.never
    assert store.decide([weir.Claim(limit, "b"), weir.Claim(twice, "b")])
    assert [bool(each) for each in store.take_batch([(limit, "c", 9), (limit, "c", 9), (twice, "c", 1)])] == [True, False, True]
    assert "use 1 to 16" in refused(weir.ERR_LIMIT, store.decide, [])
    assert "use 1 to 64" in refused(weir.ERR_LIMIT, store.take_batch, [])
    assert store.stats().keys_evicted == 0
    limit.change("11/day")
    assert limit.text == "11/day" and "per user" in repr(limit)
    limit.change("10/day")


def a_store_falls_back():
    with on_redis("1s", on_failure="share") as (store, server):
        share, opened, closed, local = (store.add_limit(name, "10/day") for name in ("share", "open", "closed", "local"))
        opened.set_failure("open")
        closed.set_failure("closed", timeout=0.5)
        local.set_failure("local", local=store.add_limit("two", "2/day"))
        server.end()
        assert [sum(bool(limit.take("k")) for _ in range(12)) for limit in (share, opened, closed, local)] == [10, 12, 0, 2]
        assert closed.take("k").is_closed and closed.take("k").fallback_nodes == 1
        stats = store.stats()
        assert stats.by_fallback == 50 and stats.health is not weir.Health.UP and stats.last_error, stats
        raises(ValueError, share.set_failure, "perhaps")
        assert "go together" in refused(weir.ERR_LIMIT, share.set_failure, "local")


def a_store_without_a_fallback_raises():
    with on_redis("1s") as (store, server):
        limit = store.add_limit("per user", "10/day")
        server.end()
        try:
            limit.take("a")
            raise AssertionError("it answered")
        except weir.Error as error:
            assert error.code in (weir.ERR_UNREACHABLE, weir.ERR_UNANSWERED), error
        refused(weir.ERR_UNREACHABLE, store.wait, 0.001)
    raises(ValueError, limit.take, "a")
    raises(ValueError, store.stats)
    assert "redis://" in refused(weir.ERR_SYNTAX, weir.Store, "http://localhost")
    raises(ValueError, weir.Store, "redis://localhost", on_failure="perhaps")


def a_policy_guards_a_store():
    with on_redis() as (store, _), weir.Guard(store, text=SHOP) as guard, weir.Table(keys=100) as table, \
            weir.Store(table) as on_table, weir.Guard(on_table, text=SHOP) as same:
        for ip in ["192.0.2.1"] * 25 + ["192.0.2.2"] * 35:
            answer, other = guard.check({"ip": ip}), same.check({"ip": ip})
            assert answer.verdict[:4] == other.verdict[:4] and answer[1:] == other[1:], (answer, other)
        assert not answer and answer.decided_by == "each" and answer.shadow_denied == 1 and answer.limits == 3
        guard.change_limit("each", "30/day")
        assert guard.check({"ip": "192.0.2.1"}).verdict.remaining == 9
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("limits:\n  - name: one\n    limit: 1/day\n")
            file.flush()
            guard.change(file=file.name)
        assert guard.check({"ip": "x"}).decided_by == "one" and not guard.check({})
        guard.change(text="limits:\n  - {name: one, key: [ip], limit: 1/day}\n")
        answer = guard.check({"ipp": "x"})
        assert answer and answer.is_unmatched and answer.decided_by is None and not guard.check({"ip": "y"}).is_unmatched, answer
        guard.change(text="unmatched: deny\nlimits:\n  - {name: one, key: [ip], limit: 1/day}\n")
        answer = guard.check({"ipp": "x"})
        assert not answer and answer.is_unmatched and answer.decided_by == "(unmatched)" and answer.verdict.never, answer
        refused(weir.ERR_SYNTAX, guard.change, text="limits: 7")
        raises(TypeError, guard.change)
    raises(ValueError, guard.check, {})
    with weir.Table(keys=10) as table, weir.Store(table) as store:
        faults = refused(weir.ERR_SYNTAX, weir.Guard, store, text="limits:\n  - name: a\n    limit: 1/fortnight\n")
    assert "unknown period" in faults, faults


# What changes, the limit before and after, and what a key has left: after three requests before the change and one
# after it, and then after a change back. In Redis, a key that starts over loses its usage. In a table, the usage is
# there again when the old limit is back.
SWAPS = [
    ("burst of a bucket", "limit: 10/day", "limit: 10/day burst 8", 4, 5, 5),
    ("rate of a bucket", "limit: 10/day", "limit: 20/day burst 10", 6, 5, 5),
    ("count of a window", "limit: 10/5000day fixed_window", "limit: 8/5000day fixed_window", 4, 5, 5),
    ("period of a window", "limit: 10/5000day fixed_window", "limit: 10/2500day fixed_window", 9, 6, 9),
    ("the algorithm", "limit: 10/5000day", "limit: 10/5000day fixed_window", 9, 6, 9),
    ("an override comes", "limit: 9/day", "limit: 9/day, overrides: [{when: {plan: gold}, limit: 10/day}]", 9, 5, 5),
    ("match", "limit: 10/day", "match: {plan: gold}, limit: 10/day", 6, 5, 5),
    ("cost", "limit: 10/day", "cost: 2, limit: 10/day", 5, 4, 4),
]


def left_by(guard, body, times, name="a"):
    guard.change(text=f"limits:\n  - {{name: {name}, key: user, {body}}}\n")
    return [guard.check({"user": "ann", "plan": "gold"}).verdict.remaining for _ in range(times)][-1]


def a_policy_swap_keeps_usage():
    """The rows are those of the table in docs/reference/policy.md."""
    with on_redis(limits_max=256) as (in_redis, server), weir.Table(keys=100, limits_max=256) as table, \
            weir.Store(table) as in_table:
        for row, (what, before, after, left, back_in_table, back_in_redis) in enumerate(SWAPS):
            for store, back in ((in_table, back_in_table), (in_redis, back_in_redis)):
                with weir.Guard(store, text="limits: []") as guard:
                    left_by(guard, before, 3, f"a{row}")
                    assert left_by(guard, after, 1, f"a{row}") == left, what
                    assert left_by(guard, before, 1, f"a{row}") == back, what
        with weir.Guard(in_redis, text="limits: []") as guard:
            left_by(guard, "limit: 10/day", 3)
            assert left_by(guard, "limit: 10/day", 1, "renamed") == 9 and left_by(guard, "limit: 10/day", 1) == 6
            left_by(guard, "limit: 10/5000day fixed_window", 3, "window")
        with weir.Store(f"{server.url}?timeout=10s") as again, weir.Guard(again, text="limits: []") as guard:
            again.wait(PATIENCE_S)  # a restarted program, with another policy
            assert left_by(guard, "limit: 20/day burst 9", 1) == 4
            assert left_by(guard, "limit: 8/5000day fixed_window", 1, "window") == 4


def threads_share_a_store():
    with on_redis() as (store, _):
        limit, went = store.add_limit("per user", "150/day"), []
        in_threads(4, lambda: went.append(sum(bool(limit.take("a")) for _ in range(50))))
        assert sum(went) == 150, went


TESTS = [layouts_are_those_of_c, fields_are_those_of_c, errors_are_those_of_c, functions_are_those_of_c,
         library_is_found,
         limiter_decides, limiter_reads_the_clock, limiter_changes, every_algorithm_is_there, verdicts_are_convenient,
         wrong_limits_are_explained, wrong_numbers_are_not_cut, errors_are_plain, nothing_is_pickled_or_copied,
         vectors_are_answered, a_wait_goes, a_wait_is_not_begun_in_vain, a_wait_is_cancelled,
         a_signal_ends_a_wait_of_the_main_thread, table_decides, table_changes, table_reads_the_clock, keys_are_text_or_bytes,
         several_limits_decide_together, batches_answer_in_order, statistics_count, table_refuses, closed_tables_say_so,
         close_waits_for_nobody, a_key_is_waited_for, shared_tables_are_one, tables_in_files_carry_on, fork_doubles_what_is_private,
         fork_shares_what_is_shared, waits_work_after_fork, threads_share_exactly, a_store_on_a_table_decides,
         a_store_on_redis_decides, a_store_falls_back, a_store_without_a_fallback_raises, a_policy_guards_a_store,
         threads_share_a_store, a_policy_swap_keeps_usage]


def main(tests):
    failed = 0
    print(f"1..{len(tests)}", flush=True)  # flush, or a forked child would print it again
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
        except Exception:
            failed += 1
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {number} - {test.__name__}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(TESTS))
