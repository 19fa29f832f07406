#!/usr/bin/env python3
"""A real Prometheus with the configuration and rules of deploy/prometheus, and the dashboard of deploy/grafana, with
running servers.

    prometheus_test.py WEIR ROOT"""

import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from metrics_page import Page  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client, until  # noqa: E402
from visitor import changed, free_port  # noqa: E402

WEIR, ROOT = sys.argv[1:3]
RULES = os.path.join(ROOT, "deploy/prometheus/weir-alerts.yml")
RULES_TEST = os.path.join(ROOT, "deploy/prometheus/weir-alerts-test.yml")
CONFIG = os.path.join(ROOT, "deploy/prometheus/prometheus.yml")
DASHBOARD = os.path.join(ROOT, "deploy/grafana/weir.json")
DOCS = os.path.join(ROOT, "docs/reference/metrics.md")
POLICY = """limits:
  - {name: everyone, limit: 100/day}
  - {name: per-ip, key: [ip], limit: 3/day}
  - {name: shaped, key: [ip], limit: 5/day leaky queue 5}
  - {name: canary, key: [ip], limit: 1/day sliding_log, mode: shadow}
  - {name: leased, key: [ip], match: {path: /leased}, limit: 100/s burst 200, consistency: lease}
  - {name: eventual, key: [ip], match: {path: /eventual}, limit: 100/s burst 200, consistency: eventual}
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def tool(*words):
    result = subprocess.run(["promtool", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=TIMEOUT_S, check=False)
    assert result.returncode == 0, (words, result.stdout)
    return result.stdout


def get(port, target, accept=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request("GET", target, headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()


def port_of(one):
    return int(one.http_at.rsplit(":", 1)[1])


@contextlib.contextmanager
def serving():
    """A server with a policy and a Redis after 5 requests, of which 3 were allowed."""
    with tempfile.TemporaryDirectory(prefix="weir-prometheus-") as folder, redis() as server:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(POLICY)
        with daemon(WEIR, "--keys", "10000", "--workers", "1", "--arena", "1MiB", "--policy", path, "--store", server.url,
                    "--store_budget", "10s", "--service", "shop", http="127.0.0.1:0") as one:
            with Client(one) as client:
                until(lambda: client.info()["store_state"] == "up", "the store came up")
            statuses = [get(port_of(one), "/v1/check?ip=192.0.2.1")[0] for _ in range(5)]
            assert statuses == [200] * 3 + [429] * 2, statuses
            yield one


@contextlib.contextmanager
def relay(port):
    """The port of a relay that asks the server for the text format and records the types."""
    types = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, kind, text = get(port, self.path, "text/plain")
            types.add(kind)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], types
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Prometheus:
    def __init__(self, port):
        self.port = port

    def ask(self, path, **query):
        status, _, text = get(self.port, path + "?" + urllib.parse.urlencode(query))
        answer = json.loads(text)
        assert status == 200 and answer["status"] == "success", (path, query, text[:500])
        return answer["data"]

    def query(self, expression):
        return self.ask("/api/v1/query", query=expression)["result"]

    def value(self, expression):
        result = self.query(expression)
        assert len(result) < 2, (expression, result)
        return float(result[0]["value"][1]) if result else None

    def is_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return get(self.port, "/-/ready")[0] == 200
        return False


@contextlib.contextmanager
def prometheus(targets):
    """A Prometheus with the example's configuration, except for its targets and the interval."""
    assert shutil.which("prometheus"), "no prometheus: install it"
    config = changed(read(CONFIG), ('["127.0.0.1:8080"]', json.dumps(targets)), ("scrape_interval: 5s", "scrape_interval: 1s"),
                     ("evaluation_interval: 5s", "evaluation_interval: 1s"))
    with tempfile.TemporaryDirectory(prefix="weir-prometheus-") as folder:
        path, port = os.path.join(folder, "prometheus.yml"), free_port()
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        shutil.copy(RULES, folder)
        with open(os.path.join(folder, "log"), "ab+") as log:
            process = subprocess.Popen(
                ["prometheus", "--config.file", path, "--storage.tsdb.path", os.path.join(folder, "data"),
                 "--web.listen-address", f"127.0.0.1:{port}"], stdout=log, stderr=log)
            one = Prometheus(port)
            try:
                until(lambda: one.is_ready() or process.poll() is not None, "Prometheus is ready")
                log.seek(0)
                assert process.poll() is None, log.read().decode(errors="replace")[-2000:]
                yield one
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(TIMEOUT_S)


# --- rules -------------------------------------------------------------------------------------------------------------

def rules_are_right():
    tool("check", "config", CONFIG)
    tool("check", "rules", "--lint-fatal", RULES)
    assert "SUCCESS" in tool("test", "rules", RULES_TEST)


def each_alert_fires_and_does_not():
    import yaml
    rules = [rule for group in yaml.safe_load(read(RULES))["groups"] for rule in group["rules"]]
    cases = [case for test in yaml.safe_load(read(RULES_TEST))["tests"] for case in test["alert_rule_test"]]
    docs = read(DOCS)
    for rule in rules:
        name = rule["alert"]
        fired = {bool(case["exp_alerts"]) for case in cases if case["alertname"] == name}
        assert fired == {True, False}, (name, fired)
        assert {"summary", "description"} < rule["annotations"].keys() and rule["labels"]["severity"], name
        assert rule["annotations"]["runbook"] == f"docs/reference/metrics.md#{name.lower()}" and f"\n### {name}\n" in docs, name
    assert {case["alertname"] for case in cases} == {rule["alert"] for rule in rules}
    return f"{len(rules)} alerts"


# --- Prometheus --------------------------------------------------------------------------------------------------------

def expected(instance):
    of = lambda name, limit: f'{name}{{instance="{instance}",job="weir",service="shop",limit="{limit}"}}'
    return {
        of("rate_limiter_requests_total", "per-ip"): 5, of("rate_limiter_allowed_total", "per-ip"): 3,
        of("rate_limiter_rejected_total", "per-ip"): 2, of("rate_limiter_requests_total", "everyone"): 3,
        of("rate_limiter_shadow_rejected_total", "canary"): 2, of("rate_limiter_delayed_total", "shaped"): 2,
        of("rate_limiter_limit_capacity", "everyone"): 100,
        of("rate_limiter_lease_bound_units", "leased"): 10, of("rate_limiter_eventual_bound_units", "eventual"): 0,
        f'rate_limiter_request_duration_seconds_count{{instance="{instance}",throttled="true"}}': 3 + 1,
        f'rate_limiter_store_up{{instance="{instance}"}}': 1, f'rate_limiter_policy_refused{{instance="{instance}"}}': 0,
        f'count(rate_limiter_build_info{{instance="{instance}",service="shop"}})': 1,
        f'count(rate_limiter_request_duration_seconds_bucket{{instance="{instance}",throttled="false"}})': 27,
    }


def it_is_scraped_and_asked():
    """Prometheus scrapes OpenMetrics by default, and text through the relay."""
    with serving() as one, relay(port_of(one)) as (port, types), \
            prometheus([f"127.0.0.1:{port_of(one)}", f"127.0.0.1:{port}"]) as server:
        until(lambda: server.value('count(up{job="weir"} == 1)') == 2, "both were scraped")
        for instance in (f"127.0.0.1:{port_of(one)}", f"127.0.0.1:{port}"):
            for expression, value in expected(instance).items():
                until(lambda: server.value(expression) == value, f"{expression} is {value}, not {server.value(expression)}")
        assert all(kind.startswith("text/plain; version=0.0.4") for kind in types) and types, types
        # The text format calls it rate_limiter_delay_seconds_total, and has no units.
        known = server.ask("/api/v1/metadata", metric="rate_limiter_delay_seconds")
        assert [row["unit"] for row in known["rate_limiter_delay_seconds"]] == ["seconds"], known
        rules = [rule for group in server.ask("/api/v1/rules")["groups"] for rule in group["rules"]]
        until(lambda: all(rule["health"] == "ok" for group in server.ask("/api/v1/rules")["groups"]
                          for rule in group["rules"]), "all rules were evaluated")
        dashboard_is_of_what_there_is(server, Page(get(port_of(one), "/metrics")[2]))
        return f"{len(rules)} rules"


# --- the dashboard -----------------------------------------------------------------------------------------------------

OF_PROMETHEUS = {"instance", "job", "le"}
VARIABLES = {"$__rate_interval": "1m", "$service": ".*", "$instance": ".*", "$limit": ".*"}


def expressions():
    dashboard = json.loads(read(DASHBOARD))
    assert dashboard["uid"] == "weir-rate-limiter" and dashboard["title"] == "Weir"
    source = {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == source and panel["title"] and panel["description"], panel["title"]
        assert panel["targets"] and all(target["datasource"] == source for target in panel["targets"]), panel["title"]
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in variables.values():
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            yield variable["name"], f"count by ({match[2]}) ({match[1]})"


def dashboard_is_of_what_there_is(server, page):
    """Each expression is valid, and uses metrics and labels of the page."""
    labels = {}
    for name, pairs in page.samples:
        labels.setdefault(name, set()).update(label for label, _ in pairs)
    used = set()
    for where, expression in expressions():
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression, (where, expression)
        server.query(expression)
        known = set(OF_PROMETHEUS)
        for name, selected in re.findall(r"\b(rate_limiter_\w+)(?:\{([^}]*)\})?", expression):
            assert name in labels, f"{where}: {name} not found"
            used.add(name)
            asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selected))
            assert asked <= labels[name] | OF_PROMETHEUS, (where, name, asked - labels[name])
            known |= labels[name]
        for by in re.findall(r"\bby \(([^)]*)\)", expression):
            assert {label.strip() for label in by.split(",")} <= known, (where, by)
    assert len(used) > 30, used


TESTS = [
    ("rules are right", rules_are_right),
    ("each alert fires, and does not", each_alert_fires_and_does_not),
    ("it is scraped and asked, and the dashboard with it", it_is_scraped_and_asked),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
