#!/usr/bin/env python3
"""envoyproxy/ratelimit and weir serve beside each other: the same configuration, the same requests, decision by decision.

    envoy_peer_test.py WEIR PAGE FOLDER [SEED]

PAGE is docs/guides/migrate/envoy-ratelimit.md. Its table of differences must name each difference that is allowed here, and
no other. FOLDER keeps builds and downloads for the next run. Without a connection to the Go module proxy the test is skipped.

The module proxy does not have a version of envoyproxy/ratelimit that gives hits back, or whose quotas deny. What newer
versions do there is written down in `as_newer`."""

import contextlib
import math
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

try:
    import grpc
except ImportError:  # python3-grpcio of Debian is for Debian's Python
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from go_programs import Unreached, ratelimit  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import until  # noqa: E402
from rls_messages import (DAY, HOUR, MINUTE, MONTH, OK, OVER_LIMIT, SECOND, SHOULD_RATE_LIMIT, WEEK, YEAR, Answer,  # noqa: E402
                          descriptor, fields, part, request)

WEIR, PAGE, FOLDER = map(os.path.abspath, sys.argv[1:4])
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 20261119
SKIPPED = 77  # for meson
REQUESTS = 10000
UNITS = {"second": (SECOND, 1), "minute": (MINUTE, 60), "hour": (HOUR, 3600), "day": (DAY, 86400), "week": (WEEK, 604800),
         "month": (MONTH, 2592000), "year": (YEAR, 31536000)}
SECONDS = dict(UNITS.values())
MOST = 2**32 - 1
CLOCKS_APART_S = 0.05  # at most; this close to the end of a second, each server may count in either second


# --- the two servers --------------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


class Client:
    def __init__(self, where):
        self.channel = grpc.insecure_channel(where)
        self.call = self.channel.unary_unary(SHOULD_RATE_LIMIT)

    def ask(self, message):
        """An Answer, or the name of the status and its text."""
        try:
            return Answer(self.call(message, timeout=TIMEOUT_S, wait_for_ready=True))
        except grpc.RpcError as fault:
            return fault.code().name, fault.details()


@contextlib.contextmanager
def peer(folder, store):
    """envoyproxy/ratelimit. Its ports may be taken by another program in the moment before it listens."""
    port = free_port()
    environment = {**os.environ, "RUNTIME_ROOT": folder, "RUNTIME_SUBDIRECTORY": "peer", "USE_STATSD": "false",
                   "REDIS_SOCKET_TYPE": "unix", "REDIS_URL": store.path, "LOG_LEVEL": "error", "HOST": "127.0.0.1",
                   "GRPC_HOST": "127.0.0.1", "DEBUG_HOST": "127.0.0.1", "PORT": str(free_port()), "DEBUG_PORT": str(free_port()),
                   "GRPC_PORT": str(port), "LIMIT_RESPONSE_HEADERS_ENABLED": "true", "RESPONSE_DYNAMIC_METADATA": "true"}
    with open(os.path.join(folder, "peer.log"), "wb+") as log:
        process = subprocess.Popen([ratelimit(FOLDER)], env=environment, stdout=log, stderr=log)

        def listens():
            log.seek(0)
            assert process.poll() is None, log.read()[-2000:]
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), TIMEOUT_S):
                return True
            return False

        try:
            until(listens, "envoyproxy/ratelimit serves")
            client = Client(f"127.0.0.1:{port}")
            yield client
            client.channel.close()
        finally:
            process.kill()
            process.wait(TIMEOUT_S)


@contextlib.contextmanager
def both(texts, on_redis=False):
    """Clients of the peer and of Weir, which has a Redis of its own or a table. `texts` are the files of the configuration."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-peer-"))
        place = os.path.join(folder, "peer", "config")
        os.makedirs(place)
        for number, text in enumerate(texts):
            with open(os.path.join(place, f"{number}.yaml"), "w", encoding="utf-8") as file:
                file.write(text)
        theirs = stack.enter_context(peer(folder, stack.enter_context(redis())))
        store = ("--store", stack.enter_context(redis()).url, "--store-budget", "10s") if on_redis else ()
        one = stack.enter_context(daemon(WEIR, *store, "--keys", "100000", "--workers", "1", "--policy", place, "--envoy-headers", "true",
                                         "--envoy-metadata", "true", http="127.0.0.1:0"))
        ours = Client(one.http_at)
        yield theirs, ours
        ours.channel.close()


# --- configurations and requests ----------------------------------------------------------------------------------------

# The last digit of requests_per_unit says what the limit is, so that a response shows it.
SHADOW, QUOTA = 7, 8


def is_kind(status, digit):
    return status[1] is not None and status[1] % 10 == digit


class Generator:
    KEYS = ["a", "b", "a_x", "c"]
    VALUES = ["", "x", "y", "xy", "x_y", "z1", "z2"]
    PATTERNS = ["x*", "*", "z*", "x_*"]
    DOMAINS = ["one", "two", "with space", "_"]
    NAMES = ["alpha", "beta", "gamma", "delta"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.paths = {}  # by domain: the lists of entries that lead to limits
        self.trees = {}  # by domain: its descriptors
        self.written = {}  # by what the peer writes for entries: the entries
        self.units = [unit for unit in UNITS if unit not in ("second", "minute")]

    def limit(self):
        choice, limit = self.random.random(), {}
        if choice < 0.08:
            limit["unlimited"] = True
        else:
            limit["unit"] = self.random.choice(self.units)
            if self.random.random() < 0.2:
                limit["unit"] = limit["unit"].upper()
            count = self.random.choice([0, 1, 2, 3, 5, 7, 8, 17, 18, 20, 40, 57, 58, 1000, 2**32 - 1])
            if count or self.random.random() < 0.5:
                limit["requests_per_unit"] = count
        if self.random.random() < 0.4:
            limit["name"] = self.random.choice(self.NAMES)
        others = [name for name in self.NAMES if name != limit.get("name")]
        if self.random.random() < 0.15:
            limit["replaces"] = [{"name": name} for name in self.random.sample(others, self.random.randint(1, 2))]
        return limit

    def level(self, domain, path, depth):
        found, taken = [], set()
        for _ in range(self.random.randint(2, 7)):
            one = {"key": self.random.choice(self.KEYS)}
            value = self.random.choice(self.VALUES + self.PATTERNS)
            if value:
                one["value"] = value
            composite = one["key"] + ("_" + value if value else "")
            if composite in taken:
                continue
            taken.add(composite)
            if self.random.random() < 0.75:
                one["rate_limit"] = self.limit()
                digit = one["rate_limit"].get("requests_per_unit", 0) % 10
                if digit == SHADOW:
                    one["shadow_mode"] = True
                if digit == QUOTA:
                    one["quota_mode"] = True
            if value.endswith("*") and self.random.random() < 0.4:
                one["share_threshold"] = True
            for flag in ("detailed_metric", "value_to_metric"):
                if self.random.random() < 0.1:
                    one[flag] = True
            mine = path + [(one["key"], value)]
            self.paths[domain].append(mine)
            if depth < 3 and self.random.random() < 0.45:
                one["descriptors"] = self.level(domain, mine, depth + 1)
            found.append(one)
        return found

    def configuration(self):
        texts = []
        for domain in self.DOMAINS:
            self.paths[domain] = []
            self.trees[domain] = self.level(domain, [], 1)
            texts.append(yaml_of({"domain": domain, "descriptors": self.trees[domain]}))
        return texts

    def entries(self, domain):
        """Mostly entries of the configuration, sometimes others."""
        path = self.random.choice(self.paths[domain])
        entries = []
        for key, value in path:
            if "*" in value:
                value = value.replace("*", self.random.choice(["", "1", "2", "_y", "*"]))
            elif value == "":
                value = self.random.choice(["", "x", "q1", "q2", "x_", "ü"])
            entries.append((key, value))
        choice = self.random.random()
        if choice < 0.08:
            entries.append((self.random.choice(self.KEYS), self.random.choice(self.VALUES)))
        elif choice < 0.12:
            entries.pop()
        elif choice < 0.16:
            entries[-1] = (self.random.choice(self.KEYS + ["", "unknown"]), self.random.choice(self.VALUES))
        return entries

    def hits(self):
        """The hits_addend of a descriptor, or None."""
        return self.random.choice([None] * 8 + [0, 0, 1, 1, 2, 3, 7, 100])

    def one(self, domain):
        """A descriptor: (entries, limit, hits). Those with a limit have keys of their own: see the table of differences."""
        if self.random.random() < 0.1:
            number = self.random.randrange(6)
            unit = UNITS[self.units[number % len(self.units)]][0]
            return [("inline", str(number))], ([3, 10, 0, 50, 1000, 2**32 - 1][number], unit), self.hits()
        while True:
            entries = self.entries(domain)
            if self.is_unlike_others(domain, entries):
                return entries, None, self.hits()

    def is_unlike_others(self, domain, entries):
        """Whether the peer shares the count of these entries with others: it joins keys and values without escaping."""
        level, theirs, ours = self.trees[domain], [domain], [domain]
        for key, value in entries:
            found = {one["key"] + ("_" + one["value"] if "value" in one else ""): one for one in level}
            name = next((name for name in found if name.endswith("*") and f"{key}_{value}".startswith(name[:-1])), None)
            if f"{key}_{value}" in found or name is None:
                name = f"{key}_{value}" if f"{key}_{value}" in found else key
                theirs.append(f"{key}_{value}")
                ours.append((key, value))
            elif found[name].get("share_threshold"):
                theirs.append(f"{key}_{name.removeprefix(key + '_')}")
                ours.append((key, found[name]["value"]))
            else:
                theirs.append(f"{key}_{value}")
                ours.append((key, value))
            level = found.get(name, {}).get("descriptors", [])
        return self.written.setdefault("_".join(theirs), ours) == ours

    def request(self):
        """(domain, descriptors, hits)"""
        choice = self.random.random()
        if choice < 0.01:
            return self.random.choice(["", "one"]), [], 0
        domain = "nowhere" if choice < 0.02 else self.random.choice(self.DOMAINS)
        of = self.random.choice(self.DOMAINS) if domain == "nowhere" else domain
        n = self.random.choice([1, 1, 1, 2, 2, 3, 4, 8])
        descriptors = [self.one(of) for _ in range(n)]
        if self.random.random() < 0.05:
            descriptors.append(self.random.choice(descriptors))
        if self.random.random() < 0.02:
            descriptors.append(([], None, None))
        return domain, descriptors, self.random.choice([0, 0, 0, 1, 2, 5])


def yaml_of(value):
    """YAML in one line: maps and lists in braces, all texts in quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {yaml_of(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(yaml_of(one) for one in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else f'"{value}"'


def message_of(domain, descriptors, hits):
    return request(domain, *(descriptor(*(f"{key}={value}" for key, value in entries), limit=limit, hits=cost)
                             for entries, limit, cost in descriptors), hits=hits)


# --- comparing ------------------------------------------------------------------------------------------------------------

def group_of(entries):
    """Quotas of the same backend and model form a group, which is over if one of them is over."""
    found = dict(entries)
    names = found.get("backend_name", ""), found.get("model_name_override", "")
    return names if any(names) else tuple(entries)


def as_newer(descriptors, statuses):
    """The statuses of newer versions of the peer, in which a quota that is over has the code OVER_LIMIT. This one says OK, and
    leaves out when it ends."""
    return [(OVER_LIMIT, *status[1:]) if limit is None and is_kind(status, QUOTA) and status[4] is None else status
            for status, (_, limit, _) in zip(statuses, descriptors)]


def as_weir(descriptors, statuses):
    """The statuses with the one difference: a look at a limit that is used up."""
    return [(OVER_LIMIT, *status[1:]) if hits == 0 and status[0] == OK and status[1] is not None and status[3] == 0
            and (limit or not is_kind(status, SHADOW)) else status
            for status, (_, limit, hits) in zip(statuses, descriptors)]


def is_over(descriptors, statuses):
    """As in newer versions: whether a limit is over, or all groups of quotas are."""
    groups, found = {}, False
    for status, (entries, limit, _) in zip(statuses, descriptors):
        over = status[0] == OVER_LIMIT
        if limit is None and is_kind(status, QUOTA):
            groups[group_of(entries)] = groups.get(group_of(entries), False) or over
        else:
            found = found or over
    return found or (bool(groups) and all(groups.values()))


def resets(unit, begun, ended):
    """The seconds until the end of the window, for an instant between the two."""
    first, last = math.floor(begun - CLOCKS_APART_S), math.floor(ended + CLOCKS_APART_S)
    return {SECONDS[unit] - second % SECONDS[unit] for second in range(first, last + 1)}


def compare(asked, theirs, ours, begun, ended):
    """Raises AssertionError if the responses differ in more than the page says. Returns the statuses of Weir."""
    domain, descriptors, hits = asked
    where = f"{asked}\n  peer {vars(theirs) if isinstance(theirs, Answer) else theirs}\n  weir {vars(ours) if isinstance(ours, Answer) else ours}"
    if isinstance(theirs, tuple) or isinstance(ours, tuple):
        assert isinstance(theirs, tuple) and isinstance(ours, tuple), where
        assert (theirs[0], ours[0]) == ("UNKNOWN", "INVALID_ARGUMENT"), where
        return []
    assert len(theirs.statuses) == len(ours.statuses) == len(descriptors), where
    for answer in theirs, ours:
        for _, count, unit, _, reset in answer.statuses:
            assert (count is None) == (unit is None), where
            assert reset is None or reset in resets(unit, begun, ended), (reset, resets(unit, begun, ended), where)
    newer = as_newer(descriptors, theirs.statuses)
    if newer == theirs.statuses:
        assert theirs.code == (OVER_LIMIT if is_over(descriptors, newer) else OK), where
    expected = as_weir(descriptors, newer)
    for number, (one, other) in enumerate(zip(expected, ours.statuses)):
        assert one[:4] == other[:4], (number, one, other, where)
        assert (other[4] is None) == (other[1] is None), (number, where)
    assert theirs.names == ours.names, where
    assert ours.code == (OVER_LIMIT if is_over(descriptors, expected) else OK), where
    assert ours.headers == headers_of(descriptors, ours), (headers_of(descriptors, ours), where)
    if expected == theirs.statuses:
        assert {name: value for name, value in theirs.headers.items() if not name.endswith("Reset")} == \
            {name: value for name, value in ours.headers.items() if not name.endswith("Reset")}, where
    assert ours.metadata.get("domain") == theirs.metadata["domain"] == domain, where
    assert ours.metadata.get("hitsAddend") == theirs.metadata.get("hitsAddend") == (hits or None), where
    for one, other in zip(theirs.metadata["descriptors"], ours.metadata["descriptors"], strict=True):
        assert one["entries"] == other["entries"] and one.get("hitsAddend") == other.get("hitsAddend"), where
    return ours.statuses


def headers_of(descriptors, answer):
    """The headers for the last descriptor that denies, or else for the first with the least left."""
    limits = [status for status in answer.statuses if status[1] is not None]
    if not limits:
        return {}
    denying = [status for status, (_, limit, _) in zip(answer.statuses, descriptors)
               if status[0] == OVER_LIMIT and (limit or not is_kind(status, QUOTA))]
    found = denying[-1] if denying else min(limits, key=lambda status: status[3])
    return {"RateLimit-Limit": str(found[1]), "RateLimit-Remaining": str(found[3]), "RateLimit-Reset": str(found[4])}


def ask_both(theirs, ours, asked):
    message = message_of(*asked)
    begun = time.time()
    answers = theirs.ask(message), ours.ask(message)
    return (asked, *answers, begun, time.time())


class Turned(Exception):
    """A window ended meanwhile, so the two servers may have counted in different windows."""


def generated(seed, on_redis):
    generator = Generator(seed)
    while 3600 - time.time() % 3600 < 60:
        time.sleep(1)
    hour = time.time() // 3600
    codes = {OK: 0, OVER_LIMIT: 0}
    decided = 0
    with both(generator.configuration(), on_redis) as (theirs, ours):
        for number in range(REQUESTS):
            row = ask_both(theirs, ours, generator.request())
            if (time.time() + CLOCKS_APART_S) // 3600 != hour:
                raise Turned
            try:
                statuses = compare(*row)
            except AssertionError as fault:
                raise AssertionError(f"seed {seed}, request {number}: {fault}") from fault
            decided += len(statuses)
            if isinstance(row[2], Answer):
                codes[row[2].code] += 1
    assert min(codes.values()) > REQUESTS // 20, codes
    return f"{decided} descriptors; {codes[OK]} requests allowed, {codes[OVER_LIMIT]} denied"


def generated_requests(on_redis=False):
    for _ in range(3):
        with contextlib.suppress(Turned):
            return generated(SEED + on_redis, on_redis)
    raise AssertionError("an hour ended in each of three runs")


SHORT = """domain: d
descriptors:
  - {key: second, rate_limit: {unit: second, requests_per_unit: 3}}
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 3}}
"""


def short_windows():
    """Units of a second and a minute, in one window and in the next. Sends no requests near the end of a window."""
    with both([SHORT]) as (theirs, ours):
        last = 0
        for unit, period in ("second", 1), ("second", 1), ("minute", 60):
            until(lambda: time.time() % period < period * 0.75 and time.time() // period != last, "a window begins")
            last = time.time() // period
            rows = [ask_both(theirs, ours, ("d", [([(unit, "1")], None, None)], 0)) for _ in range(5)]
            assert (rows[-1][-1] + CLOCKS_APART_S) // period == last, "a window ended meanwhile"
            for row in rows:
                compare(*row)
            assert [row[2].statuses[0][3] for row in rows] == [2, 1, 0, 0, 0], rows


# --- the differences --------------------------------------------------------------------------------------------------------

RULES = """domain: d
descriptors:
  - {key: look, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: shut, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: a, rate_limit: {unit: year, requests_per_unit: 9}, descriptors: [{key: b, rate_limit: {unit: year, requests_per_unit: 9}}]}
  - {key: star, value: "x*y", rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: "ke*", rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: quota, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: back, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: named, rate_limit: {unit: year, requests_per_unit: 9, name: %s}}
""" % ("n" * 64)


def short(answer):
    """The overall code, then (code, requests per unit, remaining) of each descriptor. Or the name of the error."""
    if isinstance(answer, tuple):
        return answer[0]
    return [answer.code, *((code, count, left) for code, count, _, left, _ in answer.statuses)]


def by(*entries, hits=None, limit=None, **more):
    return descriptor(*entries, hits=hits, limit=limit, **more)


def fine(count, left):
    return [OK, (OK, count, left)]


def over(count):
    return [OVER_LIMIT, (OVER_LIMIT, count, 0)]


# The rows of the page's table: requests, the response of the peer and the response of Weir.
DIFFERENCES = {
    "A look at a limit that is used up": [
        ([by("look=1", hits=2)], fine(2, 0), fine(2, 0)),
        ([by("look=1", hits=0)], fine(2, 0), over(2)),
        ([by("shut=1", hits=0)], fine(0, 0), over(0)),
    ],
    "Counts of different entries": [
        ([by("a=x_b_y", hits=3)], fine(9, 6), fine(9, 6)),
        ([by("a=x", "b=y")], fine(9, 5), fine(9, 8)),
    ],
    "Inline limits": [
        ([by("in=1", limit=(9, YEAR), hits=3)], fine(9, 6), fine(9, 6)),
        ([by("in=1", limit=(8, YEAR), hits=3)], fine(8, 2), fine(8, 5)),
    ],
    "`*` before the end of a value": [
        ([by("star=x_y")], [OK, (OK, None, 0)], fine(9, 8)),
    ],
    "`*` at the end of a key": [
        ([by("kept=1")], fine(9, 8), [OK, (OK, None, 0)]),
    ],
    "Quotas": [
        ([by("quota=1")], fine(1, 0), fine(1, 0)),
        ([by("quota=1")], fine(1, 0), over(1)),
    ],
    "Hits that are given back": [
        ([by("back=1", hits=5)], fine(9, 4), fine(9, 4)),
        ([by("back=1", hits=3, gives_back=True)], fine(9, 1), fine(9, 7)),
    ],
    "Names of limits": [
        ([by("named=1")], fine(9, 8), fine(9, 8)),
    ],
    "Bytes that are not UTF-8": [
        ([part(1, part(1, "look") + part(2, b"\xff"))], "INTERNAL", fine(2, 1)),
    ],
    "More than 64 descriptors, or 512 entries": [
        ([by("nothing=1")] * 65, [OK] + [(OK, None, 0)] * 65, "INVALID_ARGUMENT"),
    ],
    "Large costs": [
        ([by("look=2", hits=2**63)], "UNKNOWN", over(2)),
    ],
    "Status of a bad request": [
        ([], "UNKNOWN", "INVALID_ARGUMENT"),
    ],
    "An inline limit without a unit": [
        ([by("in=1", limit=(9, 0))], "UNAVAILABLE", "INVALID_ARGUMENT"),  # it ends the peer
    ],
}


def differences():
    """Each difference is as on the page. If one has disappeared, remove it from the page."""
    with both([RULES]) as (theirs, ours):
        # the name is cut at 63 bytes
        for client, length in (theirs, 64), (ours, 63):
            assert client.ask(part(1, "d") + part(2, by("named=1", hits=0))).names == ["n" * length]
        for name, steps in DIFFERENCES.items():
            for number, (descriptors, of_peer, of_weir) in enumerate(steps):
                message = part(1, "d") + b"".join(part(2, one) for one in descriptors)
                answers = [short(client.ask(message)) for client in (theirs, ours)]
                assert answers == [of_peer, of_weir], (name, number, answers)


def page_has_the_differences():
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    table = re.search(r"^## What differs$.*?^\|[- |]+\|\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert table, "no table under 'What differs'"
    rows = [line.split("|")[1].strip() for line in table[1].splitlines()]
    assert rows == [*DIFFERENCES, *NOT_ASKED], (rows, [*DIFFERENCES, *NOT_ASKED])


# Rows that requests cannot show.
NOT_ASKED = ["`dynamic_metadata`"]


def main():
    try:
        ratelimit(FOLDER)
    except Unreached as why:
        print(f"skipped: not reachable: {why}")
        return SKIPPED
    return run([
        (f"{REQUESTS} generated requests", generated_requests),
        (f"{REQUESTS} generated requests, both on Redis", lambda: generated_requests(True)),
        ("short windows", short_windows),
        ("differences", differences),
        ("the page names the differences", page_has_the_differences),
    ])


if __name__ == "__main__":
    sys.exit(main())
