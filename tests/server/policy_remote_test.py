#!/usr/bin/env python3
"""Policies of weir serve in etcd or Redis: applied when they change, and kept when that server is down.

    policy_remote_test.py WEIR"""
# Covers: src/policy/source/policy_copy.c, src/policy/source/policy_etcd.c, src/policy/source/policy_redis.c

import base64
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import TIMEOUT_S, connect_to, daemon, run
from policy_test import Client, one_limit, until
from visitor import free_port

WEIR = sys.argv[1]
AT_ONCE = 6
PASSWORD = "s3cret/of weir"
PASSWORD_IN_URL = "s3cret%2Fof%20weir"


# --- servers --------------------------------------------------------------------------------------------------------


class Server:
    """A program that can be started, stopped and started again."""

    process = None

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(self.command(), executable=self.program, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT)
        until(self.is_up, f"{self.program} does not start")

    def stop(self, how=signal.SIGTERM):
        if self.process:
            self.process.send_signal(how)
            self.process.wait(TIMEOUT_S)
            self.process = None

    def program_named(self, name, package):
        self.program = shutil.which(name)
        assert self.program, f"{name} not found: install {package}"


class Etcd(Server):
    def __init__(self, folder, *options, certificates=None):
        self.program_named("etcd", "etcd-server")
        self.folder, self.options, self.certificates = folder, options, certificates
        self.port, self.peer = free_port(), free_port()
        self.scheme = "https" if certificates else "http"
        self.token = None

    def command(self):
        here, peer = f"{self.scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer}"
        return ["etcd", "--data-dir", os.path.join(self.folder, "etcd"), "--listen-client-urls", here,
                "--advertise-client-urls", here, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"default={peer}", "--log-level", "error", "--unsafe-no-fsync", *self.options]

    def ask(self, path, **what):
        context = None
        if self.certificates:
            context = ssl.create_default_context(cafile=self.certificates.ca)
            context.load_cert_chain(self.certificates.client, self.certificates.client_key)
        request = urllib.request.Request(f"{self.scheme}://127.0.0.1:{self.port}{path}", json.dumps(what).encode(),
                                         {"Authorization": self.token} if self.token else {})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
            return json.loads(answer.read())

    def is_up(self):
        assert self.process.poll() is None, "etcd does not start"
        with contextlib.suppress(OSError):
            return "header" in self.ask("/v3/kv/range", key=coded("x"))
        return False

    def url(self, user=""):
        return f"etcd://{user}127.0.0.1:{self.port}/weir/policy"

    def shown(self):
        return self.url()

    def put(self, text):
        self.ask("/v3/kv/put", key=coded("weir/policy"), value=coded(text))

    def remove(self):
        self.ask("/v3/kv/deleterange", key=coded("weir/policy"))


class Redis(Server):
    def __init__(self, folder, *options):
        self.program_named("redis-check-rdb", "redis-tools")  # the Redis server, under the name of one of its tools
        self.folder, self.options = folder, options
        self.path = os.path.join(folder, "redis")

    def command(self):
        return ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", self.folder, "--save", "",
                "--appendonly", "yes", "--notify-keyspace-events", "K$g", *self.options]

    def connect(self):
        return connect_to(self.path)

    def ask(self, *words):
        with contextlib.closing(Client(self)) as client:
            return client.ask(*words)

    def is_up(self):
        assert self.process.poll() is None, "Redis does not start"
        with contextlib.suppress(OSError, ValueError):
            return self.ask("PING") == "PONG"
        return False

    def url(self, user=""):
        return f"redis+unix://{user}{self.path}?database=3&policy_key=weir%3Apolicy"

    def shown(self):
        return f"redis+unix://{self.path}?policy_key=weir%3Apolicy"

    def put(self, text):
        self.ask("EVAL", "redis.call('SELECT', 3) return redis.call('SET', KEYS[1], ARGV[1])", 1, "weir:policy", text)

    def remove(self):
        self.ask("EVAL", "redis.call('SELECT', 3) return redis.call('DEL', KEYS[1])", 1, "weir:policy")


def coded(text):
    return base64.b64encode(text.encode()).decode()


@contextlib.contextmanager
def server(kind, *options, starts=True, **more):
    with tempfile.TemporaryDirectory(prefix="weir-far-") as folder:
        one = kind(folder, *options, **more)
        try:
            if starts:
                one.start()
            yield one
        finally:
            one.stop(signal.SIGKILL)


@contextlib.contextmanager
def served(*options):
    with daemon(WEIR, *options) as one:
        one.client = Client(one, 3)
        with contextlib.closing(one.client):
            yield one


def has(one, limit):
    return lambda: one.client.limit() == limit


def start_fails(*options):
    done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", *options], capture_output=True,
                          text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2, done
    return done.stderr


# --- both -----------------------------------------------------------------------------------------------------------


def taken_over_by_two(kind):
    with server(kind) as far:
        far.put(one_limit("10/s"))
        with served("--policy", far.url()) as a, served("--policy", far.url()) as b:
            assert a.client.limit() == b.client.limit() == "10/s"
            for limit in ("20/s", "30/s burst 5", "40/min fixed_window"):
                far.put(one_limit(limit))
                until(has(a, limit), "one has not got it")
                until(has(b, limit), "the other has not got it")
            until(lambda: a.client.info()["policy_changes"] == "3", "it counts others")  # shortly after it has it
            anew = "weir serve: the policy: per-user: keys start over, because the algorithm changed: 40/min fixed_window, before 30/s burst 5\n"
            until(lambda: a.told() == anew and b.told() == anew, "the log lines, which a thread writes")
            until(lambda: any("policy_reloaded" in line and far.shown() in line for line in a.said().splitlines()),
                  "an audit line with the source")


def bad_versions_change_nothing(kind):
    with server(kind) as far:
        far.put(one_limit("10/s"))
        with served("--policy", far.url()) as one:
            def failures(n):
                return lambda: one.client.info()["policy_failures"] == str(n)

            far.put(one_limit("10/fortnight"))
            until(failures(1), "it was not counted")
            until(lambda: f"{far.shown()}:4:15: limit '10/fortnight'" in one.said(), "it is not told")
            far.put(one_limit("5/s", more="    overrides_from: customers.csv\n"))
            until(failures(2), "it was not counted")
            until(lambda: "overrides_from works only in a policy that is a file" in one.said(), "it is not told")
            far.remove()
            until(failures(3), "it was not noticed")
            until(lambda: f"{far.shown()}:1:1: key not found" in one.said(), "it is not told")
            far.put("")
            until(failures(4), "it was not counted")
            until(lambda: "no limits found" in one.said(), "it is not told")
            assert one.client.limit() == "10/s" and one.client.info()["policy_changes"] == "0"
            far.put(one_limit("10/s"))
            until(lambda: one.client.info()["policy_last_error"] == "", "what was right before is right again")
            far.put(one_limit("11/s"))
            until(has(one, "11/s"), "it has not recovered")


def gone_and_back(kind):
    with server(kind) as far:
        far.put(one_limit("10/s"))
        with served("--policy", far.url()) as one:
            far.stop()
            until(lambda: "keeping the current policy, retrying" in one.said(), "it has not noticed")
            assert one.client.limit() == "10/s"
            assert one.client.ask("WEIR.CHECK", "user", "ann"), "it decides"
            far.start()
            until(lambda: "reachable again" in one.said(), "it has not noticed")
            far.put(one_limit("20/s"))
            until(has(one, "20/s"), "it has not got it")
            assert one.said().count("keeping the current policy") == 1, one.said()
            far.put(one_limit("21/s"))  # by a watch that was started after it
            until(has(one, "21/s"), "it has not got it")


def not_there_at_the_start(kind):
    with server(kind, starts=False) as far, tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy.yaml")
        told = start_fails("--policy", far.url())
        assert told.startswith(f"{far.shown()}:1:1: ") and told.count("\n") == 1, told
        told = start_fails("--policy", far.url(), "--policy_copy", copy)
        assert f"{copy}:1:1: No such file or directory; no copy to start from\n" in told, told
        far.start()
        told = start_fails("--policy", far.url(), "--policy_copy", copy)
        assert "key not found" in told, told
        far.put(one_limit("10/s"))
        with served("--policy", far.url(), "--policy_copy", copy) as one:
            assert one.client.limit() == "10/s"
            with open(copy, encoding="utf-8") as file:
                assert file.read() == one_limit("10/s")
            far.put(one_limit("20/s"))
            until(has(one, "20/s"), "it has not got it")
            far.put(one_limit("20/fortnight"))
            until(lambda: one.client.info()["policy_failures"] == "1", "it was not counted")
        assert os.stat(copy).st_mode & 0o777 == 0o600 and os.listdir(folder) == ["copy.yaml"]
        with served("--policy", far.url(), "--policy_copy", copy) as one:  # the current version is invalid
            assert one.client.limit() == "20/s"
            until(lambda: f"weir serve: using the last valid policy, from its copy {copy}\n" in one.said(), "it is not told")
            far.put(one_limit("30/s"))
            until(has(one, "30/s"), "it has not got it")
        far.stop()
        with served("--policy", far.url(), "--policy_copy", copy) as one:
            assert one.client.limit() == "30/s"
            until(lambda: f"weir serve: using the last valid policy, from its copy {copy}\n" in one.said(), "it is not told")
            far.start()
            until(lambda: "reachable again" in one.said(), "it has not noticed")
            until(lambda: one.client.info()["policy_last_error"] == "", "it is the same again")
            assert one.client.info()["policy_changes"] == "0", "the same policy counted as a change"
            far.put(one_limit("40/s"))
            until(has(one, "40/s"), "it has not got it")


def read_again_when_asked(kind):
    with server(kind) as far:
        far.put(one_limit("10/s"))
        with served("--policy", far.url()) as one:
            one.client.ask("WEIR.CHANGE", "per-user", "99/s")
            far.put(one_limit("20/s"))
            one.client.ask("WEIR.RELOAD")
            until(has(one, "20/s"), "it has not got it")
            far.stop()
            with contextlib.suppress(ValueError):
                one.client.ask("WEIR.RELOAD")
            assert one.client.limit() == "20/s"


def of_any_size_up_to_a_bound(kind):
    """As much as etcd accepts. Redis accepts more than a policy may have."""
    with server(kind) as far:
        far.put(one_limit("10/s") + "#" * 1_400_000)
        with served("--policy", far.url()) as one:
            assert one.client.limit() == "10/s"
            far.put(one_limit("20/s") + "#" * 1_400_000)
            until(has(one, "20/s"), "it has not got it")
            if kind is Redis:
                far.put(one_limit("30/s") + "#" * (16 << 20))
                until(lambda: "the policy is too long; a policy in Redis has at most 16 MiB" in one.said(), "it is too long")
                far.put(one_limit("40/s"))
                until(has(one, "40/s"), "it has not recovered")


# --- etcd -----------------------------------------------------------------------------------------------------------


def etcd_with_users():
    with server(Etcd, "--auth-token-ttl", "1") as far:
        far.put(one_limit("10/s"))
        for path, what in (
                ("/v3/auth/user/add", {"name": "root", "password": "root"}),
                ("/v3/auth/user/grant", {"user": "root", "role": "root"}),
                ("/v3/auth/role/add", {"name": "reads"}),
                ("/v3/auth/role/grant", {"name": "reads", "perm": {"key": coded("weir/policy"), "permType": "READ"}}),
                ("/v3/auth/user/add", {"name": "weir", "password": PASSWORD}),
                ("/v3/auth/user/grant", {"user": "weir", "role": "reads"}),
                ("/v3/auth/user/add", {"name": "stranger", "password": PASSWORD}), ("/v3/auth/enable", {})):
            far.ask(path, **what)

        def log_in():
            far.token = None
            far.token = far.ask("/v3/auth/authenticate", name="root", password="root")["token"]

        log_in()
        told = start_fails("--policy", far.url())
        assert "it responded with status 400: etcdserver: user name is empty" in told, told
        told = start_fails("--policy", far.url("weir:wrong@"))
        assert "authentication failed, invalid user ID or password" in told and "wrong" not in told, told
        told = start_fails("--policy", far.url(f"stranger:{PASSWORD_IN_URL}@"))
        assert "permission denied" in told and "s3cret" not in told, told
        with served("--policy", far.url(f"weir:{PASSWORD_IN_URL}@")) as one:
            for number in range(11, 14):
                log_in()
                far.put(one_limit(f"{number}/s"))
                until(has(one, f"{number}/s"), "it has not got it")
            far.stop()  # tokens are valid until etcd restarts
            until(lambda: "keeping the current policy" in one.said(), "it has not noticed")
            far.token = None
            far.process = None
            far.is_up = lambda: "token" in suppressed(far.ask, "/v3/auth/authenticate", name="root", password="root")
            far.start()
            log_in()
            far.put(one_limit("20/s"))
            until(has(one, "20/s"), "it has not got it")
            shown = one.client.ask("CONFIG", "GET", "policy")["policy"]
            assert shown == far.url("weir:***@"), shown
            assert "s3cret" not in one.said(), one.said()


def suppressed(call, *words, **more):
    try:
        return call(*words, **more)
    except OSError:
        return {}


class Certificates:
    """Certificates of an authority, a server and a client."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.ca_key = self.make("ca")
        self.server, self.server_key = self.make("server", "subjectAltName=IP:127.0.0.1")
        self.client, self.client_key = self.make("client")

    def make(self, name, extension=None):
        certificate, key = (os.path.join(self.folder, f"{name}.{end}") for end in ("pem", "key"))
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                   "-days", "2", "-subj", f"/CN={name}", "-out", certificate, "-keyout", key]
        if name != "ca":
            command += ["-CA", self.ca, "-CAkey", self.ca_key, "-addext", "basicConstraints=critical,CA:FALSE",
                        "-addext", "extendedKeyUsage=serverAuth,clientAuth"]
        if extension:
            command += ["-addext", extension]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        return certificate, key


def etcd_with_tls():
    with tempfile.TemporaryDirectory() as folder:
        made = Certificates(folder)
        with server(Etcd, "--cert-file", made.server, "--key-file", made.server_key, "--client-cert-auth",
                    "--trusted-ca-file", made.ca, certificates=made) as far:
            far.put(one_limit("10/s"))
            url = f"etcds://127.0.0.1:{far.port}/weir/policy"
            for options, told in ((f"?ca={made.client}", "SSL certificate problem"), (f"?ca={made.ca}", url),  # what etcd does then varies
                                  (f"?ca={folder}/none&cert={made.client}&key={made.client_key}", f"{folder}/none")):
                said = start_fails("--policy", url + options)
                assert told in said, said
            for options in (f"?ca={made.ca}&cert={made.client}&key={made.client_key}",
                            f"?verify=none&cert={made.client}&key={made.client_key}"):
                far.put(one_limit("10/s"))
                with served("--policy", url + options) as one:
                    assert one.client.limit() == "10/s"
                    far.put(one_limit("20/s"))
                    until(has(one, "20/s"), "it has not got it")


def etcd_members_in_turn():
    with server(Etcd) as far:
        far.put(one_limit("10/s"))
        nobody = free_port()
        with served("--policy", f"etcd://127.0.0.1:{nobody},127.0.0.1:{far.port}/weir/policy") as one:
            far.put(one_limit("20/s"))
            until(has(one, "20/s"), "it has not got it")
            assert one.told() == "", one.said()


# --- Redis ----------------------------------------------------------------------------------------------------------


def redis_that_notifies():
    channel = "__keyspace@3__:weir:policy"
    with server(Redis, "--notify-keyspace-events", "Kl") as far:  # of lists only
        def listeners():
            return far.ask("PUBSUB", "NUMSUB", channel)[1]

        far.put(one_limit("10/s"))
        with served("--policy", far.url()) as one:
            far.put(one_limit("20/s"))
            until(has(one, "20/s"), "it has not got it")
            assert listeners() == 0, "it is asked each second"
            far.ask("CONFIG", "SET", "notify-keyspace-events", "K$")
            until(lambda: listeners() == 1, "it does not listen")
            for number in range(30, 34):
                far.put(one_limit(f"{number}/s"))
                until(has(one, f"{number}/s"), "it has not got it")
            far.ask("CLIENT", "KILL", "TYPE", "pubsub")
            far.put(one_limit("40/s"))
            until(has(one, "40/s"), "it has not got it")
            until(lambda: listeners() == 1, "it does not listen any more")
            far.ask("CONFIG", "SET", "notify-keyspace-events", "")
            until(lambda: listeners() == 0, "it still listens")
            far.put(one_limit("50/s"))
            until(has(one, "50/s"), "it has not got it")


def redis_with_users():
    with server(Redis) as far:
        far.ask("ACL", "SETUSER", "weir", "on", f">{PASSWORD}", "~weir:*", "+get", "+select")
        far.ask("ACL", "SETUSER", "stranger", "on", "nopass", "~other", "+get", "+select")
        far.put(one_limit("10/s"))
        told = start_fails("--policy", far.url("weir:wrong@"))
        assert "it replied: WRONGPASS" in told and "wrong@" not in told, told
        told = start_fails("--policy", far.url("stranger:any@"))
        assert "it replied: NOPERM" in told, told
        with served("--policy", far.url(f"weir:{PASSWORD_IN_URL}@")) as one:
            far.put(one_limit("20/s"))  # it may neither read the settings of Redis nor subscribe
            until(has(one, "20/s"), "it has not got it")
            shown = one.client.ask("CONFIG", "GET", "policy")["policy"]
            assert shown == f"redis+unix://weir:***@{far.path}?policy_key=weir%3Apolicy", shown
            assert "s3cret" not in one.said(), one.said()
        far.ask("EVAL", "redis.call('SELECT', 3) return redis.call('LPUSH', 'list', 'a')", 0)
        told = start_fails("--policy", far.url().replace("weir%3Apolicy", "list"))
        assert "it replied: WRONGTYPE" in told, told


def redis_with_tls():
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        made = Certificates(folder)
        with server(Redis, "--tls-port", str(port), "--tls-cert-file", made.server, "--tls-key-file", made.server_key,
                    "--tls-ca-cert-file", made.ca, "--bind", "127.0.0.1") as far:
            far.put(one_limit("10/s"))
            url = f"rediss://127.0.0.1:{port}/3?policy_key=weir%3Apolicy"
            told = start_fails("--policy", f"{url}&ca={folder}/none")
            assert f"{folder}/none" in told, told
            told = start_fails("--policy", f"{url}&ca={made.client}&cert={made.client}&key={made.client_key}")
            assert "certificate" in told, told
            with served("--policy", f"{url}&ca={made.ca}&cert={made.client}&key={made.client_key}") as one:
                for number in range(20, 23):
                    far.put(one_limit(f"{number}/s") + "#" * 100_000)
                    until(has(one, f"{number}/s"), "it has not got it")


class Sentinel(Server):
    def __init__(self, folder, primary):
        self.program_named("redis-check-rdb", "redis-tools")
        self.folder, self.port = folder, free_port()
        self.config = os.path.join(folder, "sentinel.conf")
        with open(self.config, "w", encoding="ascii") as file:
            file.write(f"port {self.port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor shop 127.0.0.1 {primary} 1\n")

    def command(self):
        return ["redis-sentinel", self.config, "--sentinel"]

    def connect(self):
        return connect_to(self.port)

    def ask(self, *words):
        with contextlib.closing(Client(self)) as client:
            return client.ask(*words)

    def is_up(self):
        assert self.process.poll() is None, "the sentinel does not start"
        with contextlib.suppress(OSError):
            return self.ask("PING") == "PONG"
        return False

    def begins_failover(self):
        with contextlib.suppress(ValueError):
            return self.ask("SENTINEL", "FAILOVER", "shop") == "OK"
        return False


def survives_kill(action):
    """Returns the action's result, or None: a sentinel that changes the role of a Redis closes all its connections."""
    with contextlib.suppress(OSError, AssertionError):
        return action()
    return None


def redis_by_sentinels():
    port, other, nobody = free_port(), free_port(), free_port()
    with contextlib.ExitStack() as servers:
        far = servers.enter_context(server(Redis, "--port", str(port), "--bind", "127.0.0.1"))
        replica = servers.enter_context(server(Redis, "--port", str(other), "--bind", "127.0.0.1", "--replicaof",
                                               "127.0.0.1", str(port)))
        until(lambda: replica.ask("ROLE")[3] == "connected", "it does not become a replica")
        sentinel = servers.enter_context(server(Sentinel, port))
        far.put(one_limit("10/s"))
        hosts = f"127.0.0.1:{nobody},127.0.0.1:{sentinel.port}"
        told = start_fails("--policy", f"redis+sentinel://{hosts}/none/3?policy_key=weir%3Apolicy")
        assert "the sentinel does not know a primary of this name" in told, told
        with served("--policy", f"redis+sentinel://{hosts}/shop/3?policy_key=weir%3Apolicy") as one:
            far.put(one_limit("20/s"))
            until(has(one, "20/s"), "it has not got it")
            until(sentinel.begins_failover, "the sentinel does not know the replica")
            until(lambda: survives_kill(lambda: replica.ask("ROLE")[0] == "master"), "the replica did not become primary")
            until(lambda: survives_kill(lambda: replica.put(one_limit("30/s")) or True), "it cannot be written to")
            until(has(one, "30/s"), "it has not got it from the new primary")
            far.stop()
            replica.put(one_limit("40/s"))
            until(has(one, "40/s"), "it still needs the old primary")


BOTH = (taken_over_by_two, bad_versions_change_nothing, gone_and_back, not_there_at_the_start, read_again_when_asked,
        of_any_size_up_to_a_bound)
TESTS = (redis_that_notifies, etcd_with_users, etcd_with_tls, etcd_members_in_turn, redis_with_users, redis_with_tls,
         redis_by_sentinels)


def name_of(test):
    return test.__name__.replace("_", " ")


def main():
    """Runs the tests in parallel, because they mostly wait for servers."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as crew:
        named = [(name_of(test), crew.submit(test)) for test in TESTS]  # the longest first
        named += [(f"{name_of(test)}: {kind.__name__}", crew.submit(test, kind)) for test in BOTH for kind in (Etcd, Redis)]
        return run([(name, future.result) for name, future in named])


if __name__ == "__main__":
    sys.exit(main())
