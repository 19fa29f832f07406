"""weir: rate limits, decided exactly. Each request is allowed, delayed or denied.

    mails = weir.Limiter("100/min burst 20")
    if mails.allow():
        send_mail()

    with weir.Table(keys=1_000_000, shared="shop") as table:
        per_user = table.add_limit("per user", "100/min burst 20")
        verdict = per_user.take("alice")
        if not verdict:
            deny(retry_after=verdict.retry_seconds)

    with weir.Store("redis://127.0.0.1:6379", on_failure="share") as store:  # or weir.Store(table)
        guard = weir.Guard(store, file="policy.yaml")
        answer = guard.check({"ip": ip, "path": path})
        if not answer:
            deny(retry_after=answer.verdict.retry_seconds)

In a coroutine, `await mails.acquire()` waits without blocking the event loop, first come, first served.

This module calls libweir through ctypes and has no other dependency. It loads the library from the path in the environment
variable WEIR_LIBRARY, else libweir.so next to this file, else the installed one.

Limits are text: "100/min burst 20", "5/s leaky queue 50", "10/s fixed_window", "1000/hour sliding_log", and more. Costs
and counts are 0 to 2**64-1. Times are nanoseconds since 1970 and durations are nanoseconds, as in C, unless the name
says seconds. Any decision takes a time `now`, for tests and replays; None is the clock.

A denial is a result, never an exception. Calls that fail raise weir.Error.

Threads. Any number of threads can use any object without a lock, and other threads run during every call. A table that is
closed during a call is freed when the call ends. A timeout or a Canceller ends a wait early. In the main thread an exception
from a signal handler does, too, such as KeyboardInterrupt.

Fork. A fork copies a limiter, and a table without `shared`: parent and child each allow the full limit. A shared table
stays one table, through the same objects. Fork before other threads use a limiter: if a thread holds its lock (sliding
logs, waits and changes take it), it stays locked in the child. Make a store on Redis after the fork: the thread that
talks to Redis exists only in the parent."""

from __future__ import annotations

import asyncio
import collections
import ctypes
import ctypes.util
import enum
import itertools
import math
import os
import threading
import weakref
from ctypes import c_bool, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from fractions import Fraction
from operator import index
from typing import (Any, Callable, Dict, Generic, Iterable, Iterator, List, Mapping, NamedTuple, NoReturn, Optional, Tuple,
                    TypeVar, Union)

__all__ = ["Limiter", "Table", "Limit", "Claim", "Key", "Verdict", "Decision", "KeyState", "TableStats", "LimitStats",
           "Canceller", "Waited", "Reservation", "Queue", "Store", "StoreLimit", "Answer", "StoreStats", "StoreLimitStats", "Guard", "GuardAnswer",
           "Health", "Error", "NEVER", "now", "ERR_SYNTAX", "ERR_LIMIT", "ERR_MAXIMUM", "ERR_CHANGE",
           "ERR_ROOM", "ERR_UNSUPPORTED", "ERR_NEVER", "ERR_DEADLINE", "ERR_CANCELLED", "ERR_CLOSED", "ERR_FULL",
           "ERR_SYSTEM", "ERR_REGION", "ERR_UNREACHABLE", "ERR_UNANSWERED", "ERR_ALIGNMENT", "ERR_TOO_LARGE", "ERR_NO_TABLE",
           "ERR_FILE_TYPE", "ERR_NO_ARENA", "ERR_NULL"]

Key = Union[str, bytes]  # str is UTF-8
_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_Item = TypeVar("_Item")

NEVER = 2**64 - 1  # retry_after when no wait will help; also the longest duration: Verdict.never tells them apart

# Values of Error.code: see types.h.
ERR_SYNTAX = -1
ERR_LIMIT = -2
ERR_MAXIMUM = -3
ERR_CHANGE = -4
ERR_ROOM = -5
ERR_UNSUPPORTED = -6
ERR_NEVER = -7
ERR_DEADLINE = -8
ERR_CANCELLED = -9
ERR_CLOSED = -10
ERR_FULL = -11
ERR_SYSTEM = -12
ERR_REGION = -13
ERR_UNREACHABLE = -14
ERR_UNANSWERED = -15
ERR_ALIGNMENT = -16
ERR_TOO_LARGE = -17
ERR_NO_TABLE = -18
ERR_FILE_TYPE = -19
ERR_NO_ARENA = -20
ERR_NULL = -21

_LIMITER_ALIGN = 64
_QUEUE_ALIGN = 64
_LIMIT_TEXT_MAX = 160
_CLAIMS_MAX = 16
_BATCH_MAX = 64
_LATENCIES = 16
_LATENCY_FIRST_US = 64


# --- the library ------------------------------------------------------------------------------------------------------
# Classes named _weir_... are the structs of include/weir. tests/bindings/python_test.py compares them, the constants above
# and the functions below with the headers.


class _weir_message(ctypes.Structure):
    _fields_ = [("at", c_size_t), ("text", c_char * 240)]


class _weir_limit(ctypes.Structure):
    _fields_ = [("algorithm", c_int), ("count", c_uint64), ("period", c_uint64), ("burst", c_uint64),
                ("segments", c_uint64), ("refill_interval", c_bool), ("shape", c_bool), ("align_first", c_bool),
                ("count_all", c_bool)]


class _weir_verdict(ctypes.Structure):
    _fields_ = [("allowed", c_bool), ("never", c_bool), ("limit", c_uint64), ("remaining", c_uint64),
                ("granted", c_uint64), ("retry_after", c_uint64), ("reset_after", c_uint64), ("delay", c_uint64)]


class _weir_tokens(ctypes.Structure):
    _fields_ = [("units", c_uint64), ("parts", c_uint64), ("of", c_uint64)]


class _weir_canceller(ctypes.Structure):
    _fields_ = [("private_", c_uint32)]


class _weir_reservation(ctypes.Structure):
    _fields_ = [("cost", c_uint64), ("act_at", c_uint64), ("private_", c_uint64 * 3)]


class _weir_queue_clock(ctypes.Structure):
    _fields_ = [("now", c_void_p), ("context", c_void_p)]


class _weir_table_options(ctypes.Structure):
    _fields_ = [("size_bytes", c_size_t), ("shared", c_char_p), ("file", c_char_p), ("mode", c_uint32),
                ("limits_max", c_uint32), ("arena_bytes", c_size_t), ("made_at", c_uint64), ("overcommit", c_bool)]


class _weir_table_key(ctypes.Structure):
    _fields_ = [("is_stored", c_bool), ("full_at", c_uint64), ("verdict", _weir_verdict),
                ("tokens", _weir_tokens)]


class _weir_claim(ctypes.Structure):
    _fields_ = [("limit", c_void_p), ("key", c_char_p), ("key_length", c_size_t), ("cost", c_uint64)]


class _weir_decision(ctypes.Structure):
    _fields_ = [("verdict", _weir_verdict), ("decided_by", c_size_t)]


class _weir_table_stats(ctypes.Structure):
    _fields_ = [("capacity", c_uint64), ("live", c_uint64), ("size_bytes", c_size_t), ("limits", c_uint32),
                ("limits_max", c_uint32), ("inserted", c_uint64), ("evicted", c_uint64), ("probes", c_uint64 * 4),
                ("absent", c_uint64), ("arena_bytes", c_size_t), ("arena_used", c_size_t), ("regained", c_uint64), ("folded", c_uint64),
                ("lost_races", c_uint64), ("damaged_pages", c_uint64), ("damaged_slots", c_uint64),
                ("damaged_limits", c_uint64), ("damaged_fields", c_uint64),
                ("damaged_at", c_uint64), ("plans_lost", c_uint64)]


class _weir_table_limit_stats(ctypes.Structure):
    _fields_ = [("allowed", c_uint64), ("denied", c_uint64)]


class _weir_store_options(ctypes.Structure):
    _fields_ = [("on_failure", c_int), ("table", c_void_p), ("keys", c_uint64), ("limits_max", c_uint32),
                ("arena_bytes", c_size_t), ("deferred_bytes", c_size_t)]


class _weir_store_answer(ctypes.Structure):
    _fields_ = [("verdict", _weir_verdict), ("decided_by", c_size_t), ("decided_at", c_uint64),
                ("fallback_nodes", c_uint32), ("is_closed", c_bool)]


class _weir_store_stats(ctypes.Structure):
    _fields_ = [("size_bytes", c_size_t), ("health", c_int), ("nodes", c_uint32), ("calls", c_uint64),
                ("requests", c_uint64), ("decided", c_uint64), ("unreached", c_uint64), ("unanswered", c_uint64),
                ("by_fallback", c_uint64), ("script_loads", c_uint64), ("failovers", c_uint64), ("damaged", c_uint64),
                ("deferred_keys", c_uint64), ("deferred_charged", c_uint64), ("deferred_excess", c_uint64),
                ("deferred_uncertain", c_uint64), ("deferred_dropped", c_uint64),
                ("latency_counts", c_uint64 * _LATENCIES), ("latency_sum_us", c_uint64), ("keys_capacity", c_uint64),
                ("keys_live", c_uint64), ("keys_inserted", c_uint64), ("keys_evicted", c_uint64),
                ("last_error", c_char * 256)]


class _weir_store_limit_stats(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("limit", _weir_limit), ("allowed", c_uint64), ("denied", c_uint64)]


class _weir_attribute(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("name_length", c_size_t), ("value", c_char_p), ("value_length", c_size_t)]


class _weir_guard_answer(ctypes.Structure):
    _fields_ = [("verdict", _weir_verdict), ("limits", c_size_t), ("shadow_denied", c_size_t), ("is_limited", c_bool),
                ("decided_by", c_char * 64), ("limit", c_void_p), ("fallback_nodes", c_uint32), ("is_closed", c_bool),
                ("is_unmatched", c_bool)]


_limit_report = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(_weir_store_limit_stats))
_policy_report = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)
_clock = ctypes.CFUNCTYPE(c_uint64, c_void_p)

_on_store = [c_void_p, c_void_p, c_char_p, c_size_t, c_uint64, c_void_p]  # store, limit, key, its length, cost, answer
_on_limiter = [c_void_p, c_uint64, c_uint64]  # limiter, now, cost
_on_key = [c_void_p, c_void_p, c_char_p, c_size_t, c_uint64, c_uint64]  # table, limit, key, its length, now, cost

_Functions = Dict[str, Tuple[Any, List[Any]]]

# name: (result type, argument types). Pointers are c_void_p, pointers to bytes or text c_char_p.
_FUNCTIONS: _Functions = {
    "weir_strerror": (c_char_p, [c_int]),
    "weir_clock_now": (c_uint64, []),
    "weir_limit_parse": (c_int, [c_char_p, c_size_t, c_void_p, c_void_p]),
    "weir_limit_print": (c_size_t, [c_void_p, c_char_p]),
    "weir_canceller_cancel": (None, [c_void_p]),
    "weir_limiter_size": (c_size_t, [c_void_p]),
    "weir_limiter_init": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "weir_limiter_allow": (c_bool, _on_limiter),
    "weir_limiter_take": (_weir_verdict, _on_limiter),
    "weir_limiter_upto": (_weir_verdict, _on_limiter),
    "weir_limiter_peek": (_weir_verdict, _on_limiter),
    "weir_limiter_refund": (_weir_verdict, _on_limiter),
    "weir_limiter_tokens": (c_uint64, [c_void_p, c_uint64]),
    "weir_limiter_tokens_exact": (_weir_tokens, [c_void_p, c_uint64]),
    "weir_limiter_change": (c_int, [c_void_p, c_uint64, c_void_p, c_void_p]),
    "weir_limiter_limit": (_weir_limit, [c_void_p]),
    "weir_limiter_reserve": (c_int, [c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, c_void_p]),
    "weir_limiter_cancel": (c_uint64, [c_void_p, c_uint64, c_void_p]),
    "weir_limiter_wait": (c_int, [c_void_p, c_uint64, c_uint64, c_void_p]),
    "weir_table_arena_size": (c_size_t, [c_void_p, c_uint64, c_uint64]),
    "weir_table_size": (c_size_t, [c_uint64, c_uint32]),
    "weir_table_new": (c_int, [c_void_p, c_void_p, c_void_p]),
    "weir_table_free": (None, [c_void_p]),
    "weir_table_unlink": (c_int, [c_char_p, c_void_p]),
    "weir_table_sync": (c_int, [c_void_p]),
    "weir_table_now": (c_uint64, [c_void_p]),
    "weir_table_add_limit": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p]),
    "weir_table_change_limit": (c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_void_p]),
    "weir_table_allow": (c_bool, _on_key),
    "weir_table_take": (_weir_verdict, _on_key),
    "weir_table_upto": (_weir_verdict, _on_key),
    "weir_table_peek": (_weir_verdict, _on_key),
    "weir_table_refund": (_weir_verdict, _on_key),
    "weir_table_reset": (c_bool, [c_void_p, c_void_p, c_char_p, c_size_t]),
    "weir_table_inspect": (_weir_table_key, [c_void_p, c_void_p, c_char_p, c_size_t, c_uint64]),
    "weir_table_wait": (c_int, [c_void_p, c_void_p, c_char_p, c_size_t, c_uint64, c_uint64, c_void_p]),
    "weir_table_reserve": (c_int, [c_void_p, c_void_p, c_char_p, c_size_t, c_uint64, c_uint64, c_uint64, c_void_p,
                                   c_void_p]),
    "weir_table_cancel": (c_uint64, [c_void_p, c_void_p, c_char_p, c_size_t, c_uint64, c_void_p]),
    "weir_table_decide": (c_int, [c_void_p, c_void_p, c_size_t, c_uint64, c_void_p, c_void_p]),
    "weir_table_allow_batch": (None, [c_void_p, c_void_p, c_size_t, c_uint64, c_void_p]),
    "weir_table_take_batch": (None, [c_void_p, c_void_p, c_size_t, c_uint64, c_void_p]),
    "weir_table_stats": (None, [c_void_p, c_uint64, c_void_p]),
    "weir_table_limit_stats": (None, [c_void_p, c_void_p, c_void_p]),
    "weir_table_limit_limit": (_weir_limit, [c_void_p]),
    "weir_table_limit_name": (c_char_p, [c_void_p]),
    "weir_queue_size": (c_size_t, [c_void_p]),
    "weir_queue_init": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, c_void_p]),
    "weir_queue_fini": (None, [c_void_p]),
    "weir_queue_try_push": (c_int, [c_void_p, c_void_p, c_void_p]),
    "weir_queue_push": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p, c_void_p]),
    "weir_queue_try_pop": (c_int, [c_void_p, c_void_p, c_void_p]),
    "weir_queue_pop": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "weir_queue_close": (None, [c_void_p]),
    "weir_queue_drain": (c_size_t, [c_void_p, c_void_p, c_size_t]),
    "weir_queue_length": (c_size_t, [c_void_p]),
    "weir_queue_fd": (c_int, [c_void_p, c_void_p]),
    "weir_queue_tick": (None, [c_void_p]),
    "weir_store_table": (c_int, [c_void_p, c_void_p, c_void_p]),
    "weir_store_free": (None, [c_void_p]),
    "weir_store_wait": (c_int, [c_void_p, c_uint64, c_void_p]),
    "weir_store_add_limit": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p]),
    "weir_store_change_limit": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "weir_store_set_failure": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_uint64, c_void_p]),
    "weir_store_take": (c_int, _on_store),
    "weir_store_upto": (c_int, _on_store),
    "weir_store_peek": (c_int, _on_store),
    "weir_store_refund": (c_int, _on_store),
    "weir_store_reset": (c_int, [c_void_p, c_void_p, c_char_p, c_size_t, c_void_p]),
    "weir_store_decide": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "weir_store_take_batch": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "weir_store_stats": (c_int, [c_void_p, c_void_p]),
    "weir_store_each_limit": (None, [c_void_p, c_void_p, c_void_p]),
}

# Functions of libweir-redis and libweir-policy. These libraries are loaded on first use.
_REDIS_FUNCTIONS: _Functions = {
    "weir_store_redis": (c_int, [c_char_p, c_void_p, c_void_p, c_void_p]),
}
_POLICY_FUNCTIONS: _Functions = {
    "weir_policy_read": (c_int, [c_char_p, c_size_t, c_char_p, c_void_p, c_void_p, c_void_p]),
    "weir_policy_load": (c_int, [c_char_p, c_void_p, c_void_p, c_void_p]),
    "weir_guard_new_on": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "weir_guard_free": (None, [c_void_p]),
    "weir_guard_change": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "weir_guard_change_limit": (c_int, [c_void_p, c_char_p, c_void_p, c_uint64, c_void_p]),
    "weir_guard_check": (c_int, [c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_void_p, c_void_p]),
}


def _find() -> str:
    named = os.environ.get("WEIR_LIBRARY")
    if named:
        return named
    here = os.path.dirname(os.path.abspath(__file__))
    for name in ("libweir.so", "libweir.so.0"):
        if os.path.exists(os.path.join(here, name)):
            return os.path.join(here, name)
    installed = ctypes.util.find_library("weir")
    if installed:
        return installed
    raise ImportError("libweir.so not found: set WEIR_LIBRARY to its path, put it next to weir/__init__.py, or install it and "
                      "run ldconfig")


def _load(path: str, functions: _Functions) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path, use_errno=True)
    except OSError as fault:
        raise ImportError(f"cannot load {path}: {fault}") from None
    for name, (returns, takes) in functions.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{path} has no {name}: it is not libweir, or a different version") from None
        function.restype, function.argtypes = returns, takes
    return library


_PATH = _find()
_library: Any = _load(_PATH, _FUNCTIONS)
_companions: Dict[str, Any] = {}


def _companion(name: str, functions: _Functions) -> Any:
    """libweir-NAME, next to libweir or installed."""
    if name not in _companions:
        near = os.path.join(os.path.dirname(_PATH), f"libweir-{name}.so")
        path = next((each for each in (near, f"{near}.0") if os.path.exists(each)), None)
        path = path or ctypes.util.find_library(f"weir-{name}")
        if path is None:
            raise ImportError(f"libweir-{name}.so not found: put it next to libweir.so, or install it and run ldconfig")
        _companions[name] = _load(path, functions)
    return _companions[name]


_ref = ctypes.byref


# --- results ----------------------------------------------------------------------------------------------------------


class Error(Exception):
    """A call failed. str() says what was wrong, where, and how to fix it."""

    def __init__(self, code: int, text: str, errno: int = 0) -> None:
        super().__init__(code, text, errno)
        self.code = code  # ERR_...
        self.text = text
        self.errno = errno  # of the system call that failed, with ERR_SYSTEM; else 0

    def __str__(self) -> str:
        return self.text


class Verdict(NamedTuple):
    """The decision on one request. True if it is allowed. Durations count from the `now` of the call, rounded up."""

    allowed: bool  # allowed and charged (peek: would be)
    never: bool  # denied, and no wait will help: the cost exceeds the capacity of the limit
    limit: int  # capacity: burst of a bucket, count of a window
    remaining: int  # units left after the decision (peek: left now)
    granted: int  # units charged: the cost, or less with upto; 0 if denied
    retry_after: int  # ns. If denied: until the same request would be allowed, absent other requests; else 0
    reset_after: int  # ns until the limit is full, absent other requests
    delay: int  # ns until departure, of a leaky bucket with a queue; else 0

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def retry_seconds(self) -> float:
        """retry_after in seconds; infinite if no wait will help."""
        return math.inf if self.never else self.retry_after / 1e9

    @property
    def reset_seconds(self) -> float:
        return self.reset_after / 1e9

    @property
    def delay_seconds(self) -> float:
        return self.delay / 1e9


class Waited(enum.Enum):
    """How a wait ended. Only GO is true. Only with GO the request was charged."""

    GO = 0
    NEVER = ERR_NEVER  # no wait will help: the cost exceeds the limit's capacity
    DEADLINE = ERR_DEADLINE  # not possible within the timeout; returned without waiting for it
    CANCELLED = ERR_CANCELLED
    CLOSED = ERR_CLOSED  # Queue.push: the queue is closed

    def __bool__(self) -> bool:
        return self is Waited.GO


def _fraction(tokens: _weir_tokens) -> Fraction:
    return Fraction(tokens.units) + Fraction(tokens.parts, tokens.of)


class KeyState(NamedTuple):
    """State of a key in a table."""

    is_stored: bool  # False: never charged, full again, or evicted
    full_at: int  # the time by which it is full or reset; 0 if not stored
    verdict: Verdict  # as peek returns it for a cost of 0
    tokens: Fraction  # units left, with the fraction that a smooth bucket has refilled


class Decision(NamedTuple):
    """The decision on several claims together. True if all allow the request, and then all were charged."""

    verdict: Verdict  # of the claim that decided, with the longest delay of all
    decided_by: int  # index of the claim: if denied, the one with the longest retry_after; if allowed, the one with the least remaining
    verdicts: List[Verdict]  # one for each claim

    def __bool__(self) -> bool:
        return self.verdict.allowed


class TableStats(NamedTuple):
    """Statistics of a table. If evicted rises, the table is too small."""

    capacity: int  # slots
    live: int  # slots of keys that are in use now
    size_bytes: int
    limits: int
    limits_max: int
    inserted: int  # keys that got a slot
    evicted: int  # keys that lost their slot to another while in use
    probes: Tuple[int, ...]  # keys found in the first, second, third and fourth cache line of a search
    absent: int  # keys that were not found
    arena_bytes: int  # for histories of keys
    arena_used: int  # bytes of the arena in use
    regained: int  # chunks of 64 bytes recovered after processes were killed
    folded: int  # times that a key kept its usage but lost its history, because the arena was full
    lost_races: int  # decisions on several limits that were undone because a concurrent one was faster
    damaged_pages: int  # pages of the file found damaged and cleared when it was opened; since the file was made
    damaged_slots: int
    damaged_limits: int  # removed until they are added again
    damaged_fields: int  # counters, words of the header, earlier forms of changed limits
    damaged_at: int  # when damage was last found; 0: never
    plans_lost: int  # earlier forms of changed limits that were dropped although keys may have used them


class LimitStats(NamedTuple):
    """Decisions of one limit, by all processes."""

    allowed: int
    denied: int


def _verdict(found: Any) -> Verdict:
    return Verdict(found.allowed, found.never, found.limit, found.remaining, found.granted, found.retry_after,
                   found.reset_after, found.delay)


# --- arguments --------------------------------------------------------------------------------------------------------


def _check(code: int, message: _weir_message) -> None:
    if code != 0:
        text = message.text or _library.weir_strerror(code)
        raise Error(code, text.decode("utf-8", "replace"), ctypes.get_errno() if code == ERR_SYSTEM else 0)


def _number(value: int, bits: int = 64) -> int:
    """Checks the range. ctypes would truncate: a cost of 2**64 would become 0."""
    value = index(value)
    if value < 0 or value >> bits:
        raise OverflowError(f"{value} is out of range: use 0 to 2**{bits}-1")
    return value


def _time(given: Optional[int]) -> int:
    return now() if given is None else _number(given)


def _key(key: Key) -> bytes:
    """Accepts any str, even with a lone surrogate: clients choose keys, and must not cause exceptions."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return key
    raise TypeError(f"a key is str or bytes, not {type(key).__name__}")


def _name(name: str) -> bytes:
    encoded = name.encode()
    if b"\0" in encoded:
        raise ValueError("a name must not contain NUL")  # C would truncate the name
    return encoded


def _path(path: _Path) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("a path must not contain NUL")
    return encoded


def _parse(text: str) -> _weir_limit:
    encoded = text.encode("utf-8", "replace")
    limit, message = _weir_limit(), _weir_message()
    _check(_library.weir_limit_parse(encoded, len(encoded), _ref(limit), _ref(message)), message)
    return limit


def _print(limit: _weir_limit) -> str:
    text = ctypes.create_string_buffer(_LIMIT_TEXT_MAX)
    _library.weir_limit_print(_ref(limit), text)
    return text.value.decode()


def now() -> int:
    """The clock: Unix time in ns that never steps back. Table.now is the clock of a shared table."""
    return int(_library.weir_clock_now())


class _Unique:
    """Base of objects whose state is in C or shared by threads. Copying the object would not copy the state."""

    _instead = ""

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a weir.{type(self).__name__} cannot be copied or pickled: {self._instead}")


# --- waiting ----------------------------------------------------------------------------------------------------------


class Canceller(_Unique):
    """Cancels any number of waits, current and future, on any limiters and tables. It stays cancelled."""

    _instead = "pass the same one to the waits that it is to end"

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may cancel while its thread is in here
        self._cancelled = False
        self._waits: Dict[int, _weir_canceller] = {}  # by id; one for each wait, because waits with the same one wake each other

    def cancel(self) -> None:
        """Ends every wait with this canceller. A wait whose turn has come meanwhile still succeeds."""
        with self._lock:
            self._cancelled = True
            for wait in tuple(self._waits.values()):
                _library.weir_canceller_cancel(_ref(wait))

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def _begin(self, wait: _weir_canceller) -> None:
        with self._lock:
            self._waits[id(wait)] = wait
            if self._cancelled:
                _library.weir_canceller_cancel(_ref(wait))

    def _end(self, wait: _weir_canceller) -> None:
        with self._lock:
            self._waits.pop(id(wait), None)


_Ask = Callable[[int, Any], int]  # a C function that waits, called with a deadline and a canceller


def _duration(timeout: Optional[float]) -> int:
    """Seconds in ns. None, and more than 584 years, become NEVER."""
    return NEVER if timeout is None or timeout >= NEVER / 1e9 else int(max(timeout, 0) * 1e9)


def _wait(ask: _Ask, can_go: Callable[[], bool], since: int, timeout: Optional[float],
          canceller: Optional[Canceller]) -> Waited:
    duration = _duration(timeout)
    deadline = min(since + duration, NEVER)
    own = _weir_canceller()
    try:
        if canceller:
            canceller._begin(own)
        if duration == 0 or threading.current_thread() is not threading.main_thread():
            return Waited(ask(deadline, _ref(own)))
        return Waited(_wait_in_main(ask, can_go, deadline, own))
    finally:
        if canceller:
            canceller._end(own)


def _wait_in_main(ask: _Ask, can_go: Callable[[], bool], deadline: int, own: _weir_canceller) -> int:
    """Waits in another thread, because Python runs signal handlers in the main thread, and not during a call to C."""
    if can_go():  # avoids a thread if the wait would end at once
        code = ask(0, _ref(own))
        if code != ERR_DEADLINE:
            return code
    codes: List[int] = []
    thread = threading.Thread(target=lambda: codes.append(ask(deadline, _ref(own))), name="weir.wait", daemon=True)
    try:
        thread.start()
        thread.join()
    except BaseException:
        _library.weir_canceller_cancel(_ref(own))
        if thread.is_alive():
            thread.join()
        raise
    return codes[0]


def _goes(verdict: Verdict) -> bool:
    return verdict.allowed and verdict.delay == 0


# --- waiting in coroutines --------------------------------------------------------------------------------------------


class _Pending:
    """A reservation whose task sleeps until its instant."""

    __slots__ = ("reservation", "previous", "next", "behind", "gone")

    def __init__(self, reservation: _weir_reservation) -> None:
        self.reservation = reservation
        self.previous: Optional[_Pending] = None
        self.next: Optional[_Pending] = None
        self.gone: Optional[asyncio.Future[None]] = None  # awaited by the next task, if it has the same instant and woke up first
        self.behind: List[_weir_reservation] = []  # cancelled reservations before it that it builds on; oldest first


class _Line:
    """The tasks of one event loop that wait for one key: first those with a reservation, then those without.

    Only the first task without a reservation tries to get one. So a task makes one or two calls, and tasks are served in order."""

    def __init__(self) -> None:
        self.is_taken = False  # a task is trying
        self.turns: collections.OrderedDict[asyncio.Future[bool], None] = collections.OrderedDict()
        self.last: Optional[_Pending] = None

    @property
    def is_idle(self) -> bool:
        return not self.is_taken and self.last is None

    async def enter(self, duration: int) -> bool:
        """Waits until the tasks before this one have a reservation or have left. False: timeout."""
        if not self.is_taken:
            self.is_taken = True
            return True
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        timer = None if duration == NEVER else loop.call_later(duration / 1e9, self._expire, turn)
        self.turns[turn] = None
        try:
            return await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.result():
                self.leave()  # the task got its turn and was cancelled at the same time
            raise
        finally:
            self.turns.pop(turn, None)
            if timer:
                timer.cancel()

    def leave(self) -> None:
        while self.turns:
            turn, _ = self.turns.popitem(last=False)
            if not turn.done():
                turn.set_result(True)
                return
        self.is_taken = False

    def add(self, pending: _Pending) -> None:
        pending.previous = self.last
        if self.last:
            self.last.next = pending
        self.last = pending

    def remove(self, pending: _Pending) -> None:
        if pending.next:
            pending.next.previous = pending.previous
        else:
            self.last = pending.previous
        if pending.previous:
            pending.previous.next = pending.next
        if pending.gone and not pending.gone.done():
            pending.gone.set_result(None)

    @staticmethod
    def _expire(turn: asyncio.Future[bool]) -> None:
        if not turn.done():
            turn.set_result(False)


# By event loop, then by the limit's address and the key. An idle line is removed.
_lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Dict[Tuple[int, bytes], _Line]] = weakref.WeakKeyDictionary()


class _Waiter:
    """One key of a limit, for tasks that wait for it. Subclasses call C with the current time."""

    where: Tuple[int, bytes]
    now: Callable[[], int]

    def reserve(self, now: int, cost: int, max_wait: int) -> Optional[Tuple[Verdict, _weir_reservation]]:
        """None: the algorithm does not support reservations."""
        raise NotImplementedError

    def cancel(self, now: int, reservation: _weir_reservation) -> int:
        raise NotImplementedError

    def ahead(self, verdict: Verdict, left: int) -> int:
        """How far ahead a denied reservation looked, in ns. Its instant is retry_after later than that."""
        raise NotImplementedError

    def take(self, now: int, cost: int, is_first: bool) -> Verdict:
        raise NotImplementedError

    async def acquire(self, cost: int, timeout: Optional[float]) -> Waited:
        if cost == 0:
            return Waited.GO
        duration = _duration(timeout)
        deadline = min(self.now() + duration, NEVER)
        lines = _lines.setdefault(asyncio.get_running_loop(), {})
        line = lines.setdefault(self.where, _Line())
        try:
            if not await line.enter(duration):
                return Waited.DEADLINE
            try:
                waited, pending = await self._try(line, cost, deadline)
            finally:
                line.leave()
            if pending:
                await self._sleep(line, pending)
            return waited
        finally:
            if line.is_idle and lines.get(self.where) is line:
                del lines[self.where]

    async def _try(self, line: _Line, cost: int, deadline: int) -> Tuple[Waited, Optional[_Pending]]:
        """Tries until the request is allowed, or has a reservation, which it adds to the line."""
        is_first = True
        while True:
            now = self.now()
            left = NEVER if deadline == NEVER else max(deadline - now, 0)
            ahead = 0
            found = self.reserve(now, cost, left)
            if found is None:
                verdict = self.take(now, cost, is_first)
            else:
                verdict, reservation = found
                ahead = self.ahead(verdict, left)
                if verdict.allowed and verdict.delay > 0:
                    pending = _Pending(reservation)
                    line.add(pending)
                    return Waited.GO, pending
            if verdict.allowed:
                return Waited.GO, None
            if verdict.never:
                return Waited.NEVER, None
            if ahead + verdict.retry_after > left:
                return Waited.DEADLINE, None
            is_first = False
            await self._sleep_until(now + verdict.retry_after)

    async def _sleep(self, line: _Line, pending: _Pending) -> None:
        try:
            await self._sleep_until(pending.reservation.act_at)
            while pending.previous and pending.previous.reservation.act_at <= pending.reservation.act_at:
                pending.previous.gone = asyncio.get_running_loop().create_future()
                await pending.previous.gone
        except BaseException:
            self._give_back(pending)
            raise
        finally:
            line.remove(pending)

    async def _sleep_until(self, at: int) -> None:
        while True:
            left = at - self.now()
            if left <= 0:
                return
            await asyncio.sleep(min(left / 1e9, 86400))

    def _give_back(self, pending: _Pending) -> None:
        """Refunds the part of the reservation that no later one builds on. The next task remembers the rest, and tries
        again if it is cancelled, too."""
        now, cost = self.now(), pending.reservation.cost
        given = self.cancel(now, _copied(pending.reservation, cost))
        if given < cost:
            if pending.next:
                pending.behind.append(_copied(pending.reservation, cost - given))
                pending.behind.extend(pending.next.behind)
                pending.next.behind = pending.behind
            return
        for earlier in reversed(pending.behind):
            if self.cancel(now, earlier) == 0:
                return


def _copied(reservation: _weir_reservation, cost: int) -> _weir_reservation:
    return _weir_reservation(cost, reservation.act_at, reservation.private_)


class Reservation(_Unique):
    """The result of reserve(). True if it was granted: act after verdict.delay_seconds, or cancel() it."""

    _instead = "a copy could be cancelled a second time"

    def __init__(self, verdict: Verdict, reservation: _weir_reservation,
                 cancel: Callable[[Optional[int], _weir_reservation], int]) -> None:
        self.verdict = verdict
        self.act_at: int = reservation.act_at  # the time from which you may act; 0 if it was denied
        self._reservation = reservation
        self._cancel = cancel

    def cancel(self, now: Optional[int] = None) -> int:
        """Refunds its cost, minus the part that later reservations build on. Refunds nothing once its time has passed.
        Returns the units refunded. Only one thread at a time may call it."""
        return self._cancel(now, self._reservation)

    def __bool__(self) -> bool:
        return self.verdict.allowed

    def __repr__(self) -> str:
        return f"<weir.Reservation of {self._reservation.cost}, acts at {self.act_at}>"


# --- limiters ---------------------------------------------------------------------------------------------------------


class _Pointer(c_void_p):
    """A pointer to an object of C. A copy could outlive the object, and is invalid in another process."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pointer of weir cannot be copied or pickled")


class Limiter(_Unique):
    """One limit with one state, for any number of threads: Limiter("100/min burst 20"). It starts full.

    Error: ERR_SYNTAX, the text is not a valid limit; ERR_LIMIT, ERR_MAXIMUM: invalid limit."""

    _instead = "make another, which is full; processes share limits in weir.Table(shared=NAME)"

    def __init__(self, text: str) -> None:
        limit, message, pointer = _parse(text), _weir_message(), _Pointer()
        size = _library.weir_limiter_size(_ref(limit))  # 0: invalid, and init says why
        self._pointer = pointer
        self._memory = ctypes.create_string_buffer(size + _LIMITER_ALIGN)
        at = ctypes.addressof(self._memory)
        at += -at % _LIMITER_ALIGN
        _check(_library.weir_limiter_init(at, size, _ref(limit), _ref(pointer), _ref(message)), message)
        self._waiter = _LimiterWaiter(pointer, self._memory, limit)

    def allow(self, cost: int = 1, now: Optional[int] = None) -> bool:
        """Returns whether a request of this cost is allowed now. Charges it if so."""
        return bool(_library.weir_limiter_allow(self._pointer, _time(now), _number(cost)))

    def take(self, cost: int = 1, now: Optional[int] = None) -> Verdict:
        """As allow, but returns the full verdict."""
        return _verdict(_library.weir_limiter_take(self._pointer, _time(now), _number(cost)))

    def upto(self, cost: int, now: Optional[int] = None) -> Verdict:
        """Takes the units that are left, at most cost. verdict.granted is how many."""
        return _verdict(_library.weir_limiter_upto(self._pointer, _time(now), _number(cost)))

    def peek(self, cost: int = 1, now: Optional[int] = None) -> Verdict:
        """Returns what take would return. Charges nothing."""
        return _verdict(_library.weir_limiter_peek(self._pointer, _time(now), _number(cost)))

    def refund(self, n: int = 1, now: Optional[int] = None) -> Verdict:
        """Refunds n units, never above full."""
        return _verdict(_library.weir_limiter_refund(self._pointer, _time(now), _number(n)))

    def tokens(self, now: Optional[int] = None) -> int:
        """Units left now, rounded down."""
        return int(_library.weir_limiter_tokens(self._pointer, _time(now)))

    def tokens_exact(self, now: Optional[int] = None) -> Fraction:
        """Units left now, with the fraction that a smooth bucket has refilled."""
        return _fraction(_library.weir_limiter_tokens_exact(self._pointer, _time(now)))

    def change(self, text: str, now: Optional[int] = None) -> None:
        """Changes the limit while it is in use: the rate and burst of buckets, the count of windows. A bucket keeps its
        usage, cut to the new burst. A window keeps its count.

        Error, and nothing changes: as for Limiter(); ERR_CHANGE if anything else would change; ERR_ROOM if a sliding log
        would need more memory than it was made with."""
        limit, message = _parse(text), _weir_message()
        _check(_library.weir_limiter_change(self._pointer, _time(now), _ref(limit), _ref(message)), message)

    def reserve(self, cost: int = 1, timeout: Optional[float] = None, now: Optional[int] = None) -> Reservation:
        """Takes cost now, even if not enough tokens are left. The reservation says when you may act. Denied if that is more
        than timeout seconds away. Takes are denied until the reserved tokens have refilled.

        Error: ERR_UNSUPPORTED, a window or a log."""
        found = self._waiter.reserve(_time(now), _number(cost), _duration(timeout))
        if found is None:
            raise Error(ERR_UNSUPPORTED, f"{self.text}: windows and logs do not support reservations; use wait() or acquire()")
        return Reservation(*found, lambda now, reservation: self._waiter.cancel(_time(now), reservation))

    async def acquire(self, cost: int = 1, timeout: Optional[float] = None) -> Waited:
        """wait() for coroutines, without a thread. First come, first served within an event loop.

        A task reserves its instant once and sleeps until then. Tasks that wait for a window form a queue, and only the
        first one tries. A task that is cancelled, also by asyncio.wait_for, is not charged: its reservation is refunded.
        A change of the limit applies to tasks that reserve after it."""
        return await self._waiter.acquire(_number(cost), timeout)

    def wait(self, cost: int = 1, timeout: Optional[float] = None, canceller: Optional[Canceller] = None) -> Waited:
        """Waits until a request of this cost is allowed, and charges it. True: allowed. Returns at once if that is not
        possible within the timeout, in seconds, or if no wait will help. Buckets serve waits in the order of arrival."""
        pointer, cost = self._pointer, _number(cost)
        return _wait(lambda deadline, own: int(_library.weir_limiter_wait(pointer, cost, deadline, own)),
                     lambda: _goes(self.peek(cost)), now(), timeout, canceller)

    @property
    def text(self) -> str:
        """The limit as it is now, in its shortest form."""
        return _print(_library.weir_limiter_limit(self._pointer))

    def __repr__(self) -> str:
        return f"<weir.Limiter {self.text}>"


class _LimiterWaiter(_Waiter):
    def __init__(self, pointer: _Pointer, memory: Any, limit: _weir_limit) -> None:
        self.where = (pointer.value or 0, b"")
        self.now = now
        self._pointer, self._memory = pointer, memory
        self._shapes, self._counts_all = bool(limit.shape), bool(limit.count_all)  # never change

    def reserve(self, now: int, cost: int, max_wait: int) -> Optional[Tuple[Verdict, _weir_reservation]]:
        reservation, verdict = _weir_reservation(), _weir_verdict()
        code = _library.weir_limiter_reserve(self._pointer, now, cost, max_wait, _ref(reservation), _ref(verdict))
        return None if code == ERR_UNSUPPORTED else (_verdict(verdict), reservation)

    def cancel(self, now: int, reservation: _weir_reservation) -> int:
        return int(_library.weir_limiter_cancel(self._pointer, now, _ref(reservation)))

    def ahead(self, verdict: Verdict, left: int) -> int:
        return left if not self._shapes or verdict.delay > 0 else 0  # otherwise the queue is full, and retry_after is when a place is free

    def take(self, now: int, cost: int, is_first: bool) -> Verdict:
        if not (is_first and self._counts_all):  # with `count all` a denied request counts, but only once for a wait
            verdict = _verdict(_library.weir_limiter_peek(self._pointer, now, cost))
            if not verdict.allowed:
                return verdict
        return _verdict(_library.weir_limiter_take(self._pointer, now, cost))


# --- queues -----------------------------------------------------------------------------------------------------------


class _QueueHandle(_Pointer):
    """A queue of the C library, with its memory and clock. Each running call holds a reference."""

    memory: Any = None
    clock: Any = None

    def __del__(self, free: Any = _library.weir_queue_fini) -> None:
        if self.value:
            free(self.value)


class Queue(_Unique, Generic[_Item]):
    """A FIFO queue that releases items at a constant rate: Queue("500/s leaky queue 1000") has 1000 places, and items
    leave it at 500 a second, in order. For any number of threads.

    clock: returns the time in ns, for tests. Call tick() after it has moved. None: weir.now.

    Items are only in the memory of this process. Call drain() before it ends to get those that are left.

    Error: ERR_UNSUPPORTED, the limit is not a leaky bucket with a queue; else as for Limiter()."""

    _instead = "threads share one; between processes, use a broker in front of it"

    def __init__(self, text: str, clock: Optional[Callable[[], int]] = None) -> None:
        limit, message, handle = _parse(text), _weir_message(), _QueueHandle()
        size = _library.weir_queue_size(_ref(limit))  # 0: invalid, and init says why
        handle.memory = ctypes.create_string_buffer(size + _QUEUE_ALIGN)
        at = ctypes.addressof(handle.memory)
        at += -at % _QUEUE_ALIGN
        own = None
        if clock is not None:
            given = clock
            handle.clock = _clock(lambda _: _number(given()))
            own = _ref(_weir_queue_clock(ctypes.cast(handle.clock, c_void_p), None))
        _check(_library.weir_queue_init(at, size, _ref(limit), own, _ref(handle), _ref(message)), message)
        self._handle = handle
        self._now: Callable[[], int] = clock or now
        self._items: Dict[int, _Item] = {}  # by the number that C has for an item
        self._late: collections.deque[_Item] = collections.deque()  # popped while a signal handler raised; for the next pop
        self._numbers = itertools.count(1)

    def try_push(self, item: _Item) -> Verdict:
        """Adds an item at the end, if a place is free. verdict.delay is the time until it leaves, retry_after the time until
        a place may be free. Error: ERR_CLOSED."""
        number, verdict = next(self._numbers), _weir_verdict()
        self._items[number] = item
        code = _library.weir_queue_try_push(self._handle, number, _ref(verdict))
        if code != 0:
            del self._items[number]
        if code not in (0, ERR_FULL):
            _check(code, _weir_message())
        return _verdict(verdict)

    def push(self, item: _Item, timeout: Optional[float] = None, canceller: Optional[Canceller] = None) -> Waited:
        """Adds an item at the end. Waits for a place if none is free, in the order of arrival. The item is in the queue only
        if it returns Waited.GO. Returns DEADLINE at once if no place can be free in time."""
        number, handle = next(self._numbers), self._handle
        self._items[number] = item
        codes: List[int] = []

        def ask(deadline: int, own: Any) -> int:
            codes.append(_library.weir_queue_push(handle, number, deadline, own, None))
            return codes[-1]

        try:
            return _wait(ask, lambda: True, self._now(), timeout, canceller)
        finally:
            if 0 not in codes:  # 0 is also there if a signal handler raised just after the push
                del self._items[number]

    def try_pop(self) -> Tuple[Optional[_Item], Optional[int]]:
        """(item, None), or (None, ns until the first item may leave): NEVER if the queue is empty. Error: ERR_CLOSED,
        closed and empty."""
        if self._late:
            return self._late.popleft(), None
        number, wait = c_void_p(), c_uint64()
        code = _library.weir_queue_try_pop(self._handle, _ref(number), _ref(wait))
        if code == ERR_DEADLINE:
            return None, wait.value
        _check(code, _weir_message())
        return self._items.pop(number.value or 0), None

    def pop(self, timeout: Optional[float] = None, canceller: Optional[Canceller] = None) -> _Item:
        """Waits for the next item to leave. Threads are served in the order of arrival.

        Error: ERR_DEADLINE, no item within timeout seconds; ERR_CANCELLED; ERR_CLOSED: closed and empty."""
        if self._late:
            return self._late.popleft()
        number, handle = c_void_p(), self._handle
        try:
            waited = _wait(lambda deadline, own: int(_library.weir_queue_pop(handle, _ref(number), deadline, own)),
                           lambda: True, self._now(), timeout, canceller)
        except BaseException:
            if number.value:
                self._late.append(self._items.pop(number.value))
            raise
        if not waited:
            _check(waited.value, _weir_message())
        return self._items.pop(number.value or 0)

    def __iter__(self) -> Iterator[_Item]:
        """Pops until the queue is closed and empty."""
        while True:
            try:
                item = self.pop()
            except Error as error:
                if error.code == ERR_CLOSED:
                    return
                raise
            yield item

    def close(self) -> None:
        """No more items can be pushed. Queued items still leave at the rate."""
        _library.weir_queue_close(self._handle)

    def drain(self) -> List[_Item]:
        """Removes and returns all items at once, oldest first, regardless of the rate."""
        items: List[_Item] = []
        while self._late:
            items.append(self._late.popleft())
        while True:
            found = (c_void_p * 256)()
            n = _library.weir_queue_drain(self._handle, found, len(found))
            items.extend(self._items.pop(number or 0) for number in found[:n])
            if n < len(found):
                return items

    def fileno(self) -> int:
        """A descriptor that is readable when an item may leave, for event loops: then call try_pop until it returns no
        item. Do not read or close it. Error: ERR_SYSTEM."""
        descriptor = c_int()
        _check(_library.weir_queue_fd(self._handle, _ref(descriptor)), _weir_message())
        return descriptor.value

    def tick(self) -> None:
        """Call it after your own clock has moved: all waits read the clock again."""
        _library.weir_queue_tick(self._handle)

    def __len__(self) -> int:
        return int(_library.weir_queue_length(self._handle))

    def __bool__(self) -> bool:
        return True  # even if it is empty

    def __repr__(self) -> str:
        return f"<weir.Queue with {len(self)} items>"


# --- tables -----------------------------------------------------------------------------------------------------------


class _Handle(_Pointer):
    """A table of the C library. Each running call holds a reference, so the table is freed when the last call ends."""

    def __del__(self, free: Any = _library.weir_table_free) -> None:
        free(self.value)


class Claim(NamedTuple):
    """One limit that a request must pass. A plain tuple (limit, key, cost) works, too."""

    limit: Limit
    key: Key
    cost: int = 1


class Table(_Unique):
    """Limits for millions of keys, in memory of a fixed size, for any number of threads and processes.

    keys: the most keys in use at the same time; 24 bytes each. Beyond that, keys with the least usage are evicted
        (stats().evicted). 0: attach to an existing table, whatever its size.
    shared: the name of shared memory. The first process makes the table, the others attach to it. It stays until
        Table.unlink or a reboot. None: memory of this process.
    file: the path of a file instead. It survives reboots.
    mode: permission bits of shared memory or a file that is made; 0 is 0o600. Another user's table is an error unless
        they have bits for others.
    limits_max: the most limits; 0 is 64.
    arena_bytes: memory in addition to the keys, for sliding logs and sliding counters with segments; see arena_size.
    made_at: times within 9 years of it are valid; 0 is now. For replays and tests.
    overcommit: make the table even if it does not fit into the available memory.

    Error: ERR_NO_TABLE (keys is 0, and there is no such table); ERR_TOO_LARGE (beyond the maximum, or the memory that is
    available); ERR_ROOM (too small); ERR_FILE_TYPE (a symbolic link, a directory or another special file); ERR_REGION (the
    memory or file is not a table, has other sizes, or belongs to another user); ERR_LIMIT (an invalid name or number);
    ERR_SYSTEM."""

    _instead = "open it again by its name or path: weir.Table(shared=NAME) or weir.Table(file=PATH)"

    def __init__(self, keys: int = 0, *, shared: Optional[str] = None, file: Optional[_Path] = None,
                 mode: int = 0, limits_max: int = 0, arena_bytes: int = 0, made_at: int = 0, overcommit: bool = False) -> None:
        limits_max = _number(limits_max, 32)
        size_bytes = _library.weir_table_size(_number(keys), limits_max) + _number(arena_bytes) if keys else 0
        options = _weir_table_options(size_bytes, None if shared is None else _name(shared),
                                      None if file is None else _path(file), _number(mode, 32), limits_max,
                                      _number(arena_bytes), _number(made_at), bool(overcommit))
        handle, message = _Handle(), _weir_message()
        _check(_library.weir_table_new(_ref(options), _ref(handle), _ref(message)), message)
        self._handle: Optional[_Handle] = handle
        self.shared = shared
        self.file = file

    @staticmethod
    def arena_size(text: str, keys: int, events: int = 0) -> int:
        """Bytes of arena for this number of keys under this limit, with this number of events each; 0: as many as the
        limit allows."""
        return int(_library.weir_table_arena_size(_ref(_parse(text)), _number(keys), _number(events)))

    @staticmethod
    def unlink(name: str) -> None:
        """Removes the name of a shared table. Processes that are attached keep the table until they close it.

        Error: ERR_SYSTEM, with errno.ENOENT if it does not exist; ERR_LIMIT: invalid name."""
        message = _weir_message()
        _check(_library.weir_table_unlink(_name(name), _ref(message)), message)

    def close(self) -> None:
        """Detaches this process from the table, after running calls have ended. Shared memory and files stay."""
        self._handle = None

    def sync(self) -> None:
        """Writes all decisions so far to the disk, and returns when that is done. Limits what a power failure loses.

        Error: ERR_SYSTEM."""
        _check(_library.weir_table_sync(self._use()), _weir_message())

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_limit(self, name: str, text: str) -> Limit:
        """Adds a limit, or finds it: all processes add the limits that they use, by the same names.

        Error: ERR_CHANGE, a different limit has this name; ERR_FULL; ERR_SYNTAX, ERR_LIMIT, ERR_MAXIMUM; and
        ERR_NO_ARENA: sliding logs and segments need arena_bytes. A name must not have control characters."""
        limit, message, pointer, handle = _parse(text), _weir_message(), _Pointer(), self._use()
        _check(_library.weir_table_add_limit(handle, _name(name), _ref(limit), _ref(pointer), _ref(message)), message)
        return Limit(self, pointer)

    def now(self) -> int:
        """The clock of this table, in ns: the same for all processes of a shared one."""
        return int(_library.weir_table_now(self._use()))

    def decide(self, claims: Iterable[Tuple[Limit, Key, int]], now: Optional[int] = None) -> Decision:
        """Decides 1 to 16 claims (limit, key, cost) together. The request is allowed only if all limits allow it. If one
        denies it, none is charged."""
        handle, array = self._use(), self._claims(claims)
        n = len(array)
        if not 1 <= n <= _CLAIMS_MAX:
            raise Error(ERR_LIMIT, f"{n} claims to decide together; use 1 to {_CLAIMS_MAX}")
        verdicts, decision = (_weir_verdict * n)(), _weir_decision()
        _check(_library.weir_table_decide(handle, array, n, _time_of(handle, now), verdicts, _ref(decision)),
               _weir_message())
        return Decision(_verdict(decision.verdict), decision.decided_by, [_verdict(each) for each in verdicts])

    def allow_batch(self, claims: Iterable[Tuple[Limit, Key, int]], now: Optional[int] = None) -> List[bool]:
        """Decides independent requests in order, as Limit.allow would, but faster."""
        handle, array = self._use(), self._claims(claims)
        allowed = (c_bool * len(array))()
        _library.weir_table_allow_batch(handle, array, len(array), _time_of(handle, now), allowed)
        return list(allowed)

    def take_batch(self, claims: Iterable[Tuple[Limit, Key, int]], now: Optional[int] = None) -> List[Verdict]:
        """As allow_batch, but returns the full verdicts."""
        handle, array = self._use(), self._claims(claims)
        verdicts = (_weir_verdict * len(array))()
        _library.weir_table_take_batch(handle, array, len(array), _time_of(handle, now), verdicts)
        return [_verdict(each) for each in verdicts]

    def stats(self, now: Optional[int] = None) -> TableStats:
        """Statistics of the table. Reads the whole table: about 0.1 s per GiB."""
        handle, found = self._use(), _weir_table_stats()
        _library.weir_table_stats(handle, _time_of(handle, now), _ref(found))
        return TableStats(**{name: getattr(found, name) for name in TableStats._fields if name != "probes"},
                          probes=tuple(found.probes))

    def __repr__(self) -> str:
        name = repr(self.shared or self.file) if self.shared or self.file else "private"
        return f"<weir.Table {name}{'' if self._handle else ', closed'}>"

    def _use(self) -> _Handle:
        handle = self._handle
        if handle is None:
            raise ValueError("the table is closed")
        return handle

    def _claims(self, claims: Iterable[Tuple[Limit, Key, int]]) -> Any:
        rows = []
        for limit, key, cost in claims:
            if limit.table is not self:
                raise ValueError(f"{limit!r} belongs to another table")
            encoded = _key(key)
            rows.append((limit._pointer, encoded, len(encoded), _number(cost)))
        return (_weir_claim * len(rows))(*[_weir_claim(*row) for row in rows])


def _time_of(handle: _Handle, given: Optional[int]) -> int:
    return int(_library.weir_table_now(handle)) if given is None else _number(given)


class Limit(_Unique):
    """A limit of a table, made by Table.add_limit. Each key has its own state. A key is str (UTF-8) or bytes."""

    _instead = "get it from its table by add_limit"

    def __init__(self, table: Table, pointer: _Pointer) -> None:
        self.table = table
        self._pointer = pointer
        self.name: str = _library.weir_table_limit_name(pointer).decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """The limit as it is now, in its shortest form."""
        self.table._use()
        return _print(_library.weir_table_limit_limit(self._pointer))

    def change(self, text: str, now: Optional[int] = None) -> None:
        """Changes the limit while keys are in use, for all threads and processes: the rate and burst of a bucket, the count
        of a window. A bucket keeps its usage, cut to the new burst. A window keeps its count.

        Error, and nothing changes: as for Table.add_limit; ERR_CHANGE if anything else would change."""
        limit, message, handle = _parse(text), _weir_message(), self.table._use()
        _check(_library.weir_table_change_limit(handle, self._pointer, _ref(limit), _time_of(handle, now),
                                                _ref(message)), message)

    def allow(self, key: Key, cost: int = 1, now: Optional[int] = None) -> bool:
        """Returns whether a request of this cost is allowed now. Charges the key if so."""
        return bool(self._ask(_library.weir_table_allow, key, cost, now))

    def take(self, key: Key, cost: int = 1, now: Optional[int] = None) -> Verdict:
        """As allow, but returns the full verdict."""
        return _verdict(self._ask(_library.weir_table_take, key, cost, now))

    def upto(self, key: Key, cost: int, now: Optional[int] = None) -> Verdict:
        """Takes the units that are left, at most cost. verdict.granted is how many."""
        return _verdict(self._ask(_library.weir_table_upto, key, cost, now))

    def peek(self, key: Key, cost: int = 1, now: Optional[int] = None) -> Verdict:
        """Returns what take would return. Charges nothing."""
        return _verdict(self._ask(_library.weir_table_peek, key, cost, now))

    def refund(self, key: Key, n: int = 1, now: Optional[int] = None) -> Verdict:
        """Refunds n units, never above full."""
        return _verdict(self._ask(_library.weir_table_refund, key, n, now))

    def reset(self, key: Key) -> bool:
        """Resets the key: it is full again. False if the key was not stored."""
        handle, encoded = self.table._use(), _key(key)
        return bool(_library.weir_table_reset(handle, self._pointer, encoded, len(encoded)))

    def inspect(self, key: Key, now: Optional[int] = None) -> KeyState:
        """Returns the state of a key. Changes nothing."""
        handle, encoded = self.table._use(), _key(key)
        found = _library.weir_table_inspect(handle, self._pointer, encoded, len(encoded), _time_of(handle, now))
        return KeyState(found.is_stored, found.full_at, _verdict(found.verdict), _fraction(found.tokens))

    def reserve(self, key: Key, cost: int = 1, timeout: Optional[float] = None, now: Optional[int] = None) -> Reservation:
        """Takes cost now, even if not enough tokens are left, as Limiter.reserve does. A table reserves at most 30 seconds
        ahead, except for a leaky queue; beyond that it denies.

        Error: ERR_UNSUPPORTED, a window, a log or a bucket with refill interval."""
        waiter = self._waiter(_key(key))
        found = waiter.reserve(_time_of(waiter.handle, now), _number(cost), _duration(timeout))
        if found is None:
            raise Error(ERR_UNSUPPORTED, f"{self.text}: only smooth buckets support reservations; use wait() or acquire()")
        return Reservation(*found, lambda now, reservation: waiter.cancel(_time_of(waiter.handle, now), reservation))

    async def acquire(self, key: Key, cost: int = 1, timeout: Optional[float] = None) -> Waited:
        """wait() for coroutines, as Limiter.acquire: first come, first served for each key, within an event loop."""
        return await self._waiter(_key(key)).acquire(_number(cost), timeout)

    def wait(self, key: Key, cost: int = 1, timeout: Optional[float] = None,
             canceller: Optional[Canceller] = None) -> Waited:
        """Waits until a request of this cost is allowed, and charges the key, as Limiter.wait. Waits for one key of a bucket
        are served in order only up to 30 seconds ahead."""
        handle, encoded, cost = self.table._use(), _key(key), _number(cost)
        return _wait(lambda deadline, own: int(_library.weir_table_wait(handle, self._pointer, encoded, len(encoded), cost,
                                                                        deadline, own)),
                     lambda: _goes(self.peek(encoded, cost)), _time_of(handle, None), timeout, canceller)

    def stats(self) -> LimitStats:
        found = _weir_table_limit_stats()
        _library.weir_table_limit_stats(self.table._use(), self._pointer, _ref(found))
        return LimitStats(found.allowed, found.denied)

    def __repr__(self) -> str:
        return f"<weir.Limit {self.name!r}: {self.text}>"

    def _waiter(self, key: bytes) -> _KeyWaiter:
        return _KeyWaiter(self.table._use(), self._pointer, key)

    def _ask(self, function: Any, key: Key, cost: int, now: Optional[int]) -> Any:
        handle, encoded = self.table._use(), _key(key)
        return function(handle, self._pointer, encoded, len(encoded), _time_of(handle, now), _number(cost))


_AHEAD_MAX = 30 * 10**9  # ns that a table reserves ahead


class _KeyWaiter(_Waiter):
    def __init__(self, handle: _Handle, pointer: _Pointer, key: bytes) -> None:
        limit = _library.weir_table_limit_limit(pointer)
        self.where = (pointer.value or 0, key)
        self.now = lambda: _time_of(handle, None)
        self.handle, self._pointer, self._key = handle, pointer, key
        self._shapes, self._counts_all = bool(limit.shape), bool(limit.count_all)

    def reserve(self, now: int, cost: int, max_wait: int) -> Optional[Tuple[Verdict, _weir_reservation]]:
        reservation, verdict = _weir_reservation(), _weir_verdict()
        code = _library.weir_table_reserve(self.handle, self._pointer, self._key, len(self._key), now, cost, max_wait,
                                           _ref(reservation), _ref(verdict))
        return None if code == ERR_UNSUPPORTED else (_verdict(verdict), reservation)

    def cancel(self, now: int, reservation: _weir_reservation) -> int:
        return int(_library.weir_table_cancel(self.handle, self._pointer, self._key, len(self._key), now,
                                              _ref(reservation)))

    def ahead(self, verdict: Verdict, left: int) -> int:
        if self._shapes:
            return left if verdict.delay > 0 else 0  # otherwise the queue is full, and retry_after is when a place is free
        return min(left, _AHEAD_MAX)

    def take(self, now: int, cost: int, is_first: bool) -> Verdict:
        arguments = (self.handle, self._pointer, self._key, len(self._key), now, cost)
        if not (is_first and self._counts_all):  # with `count all` a denied request counts, but only once for a wait
            verdict = _verdict(_library.weir_table_peek(*arguments))
            if not verdict.allowed:
                return verdict
        return _verdict(_library.weir_table_take(*arguments))


# --- stores -----------------------------------------------------------------------------------------------------------

_FAILURES: Dict[Optional[str], int] = {None: 0, "share": 1, "open": 2, "closed": 3, "local": 4}


class Health(enum.Enum):
    UP = 0
    DOWN = 1  # calls fail or the fallback decides, without waiting
    PROBING = 2  # a probe was sent, to find out whether Redis is back


class Answer(NamedTuple):
    """The decision of a store. True if the request is allowed."""

    verdict: Verdict  # of the claim that decided
    decided_by: int  # index of the claim; 0 if there is only one
    decided_at: int  # ns, on the clock of the table or Redis that decided
    fallback_nodes: int  # 0: the store decided; n: its fallback did, as one of n nodes that share Redis
    is_closed: bool  # denied because Redis failed and the limit has on_failure "closed"
    verdicts: List[Verdict]  # one for each claim

    def __bool__(self) -> bool:
        return self.verdict.allowed


class StoreStats(NamedTuple):
    """Statistics of a store. Counters start at 0 when the store is made."""

    health: Health  # a table is always up
    nodes: int  # programs and servers that share Redis now
    calls: int  # to Redis; a call carries several requests
    requests: int
    decided: int  # requests to Redis, by outcome; 0 for a table
    unreached: int
    unanswered: int
    by_fallback: int  # requests that the fallback decided
    script_loads: int
    failovers: int
    damaged: int  # keys in Redis that were reset because they were unreadable
    deferred_keys: int  # now: keys with charges still to be made in Redis
    deferred_charged: int  # units charged later
    deferred_excess: int  # units beyond what the limit had left
    deferred_uncertain: int  # units sent without a reply
    deferred_dropped: int  # units that did not fit into deferred_bytes
    latency_counts: Tuple[int, ...]  # requests that Redis decided: the i-th in at most latency_seconds[i]; the last: the rest
    latency_sum_us: int
    keys_capacity: int  # of the table, now
    keys_live: int
    keys_inserted: int  # of the table, since it was made
    keys_evicted: int
    last_error: str  # the last error of Redis; empty: none yet

    @property
    def latency_seconds(self) -> List[float]:
        """Upper bounds of latency_counts; the last is infinite."""
        return [(_LATENCY_FIRST_US << i) / 1e6 for i in range(_LATENCIES - 1)] + [math.inf]


class StoreLimitStats(NamedTuple):
    """Decisions on one limit, by all processes that share the table."""

    name: str
    text: str  # the limit as it is now
    allowed: int
    denied: int


class _StoreHandle(_Pointer):
    """A store of the C library, with the table that must outlive it."""

    table: Optional[_Handle] = None

    def __del__(self, free: Any = _library.weir_store_free) -> None:
        free(self.value)


class Store(_Unique):
    """Limits in a table or in Redis. `where` is a Table, or the URL of a Redis (docs/guides/many-servers.md), such as
    "redis://127.0.0.1:6379".

    The other arguments are for Redis. Processes that use the same Redis, prefix, name and key share one state.
    on_failure: what decides when Redis does not reply in time. "share": this node's share of the limit; "open": allow;
        "closed": deny; None: a call raises Error with ERR_UNREACHABLE (certainly nothing was charged) or ERR_UNANSWERED.
    table: for limits, counters and the fallback. None: the store makes one, with room for keys, limits_max and arena_bytes.
    keys: the most keys in use at the same time while Redis fails; 0 is 100,000.
    limits_max: the most limits; 0 is 64.
    deferred_bytes: memory for charges that wait until Redis is back; 0 is 64 MiB.

    Returns without waiting for Redis: see wait(). Error: ERR_SYNTAX, ERR_LIMIT (the URL or an option cannot be used), ERR_SYSTEM.
    ImportError: a URL needs libweir-redis.so."""

    _instead = "make another on the same table or URL"

    def __init__(self, where: Union[Table, str], *, on_failure: Optional[str] = None, table: Optional[Table] = None,
                 keys: int = 0, limits_max: int = 0, arena_bytes: int = 0, deferred_bytes: int = 0) -> None:
        handle, message = _StoreHandle(), _weir_message()
        if isinstance(where, Table):
            handle.table = where._use()
            _check(_library.weir_store_table(handle.table, _ref(handle), _ref(message)), message)
        else:
            handle.table = None if table is None else table._use()
            options = _weir_store_options(_failure(on_failure), handle.table, _number(keys), _number(limits_max, 32),
                                          _number(arena_bytes), _number(deferred_bytes))
            redis = _companion("redis", _REDIS_FUNCTIONS)
            _check(redis.weir_store_redis(_name(where), _ref(options), _ref(handle), _ref(message)), message)
        self._handle: Optional[_StoreHandle] = handle

    def close(self) -> None:
        """Frees the store, after running calls have ended and its guards are closed. Sends deferred charges to Redis first,
        for at most 2 s."""
        self._handle = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, timeout: float) -> None:
        """Waits until Redis is reachable, for at most timeout seconds. Error: ERR_UNREACHABLE."""
        message = _weir_message()
        _check(_library.weir_store_wait(self._use(), _number(int(timeout * 1e9)), _ref(message)), message)

    def add_limit(self, name: str, text: str) -> StoreLimit:
        """Adds a limit, or finds it. Error: as Table.add_limit; ERR_MAXIMUM also if Redis does not support the limit."""
        limit, message, pointer, handle = _parse(text), _weir_message(), _Pointer(), self._use()
        _check(_library.weir_store_add_limit(handle, _name(name), _ref(limit), _ref(pointer), _ref(message)), message)
        return StoreLimit(self, pointer)

    def decide(self, claims: Iterable[Tuple[StoreLimit, Key, int]]) -> Answer:
        """Decides 1 to 16 claims (limit, key, cost) together. The request is allowed only if all limits allow it. If one
        denies it, none is charged."""
        handle, array = self._use(), self._claims(claims)
        verdicts, answer = (_weir_verdict * max(len(array), 1))(), _weir_store_answer()
        if not 1 <= len(array) <= _CLAIMS_MAX:
            raise Error(ERR_LIMIT, f"{len(array)} claims to decide together; use 1 to {_CLAIMS_MAX}")
        _check(_library.weir_store_decide(handle, array, len(array), verdicts, _ref(answer)), _weir_message())
        return _answer(answer, [_verdict(each) for each in verdicts])

    def take_batch(self, claims: Iterable[Tuple[StoreLimit, Key, int]]) -> List[Verdict]:
        """Decides 1 to 64 independent claims, in order and in one call."""
        handle, array = self._use(), self._claims(claims)
        verdicts = (_weir_verdict * max(len(array), 1))()
        if not 1 <= len(array) <= _BATCH_MAX:
            raise Error(ERR_LIMIT, f"{len(array)} claims in a batch; use 1 to {_BATCH_MAX}")
        _check(_library.weir_store_take_batch(handle, array, len(array), verdicts, None), _weir_message())
        return [_verdict(each) for each in verdicts]

    def stats(self) -> StoreStats:
        """Statistics of the store. You can call it as often as you like."""
        found = _weir_store_stats(size_bytes=ctypes.sizeof(_weir_store_stats))
        _check(_library.weir_store_stats(self._use(), _ref(found)), _weir_message())
        plain = {name: getattr(found, name) for name in StoreStats._fields}
        return StoreStats(**{**plain, "health": Health(found.health), "latency_counts": tuple(found.latency_counts),
                             "last_error": found.last_error.decode("utf-8", "replace")})

    def limits(self) -> List[StoreLimitStats]:
        """The limits of the store's table and their decisions, sorted by name."""
        found: List[StoreLimitStats] = []

        def report(_: Any, stats: Any) -> None:
            of = stats.contents
            found.append(StoreLimitStats(of.name.decode("utf-8", "replace"), _print(of.limit), of.allowed, of.denied))

        called = _limit_report(report)
        _library.weir_store_each_limit(self._use(), ctypes.cast(called, c_void_p), None)
        return sorted(found)

    def __repr__(self) -> str:
        return f"<weir.Store{'' if self._handle else ', closed'}>"

    def _use(self) -> _StoreHandle:
        handle = self._handle
        if handle is None:
            raise ValueError("the store is closed")
        return handle

    def _claims(self, claims: Iterable[Tuple[StoreLimit, Key, int]]) -> Any:
        rows = []
        for limit, key, cost in claims:
            if limit.store is not self:
                raise ValueError(f"{limit!r} belongs to another store")
            encoded = _key(key)
            rows.append((limit._pointer, encoded, len(encoded), _number(cost)))
        return (_weir_claim * len(rows))(*[_weir_claim(*row) for row in rows])


def _failure(mode: Optional[str]) -> int:
    if mode not in _FAILURES:
        raise ValueError(f"unknown on_failure {mode!r}: use None, 'share', 'open', 'closed' or 'local'")
    return _FAILURES[mode]


def _answer(found: _weir_store_answer, verdicts: Optional[List[Verdict]] = None) -> Answer:
    verdict = _verdict(found.verdict)
    return Answer(verdict, found.decided_by, found.decided_at, found.fallback_nodes, found.is_closed,
                  verdicts or [verdict])


class StoreLimit(_Unique):
    """A limit of a store, made by Store.add_limit. Each key has its own state. Calls block until the store has
    decided. Error: ERR_UNREACHABLE or ERR_UNANSWERED, if Redis does not decide and no fallback does."""

    _instead = "get it from its store by add_limit"

    def __init__(self, store: Store, pointer: _Pointer) -> None:
        self.store = store
        self._pointer = pointer
        self.name: str = _library.weir_table_limit_name(pointer).decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """The limit as it is now, in its shortest form."""
        self.store._use()
        return _print(_library.weir_table_limit_limit(self._pointer))

    def change(self, text: str) -> None:
        """Changes the limit while keys are in use, as Limit.change. In Redis, the latest change applies to all programs."""
        limit, message = _parse(text), _weir_message()
        _check(_library.weir_store_change_limit(self.store._use(), self._pointer, _ref(limit), _ref(message)), message)

    def set_failure(self, on_failure: Optional[str], *, local: Optional[StoreLimit] = None, timeout: float = 0) -> None:
        """Sets what decides this limit when Redis fails: as Store(on_failure=), or "local", which uses another limit. timeout
        is how many seconds a decision waits for Redis; 0: as the URL says."""
        message = _weir_message()
        _check(_library.weir_store_set_failure(self.store._use(), self._pointer, _failure(on_failure),
                                               local and local._pointer, _number(int(timeout * 1e9)), _ref(message)),
               message)

    def take(self, key: Key, cost: int = 1) -> Answer:
        """Returns whether a request of this cost is allowed now. Charges the key if so."""
        return self._ask(_library.weir_store_take, key, cost)

    def upto(self, key: Key, cost: int) -> Answer:
        """Takes the units that are left, at most cost. answer.verdict.granted is how many."""
        return self._ask(_library.weir_store_upto, key, cost)

    def peek(self, key: Key, cost: int = 1) -> Answer:
        """Returns what take would return. Charges nothing."""
        return self._ask(_library.weir_store_peek, key, cost)

    def refund(self, key: Key, n: int = 1) -> Answer:
        """Refunds n units, never above full."""
        return self._ask(_library.weir_store_refund, key, n)

    def reset(self, key: Key) -> bool:
        """Resets the key: it is full again. False if the key was not stored."""
        handle, encoded, found = self.store._use(), _key(key), _weir_store_answer()
        _check(_library.weir_store_reset(handle, self._pointer, encoded, len(encoded), _ref(found)), _weir_message())
        return bool(found.verdict.allowed)

    def __repr__(self) -> str:
        return f"<weir.StoreLimit {self.name!r}: {self.text}>"

    def _ask(self, function: Any, key: Key, cost: int) -> Answer:
        handle, encoded, found = self.store._use(), _key(key), _weir_store_answer()
        _check(function(handle, self._pointer, encoded, len(encoded), _number(cost), _ref(found)), _weir_message())
        return _answer(found)


# --- policies ---------------------------------------------------------------------------------------------------------


class GuardAnswer(NamedTuple):
    """The decision of a policy. True if the request is allowed."""

    verdict: Verdict  # of decided_by, with the longest delay of all enforced limits
    decided_by: Optional[str]  # name of the limit; None if no enforced limit applies; (unmatched): see is_unmatched
    limits: int  # number of limits that apply, including those in shadow
    shadow_denied: int  # limits in shadow that would have denied the request
    fallback_nodes: int  # as in Answer
    is_closed: bool
    is_unmatched: bool = False  # no limit of the policy matches; denied if the policy says `unmatched: deny`

    def __bool__(self) -> bool:
        return self.verdict.allowed


class _GuardHandle(_Pointer):
    """A guard of the C library, with the store that must outlive it."""

    store: Optional[_StoreHandle] = None

    def now(self) -> int:
        """The clock of the table that decides. Redis has its own."""
        table = self.store and self.store.table
        return int(_library.weir_table_now(table)) if table else now()

    def __del__(self) -> None:
        if self.value:
            _companions["policy"].weir_guard_free(self.value)


class Guard(_Unique):
    """A policy (docs/reference/policy.md) in front of a store. Give its text, or the path of its file.

    Error: ERR_SYNTAX, with one line for each error of the policy; or the store does not support a limit. ImportError: it
    needs libweir-policy.so."""

    _instead = "make another on the same store, with the same policy"

    def __init__(self, store: Store, *, text: Optional[str] = None,
                 file: Optional[_Path] = None) -> None:
        self._policies = _companion("policy", _POLICY_FUNCTIONS)
        handle, message = _GuardHandle(), _weir_message()
        handle.store = store._use()
        policy = self._read(text, file)
        _check(self._policies.weir_guard_new_on(handle.store, policy, _ref(handle), _ref(message)), message)
        self._handle: Optional[_GuardHandle] = handle

    def close(self) -> None:
        """Frees the guard, after running calls have ended."""
        self._handle = None

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, attributes: Mapping[str, Key], cost: int = 1) -> GuardAnswer:
        """Decides a request by its attributes, such as {"ip": "192.0.2.1", "path": "/"}. All limits that apply are
        decided together. Error: as StoreLimit.take, and ERR_LIMIT if the policy cannot match these attributes."""
        handle, found, message = self._use(), _weir_guard_answer(), _weir_message()
        rows = [(name.encode("utf-8", "surrogatepass"), _key(value)) for name, value in attributes.items()]
        array = (_weir_attribute * len(rows))(*[_weir_attribute(name, len(name), value, len(value)) for name, value in rows])
        _check(self._policies.weir_guard_check(handle, array, len(rows), _number(cost), handle.now(), _ref(found),
                                               _ref(message)), message)
        return GuardAnswer(_verdict(found.verdict),
                           found.decided_by.decode("utf-8", "replace") or None, found.limits, found.shadow_denied,
                           found.fallback_nodes, found.is_closed, found.is_unmatched)

    def change(self, *, text: Optional[str] = None, file: Optional[_Path] = None) -> None:
        """Replaces the policy while other threads use the guard. Error, and nothing changes: as Guard()."""
        handle, policy, message = self._use(), self._read(text, file), _weir_message()
        _check(self._policies.weir_guard_change(handle, policy, handle.now(), _ref(message)), message)

    def change_limit(self, name: str, text: str) -> None:
        """Changes one limit, until the policy is replaced."""
        handle, limit, message = self._use(), _parse(text), _weir_message()
        _check(self._policies.weir_guard_change_limit(handle, _name(name), _ref(limit), handle.now(), _ref(message)),
               message)

    def _use(self) -> _GuardHandle:
        handle = self._handle
        if handle is None:
            raise ValueError("the guard is closed")
        return handle

    def _read(self, text: Optional[str], file: Optional[_Path]) -> _Pointer:
        if (text is None) == (file is None):
            raise TypeError("pass either text or file")
        faults: List[str] = []
        policy = _Pointer()
        called = _policy_report(lambda _, line: faults.append(line.decode("utf-8", "replace")))
        report = ctypes.cast(called, c_void_p)
        if text is not None:
            encoded = text.encode("utf-8", "surrogatepass")
            code = self._policies.weir_policy_read(encoded, len(encoded), None, report, None, _ref(policy))
        else:
            assert file is not None
            code = self._policies.weir_policy_load(_path(file), report, None, _ref(policy))
        if code != 0:
            raise Error(code, "\n".join(faults) or "cannot read the policy")
        return policy
