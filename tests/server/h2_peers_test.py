#!/usr/bin/env python3
"""h2spec, which checks HTTP/2 against its specification, and grpcurl with examples/envoy/rls.proto.

    h2_peers_test.py WEIR EXAMPLES FOLDER

FOLDER keeps builds and downloads for the next run. A program that the Go module proxy does not deliver is skipped."""
# Covers: src/server/h2/h2_connection.c, src/wire/h2.c

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import go_programs  # noqa: E402
from daemon import TIMEOUT_S, Skipped, daemon, run  # noqa: E402
from tls_certificates import Authority  # noqa: E402

WEIR, EXAMPLES, FOLDER = map(os.path.abspath, sys.argv[1:4])
SKIPPED = 77  # for meson
unreached = []

# The server forgets a stream when it ends, so that idle connections take little memory. nghttp2 then ignores frames for
# it, because they may have been sent before the client knew.
CLOSED = {
    "5.1. half closed (remote): Sends a HEADERS frame",  # if the response was sent before the frame came
    "5.1. half closed (remote): Sends a DATA frame",  # the same
    "5.1. closed: Sends a DATA frame after sending RST_STREAM frame",
    "5.1. closed: Sends a HEADERS frame after sending RST_STREAM frame",
    "5.1. closed: Sends a DATA frame",
    '6.1. Sends a DATA frame on the stream that is not in "open" or "half-closed (local)" state',  # if it has ended
    "5.1. closed: Sends a HEADERS frame",
}
# nghttp2 ignores the frame: it may be for a stream that was closed.
NUMBERS = {"5.1.1. Sends stream identifier that is numerically smaller than previous"}
# At this port, bytes other than the preface of HTTP/2 are HTTP/1.1, and get a response with status 400.
HTTP_1 = {"3.5. Sends invalid connection preface"}


def program(name):
    try:
        return getattr(go_programs, name)(FOLDER)
    except go_programs.Unreached as why:
        unreached.append(name)
        raise Skipped(f"not reachable: {why}") from why


def failures(port, *options):
    """Runs all cases, the strict ones too. Returns how many ran, and those that failed."""
    with tempfile.TemporaryDirectory(prefix="weir-h2spec-") as folder:
        report = os.path.join(folder, "report.xml")
        # Like HTTP/1.1, /healthz has a response of some bytes, and takes any method.
        subprocess.run([program("h2spec"), "--strict", "--host", "127.0.0.1", "--port", str(port), "--path", "/healthz", "--timeout", "3",
                        "--junit-report", report, *options], capture_output=True, timeout=500, check=False)
        suites = xml.parse(report).getroot().findall("testsuite")
    cases = [(f"{suite.get('name').split()[0]} {case.get('classname')}", case) for suite in suites for case in suite.findall("testcase")]
    assert len(cases) > 140, len(cases)
    return len(cases), {name for name, case in cases if case.find("failure") is not None or case.find("error") is not None}


def spec(expected, *options, scheme="", grpc=False):
    with tempfile.TemporaryDirectory(prefix="weir-h2spec-") as folder:
        tls = []
        if scheme:
            pem, key = Authority(folder).server()
            tls = ["--tls-cert", pem, "--tls-key", key]
        with daemon(WEIR, "--keys", "1000", "--workers", "1", *tls, *(["--grpc", f"{scheme}127.0.0.1:0"] if grpc else []),
                    http="none" if grpc else f"{scheme}127.0.0.1:0") as one:
            where = one.process.stdout.readline().decode().split()[-1] if grpc else one.http_at
            n, failed = failures(where.rpartition(":")[2], *options)
            assert failed <= expected, sorted(failed - expected)
            assert (expected - CLOSED) <= failed, f"passes now: {sorted(expected - CLOSED - failed)}"
            return f"{n} cases, {len(failed)} of them otherwise"


def grpcurl():
    call = [program("grpcurl"), "-plaintext", "-import-path", os.path.join(EXAMPLES, "envoy"), "-proto", "rls.proto"]
    method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

    def ask(asked, status=0):
        done = subprocess.run([*call, "-d", json.dumps(asked), one.http_at, method], capture_output=True, text=True, timeout=TIMEOUT_S,
                              check=False)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout) if status == 0 else done.stderr

    with daemon(WEIR, "--keys", "1000", "--workers", "1", "--policy", os.path.join(EXAMPLES, "envoy/policy.yaml"), "--envoy-headers", "true",
                "--envoy-metadata", "true", http="127.0.0.1:0") as one:
        entries = [{"key": "customer", "value": "ann"}]
        found = ask({"domain": "shop", "descriptors": [{"entries": entries, "hits_addend": 7}], "hits_addend": 3})
        assert 0 < int(found["statuses"][0].pop("durationUntilReset")[:-1]) <= 86400
        assert found["overallCode"] == "OK" and found["statuses"] == [
            {"code": "OK", "currentLimit": {"requestsPerUnit": 1000, "unit": "DAY"}, "limitRemaining": 993}], found
        assert [header["key"] for header in found["responseHeadersToAdd"]] == ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]
        assert found["dynamicMetadata"] == {"domain": "shop", "hitsAddend": 3, "descriptors": [
            {"entries": ["customer=ann"], "hitsAddend": 7, "limit": "1000/day fixed_window count all"}]}, found
        found = ask({"domain": "shop", "descriptors": [{"entries": entries, "hits_addend": 2000}]})
        assert found["overallCode"] == "OVER_LIMIT", found
        assert "the domain is empty" in ask({"descriptors": [{"entries": entries}]}, status=64 + 3)
        done = subprocess.run([program("grpcurl"), "-plaintext", one.http_at, "list"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert "does not support the reflection API" in done.stderr, done


def main():
    status = run([
        ("h2spec: http", lambda: spec(CLOSED | NUMBERS | HTTP_1)),
        ("h2spec: http over TLS", lambda: spec(CLOSED | NUMBERS, "--tls", "--insecure", scheme="tls://")),
        ("h2spec: grpc", lambda: spec(CLOSED | NUMBERS, grpc=True)),
        ("grpcurl", grpcurl),
    ])
    return status or (SKIPPED if len(set(unreached)) == 2 else 0)


if __name__ == "__main__":
    sys.exit(main())
