#!/usr/bin/env python3
"""weir serve with TLS: RESP, HTTP and metrics, certificates that change, clients that are refused.

    tls_test.py WEIR plain|sanitized|thread [full]

With `full`, 10,000 clients send half a handshake, and certificates must be read again within 10 s."""
# Covers: src/os/tls_server.c, src/server/worker_tls.c, src/server/certificates.c, src/server/output.c, src/cli/stream.c

import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, bulks, expect, receive, run  # noqa: E402
from tls_certificates import Authority  # noqa: E402

WEIR, IS_PLAIN, IS_FULL = sys.argv[1], sys.argv[2] == "plain", "full" in sys.argv
OK, PONG = b"+OK\r\n", b"+PONG\r\n"


def wait_until(holds, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)
    return found


class Server:
    """A weir serve with addresses that the kernel picks. `at` has the port of each line that it prints."""

    def __init__(self, folder, *options, config=None):
        self.folder, self.ca = folder, Authority(folder)
        self.pair = self.ca.server()
        self.options = ["--tls-cert", self.pair[0], "--tls-key", self.pair[1], "--workers", "2", *options]
        if config is not None:
            self.config = os.path.join(folder, "weir.yaml")
            with open(self.config, "w", encoding="utf-8") as file:
                file.write(config)
            self.options += ["--config", self.config]
        self.log = open(os.path.join(folder, "log"), "ab+")
        self.process = self.with_certificate = None

    def start(self, *options, services=("listen", "http", "metrics-listen")):
        where = [word for service in services for word in (f"--{service}", "tls://127.0.0.1:0")]
        self.process = subprocess.Popen([WEIR, "serve", *where, "--listen", "127.0.0.1:0", *self.options, *options],
                                        stdout=subprocess.PIPE, stderr=self.log)
        self.at = {}
        for _ in range(len(services) + 1):
            line = self.process.stdout.readline().decode()
            found = re.fullmatch(r"weir serve: (\w+) at (tls://)?127\.0\.0\.1:(\d+)\n", line)
            assert found, (line, self.said())
            self.at[("tls " if found[2] else "") + found[1]] = int(found[3])
        return self

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def plain(self, what="tls RESP", room=None):
        """`room` is the size of the buffer for what it receives."""
        client = socket.socket()
        client.settimeout(TIMEOUT_S)
        if room:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        client.connect(("127.0.0.1", self.at[what]))
        return client

    def connect(self, what="tls RESP", context=None, name="localhost", room=None, **more):
        plain = self.plain(what, room)
        try:
            return (context or self.ca.context()).wrap_socket(plain, server_hostname=name, **more)
        except BaseException:
            plain.close()
            raise

    def get(self, path, what="tls HTTP", context=None, headers=""):
        with self.connect(what, context) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n".encode())
            got = b""
            while piece := client.recv(65536):
                got += piece
        head, body = got.split(b"\r\n\r\n", 1)
        return int(head.split()[1]), body.decode()

    def metric(self, line, context=None):
        for one in self.get("/metrics", "tls metrics", context)[1].splitlines():
            if one.startswith(line + " "):
                return float(one.split()[-1])
        return None

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            status = self.process.wait(TIMEOUT_S)
            self.process.stdout.close()
            assert status == 0, (status, self.said())
        self.log.close()


@contextlib.contextmanager
def server(*options, start=(), **more):
    with tempfile.TemporaryDirectory(prefix="weir-tls-") as folder:
        one = Server(folder, *options, **more)
        try:
            yield one.start(*start)
        except BaseException:
            if one.process:
                one.process.kill()
                one.process.wait(TIMEOUT_S)
                one.process = None
            raise
        finally:
            one.close()


# --- requests


def every_port_speaks_tls():
    with server() as one:
        with one.connect() as client:
            assert client.version() == "TLSv1.3"
            expect(client, bulks("PING"), PONG)
        with one.connect(context=one.ca.context(maximum_version=ssl.TLSVersion.TLSv1_2)) as client:
            assert client.version() == "TLSv1.2"
            expect(client, bulks("PING"), PONG)
        assert one.get("/healthz") == (200, "ok\n")
        assert one.get("/healthz", "tls metrics")[0] == 200
        assert one.metric("rate_limiter_tls_handshakes_total") >= 4
        with one.plain("RESP") as client:
            expect(client, bulks("PING"), PONG)
        with one.connect("tls HTTP") as client:  # with TLS nothing is compressed
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
            head = receive(client, 4096).split(b"\r\n\r\n")[0]
            assert b" 200 " in head and b"Content-Encoding" not in head, head


def pipelines_and_slow_readers():
    """More than a record in both directions; requests in pieces; replies beyond the buffers of both kernels."""
    n, value = 60000, "x" * 100
    with server(start=["--output", "64KiB", "--workers", "1"]) as one, one.connect(room=65536) as client:
        request = bulks("ECHO", value) * n
        sender = threading.Thread(target=client.sendall, args=(request,))
        sender.start()
        # Replies are buffered, besides 16 KiB for each of two connections. Others are served.
        wait_until(lambda: one.metric("rate_limiter_client_memory_bytes") > 36000, one.said)
        for _ in range(20):
            assert one.metric("rate_limiter_client_memory_bytes") < 1 << 20
        reply = b"$100\r\n" + value.encode() + b"\r\n"
        assert receive(client, len(reply) * n) == reply * n
        sender.join()
        for piece in (bulks("PING")[i:i + 1] for i in range(len(bulks("PING")))):
            client.sendall(piece)
        assert receive(client, len(PONG)) == PONG


def ends_are_announced():
    with server() as one:
        with one.connect(suppress_ragged_eofs=False) as client:
            client.sendall(bulks("PING") + bulks("QUIT"))
            assert receive(client, len(PONG + OK) + 1) == PONG + OK  # a truncated end would raise
        with one.connect() as client:
            client.sendall(bulks("PING") * 100)
            with contextlib.suppress(OSError):
                client.unwrap()  # close_notify, while replies are under way
        assert one.get("/healthz")[0] == 200


def shutdown_completes_replies():
    with server() as one:
        clients = [one.connect() for _ in range(10)]
        half = one.plain()
        half.sendall(b"\x16\x03\x01\x02")
        for client in clients:
            client.sendall(bulks("PING") * 1000)
        one.close()
        for client in clients:
            assert receive(client, len(PONG) * 1000 + 1) == PONG * 1000
            client.close()
        half.close()


# --- clients that are refused


def refused(one, reason, connect, says=None):
    """The server counts one more, and if `says` is given, a log line says it."""
    name = f'rate_limiter_tls_failures_total{{reason="{reason}"}}'
    before = one.metric(name, one.mine)
    if says:
        time.sleep(1.1)  # at most one line a second
    try:
        with connect() as client:
            client.sendall(bulks("PING"))
            assert receive(client, 1) == b"", "it was served"
    except (ssl.SSLError, ConnectionError):
        pass
    wait_until(lambda: one.metric(name, one.mine) == before + 1, one.said)
    if says:
        wait_until(lambda: [line for line in one.said().splitlines() if f"({reason})" in line and says in line], one.said)


def truncated(one):
    client = one.plain()
    client.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
    client.shutdown(socket.SHUT_WR)
    return client


def clients_are_refused():
    with tempfile.TemporaryDirectory(prefix="weir-tls-other-") as folder, \
            server(start=["--workers", "1"]) as first:
        other = Authority(folder, "other")
        first.mine = None
        old = first.ca.context(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)
        old.set_ciphers("ALL:@SECLEVEL=0")
        refused(first, "version", lambda: first.connect(context=old))
        refused(first, "not_tls", lambda: first.plain())
        refused(first, "rejected_by_client", lambda: first.connect(context=other.context()))
        refused(first, "closed", lambda: truncated(first))
        context = first.ca.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        refused(first, "other", lambda: first.connect(context=context), "no application protocol")
        with first.connect("tls HTTP", context) as client:
            assert client.selected_alpn_protocol() == "h2"

        mutual = Server(folder, "--tls-client-ca", first.ca.pem)
        mutual.pair = first.pair
        mutual.ca = first.ca
        mutual.options[1], mutual.options[3] = first.pair
        good = first.ca.sign("good", "URI:spiffe://example.org/good")
        expired = first.ca.sign("expired", "URI:spiffe://example.org/expired", days=-1)
        mutual.mine = first.ca.context(good)
        mutual.start("--workers", "1")
        try:
            with mutual.connect(context=mutual.mine) as client:
                expect(client, bulks("PING"), PONG)
            refused(mutual, "no_certificate", mutual.connect)
            refused(mutual, "expired", lambda: mutual.connect(context=first.ca.context(expired)), "certificate has expired")
            wrong = first.ca.context(other.sign("wrong", "DNS:good"))
            refused(mutual, "untrusted", lambda: mutual.connect(context=wrong), "from 127.0.0.1 to resp")
            probe = mutual.plain()  # a load balancer that only connects is not a failure
            probe.close()
            with mutual.connect(context=mutual.mine) as client:
                expect(client, bulks("PING"), PONG)
            assert mutual.metric('rate_limiter_tls_failures_total{reason="closed"}', mutual.mine) == 0
        finally:
            mutual.close()


def failures_are_told_once_a_second():
    n = 200
    with server(start=["--workers", "2"]) as one:
        began = time.monotonic()
        for _ in range(n):
            with one.plain() as client:
                client.sendall(bulks("PING"))
                with contextlib.suppress(ConnectionError):
                    while client.recv(4096):
                        pass
        wait_until(lambda: one.metric('rate_limiter_tls_failures_total{reason="not_tls"}') == n, one.said)
        took = time.monotonic() - began
        lines = [line for line in one.said().splitlines() if " tls: refused a connection" in line]
        assert 1 <= len(lines) <= took + 2, (took, lines)
        time.sleep(1.1)
        with one.plain() as client:
            client.sendall(bulks("PING"))
            with contextlib.suppress(ConnectionError):
                client.recv(4096)
        wait_until(lambda: re.search("; [0-9]+ more since the last line like this", one.said()), one.said)


def half_handshakes_are_bounded():
    """Clients that send a part of a handshake and wait: bounded memory, others are served, few log lines."""
    n = 10000 if IS_FULL else 1000
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    hello = outgoing.read()
    with server(start=["--client-memory", "4MiB", "--header-time", "4s"]) as one:
        with open(f"/proc/{one.process.pid}/status", encoding="ascii") as status:
            before = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        began = time.monotonic()
        half = []
        with one.connect() as other:
            for i in range(n):
                half.append(one.plain())
                half[-1].sendall(hello if i % 2 else hello[:100])
                if i % 50 == 0:
                    expect(other, bulks("PING"), PONG)
            with open(f"/proc/{one.process.pid}/status", encoding="ascii") as status:
                after = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
            for client in half:  # all are closed: some for memory, the others after header_time
                with contextlib.suppress(ConnectionError):
                    while client.recv(65536):
                        pass
                client.close()
            took = time.monotonic() - began
            expect(other, bulks("PING"), PONG)
        assert one.metric('rate_limiter_connections_closed_total{reason="memory"}') > 0, "their memory is counted"
        lines = [line for line in one.said().splitlines() if " tls: " in line or "client_memory" in line]
        assert len(lines) <= 2 * (took + 2), (took, lines)
        assert after - before < (64 if IS_PLAIN else 512) * 1024, (before, after)  # sanitizers delay reuse
        return f"{n} half handshakes: {after - before} KiB, {len(lines)} log lines in {took:.1f} s"


# --- clients


def called(*words, **environment):
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, **environment})
    return done.returncode, (done.stdout + done.stderr).strip()


def programs_are_clients():
    with mutual() as one:
        pair = one.ca.sign("client", f"URI:{WEB}")
        files = ["--cacert", one.ca.pem, "--cert", pair[0], "--key", pair[1]]
        at = f"tls://localhost:{one.at['tls RESP']}"
        assert called(WEIR, "ping", "--at", at, *files) == (0, "PONG")
        assert called(WEIR, "ping", "--at", at.replace("tls", "rediss"), WEIR_CACERT=one.ca.pem, WEIR_CERT=pair[0],
                      WEIR_KEY=pair[1]) == (0, "PONG")
        assert called(WEIR, "take", "a", "5/min", "--at", at, *files)[1].startswith("allowed, 4 of 5 left")
        status, said = called(WEIR, "bench", "resp", "--seconds", "1", "--pipeline", "100", "--at", at, *files)
        assert status == 0 and "errors             0 of" in said, said
        status, said = called(WEIR, "top", "--once", "--at", at, *files)
        assert status == 3 and "NOPERM" in said, said
        status, said = called(WEIR, "ping", "--at", at, "--cacert", one.ca.pem)
        assert status == 3 and "certificate required" in said, said
        status, said = called(WEIR, "ping", "--at", at)
        assert status == 3 and "certificate not trusted for localhost" in said, said
        status, said = called(WEIR, "ping", "--at", at, "--cacert", "/no/such/file")
        assert status == 2 and "the CA file /no/such/file: No such file" in said, said
        status, said = called(WEIR, "ping", "--at", "tls://./socket", *files)
        assert status == 2 and "invalid address" in said, said
        program = ("import redis, sys; at, ca, cert, key = sys.argv[1:]; r = redis.Redis.from_url(at, ssl_ca_certs=ca, "
                   "ssl_certfile=cert, ssl_keyfile=key); print(r.execute_command('WEIR.TAKE', 'b', '5/min')[2], r.ping())")
        python = "/usr/bin/python3"  # Debian's: python3-redis
        assert called(python, "-c", program, at.replace("tls", "rediss"), one.ca.pem, *pair) == (0, "4 True")
        if shutil.which("redis-cli"):
            assert called("redis-cli", "-p", str(one.at["tls RESP"]), "--tls", *files, "PING") == (0, "PONG")
        if shutil.which("curl"):
            show = ["-s", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"]
            check = f"https://localhost:{one.at['tls HTTP']}/v1/check?user=a"
            # Each is allowed by the certificate, and counted for its name.
            assert called("curl", *show, "--http1.1", *files, check) == (0, "1.1 200")
            assert [called("curl", *show, "--http2", *files, check)[1] for _ in range(3)] == ["2 200", "2 200", "2 429"]


# --- certificates that change


def serial_of(one, context=None):
    with one.connect(context=context) as client:
        return client.getpeercert()["serialNumber"]


def replace(pair, where):
    for path, target in zip(pair, where):
        shutil.copy(path, target + ".new")
        os.rename(target + ".new", target)


def certificates_are_replaced_under_load():
    with server() as one:
        first, failures, served, goes_on = serial_of(one), [], [0], True

        def load(reconnects):
            client = one.connect()
            while goes_on:
                try:
                    expect(client, bulks("PING"), PONG)
                    served[0] += 1
                    if reconnects:
                        client.close()
                        client = one.connect()
                except (OSError, AssertionError) as fault:
                    failures.append(fault)
                    return
            client.close()

        threads = [threading.Thread(target=load, args=(i % 2 == 1,)) for i in range(4)]
        for thread in threads:
            thread.start()
        replace(one.ca.server("next"), one.pair)
        wait_until(lambda: serial_of(one) != first, one.said)
        goes_on = False
        for thread in threads:
            thread.join()
        assert not failures and served[0] > 0, failures
        wait_until(lambda: "certificates changed; the certificate expires at" in one.said(), one.said)
        assert one.metric("rate_limiter_tls_reloads_total") == 1
        return f"{served[0]} requests"


def kubernetes_swaps_links():
    with tempfile.TemporaryDirectory(prefix="weir-tls-k8s-") as folder, server() as base:
        for name, pair in (("a", base.pair), ("b", base.ca.server("second"))):
            os.mkdir(os.path.join(folder, name))
            shutil.copy(pair[0], os.path.join(folder, name, "tls.crt"))
            shutil.copy(pair[1], os.path.join(folder, name, "tls.key"))
        os.symlink("a", os.path.join(folder, "..data"))
        for name in ("tls.crt", "tls.key"):
            os.symlink(os.path.join("..data", name), os.path.join(folder, name))
        one = Server(folder)
        one.ca = base.ca
        one.options[1], one.options[3] = (os.path.join(folder, name) for name in ("tls.crt", "tls.key"))
        one.start()
        try:
            first = serial_of(one)
            os.symlink("b", os.path.join(folder, "..next"))
            os.rename(os.path.join(folder, "..next"), os.path.join(folder, "..data"))
            began = time.monotonic()
            wait_until(lambda: serial_of(one) != first, one.said)
            took = time.monotonic() - began
            assert took < 10 or not IS_FULL, took
            return f"after {took:.1f} s"
        finally:
            one.close()


def looks(one):
    """Asks the server to look at its files, which it does every two seconds by itself."""
    one.process.send_signal(signal.SIGHUP)
    return True


def a_wrong_pair_changes_nothing():
    with server() as one:
        first, current = serial_of(one), "rate_limiter_tls_certificate_refused"
        assert one.metric(current) == 0
        other = one.ca.server("other")
        replace(other[:1], one.pair[:1])
        wait_until(lambda: looks(one) and one.metric(current) == 1, one.said)
        wait_until(lambda: "keeping the current certificate" in one.said(), one.said)
        assert "the key does not belong to the certificate" in one.said(), one.said()
        assert serial_of(one) == first
        replace(other[1:], one.pair[1:])
        wait_until(lambda: looks(one) and serial_of(one) != first, one.said)
        assert one.metric(current) == 0
        second = serial_of(one)
        os.unlink(one.pair[0])
        os.mkfifo(one.pair[0])  # no writer: opening it must not wait
        wait_until(lambda: looks(one) and "not a regular file" in one.said(), one.said)
        assert serial_of(one) == second
        wait_until(lambda: one.said().count("keeping the current certificate") == 2, one.said)


def chains_and_rsa_keys():
    """Certificate, intermediate CA and key in one file; the client trusts only the root."""
    with tempfile.TemporaryDirectory(prefix="weir-tls-") as folder:
        one = Server(folder)
        middle = Authority(folder, "middle", above=one.ca)
        pem, key = middle.sign("leaf", "DNS:localhost", days=1, kind=("rsa:2048",))
        whole = os.path.join(folder, "whole.pem")
        with open(whole, "w", encoding="ascii") as file:
            for path in (pem, middle.pem, key):
                with open(path, encoding="ascii") as part:
                    file.write(part.read())
        one.options[:4] = ["--tls-cert", whole]
        one.start()
        try:
            with one.connect() as client:
                expect(client, bulks("PING"), PONG)
                assert client.getpeercert()["subjectAltName"] == (("DNS", "localhost"),)
            # The intermediate CA lasts for two days, the certificate for one.
            name = 'rate_limiter_tls_certificate_expires_timestamp_seconds{certificate="server"}'
            assert abs(one.metric(name) - time.time() - 86400) < 3600
        finally:
            one.close()


def the_expiry_is_a_metric():
    with server() as one:
        name = 'rate_limiter_tls_certificate_expires_timestamp_seconds{certificate="server"}'
        assert abs(one.metric(name) - time.time() - 2 * 86400) < 3600
        assert one.metric(name.replace("server", "client_ca")) is None


def an_expired_certificate_is_told():
    with tempfile.TemporaryDirectory(prefix="weir-tls-") as folder:
        one = Server(folder)
        good = [shutil.copy(path, path + ".good") for path in one.pair]
        replace(one.ca.sign_until("late", "DNS:localhost,IP:127.0.0.1", time.time() - 3600), one.pair)
        try:
            one.start()
            wait_until(lambda: f"tls_cert: {one.pair[0]}: expired at 2" in one.said(), one.said)
            replace(good, one.pair)
            wait_until(lambda: looks(one) and "certificates changed" in one.said(), one.said)
            assert one.said().count("expired at") == 1, one.said()
        finally:
            one.close()


# --- users by certificate

WEB, OPS = "spiffe://example.org/web", "ops.example.org"
CONFIG = f"""users:
  web: {{certificate: "{WEB}", token: web-token}}
  ops: {{certificate: {OPS}, roles: [operate, read]}}
  old: {{password: old}}
limits:
  - name: each-peer
    key: [peer]
    limit: 3/1000day fixed_window
"""


@contextlib.contextmanager
def mutual(*options):
    with tempfile.TemporaryDirectory(prefix="weir-tls-") as folder:
        one = Server(folder, *options, config=CONFIG)
        one.options += ["--tls-client-ca", one.ca.pem]
        one.web = one.ca.context(one.ca.sign("web", f"DNS:elsewhere.example,URI:{WEB}"))
        one.ops = one.ca.context(one.ca.sign("ops", f"DNS:{OPS}"))
        one.other = one.ca.context(one.ca.sign("other", "DNS:other.example"))
        one.start()
        try:
            yield one
        finally:
            one.close()


def ask(client, *words):
    client.sendall(bulks(*words))
    return client.recv(65536).decode()


def certificates_are_users():
    with mutual() as one:
        with one.connect(context=one.web) as client:
            assert ask(client, "ACL", "WHOAMI") == "$3\r\nweb\r\n"
            assert ask(client, "WEIR.RESET", "a", "@each-peer").startswith("-NOPERM")
            assert ask(client, "AUTH", "old", "old") == "+OK\r\n"
            assert ask(client, "ACL", "WHOAMI") == "$3\r\nold\r\n"
            assert ask(client, "RESET") == "+RESET\r\n"
            assert ask(client, "ACL", "WHOAMI") == "$3\r\nweb\r\n"
        with one.connect(context=one.ops) as client:
            assert ask(client, "WEIR.RESET", "a", "@each-peer").startswith(":")
        with one.connect(context=one.other) as client:
            assert ask(client, "PING").startswith("-NOAUTH")
            assert ask(client, "AUTH", "old", "old") == "+OK\r\n"
        assert one.get("/metrics", context=one.ops)[0] == 200
        assert one.get("/metrics", context=one.web)[0] == 403
        assert one.get("/v1/check?user=a", context=one.other)[0] == 401
        token = "Authorization: Bearer {}\r\n"
        assert one.get("/v1/check?user=a", context=one.other, headers=token.format("web-token"))[0] == 200
        assert one.get("/v1/check?user=a", context=one.ops, headers=token.format("wrong"))[0] == 401
        page = "Host: evil.example.com\r\n"
        with one.connect("tls HTTP", one.web) as client:  # a browser would send the certificate for any page
            client.sendall(f"GET /v1/check?user=a HTTP/1.1\r\n{page}\r\n".encode())
            assert b" 403 " in client.recv(65536)


def certificates_are_the_attribute_peer():
    with mutual() as one:
        with one.connect(context=one.web) as client:
            # What the client says about itself does not count.
            assert [ask(client, "WEIR.CHECK", "peer", f"p{i}").split("\r\n")[1] for i in range(4)] == [":1"] * 3 + [":0"]
        assert one.get("/v1/check?user=a", context=one.web)[0] == 429
        assert one.get("/v1/check?user=a&wait=1ms", context=one.web)[0] == 429
        with one.connect(context=one.other) as client:
            assert ask(client, "AUTH", "old", "old") == "+OK\r\n"
            assert ask(client, "WEIR.CHECK", "user", "a").split("\r\n")[1] == ":1"
        with one.plain("RESP") as client:  # without TLS it is an attribute as any other
            assert ask(client, "AUTH", "old", "old") == "+OK\r\n"
            assert ask(client, "WEIR.CHECK", "peer", WEB).split("\r\n")[1] == ":0"


def users_of_certificates_change():
    with mutual() as one:
        web, ops = one.connect(context=one.web), one.connect(context=one.ops)
        other = one.connect(context=one.other)
        for client in web, ops:
            expect(client, bulks("PING"), PONG)
        with open(one.config + ".new", "w", encoding="utf-8") as file:
            file.write(CONFIG.replace(OPS, "other.example"))
        os.rename(one.config + ".new", one.config)
        wait_until(lambda: "users changed" in one.said(), one.said)
        assert receive(ops, 1) == b""  # closed: its certificate is no user any more
        expect(web, bulks("PING"), PONG)
        wait_until(lambda: ask(other, "ACL", "WHOAMI") == "$3\r\nops\r\n", one.said)
        for client in web, ops, other:
            client.close()


def clients_may_have_no_certificate():
    with mutual("--tls-client-auth", "optional") as one:
        with one.connect() as client:
            assert ask(client, "PING").startswith("-NOAUTH")
            assert ask(client, "AUTH", "old", "old") == "+OK\r\n"
        with one.connect(context=one.web) as client:
            assert ask(client, "ACL", "WHOAMI") == "$3\r\nweb\r\n"


# --- sessions


def sessions_are_resumed_by_all_workers():
    with server() as one:
        context, session, reused = one.ca.context(maximum_version=ssl.TLSVersion.TLSv1_2), None, 0
        for _ in range(20):  # over two workers
            with one.connect(context=context, session=session) as client:
                expect(client, bulks("PING"), PONG)
                reused += client.session_reused
                session = session or client.session
        assert reused == 19, reused
        context, session = one.ca.context(), None
        with one.connect(context=context) as client:
            expect(client, bulks("PING"), PONG)
            session = client.session
        with one.connect(context=context, session=session) as client:
            expect(client, bulks("PING"), PONG)
            assert client.session_reused and client.version() == "TLSv1.3"


def a_session_does_not_outlive_its_certificate():
    with mutual() as one:
        one.mine, end = one.ops, int(time.time()) + 3
        context, session = one.ca.context(one.ca.sign_until("brief", f"URI:{WEB}", end)), None
        with one.connect(context=context) as client:
            expect(client, bulks("PING"), PONG)
            session = client.session
        with one.connect(context=context, session=session) as client:
            expect(client, bulks("PING"), PONG)
            assert client.session_reused
        wait_until(lambda: time.time() > end + 1, one.said)
        refused(one, "expired", lambda: one.connect(context=context, session=session), "certificate has expired")


def a_session_does_not_outlive_its_ca():
    with mutual() as one, tempfile.TemporaryDirectory(prefix="weir-tls-other-") as folder:
        other = Authority(folder, "other")
        context, one.mine = one.web, one.ca.context(other.sign("ops", f"DNS:{OPS}"))
        with one.connect(context=context) as client:
            expect(client, bulks("PING"), PONG)
            session = client.session
        with one.connect(context=context, session=session) as client:
            expect(client, bulks("PING"), PONG)
            assert client.session_reused
        shutil.copy(other.pem, one.ca.pem + ".next")
        os.rename(one.ca.pem + ".next", one.ca.pem)
        wait_until(lambda: "certificates changed" in one.said(), one.said)
        refused(one, "untrusted", lambda: one.connect(context=context, session=session))


def adopt_orphans():
    """Orphans become children of this program, which can then wait for the next server."""
    assert ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER


def an_upgrade_keeps_sessions_and_connections():
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="weir-tls-") as folder:
        one = Server(folder, "--drain", "60s", "--pid-file", os.path.join(folder, "pid"))
        one.start()
        context = one.ca.context()
        with one.connect(context=context) as client:
            expect(client, bulks("PING"), PONG)
            session = client.session
        old = one.connect()
        expect(old, bulks("PING"), PONG)
        one.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: "serves now" in one.said(), one.said)
        expect(old, bulks("PING"), PONG)
        for _ in range(5):
            with one.connect(context=context, session=session) as client:
                expect(client, bulks("PING"), PONG)
                assert client.session_reused
        old.close()
        assert "unknown environment variable" not in one.said(), one.said()
        end_upgraded(one)


def end_upgraded(one):
    """The previous server ends by itself, the next one by a signal."""
    assert one.process.wait(TIMEOUT_S) == 0
    one.process.stdout.close()
    one.process = None
    assert one.get("/healthz", context=one.with_certificate)[0] == 200
    with open(os.path.join(one.folder, "pid"), encoding="ascii") as file:
        next_process = int(file.read())
    os.kill(next_process, signal.SIGTERM)
    assert os.waitpid(next_process, 0)[1] == 0, one.said()
    one.close()


def an_upgrade_may_require_certificates():
    """A session that began without a certificate is not resumed where clients need one."""
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="weir-tls-") as folder:
        one = Server(folder, "--drain", "60s", "--pid-file", os.path.join(folder, "pid"), config="tls_client_auth: optional\n")
        one.options += ["--tls-client-ca", one.ca.pem]
        one.start()
        one.with_certificate = one.mine = one.ca.context(one.ca.sign("web", f"URI:{WEB}"))
        contexts, sessions = [one.ca.context(), one.ca.context(maximum_version=ssl.TLSVersion.TLSv1_2)], []
        for context in contexts:
            with one.connect(context=context) as client:
                expect(client, bulks("PING"), PONG)
                sessions.append(client.session)
            with one.connect(context=context, session=sessions[-1]) as client:
                expect(client, bulks("PING"), PONG)
                assert client.session_reused
        with open(one.config, "w", encoding="ascii") as file:
            file.write("tls_client_auth: require\n")
        one.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: "serves now" in one.said(), one.said)
        for context, session in zip(contexts, sessions):
            refused(one, "no_certificate", lambda: one.connect(context=context, session=session))
        end_upgraded(one)


# --- settings


def wrong_settings_are_told():
    with tempfile.TemporaryDirectory(prefix="weir-tls-settings-") as folder:
        ca = Authority(folder)
        pem, key = ca.server()
        other = ca.server("other")
        rows = [
            (["--listen", "tls://127.0.0.1:0"], "TLS needs a certificate; set tls_cert, and tls_key"),
            (["--tls-cert", pem], "--tls-cert: no address uses it; begin an address with tls://"),
            (["--tls-key", key], "--tls-key: it has no effect without tls_cert"),
            (["--listen", "tls://127.0.0.1:0", "--tls-cert", pem, "--tls-key", other[1]],
             f"--tls-key: {other[1]}: the key does not belong to the certificate"),
            (["--listen", "tls://127.0.0.1:0", "--tls-cert", folder + "/none", "--tls-key", key], "No such file"),
            (["--listen", "tls://127.0.0.1:0", "--tls-cert", key], "found none in the file"),
            (["--listen", "tls://127.0.0.1:0", "--tls-cert", pem, "--tls-key", key, "--tls-client-ca", key],
             f"--tls-client-ca: {key}: the clients' CA: found no certificate in the file"),
            (["--listen", "tls://127.0.0.1:0", "--tls-cert", pem], f"--tls-cert: {pem}: the key, which must be PEM"),
            (["--listen", "tls://./socket", "--tls-cert", pem], '"tls://./socket": use'),
            (["--listen", "tls://0.0.0.0:0", "--tls-cert", pem, "--tls-key", key], "the server has no users"),
        ]
        for options, words in rows:
            done = subprocess.run([WEIR, "serve", "--http", "none", *options], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False)
            assert done.returncode in (1, 2) and words in done.stderr, (options, done.stderr)


TESTS = [
    ("every port speaks TLS", every_port_speaks_tls),
    ("pipelines and slow readers", pipelines_and_slow_readers),
    ("ends are announced", ends_are_announced),
    ("shutdown completes replies", shutdown_completes_replies),
    ("clients are refused", clients_are_refused),
    ("failures are told once a second", failures_are_told_once_a_second),
    ("half handshakes are bounded", half_handshakes_are_bounded),
    ("programs are clients", programs_are_clients),
    ("certificates are replaced under load", certificates_are_replaced_under_load),
    ("Kubernetes swaps links", kubernetes_swaps_links),
    ("a wrong pair changes nothing", a_wrong_pair_changes_nothing),
    ("chains and RSA keys", chains_and_rsa_keys),
    ("the expiry is a metric", the_expiry_is_a_metric),
    ("an expired certificate is told", an_expired_certificate_is_told),
    ("certificates are users", certificates_are_users),
    ("certificates are the attribute peer", certificates_are_the_attribute_peer),
    ("users of certificates change", users_of_certificates_change),
    ("clients may have no certificate", clients_may_have_no_certificate),
    ("sessions are resumed by all workers", sessions_are_resumed_by_all_workers),
    ("a session does not outlive its certificate", a_session_does_not_outlive_its_certificate),
    ("a session does not outlive its CA", a_session_does_not_outlive_its_ca),
    ("an upgrade keeps sessions and connections", an_upgrade_keeps_sessions_and_connections),
    ("an upgrade may require certificates", an_upgrade_may_require_certificates),
    ("wrong settings are told", wrong_settings_are_told),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
