#!/usr/bin/env python3
"""The examples of the public store, with a real Redis: their output; promtool parses the metrics of one; another sends
valid OTLP to a collector.

    store_examples_test.py EXAMPLES LOOP PROMETHEUS THREADS"""

import http.server
import json
import subprocess
import sys
import threading
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "server"))
from redis_server import redis

TIMEOUT_S = 60
EXAMPLES, LOOP, PROMETHEUS, THREADS = sys.argv[1:]
POLICY = f"{EXAMPLES}/policies/shared.yaml"


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **more)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def url_of(server):
    return f"{server.url}?timeout=10s"


def threads_and_a_policy():
    with redis() as server:
        assert run(THREADS, url_of(server), POLICY) == "200 requests of one client: 20 allowed, 180 denied, 0 failed\n"


def two_programs_share_a_limit():
    with redis() as server:
        run(THREADS, url_of(server), POLICY)
        assert run(THREADS, url_of(server), POLICY) == "200 requests of one client: 0 allowed, 200 denied, 0 failed\n"


def an_event_loop():
    with redis() as server:
        assert run(LOOP, url_of(server)) == "2000 requests of 20 users: 200 allowed, 1800 denied, 0 failed\n"


def python_and_a_policy():
    with redis() as server:
        printed = run(sys.executable, f"{EXAMPLES}/store_python.py", url_of(server), POLICY)
        assert printed == ("200 requests of one client: 20 allowed, 180 denied by per-client\n"
                           "200 decided by Redis, 0 by the fallback\n"), printed


def values_of(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def prometheus_reads_it():
    with redis() as server:
        for arguments in ([url_of(server)], []):
            text = run(PROMETHEUS, *arguments)
            assert run("promtool", "check", "metrics", input=text) == "", text
            values = values_of(text)
            assert values['myapp_limit_decisions_total{limit="per-user",result="allowed"}'] == "10", text
            assert values['myapp_limit_decisions_total{limit="per-user",result="denied"}'] == "1"
            assert values[r'myapp_limit_decisions_total{limit="say \"hello\"",result="allowed"}'] == "1"
            assert values["myapp_store_up"] == "1" and values["myapp_store_fallback_decisions_total"] == "0"
            assert values["myapp_store_duration_seconds_count"] == ("12" if arguments else "0")
            assert values["myapp_table_keys"] == ("0" if arguments else "2")


class Collector(http.server.BaseHTTPRequestHandler):
    bodies = []

    def do_POST(self):
        self.bodies.append((self.path, self.headers["Content-Type"],
                            json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def points_of(metric):
    """The data points of a metric, whichever kind it is."""
    kinds = [kind for kind in ("sum", "gauge", "histogram") if kind in metric]
    assert len(kinds) == 1 and metric["unit"], metric
    if kinds[0] != "gauge":
        assert metric[kinds[0]]["aggregationTemporality"] == 2
    for point in metric[kinds[0]]["dataPoints"]:
        assert 0 < int(point["startTimeUnixNano"]) <= int(point["timeUnixNano"])
        if kinds[0] == "histogram":
            assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1
            assert sum(map(int, point["bucketCounts"])) == int(point["count"])
            assert point["explicitBounds"] == sorted(point["explicitBounds"])
        else:
            assert isinstance(point["asInt"], str)
        yield {each["key"]: each["value"]["stringValue"] for each in point["attributes"]}, point


def a_collector_gets_it():
    server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with redis() as store:
            assert run(sys.executable, f"{EXAMPLES}/store_opentelemetry.py", url_of(store),
                       f"http://127.0.0.1:{server.server_port}") == "sent: 200\n"
    finally:
        server.shutdown()
        server.server_close()
    (path, kind, body), = Collector.bodies
    assert path == "/v1/metrics" and kind == "application/json"
    resource, = body["resourceMetrics"]
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "myapp"}}]
    scope, = resource["scopeMetrics"]
    metrics = {metric["name"]: list(points_of(metric)) for metric in scope["metrics"]}
    decisions = {words["result"]: point["asInt"] for words, point in metrics["weir.limit.decisions"]}
    assert decisions == {"allowed": "10", "denied": "2"}, decisions
    requests = {words["outcome"]: point["asInt"] for words, point in metrics["weir.store.requests"]}
    assert requests == {"decided": "12", "unreached": "0", "unanswered": "0"}, requests
    assert metrics["weir.store.duration"][0][1]["count"] == "12"


TESTS = [threads_and_a_policy, two_programs_share_a_limit, an_event_loop, python_and_a_policy, prometheus_reads_it, a_collector_gets_it]


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}")
        except Exception:
            failed += 1
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {number} - {test.__name__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
