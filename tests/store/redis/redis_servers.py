"""redis_servers.py: Redis servers for a test: single ones, with TLS, and a primary with a replica and three sentinels.

Each has its own folder and port, stores nothing on disk, and ends with the test."""

import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

TIMEOUT_S = 60
PAUSE_S = 0.01
# Below the kernel's range, so that a port stays free while its server is down.
PORTS = range(20000, 32000)


def free_port():
    while True:
        port = random.choice(PORTS)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def until(condition, what):
    """Waits for the condition."""
    end = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"in vain for {TIMEOUT_S} s: {what}"
        time.sleep(PAUSE_S)
    return found


def bulks(*words):
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


class RedisError(Exception):
    pass


def read_reply(file):
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("it was closed")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise RedisError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else file.read(int(rest) + 2)[:-2].decode(errors="replace")
    if kind == b"*":
        return [read_reply(file) for _ in range(int(rest))]
    return rest.decode()


class Redis:
    """With certificates it uses TLS on its port and requires client certificates; its Unix socket does not. `sentinel`
    is the configuration of a sentinel, which has no Unix socket."""

    def __init__(self, folder, name="redis", *options, certificates=None, sentinel=None):
        self.folder = os.path.join(folder, name)
        os.mkdir(self.folder)
        # redis-tools has the server, under the name of one of its tools; the package of its own would start a service.
        self.program = os.path.join(self.folder, "redis-server")
        os.symlink(shutil.which("redis-check-rdb"), self.program)
        self.path = os.path.join(self.folder, "socket")
        self.log = open(os.path.join(self.folder, "log"), "ab+")
        self.options, self.certificates, self.sentinel = options, certificates, sentinel
        self.process = self.port = None

    def _arguments(self):
        where = self.certificates.listens(self.port) if self.certificates else ["--port", str(self.port)]
        if self.sentinel is not None:
            conf = os.path.join(self.folder, "sentinel.conf")
            with open(conf, "w", encoding="utf-8") as file:
                file.write(self.sentinel)
            return [conf, "--sentinel", *where, "--dir", self.folder, *self.options]
        return [*where, "--unixsocket", self.path, "--dir", self.folder, "--save", "", "--appendonly", "no",
                "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0", *self.options]

    def start(self):
        """Listens on the port that it had, or on any."""
        had_port = self.port
        for _ in range(20):
            self.port = had_port or free_port()
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", self.program, *self._arguments()],
                                            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
            if until(lambda: self.process.poll() is not None or self.answers(), "a Redis that starts") is True:
                if self.process.poll() is None:
                    return self
        sys.exit(f"no Redis comes up: {self.said()}")

    def _connect(self):
        if self.sentinel is not None:
            plain = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)
            return self.certificates.wrap(plain) if self.certificates else plain
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(TIMEOUT_S)
        try:
            one.connect(self.path)
        except OSError:
            one.close()
            raise
        return one

    def answers(self):
        try:
            self.command("PING")
        except RedisError as error:
            return "LOADING" not in str(error)
        except OSError:
            return False
        return True

    def command(self, *words):
        """Uses the Unix socket. Takes the words of one command, or several commands, each a tuple, on one connection;
        returns the last reply."""
        with self._connect() as one, one.makefile("rb") as file:
            for command in (words if isinstance(words[0], tuple) else [words]):
                one.sendall(bulks(*command))
                answer = read_reply(file)
        return answer

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def kill(self):
        """Like a crash."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(TIMEOUT_S)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
        self.log.close()


class Trio:
    """A primary, a replica, and three sentinels that agree quickly. With certificates all of them use TLS only."""

    NAME = "heron"

    def __init__(self, folder, certificates=None):
        self.servers = [Redis(folder, name, "--repl-ping-replica-period", "1", certificates=certificates)
                        for name in ("one", "two")]
        self.folder, self.certificates = folder, certificates
        self.sentinels = []

    def __enter__(self):
        try:
            primary, replica = (server.start() for server in self.servers)
            replica.command("REPLICAOF", "127.0.0.1", primary.port)
            until(lambda: replica.command("ROLE")[3] == "connected", "a replica that follows")
            for i in range(3):
                self.sentinels.append(Redis(self.folder, f"sentinel{i}", certificates=self.certificates, sentinel=(
                    f"sentinel monitor {self.NAME} 127.0.0.1 {primary.port} 2\n"
                    f"sentinel down-after-milliseconds {self.NAME} 1000\n"  # with less, a busy machine counts as dead
                    f"sentinel failover-timeout {self.NAME} 2000\n")).start())
            for sentinel in self.sentinels:
                until(lambda one=sentinel: self._knows_all(one), "sentinels that know each other")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _knows_all(self, sentinel):
        found = sentinel.command("SENTINEL", "MASTER", self.NAME)
        known = dict(zip(found[::2], found[1::2]))
        return known["num-other-sentinels"] == "2" and known["num-slaves"] == "1"

    def places(self):
        return ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)

    def primary_port(self, sentinel=0):
        found = self.sentinels[sentinel].command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)
        return int(found[1])

    def server_at(self, port):
        return next(server for server in self.servers if server.port == port)

    def __exit__(self, *_):
        for server in (*self.sentinels, *self.servers):
            server.__exit__()


def run_openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Certificates:
    """A CA and certificates that it has signed: for the server `localhost` and 127.0.0.1, and for a client."""

    def __init__(self, folder, name="ca"):
        self.folder = os.path.join(folder, name)
        os.mkdir(self.folder)
        run_openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    f"/CN=Weir test {name}", "-keyout", self.file("ca.key"), "-out", self.file("ca.pem"))
        self._sign("server", "localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        self._sign("client", "client", "subjectAltName=DNS:client")

    def file(self, name):
        return os.path.join(self.folder, name)

    def _sign(self, name, subject, more):
        with open(self.file(f"{name}.ext"), "w", encoding="utf-8") as file:
            file.write(more + "\n")
        run_openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={subject}",
                    "-keyout", self.file(f"{name}.key"), "-out", self.file(f"{name}.csr"))
        run_openssl("x509", "-req", "-in", self.file(f"{name}.csr"), "-CA", self.file("ca.pem"), "-CAkey",
                    self.file("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", self.file(f"{name}.ext"), "-out",
                    self.file(f"{name}.pem"))

    def listens(self, port):
        """Options of a server."""
        return ["--port", "0", "--tls-port", str(port), "--tls-replication", "yes", "--tls-cert-file",
                self.file("server.pem"), "--tls-key-file", self.file("server.key"), "--tls-ca-cert-file", self.file("ca.pem")]

    def wrap(self, connection):
        context = ssl.create_default_context(cafile=self.file("ca.pem"))
        context.load_cert_chain(self.file("client.pem"), self.file("client.key"))
        return context.wrap_socket(connection, server_hostname="localhost")
