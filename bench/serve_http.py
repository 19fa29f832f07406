"""HTTP for ./dev bench serve: GET /v1/check beside nginx and HAProxy, with load from wrk on another processor. Not a
benchmark itself."""

import contextlib
import http.client
import re
import shlex
import sys
import tempfile
import time
from pathlib import Path

import serve_peers
from harness import fastest, percent, run, summarize
from serve_peers import WEIR, free_port

CONNECTIONS = 50
DEPTHS = [1, 16]
SCRIPT = "bench/serve_http.lua"
PATH = "/v1/check"
DENIALS_AFTER = 150  # requests of one key at once; every server that limits denies some of them

# contender -> label
CONTENDERS = {
    "weir": "Weir, GET /v1/check",
    "asleep": "Weir, --spin 0",
    "return": "nginx, return 200",
    "limit_req": "nginx, limit_req + empty_gif",
    "try_files": "nginx, limit_req + try_files",
    "haproxy": "HAProxy, stick-table",
    "static": "nginx, a file",
    "authorize": "nginx, a file + Weir called",
}
LIMITING = ["weir", "asleep", "limit_req", "try_files", "haproxy", "authorize"]

PROMISES = [
    ("http_vs_nginx_return", ">=", 1.0),
    ("http_vs_nginx_limit_req", ">=", 1.1),
    ("http_vs_haproxy", ">=", 1.3),
    ("http_p16_vs_nginx_return", ">=", 3.0),
]

POLICY = """limits:
  - name: each
    key: api_key
    limit: 10/min burst 100
"""

NGINX = """daemon off;
master_process off;
pid {folder}/pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000000;
    {zones}
    server {{
        listen 127.0.0.1:{port} reuseport;
        root {folder}/root;
        {location}
    }}
}}
"""
ZONE = "limit_req_zone $arg_api_key zone=each:256m rate=10r/m; limit_req_status 429;"
LIMIT = "limit_req zone=each burst=100 nodelay;"
# The subrequest to Weir has no query, so $each passes the key on.
# try_files ends at a named location: a return in the same location would respond before limit_req runs.
LOCATIONS = {
    "return": ("", "location = /v1/check { return 200 ok; }"),
    "limit_req": (ZONE, "location = /v1/check { " + LIMIT + " empty_gif; }"),
    "try_files": (ZONE, "location = /v1/check { " + LIMIT + " try_files /none @ok; } location @ok { return 200 ok; }"),
    "static": ("", "location = /v1/check { try_files /file =404; }"),
    "authorize": ("upstream weir { server %(weir)s; keepalive 64; keepalive_requests 1000000000; }",
                  "location = /v1/check { set $each $arg_api_key; auth_request /ask; error_page 403 = @denied; try_files /file =404; } "
                  "location @denied { return 429; } "
                  "location = /ask { internal; proxy_pass http://weir/v1/authorize?deny=403; proxy_method HEAD; proxy_http_version 1.1; "
                  "proxy_pass_request_body off; proxy_pass_request_headers off; proxy_set_header Connection ''; "
                  "proxy_set_header Content-Length ''; proxy_set_header X-Original-Method $request_method; "
                  "proxy_set_header X-Original-URI $request_uri; proxy_set_header X-Original-Host $host; "
                  "proxy_set_header X-Api-Key $each; }"),
}

HAPROXY = """global
    nbthread 1
    maxconn 1000
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 5s
    timeout http-keep-alive 60s
frontend each
    bind 127.0.0.1:{port}
    stick-table type string len 32 size 2m expire 60s store http_req_rate(60s)
    http-request track-sc0 url_param(api_key)
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 100 }}
    http-request return status 200 content-type text/plain string ok
"""


# --- servers --------------------------------------------------------------------------------------------------------

def status_of(port, key):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=serve_peers.PATIENCE_S)
    try:
        client.request("GET", f"{PATH}?api_key={key}")
        return client.getresponse().status
    finally:
        client.close()


def is_served(port):
    with contextlib.suppress(OSError):
        return status_of(port, "user:0") == 200
    return False


def started(command, port, cpus):
    return serve_peers.started(command, port, cpus, is_served)


def weir(folder, cpus, more=()):
    port = free_port()
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    return started([WEIR, "serve", "--listen", str(folder / f"resp{port}"), "--http", f"127.0.0.1:{port}", "--workers", "1",
                    "--keys", "2m", "--authorize_headers", "x-api-key=api_key", "--policy", str(folder / "policy.yaml"),
                    *more], port, cpus)


def nginx(folder, cpus, name, weir_port):
    port, own = free_port(), folder / name
    (own / "root").mkdir(parents=True)
    (own / "root/file").write_text("ok\n", encoding="utf-8")
    zones, location = LOCATIONS[name]
    (own / "nginx.conf").write_text(NGINX.format(
        folder=own, port=port, zones=zones % {"weir": f"127.0.0.1:{weir_port}"} if "%(" in zones else zones,
        location=location), encoding="utf-8")
    return started(["nginx", "-p", str(own), "-c", str(own / "nginx.conf")], port, cpus)


def haproxy(folder, cpus):
    port = free_port()
    (folder / "haproxy.cfg").write_text(HAPROXY.format(port=port), encoding="utf-8")
    return started(["haproxy", "-f", str(folder / "haproxy.cfg")], port, cpus)


@contextlib.contextmanager
def all_servers(cpus):
    """Contender -> its server."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        servers = {"weir": stack.enter_context(weir(folder, cpus)),
                   "asleep": stack.enter_context(weir(folder, cpus, serve_peers.ASLEEP))}
        for one in LOCATIONS:
            servers[one] = stack.enter_context(nginx(folder, cpus, one, servers["weir"].where))
        servers["haproxy"] = stack.enter_context(haproxy(folder, cpus))
        for one, server in servers.items():
            check_denials(one, server.where)
        yield servers


def check_denials(name, port):
    """Checks that servers deny if and only if they should limit."""
    statuses = [status_of(port, f"denied:{name}") for _ in range(DENIALS_AFTER)]
    if (429 in statuses) != (name in LIMITING) or statuses[0] != 200:
        raise SystemExit(f"{CONTENDERS[name]}: of {DENIALS_AFTER} requests with one key {statuses.count(429)} were denied")


# --- load -----------------------------------------------------------------------------------------------------------

def wrk_command(port, cpu, depth, keys, seconds):
    return ["taskset", "-c", str(cpu), "wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{max(1, round(seconds))}s",
            "--latency", "-s", SCRIPT, f"http://127.0.0.1:{port}", "--", PATH, str(keys), str(depth)]


def milliseconds(text):
    found = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text)
    if found is None:
        raise SystemExit(f"unexpected p99 from wrk: {text!r}")
    number, unit = found.groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}[unit]


def drive(name, server, command):
    before, start = server.cpu_ns(), time.monotonic()
    out, _ = run(command)
    took, used = time.monotonic() - start, server.cpu_ns() - before
    n = int(re.search(r"(\d+) requests in", out)[1])
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: .*", out)
    if n == 0 or bad or server.process.poll() is not None:
        raise SystemExit(f"{CONTENDERS[name]}: {shlex.join(command)}:\n{out}")
    return {"ns": used / n, "per_second": float(re.search(r"Requests/sec:\s*([\d.]+)", out)[1]),
            "p99_ms": milliseconds(re.search(r"^ +99%\s+(\S+)", out, re.MULTILINE)[1]), "busy": used / 1e9 / took}


def measure(arguments, cpus, load_cpu, keys):
    """(depth, contender) -> its summary."""
    runs, printed = {}, set()
    with all_servers(cpus) as servers:
        for number in range(-1, arguments.rounds):  # the first round is a warm-up
            print(f"HTTP, round {number + 1} of {arguments.rounds}", file=sys.stderr)
            for depth in DEPTHS:
                for name, server in servers.items():
                    if depth > 1 and name in ("static", "authorize"):
                        continue
                    command = wrk_command(server.where, load_cpu, depth, keys, arguments.seconds)
                    if (depth, name) not in printed:
                        print(shlex.join(command), f" # {CONTENDERS[name]}")
                        printed.add((depth, name))
                    one = drive(name, server, command)
                    if number >= 0:
                        runs.setdefault((depth, name), []).append(one)
    return {name: {**summarize(one), "per_second_of_rounds": [each["per_second"] for each in one],
                   "p99_ms_of_rounds": [each["p99_ms"] for each in one]} for name, one in runs.items()}


# --- judgement ------------------------------------------------------------------------------------------------------

def ratios_of(ns, word="", weir="weir"):
    """ns: (depth, contender) -> ns per request. nginx has two ways to limit, and the faster one counts."""
    limit_req = min(ns[(1, "limit_req")], ns[(1, "try_files")])
    return {f"http{word}_vs_nginx_return": ns[(1, "return")] / ns[(1, weir)],
            f"http{word}_vs_nginx_limit_req": limit_req / ns[(1, weir)],
            f"http{word}_vs_haproxy": ns[(1, "haproxy")] / ns[(1, weir)],
            f"http_p16{word}_vs_nginx_return": ns[(16, "return")] / ns[(16, weir)]}


def by_rate(times):
    return {name: {"ns_of_rounds": [1e9 / rate for rate in one["per_second_of_rounds"]]} for name, one in times.items()}


def all_ratios(times):
    p99 = {name: min(one["p99_ms_of_rounds"]) for name, one in times.items()}
    return {**ratios_of(fastest(by_rate(times))), **ratios_of(fastest(times), "_cpu", "asleep"),
            "authorize_p99_vs_nginx_static": p99[(1, "authorize")] / p99[(1, "static")]}


def print_table(times):
    print(f"\n{'':<28} {'pipeline':>8} {'server ns':>10} {'noise':>6} {'requests/s':>11} {'server busy':>12} {'p99 ms':>7}")
    for depth in DEPTHS:
        for name in (name for name in CONTENDERS if (depth, name) in times):
            one = times[(depth, name)]
            print(f"{CONTENDERS[name]:<28} {depth:>8} {one['ns']:>10.0f} {percent(one['noise']):>6} "
                  f"{one['per_second']:>11.0f} {percent(one['busy']):>12} {min(one['p99_ms_of_rounds']):>7.3f}")


NOTES = """
All but `return 200` and `a file` limit each key to 10 a minute, burst 100. A check before the measurement shows that they deny.
With a million keys, all requests are allowed. If the server is not always busy, wrk is the bottleneck: compare the ns (*_cpu_vs_*).
For `a file + Weir called`, the ns are those of nginx. Weir shares the processor with it."""
