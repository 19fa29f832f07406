#!/usr/bin/env python3
"""examples/kafka with a real Kafka broker and a weir serve.

    kafka_test.py WEIR FOLDER

FOLDER keeps the jars for the next run. They come from Maven Central; without a connection to it the test is skipped."""

import contextlib
import fcntl
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from libraries import make  # noqa: E402

WEIR, FOLDER = sys.argv[1], os.path.abspath(sys.argv[2])
EXAMPLE = os.path.join(ROOT, "examples", "kafka")
CLUSTER_ID = "d2Vpci1leGFtcGxlLWlkMA"  # any 16 bytes in base64
SKIPPED = 77  # for meson
UNREACHED = re.compile(r"Unknown host|UnknownHost|Connection refused|timed out|Network is unreachable|name resolution|"
                       r"Could not transfer artifact", re.IGNORECASE)
PRINTED = "100 orders sent, 100 in the topic\nat 100 a second they take 0.99 s: yes\n"


def jars():
    made = os.path.join(FOLDER, "kafka-jars")
    if not os.path.isdir(made):
        make("Kafka", ["mvn", "--batch-mode", "--quiet", "-f", os.path.join(EXAMPLE, "pom.xml"),
                       f"-Dmaven.repo.local={os.path.join(FOLDER, 'maven')}",
                       "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies", f"-DoutputDirectory={made}.new"])
        os.rename(f"{made}.new", made)
    return os.path.join(made, "*")


def free_ports(n):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)]
        return [one.getsockname()[1] for one in sockets]


def wait_for(port, process):
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        assert process.poll() is None, "Kafka ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError("Kafka does not listen")


@contextlib.contextmanager
def broker(libraries):
    """Yields the address of a broker that is its own controller."""
    with tempfile.TemporaryDirectory(prefix="weir-kafka-") as folder:
        port, controller = free_ports(2)
        settings = os.path.join(folder, "server.properties")
        with open(settings, "w", encoding="ascii") as file:
            file.write("process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
                       f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
                       f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
                       "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
                       f"log.dirs={folder}/data\noffsets.topic.replication.factor=1\n")
        java = ["java", "-Xmx256m", "-cp", libraries]
        make("storage", [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", settings])
        with open(os.path.join(folder, "log"), "wb") as log, \
                subprocess.Popen([*java, "kafka.Kafka", settings], stdout=log, stderr=log) as process:
            try:
                wait_for(port, process)
                yield f"127.0.0.1:{port}"
            finally:
                process.kill()


def smooths(libraries):
    with broker(libraries) as kafka, daemon(WEIR, "--keys", "10000", http="127.0.0.1:0") as server:
        done = subprocess.run(["java", "-cp", libraries, os.path.join(EXAMPLE, "Smoothing.java"), kafka,
                               f"http://{server.http_at}"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0 and done.stdout == PRINTED, f"{done.returncode}\n{done.stdout}{done.stderr}"


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other tests download into the same folder
        try:
            libraries = jars()
        except AssertionError as fault:
            if not UNREACHED.search(str(fault)):
                raise
            print("skip  Maven Central is not reachable")
            return SKIPPED
    return run([("a burst of orders reaches Kafka at the rate", lambda: smooths(libraries))])


if __name__ == "__main__":
    sys.exit(main())
