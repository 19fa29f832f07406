"""What TLS costs, for ./dev bench serve: Weir and Redis, each with and without TLS, at keep-alive. Not a benchmark itself.

All four get their usual request over the same connections, in turn. The benchmark compares the server's CPU time per request
with TLS to the time without, for Weir and for Redis, which uses the same OpenSSL."""

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile

import serve_peers
from harness import percent, summarize

CONNECTIONS = 50
KEY = "key:__rand_int__"
THROTTLE, GET = ["CL.THROTTLE", KEY, "2999999", "1", "180"], ["GET", KEY]
# pipeline -> expected requests a second (sets how many a measurement sends)
PIPELINES = {1: 50_000, 16: 400_000}
LABELS = {"weir": "Weir, CL.THROTTLE", "weir_tls": "Weir, the same with TLS", "redis": "Redis, GET",
          "redis_tls": "Redis, the same with TLS"}
PROMISES = [("tls_p1_vs_redis_tls", ">=", 1.0)]


def make_certificate(folder):
    """Returns the paths of a self-signed certificate, which is its own CA, and its key."""
    pem, key = (os.path.join(folder, name) for name in ("server.pem", "server.key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", pem],
                   check=True, capture_output=True)
    return pem, key


@contextlib.contextmanager
def all_servers(cpus, load_cpus, keys):
    """Contender -> its server, with all keys."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder, contextlib.ExitStack() as stack:
        pem, key = make_certificate(folder)
        ports = {name: str(serve_peers.free_port()) for name in LABELS}
        plain = {name: ["-p", port] for name, port in ports.items()}
        where = {name: [*words, "--tls", "--cacert", pem] if name.endswith("_tls") else words for name, words in plain.items()}
        weir = [*serve_peers.weir_command(f"127.0.0.1:{ports['weir']}", 2 * keys), *serve_peers.ASLEEP]
        weir_tls = [*serve_peers.weir_command(f"tls://127.0.0.1:{ports['weir_tls']}", 2 * keys), *serve_peers.ASLEEP,
                    "--tls-cert", pem, "--tls-key", key]
        redis = ["redis-server", "--save", "", "--appendonly", "no"]
        commands = {"weir": weir, "weir_tls": weir_tls, "redis": [*redis, "--port", ports["redis"]],
                    "redis_tls": [*redis, "--port", "0", "--tls-port", ports["redis_tls"], "--tls-cert-file", pem,
                                  "--tls-key-file", key, "--tls-ca-cert-file", pem, "--tls-auth-clients", "no"]}
        servers = {name: stack.enter_context(serve_peers.started(command, where[name], cpus))
                   for name, command in commands.items()}
        for name, server in servers.items():
            serve_peers.fill(server, ["SET", KEY, "xxx"] if name.startswith("redis") else THROTTLE, keys, load_cpus)
        yield servers


def measure(arguments, cpus, load_cpus, keys):
    """(pipeline, contender) -> its summary."""
    runs, load_cpu = {}, min(load_cpus)
    with all_servers(cpus, load_cpus, keys) as servers:
        for number in range(arguments.rounds):
            print(f"TLS, round {number + 1} of {arguments.rounds}", file=sys.stderr)
            for pipeline, rate in PIPELINES.items():
                for name, server in servers.items():
                    n = max(CONNECTIONS * pipeline, int(rate * arguments.seconds))
                    command = serve_peers.benchmark_command(server.where, load_cpu, pipeline, CONNECTIONS, keys, n,
                                                            GET if name.startswith("redis") else THROTTLE)
                    if number == 0:
                        print(shlex.join(command))
                    runs.setdefault((pipeline, name), []).append(serve_peers.drive(server, command, n))
    return {name: summarize(one) for name, one in runs.items()}


def ratios_of(ns):
    """What TLS costs as a ratio, for Weir and for Redis, and how they compare: above 1, TLS costs Weir less."""
    ratios = {}
    for pipeline in PIPELINES:
        ours, theirs = (ns[(pipeline, f"{name}_tls")] / ns[(pipeline, name)] for name in ("weir", "redis"))
        ratios |= {f"tls_p{pipeline}_cost": ours, f"tls_p{pipeline}_cost_redis": theirs,
                   f"tls_p{pipeline}_vs_redis_tls": theirs / ours}
    return ratios


def all_ratios(times):
    return ratios_of({name: min(one["ns_of_rounds"]) for name, one in times.items()})


def print_table(times):
    print(f"\n{'':<28} {'pipeline':>8} {'server ns':>10} {'noise':>6}")
    for (pipeline, name), one in times.items():
        print(f"{LABELS[name]:<28} {pipeline:>8} {one['ns']:>10.0f} {percent(one['noise']):>6}")


NOTES = """
With TLS 1.3. The time includes the handshakes of 50 connections. Both servers encrypt by the same OpenSSL. The ratios at pipeline
16 are not judged: there a request costs Redis twice as much without TLS, so the same cost of a record is a smaller share."""
