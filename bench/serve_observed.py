"""The cost of observability, for ./dev bench serve: a server with `observe off`, and the same with everything on: metrics that are
scraped, an open live page, one of 100 requests traced to a collector, and top keys. Not a benchmark itself.

Both get the same commands, in turn. The benchmark compares CPU time of the server per request, in all threads, so it includes the
threads that write traces and serve the page."""

import contextlib
import http.client
import http.server
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import serve_peers
from harness import percent, summarize

CONNECTIONS = 50
KEY = "key:__rand_int__"
LOOK_S = 1  # period of the page's requests and of scrapes; Prometheus scrapes less often
POLICY = """limits:
  - name: everyone
    limit: 1000000000/s
  - name: each
    key: [user]
    limit: 1/3min burst 3000000
"""
# case -> request, pipeline, expected requests a second (sets how many a measurement sends)
CASES = {
    "throttle_p1": (["CL.THROTTLE", KEY, "2999999", "1", "180"], 1, 60_000),
    "throttle_p64": (["CL.THROTTLE", KEY, "2999999", "1", "180"], 64, 1_200_000),
    "check_p1": (["WEIR.CHECK", "user", KEY], 1, 60_000),
    "check_p16": (["WEIR.CHECK", "user", KEY], 16, 400_000),
}
LABELS = {"bare": "observe off", "observed": "all of it"}
PROMISES = [("observed_vs_bare", ">=", 0.95)]


class Collector(http.server.BaseHTTPRequestHandler):
    """Receives spans, and counts their bytes."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        self.server.taken += len(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def collector():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.daemon_threads, server.taken = True, 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def onlooker(port):
    """Acts as an open page and a scraper. Yields how often each got a response."""
    seen, over = {"/v1/live": 0, "/metrics": 0}, threading.Event()

    def look():
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=serve_peers.PATIENCE_S)
        while not over.wait(LOOK_S):
            for path in seen:
                client.request("GET", path)
                answer = client.getresponse()
                answer.read()
                seen[path] += answer.status == 200
        client.close()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(serve_peers.PATIENCE_S)


@contextlib.contextmanager
def both_servers(cpus, load_cpus, keys):
    """(contender -> its server with all keys, the collector, the responses of the onlooker)."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder, collector() as spans, contextlib.ExitStack() as stack:
        policy = Path(folder) / "policy.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        ports = {name: str(serve_peers.free_port()) for name in ("bare", "observed", "http")}
        more = {"bare": ["--observe", "off", "--http", "none"],
                "observed": ["--http", f"127.0.0.1:{ports['http']}", "--trace_one_in", "100", "--trace_to",
                             f"http://127.0.0.1:{spans.server_address[1]}/v1/traces"]}
        servers = {}
        for name in LABELS:
            command = [serve_peers.WEIR, "serve", "--listen", f"127.0.0.1:{ports[name]}", "--workers", "1", "--keys",
                       str(4 * keys), "--policy", str(policy), *serve_peers.ASLEEP, *more[name]]
            servers[name] = stack.enter_context(serve_peers.started(command, ["-p", ports[name]], cpus))
            for words in (CASES["throttle_p1"][0], CASES["check_p1"][0]):
                serve_peers.fill(servers[name], words, keys, load_cpus)
        seen = stack.enter_context(onlooker(int(ports["http"])))
        yield servers, spans, seen


def told_spans(server):
    """How many spans the collector received, and how many were dropped because it was too slow."""
    told = subprocess.run(["redis-cli", *server.where, "INFO"], capture_output=True, text=True, check=True).stdout
    return ", ".join(line for line in told.splitlines() if line.startswith("spans_"))


def measure(arguments, cpus, load_cpus, keys):
    """(case, contender) -> its summary."""
    runs, load_cpu = {}, min(load_cpus)
    os.sched_setaffinity(0, load_cpus)  # collector and onlooker are threads of this process
    with both_servers(cpus, load_cpus, keys) as (servers, spans, seen):
        for number in range(arguments.rounds):
            print(f"observed, round {number + 1} of {arguments.rounds}", file=sys.stderr)
            for case, (words, pipeline, rate) in CASES.items():
                for name in sorted(servers, reverse=number % 2 == 1):
                    n = max(CONNECTIONS * pipeline, int(rate * arguments.seconds))
                    command = serve_peers.benchmark_command(servers[name].where, load_cpu, pipeline, CONNECTIONS, keys, n,
                                                            words)
                    if number == 0:
                        print(shlex.join(command), f" # {LABELS[name]}")
                    runs.setdefault((case, name), []).append(serve_peers.drive(servers[name], command, n))
        print(f"spans: {told_spans(servers['observed'])}")
    if not arguments.quick and (spans.taken == 0 or 0 in seen.values()):
        raise SystemExit(f"nothing was observed: {spans.taken} bytes of spans, responses {seen}")
    return {name: summarize(one) for name, one in runs.items()}


def ratios_of(ns):
    """The geometric mean of the cases, and each case."""
    each = {f"observed_vs_bare_{case}": ns[(case, "bare")] / ns[(case, "observed")] for case in CASES}
    return {"observed_vs_bare": statistics.geometric_mean(each.values()), **each}


def all_ratios(times):
    """By medians, because the fastest round may lack work that is done once a second."""
    return ratios_of({name: one["ns"] for name, one in times.items()})


def print_table(times):
    print(f"\n{'':<28} {'':<12} {'server ns':>10} {'noise':>6} {'requests/s':>11}")
    for case in CASES:
        for name, label in LABELS.items():
            one = times[(case, name)]
            print(f"{case:<28} {label:<12} {one['ns']:>10.0f} {percent(one['noise']):>6} {one['per_second']:>11.0f}")


NOTES = """
all of it: top keys, an open page, metrics scraped each second, one of 100 requests traced to a collector.
observed_vs_bare is the geometric mean of the four cases, by the medians of the rounds. Single rounds differ by more than 5 %."""
