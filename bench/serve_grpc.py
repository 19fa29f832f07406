"""gRPC for ./dev bench serve: ShouldRateLimit beside nghttpd and Redis with a token bucket in Lua. Not a benchmark itself.

nghttpd, of the same nghttp2, gets the same POST and sends a file of the size of a response with the trailer grpc-status. It
decodes nothing and decides nothing: it shows what HTTP/2 takes."""

import contextlib
import re
import shlex
import socket
import sys
import tempfile
import time
from pathlib import Path

import serve_peers
from harness import ROOT, fastest, percent, run, summarize
from serve_peers import WEIR, free_port

CONNECTIONS, STREAMS = 50, 16
METHOD = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
RESPONSE_BYTES = 28
BUCKET = ["3000000", "1", "180000000", "1"]
# contender -> label, expected requests a second
CONTENDERS = {
    "weir": ("Weir, ShouldRateLimit", 100_000),
    "nghttpd": ("nghttpd, a file and a trailer", 100_000),
    "lua": ("Redis, token bucket in Lua", 80_000),
}
PROMISES = [("grpc_vs_nghttpd", ">=", 0.6), ("grpc_vs_lua_p16", ">=", 2.0)]

POLICY = """domain: bench
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 268435455}
"""


def part(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


def request():
    """The domain, and a descriptor with user=ann: a message of gRPC."""
    message = part(1, b"bench") + part(2, part(1, part(1, b"user") + part(2, b"ann")))
    return b"\0" + len(message).to_bytes(4, "big") + message


def is_served(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def all_servers(cpus):
    """Contender -> its server."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name, contextlib.ExitStack() as stack:
        folder, weir_port, nghttpd_port = Path(name), free_port(), free_port()
        (folder / "policy.yaml").write_text(POLICY, encoding="ascii")
        (folder / "request").write_bytes(request())
        (folder / METHOD).parent.mkdir()
        (folder / METHOD).write_bytes(bytes(RESPONSE_BYTES))
        weir = [WEIR, "serve", "--listen", str(folder / "resp"), "--http", "none", "--grpc", f"127.0.0.1:{weir_port}",
                "--workers", "1", "--policy", str(folder / "policy.yaml")]
        nghttpd = ["nghttpd", "--no-tls", "-n", "1", "-d", name, "--trailer", "grpc-status: 0", "-a", "127.0.0.1", str(nghttpd_port)]
        servers = {"weir": stack.enter_context(serve_peers.started(weir, weir_port, cpus, is_served)),
                   "nghttpd": stack.enter_context(serve_peers.started(nghttpd, nghttpd_port, cpus, is_served)),
                   "lua": stack.enter_context(serve_peers.redis(cpus))}
        script = (ROOT / "bench/bucket.lua").read_text(encoding="utf-8")
        digest = run(["redis-cli", *servers["lua"].where, "SCRIPT", "LOAD", script])[0].strip()
        yield servers, folder / "request", digest


def drive(name, server, command, n):
    before, start = server.cpu_ns(), time.monotonic()
    out, _ = run(command)
    took, used = time.monotonic() - start, server.cpu_ns() - before
    if f" {n} succeeded, 0 failed, 0 errored" not in out or f"status codes: {n} 2xx" not in out or server.process.poll() is not None:
        raise SystemExit(f"{CONTENDERS[name][0]}: {shlex.join(command)}:\n{out}")
    return {"ns": used / n, "per_second": float(re.search(r"finished in \S+, ([\d.]+) req/s", out)[1]), "busy": used / 1e9 / took}


def measure(arguments, cpus, load_cpu):
    """contender -> its summary."""
    runs, printed = {}, set()
    with all_servers(cpus) as (servers, body, digest):
        for number in range(-1, arguments.rounds):  # the first round is a warm-up
            print(f"gRPC, round {number + 1} of {arguments.rounds}", file=sys.stderr)
            for name, server in servers.items():
                n = max(CONNECTIONS * STREAMS, int(CONTENDERS[name][1] * arguments.seconds))
                if name == "lua":
                    words = ["EVALSHA", digest, "1", "key", *BUCKET]
                    command = serve_peers.benchmark_command(server.where, load_cpu, STREAMS, CONNECTIONS, 1, n, words)
                else:
                    command = ["taskset", "-c", str(load_cpu), "h2load", "-c", str(CONNECTIONS), "-m", str(STREAMS), "-n", str(n),
                               "-d", str(body), "-H", "content-type: application/grpc", "-H", "te: trailers",
                               f"http://127.0.0.1:{server.where}/{METHOD}"]
                if name not in printed:
                    print(shlex.join(command), f" # {CONTENDERS[name][0]}")
                    printed.add(name)
                one = serve_peers.drive(server, command, n) if name == "lua" else drive(name, server, command, n)
                one.pop("p99_ms", None)
                if number >= 0:
                    runs.setdefault(name, []).append(one)
    return {name: {**summarize(one), "per_second_of_rounds": [each["per_second"] for each in one]} for name, one in runs.items()}


def ratios_of(ns, word=""):
    """ns: contender -> ns for a request."""
    return {f"grpc{word}_vs_nghttpd": ns["nghttpd"] / ns["weir"], f"grpc{word}_vs_lua_p16": ns["lua"] / ns["weir"]}


def by_rate(times):
    return {name: {"ns_of_rounds": [1e9 / rate for rate in one["per_second_of_rounds"]]} for name, one in times.items()}


def all_ratios(times):
    return {**ratios_of(fastest(by_rate(times))), **ratios_of(fastest(times), "_cpu")}


def cpu_ratios_of(ns):
    return ratios_of(ns, "_cpu")


def print_table(times):
    print(f"\n{'':<30} {'server ns':>10} {'noise':>6} {'requests/s':>11} {'server busy':>12}")
    for name, one in times.items():
        print(f"{CONTENDERS[name][0]:<30} {one['ns']:>10.0f} {percent(one['noise']):>6} {one['per_second']:>11.0f} {percent(one['busy']):>12}")


NOTES = f"""
{CONNECTIONS} connections with {STREAMS} streams each; Redis has a pipeline of {STREAMS}. One key, which is never full. Where
the server is not busy, the load program was the limit: compare by CPU time then (*_cpu_vs_*)."""
