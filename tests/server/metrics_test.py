#!/usr/bin/env python3
"""/metrics of weir serve: every number matches the requests, in both formats, and the series match the policy.

    metrics_test.py WEIR"""
# Covers: src/observe/counters.c, src/observe/key_count.c, src/server/http/http_metrics.c,
# src/server/http/http_metrics_limits.c

import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from metrics_page import OPENMETRICS, Page, check_by_promtool  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client, until  # noqa: E402

WEIR = sys.argv[1]
FILL_S = 10  # the fill of limits with keys is the mean over this time

# Nothing refills while a test runs, and no window ends.
POLICY = """limits:
  - {name: everyone, limit: 100/3000day}
  - {name: per-ip, key: [ip], limit: 10/3000day, overrides: [{when: {plan: gold}, limit: 20/3000day}]}
  - {name: smooth, key: [ip], match: {path: /all}, limit: 8/3000day leaky burst 8}
  - {name: shaped, key: [ip], match: {path: /shaped}, limit: 2/hour leaky queue 5}
  - {name: window, key: [ip], match: {path: /all}, limit: 6/3000day fixed_window}
  - {name: log, key: [ip], match: {path: /all}, limit: 1/3000day sliding_log, mode: shadow}
  - {name: counter, key: [ip], match: {path: /all}, limit: 4/3000day sliding_counter, mode: shadow}
  - {name: never, key: [ip], match: {path: /never}, limit: 4/day}
  - {name: off, limit: 4/day, mode: off}
"""
ENVOY = """domain: shop
descriptors:
  - {key: 'a"b\\%\u00e9', rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: canary, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
"""


class Asker:
    """Sends requests over one connection."""

    def __init__(self, one):
        host, port = one.http_at.rsplit(":", 1)
        self.one, self.client, self.asked = one, http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S), 0

    def __call__(self, target, accept=None):
        """(status, content type, text)"""
        self.client.request("GET", target, headers={} if accept is None else {"Accept": accept})
        answer = self.client.getresponse()
        self.asked += 1
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    def check(self, n, **attributes):
        """Sends n checks. Returns how many were allowed."""
        query = "&".join(f"{name}={value}" for name, value in attributes.items())
        return [self("/v1/check?" + query)[0] for _ in range(n)].count(200)

    def page(self):
        """Fetches the page, after a check of both formats."""
        _, kind, text = self("/metrics", "application/openmetrics-text")
        assert kind.startswith(OPENMETRICS), kind
        opened = Page(text)
        assert opened.is_open
        check_by_parser(text)
        status, kind, text = self("/metrics")
        assert status == 200 and kind == "text/plain; version=0.0.4; charset=utf-8", (status, kind)
        check_by_promtool(text)
        page = Page(text)
        assert names(page) >= names(opened) and page.samples.keys() ^ opened.samples.keys() <= fills(page, opened)
        return page


def check_by_parser(text):
    """Parses with the Prometheus client library of Debian's Python."""
    program = ("import sys; from prometheus_client.openmetrics.parser import text_fd_to_metric_families as read; "
               "assert len(list(read(open(0, encoding='utf-8', newline='\\n')))) > 10")
    done = subprocess.run(["/usr/bin/python3", "-c", program], input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]


FILLS = {"rate_limiter_bucket_fill_ratio", "rate_limiter_bucket_level_ratio"}


def names(page):
    return {name for name, _ in page.samples} - FILLS


def fills(*pages):
    """Samples that appear and disappear with time."""
    return {key for page in pages for key in page.samples if key[0] in FILLS}


@contextlib.contextmanager
def serving(policy=POLICY, *options):
    """(daemon, Asker, path of the policy)"""
    with tempfile.TemporaryDirectory(prefix="weir-metrics-") as folder:
        path, words = os.path.join(folder, "policy.yaml"), list(options)
        if policy is not None:
            write(path, policy)
            words += ["--policy", path]
        with daemon(WEIR, "--keys", "20000", "--workers", "1", "--arena", "4MiB", *words, http="127.0.0.1:0") as one:
            yield one, Asker(one), path


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


def expect(page, limit, **wanted):
    """Compares each number of a limit; None: no sample."""
    for name, value in wanted.items():
        got = page.get("rate_limiter_" + name, limit=limit)
        assert got == value, (limit, name, got, value)


def counts(requests, rejected, is_shadow=False):
    return dict(requests_total=requests, allowed_total=None if is_shadow else requests - rejected,
                rejected_total=None if is_shadow else rejected, shadow_rejected_total=rejected if is_shadow else None)


# --- numbers -----------------------------------------------------------------------------------------------------------

def without_a_policy():
    with serving(None) as (one, ask, _):
        with Client(one) as client:
            for _ in range(3):
                client.ask("WEIR.TAKE", "k", "2/day")
            client.ask("PING")
            client.refusal("AUTH", "nobody", "x")
            page = ask.page()
            assert page.get("rate_limiter_connections", protocol="resp") == 1
        expect(page, "(inline)", **counts(3, 1), limit_capacity=None, limit_units_per_second=None)
        assert page.get("rate_limiter_responses_total", protocol="resp") == 5
        assert [page.get("rate_limiter_auth_failures_total", protocol=protocol) for protocol in ("resp", "http")] == [1, 0]
        assert page.get("rate_limiter_responses_total", protocol="http") == ask.asked  # including this page
        assert page.get("rate_limiter_table_live_keys") == 1 and page.get("rate_limiter_policy_limits") is None
        assert page.get("process_cpu_seconds_total") > 0 and page.get("process_resident_memory_bytes") > 2**20
        assert 0 <= time.time() - page.get("process_start_time_seconds") < 3600
        assert page.get("rate_limiter_store_up") is None and page.get("rate_limiter_build_info", service="weir") == 1


def a_full_arena_is_seen():
    with daemon(WEIR, "--keys", "20000", "--workers", "1", "--arena", "128KiB", http="127.0.0.1:0") as one, Client(one) as client:
        ask = Asker(one)
        size = ask.page().get("rate_limiter_arena_bytes")
        assert size == 128 << 10 and ask.page().get("rate_limiter_arena_used_bytes") == 0
        client.pipeline([("WEIR.TAKE", f"k{i}", "5/day sliding_log") for i in range(5000)])
        page, info = ask.page(), client.info()
        used, folded = page.get("rate_limiter_arena_used_bytes"), page.get("rate_limiter_table_folded_total")
        assert size / 2 < used <= size and folded > 2000, (used, folded)
        assert page.get("rate_limiter_table_evicted_total") == 0
        assert (int(info["arena_bytes"]), int(info["arena_used_bytes"]), int(info["table_folded_keys"])) == (size, used, folded), info


def who_waits_to_be_accepted_is_counted():
    with serving(None, "--connections", "2") as (one, ask, _), Client(one) as first, Client(one) as second, Client(one) as third:
        assert first.ask("PING") == second.ask("PING") == "PONG"
        third.send("PING")
        until(lambda: "each of 1 workers has 2 connections, the maximum; new connections wait" in one.said(), "the log tells of it")
        first.close()
        assert third.read() == "PONG"
        second.close()
        page = ask.page()
        assert page.get("rate_limiter_connections_limit") == 2
        assert page.get("rate_limiter_accept_pauses_total", reason="connections") >= 1
        assert page.get("rate_limiter_accept_pauses_total", reason="kernel") == 0


def requests_in_flight_are_counted():
    with serving(None) as (one, ask, _), Client(one) as client:
        assert client.ask("WEIR.TAKE", "k", "1/day")[0] == 1
        client.send("WEIR.TAKE", "k", "1/day", 1, "WAIT", 86400000)
        until(lambda: ask.page().get("rate_limiter_requests_in_flight") == 1, "it is in flight")
        client.close()
        until(lambda: ask.page().get("rate_limiter_requests_in_flight") == 0, "it is given up with its client")
        assert ask.page().get("rate_limiter_requests_overflow_total") == 0


def every_algorithm():
    """Computed by hand: of 9 requests, 6 pass the window; the other limits deny none of them."""
    with serving(POLICY, "--service", "shop") as (_, ask, _):
        begun = time.monotonic()
        assert ask.check(9, ip="192.0.2.1", path="/all") == 6
        assert ask.check(2, ip="192.0.2.2", plan="gold") == 2
        page = ask.page()
        took = time.monotonic() - begun
        assert [page.get("rate_limiter_decisions_total", result=word) for word in ("allowed", "rejected")] == [8, 3]
        expect(page, "everyone", **counts(8, 0), bucket_fill_ratio=0.92, limit_capacity=100)
        expect(page, "per-ip", **counts(6, 0), limit_capacity=10)
        expect(page, "per-ip|plan=gold", **counts(2, 0), limit_capacity=20)
        expect(page, "smooth", **counts(6, 0), limit_capacity=8, delayed_total=None)
        expect(page, "window", **counts(9, 3), limit_capacity=6)
        expect(page, "log", **counts(6, 5, True), limit_capacity=1)  # limits in shadow do not count denied requests
        expect(page, "counter", **counts(6, 2, True), limit_capacity=4)
        expect(page, "never", **counts(0, 0), bucket_fill_ratio=None, limit_capacity=4)
        expect(page, "off", requests_total=None, allowed_total=None)
        expect(page, "(inline)", **counts(0, 0), bucket_fill_ratio=None)
        if took < FILL_S - 2:  # otherwise the first may be too long ago
            expect(page, "per-ip", bucket_fill_ratio=0.65)  # 0.9, 0.8 ... 0.4
            expect(page, "window", bucket_fill_ratio=round(15 / 6 / 9, 6))
        algorithms = {dict(labels)["algorithm"] for name, labels in page.samples if name == "rate_limiter_requests_total"}
        assert algorithms == {"any", "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_counter"}
        assert all(dict(labels)["service"] == "shop" for name, labels in page.samples
                   if name == "rate_limiter_requests_total")


def fill_is_what_is_left_for_every_algorithm():
    """4 of 10 units are used everywhere. The queue of a leaky bucket counts, and only leaky buckets have a level."""
    limits = {"shaped": "1/day leaky queue 10", "policed": "1/day leaky burst 10", "bucket": "1/day burst 10",
              "window": "10/day fixed_window", "log": "10/day sliding_log", "counter": "10/day sliding_counter"}
    policy = "limits:\n" + "".join(f"  - {{name: {name}, limit: {text}}}\n" for name, text in limits.items())
    with serving(policy + "  - {name: keyed, key: [ip], limit: 1/day leaky burst 10}\n") as (_, ask, _):
        begun = time.monotonic()
        page = ask.page()
        expect(page, "shaped", bucket_fill_ratio=1, bucket_level_ratio=0)
        expect(page, "keyed", bucket_fill_ratio=None, bucket_level_ratio=None)
        assert ask.check(4, ip="192.0.2.1") == 4
        page = ask.page()
        for name in limits:
            is_leaky = name in ("shaped", "policed")
            expect(page, name, bucket_fill_ratio=0.6, bucket_level_ratio=0.4 if is_leaky else None, limit_capacity=10, limit_shared=1)
        expect(page, "keyed", limit_capacity=10, limit_shared=None)
        if time.monotonic() - begun < FILL_S - 2:
            expect(page, "keyed", bucket_fill_ratio=0.75, bucket_level_ratio=0.25)  # 0.9, 0.8, 0.7, 0.6
        assert ask.check(7, ip="192.0.2.1") == 6
        page = ask.page()
        expect(page, "policed", bucket_fill_ratio=0, bucket_level_ratio=1)


def a_rate_is_of_a_second():
    rates = {"100/s": "100", "100/min": "1.666666666", "1/day": "0.000011574", "3/500ms": "6", "7/7s burst 2": "1"}
    limits = "".join(f"  - {{name: l{n}, key: [ip], limit: {text}}}\n" for n, text in enumerate(rates))
    with serving("limits:\n" + limits) as (_, ask, _):
        page = ask.page()
        for n, rate in enumerate(rates.values()):
            assert f'limit="l{n}"}} {rate}\n' in page.text, (n, rate)
        expect(page, "l4", limit_capacity=2)


def delays_are_told():
    """Two an hour: the second of three departs after half an hour, the third after an hour."""
    with serving() as (_, ask, _):
        assert ask.check(3, ip="192.0.2.1", path="/shaped") == 3
        page = ask.page()
        expect(page, "shaped", **counts(3, 0), delayed_total=2)
        assert 5000 < page.get("rate_limiter_delay_seconds_total", limit="shaped") <= 5400


def answers_are_timed():
    with serving() as (one, ask, _):
        ask.check(9, ip="192.0.2.1", path="/all")
        with Client(one) as client:
            client.ask("WEIR.TAKE", "k", "20/s burst 1")
            client.ask("WEIR.TAKE", "k", "20/s burst 1", "1", "WAIT", "30000")
        before = ask.asked
        page = ask.page()
        # The page is fetched in OpenMetrics first, and its own request is not complete while it is written.
        quick, throttled = (page.get("rate_limiter_request_duration_seconds_count", throttled=word) for word in ("false", "true"))
        assert (quick, throttled) == (before - 3 + 1 + 1, 3 + 1), (quick, throttled)
        assert page.get("rate_limiter_wait_duration_seconds_count") == 1 and page.get("rate_limiter_wait_duration_seconds_sum") > 0
        assert page.get("rate_limiter_decision_duration_seconds_count") >= 1


def what_is_not_looked_at_is_not_told():
    with serving(POLICY, "--observe", "off") as (_, ask, _):
        ask.check(9, ip="192.0.2.1", path="/all")
        page = ask.page()
        expect(page, "window", **counts(9, 3), bucket_fill_ratio=None)
        expect(page, "everyone", bucket_fill_ratio=0.94)
        expect(page, "shaped", delayed_total=None)
        assert not any("seconds_bucket" in name for name in names(page))


def a_policy_that_is_refused():
    with serving() as (_, ask, path):
        state = lambda: tuple(Page(ask("/metrics")[2]).get("rate_limiter_policy_" + name)
                              for name in ("refused", "failures_total", "changes_total"))
        assert state() == (0, 0, 0)
        write(path, "limits: [{name: a, limit: 10/fortnight}]")
        until(lambda: state() == (1, 1, 0), "it was refused")
        write(path, "limits: [{name: a, limit: 10/day}]")
        until(lambda: state() == (0, 1, 1), "it was mended")
        expect(ask.page(), "a", requests_total=0, bucket_fill_ratio=1)


# --- series ------------------------------------------------------------------------------------------------------------

def keys_add_no_series():
    with serving() as (one, ask, _):
        ask.check(1, ip="192.0.2.1", path="/all")
        before = ask.page()
        with Client(one) as client:
            for begin in range(0, 10000, 500):
                client.pipeline([("WEIR.CHECK", "ip", f"10.0.{n // 250}.{n % 250}", "path", "/all")
                                 for n in range(begin, begin + 500)])
        after = ask.page()
        assert after.get("rate_limiter_requests_total", limit="window") >= 100
        assert after.samples.keys() - fills(after) == before.samples.keys() - fills(before)
        assert len(fills(after)) <= len(before.samples)


def many_limits_are_bounded():
    many = "limits:\n" + "".join(f"  - {{name: l{n}, match: {{n: '{n}'}}, limit: 1/day}}\n" for n in range(1500))
    with serving(many) as (_, ask, _):
        page = ask.page()
        assert sum(name == "rate_limiter_requests_total" for name, _ in page.samples) == 1001
        assert page.get("rate_limiter_limits_left_out") == 500
    many = many.replace("name: l", "name: " + "limit-" * 5)
    with serving(many, "--service", "s" * 1000) as (_, ask, _):
        page = ask.page()
        told = sum(name == "rate_limiter_requests_total" for name, _ in page.samples) - 1
        assert 50 < told < 1000 and page.get("rate_limiter_limits_left_out") == 1500 - told, told
        assert page.get("rate_limiter_build_info") == 1


def names_may_be_any_bytes():
    with serving(ENVOY, "--service", b'sh\xffop "\n\xc3\xa9') as (_, ask, _):
        page = ask.page()
        limits = {dict(labels)["limit"] for name, labels in page.samples if name == "rate_limiter_requests_total"}
        assert any('a"b\\%\u00e9' in limit for limit in limits), limits
        services = {dict(labels)["service"] for name, labels in page.samples if name == "rate_limiter_requests_total"}
        assert services == {'sh\\xFFop "\n\u00e9'}, services
        canary = next(limit for limit in limits if "canary" in limit)
        expect(page, canary, **counts(0, 0, True), bucket_fill_ratio=None)


# --- formats -----------------------------------------------------------------------------------------------------------

def formats_are_negotiated():
    prometheus = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    rows = [
        (None, False), ("", False), ("*/*", False), ("text/plain", False), ("text/html", False), (",;,;q=,=", False),
        (prometheus, True), ("application/openmetrics-text", True), ("Application/OpenMetrics-Text ; Version=1.0.0", True),
        ("application/openmetrics-text;version=0.0.1", False), ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=0.5,text/plain", False), ("text/plain;q=0.5,application/openmetrics-text", True),
        ("application/openmetrics-text;q=0.001, */*;q=0", True), ("application/openmetrics-text;q=2", False),
        ("application/openmetrics-text;q=0.5x", False), ("application/openmetrics-texts", False),
        ("text/plain;q=0.5,application/openmetrics-text;q=0.5", True),
    ]
    with serving(None) as (_, ask, _):
        for accept, is_open in rows:
            status, kind, text = ask("/metrics", accept)
            assert status == 200 and Page(text).is_open == kind.startswith(OPENMETRICS) == is_open, (accept, kind)


# --- the store ---------------------------------------------------------------------------------------------------------

def with_a_store():
    with redis() as server, serving(POLICY, "--store", server.url, "--store_budget", "10s") as (one, ask, _):
        with Client(one) as client:
            until(lambda: client.info()["store_state"] == "up", "the store came up")
        expect(ask.page(), "everyone", requests_total=0, bucket_fill_ratio=None)
        begun = time.monotonic()
        assert ask.check(9, ip="192.0.2.1", path="/all") == 6
        page = ask.page()
        expect(page, "window", **counts(9, 3))
        expect(page, "everyone", **counts(6, 0))
        if time.monotonic() - begun < FILL_S - 2:
            expect(page, "everyone", bucket_fill_ratio=0.965)  # 0.99, 0.98 ... 0.94
        assert page.get("rate_limiter_store_up") == 1 and page.get("rate_limiter_store_breaker", state="up") == 1
        assert page.get("rate_limiter_store_decision_duration_seconds_count") == \
            page.get("rate_limiter_store_decisions_total", outcome="decided") > 0
        server.end()
        ask.check(1, ip="192.0.2.2")
        until(lambda: Page(ask("/metrics")[2]).get("rate_limiter_store_up") == 0, "the store is down")
        ask.page()


LEASED = """limits:
  - {name: leased, key: [user], limit: 600/3000day fixed_window, consistency: {lease: {stranded: 20%}}}
  - {name: bucket, key: [user], match: {path: /}, limit: 100/s burst 1000, consistency: lease}
  - {name: few, key: [user], match: {path: /}, limit: 5/min, consistency: lease}
  - {name: local, key: [user], match: {path: /}, limit: 600/3000day, store: table}
"""


def leases_are_counted():
    """Each unit that was granted is spent, held, returned or expired."""
    lease = lambda name, page, **labels: page.get("rate_limiter_lease_" + name, **labels)
    with redis() as server, serving(LEASED, "--store", server.url, "--store_budget", "10s") as (one, ask, _):
        with Client(one) as client:
            until(lambda: client.info()["store_state"] == "up", "the store came up")
            page = ask.page()
            assert [lease("bound_units", page, limit=name) for name in ("leased", "bucket", "few", "local")] == [120, 50, None, None]
            assert lease("held", page) == lease("units_total", page, event="granted") == lease("decisions_total", page, outcome="allowed") == 0
            allowed = 0
            while int(client.info()["lease_held"]) < 20:
                assert client.ask("WEIR.TAKE", "k", "@leased")[0] == 1
                allowed += 1
            assert [client.ask("WEIR.TAKE", "k", "@leased")[0] for _ in range(5)] == [1] * 5
            allowed += 5

            def settled():
                page = ask.page()
                spent = lease("decisions_total", page, outcome="allowed")  # each request costs 1
                gone = spent + sum(lease("units_total", page, event=event) for event in ("returned", "expired"))
                assert 0 < spent <= allowed and lease("held", page) <= 120, page.text
                return lease("held", page) == 0 and lease("units_total", page, event="granted") == gone > spent

            until(settled, "what is not used is returned")
            while client.ask("WEIR.TAKE", "k", "@leased", 7)[0] == 1:
                allowed += 7
            assert allowed <= 600
            until(lambda: client.ask("WEIR.TAKE", "k", "@leased", 7)[0] == 0 and int(client.info()["lease_denied"]) > 0,
                  "a denial is repeated without the store")
            page = ask.page()
            assert lease("decisions_total", page, outcome="denied") == int(client.info()["lease_denied"])
            assert lease("dropped_total", page) == 0
            client.ask("WEIR.CHANGE", "leased", "900/3000day fixed_window")
            until(lambda: lease("bound_units", ask.page(), limit="leased") == 180, "the bound follows the limit")


EVENTUAL = """limits:
  - {name: total, key: [user], limit: 600/3000day fixed_window, consistency: {eventual: {sync: 10s, ahead: 5%}}}
  - {name: bucket, key: [user], match: {path: /}, limit: 1000/s, consistency: eventual}
  - {name: few, key: [user], match: {path: /}, limit: 99/s, consistency: eventual}
  - {name: local, key: [user], match: {path: /}, limit: 600/3000day, store: table}
"""


def eventual_limits_are_counted():
    """A server may be ahead by 30 units of `total`. It pushes every 10 s, or when 15 wait."""
    eventual = lambda name, page, **labels: page.get("rate_limiter_eventual_" + name, **labels)
    bounds = lambda page: [eventual("bound_units", page, limit=name) for name in ("total", "bucket", "few", "local")]
    with redis() as server, contextlib.ExitStack() as stack:
        words = ("--store", server.url, "--store_budget", "10s")
        one, ask, _ = stack.enter_context(serving(EVENTUAL, *words))
        client = stack.enter_context(Client(one))
        until(lambda: client.info()["store_nodes"] == "1", "the store came up")
        assert bounds(ask.page()) == [0, 0, None, None], "a server alone never exceeds a limit"
        _, other, _ = stack.enter_context(serving(EVENTUAL, *words))
        until(lambda: client.info()["store_nodes"] == "2", "the servers know of each other")
        until(lambda: bounds(other.page()) == bounds(ask.page()) == [30, 10, None, None], "each says the bound")

        def take(n=1):
            return client.ask("WEIR.TAKE", "k", "@total", n)[0]

        def numbers():
            page = ask.page()
            return [int(eventual("decisions_total", page, outcome=outcome)) for outcome in ("allowed", "denied")] + \
                [int(eventual("waiting_units", page)), int(eventual("pushes_total", page))]

        assert numbers() == [0, 0, 0, 0] and take() == 1
        assert [take() for _ in range(10)] == [1] * 10
        until(lambda: numbers() == [10, 0, 10, 0], "the first request went to Redis, and the others wait to be pushed")
        info = client.info()
        assert [info["eventual_" + name] for name in ("allowed", "denied", "waiting", "pushes")] == ["10", "0", "10", "0"], info
        assert take(5) == 1
        until(lambda: numbers() == [11, 0, 0, 1], "half of what may wait was pushed")
        assert take(600 - 16) == 1 and take() == 0, "Redis allows more at once than may wait here"
        until(lambda: numbers() == [11, 1, 0, 1], "a mirror denies")
        assert other.page().get("rate_limiter_eventual_decisions_total", outcome="allowed") == 0, "each server counts its own"
        client.ask("WEIR.CHANGE", "total", "900/3000day fixed_window")
        until(lambda: bounds(ask.page())[0] == bounds(other.page())[0] == 45, "the bound follows the limit, on all servers")


class Quiet:
    """A server with a single request. Its limits have a fill that disappears after a while; the other tests run
    meanwhile."""

    def __init__(self, ask):
        self.ask, begun = ask, time.monotonic()
        ask.check(1, ip="192.0.2.1")
        self.first, self.took = self.fill(), time.monotonic() - begun

    def fill(self):
        return Page(self.ask("/metrics")[2]).get("rate_limiter_bucket_fill_ratio", limit="per-ip")

    def a_limit_that_nobody_asks_has_no_fill(self):
        assert self.first == 0.9 or self.took > FILL_S - 2, self.first
        until(lambda: self.fill() is None, "the sample has gone")
        expect(self.ask.page(), "everyone", bucket_fill_ratio=0.99)


TESTS = [
    ("without a policy", without_a_policy),
    ("a full arena is seen", a_full_arena_is_seen),
    ("who waits to be accepted is counted", who_waits_to_be_accepted_is_counted),
    ("every algorithm", every_algorithm),
    ("fill is what is left, for every algorithm", fill_is_what_is_left_for_every_algorithm),
    ("a rate is of a second", a_rate_is_of_a_second),
    ("requests in flight are counted", requests_in_flight_are_counted),
    ("delays are told", delays_are_told),
    ("answers are timed", answers_are_timed),
    ("what is not looked at is not told", what_is_not_looked_at_is_not_told),
    ("a policy that is refused", a_policy_that_is_refused),
    ("keys add no series", keys_add_no_series),
    ("many limits are bounded", many_limits_are_bounded),
    ("names may be any bytes", names_may_be_any_bytes),
    ("formats are negotiated", formats_are_negotiated),
    ("with a store", with_a_store),
    ("leases are counted", leases_are_counted),
    ("eventual limits are counted", eventual_limits_are_counted),
]

if __name__ == "__main__":
    with serving() as (_, asker, _):
        quiet = Quiet(asker)
        status = run([*TESTS, ("a limit without requests has no fill", quiet.a_limit_that_nobody_asks_has_no_fill)])
    sys.exit(status)
