#!/usr/bin/env python3
"""Runs the programs of docs/guides/redis-clients.md, as shown, with a weir serve.

    snippets_test.py WEIR FOLDER CLIENT...

A program is the block after a line <!-- client: NAME -->. Only the port is changed. Each must print what the block
after <!-- prints --> shows; some clients keep the code ERR before the text of an error.

FOLDER keeps builds and downloads for the next run. go-redis comes from the Go module proxy, Jedis and Lettuce from
Maven Central. Without a connection to these, their programs are skipped, and the output says so."""

import fcntl
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, Skipped, daemon, run  # noqa: E402
from libraries import build_with_redigo, make, node_modules, python_with_redis  # noqa: E402

WEIR, FOLDER, CLIENTS = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
PORT_SHOWN = "6380"
SKIPPED = 77  # for meson
BLOCK = re.compile(r"^<!-- (client: ([\w-]+)|prints) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Messages of go and Maven without a connection.
UNREACHED = re.compile(r"dial tcp|no such host|i/o timeout|Unknown host|UnknownHost|Connection refused|Connect(ion)? timed out|"
                       r"Network is unreachable|Temporary failure in name resolution|Could not transfer artifact", re.IGNORECASE)


skipped = []


def fetch(what, command, **more):
    """Skips the test if the library is not cached and its source cannot be reached."""
    try:
        return make(what, command, **more)
    except AssertionError as fault:
        if UNREACHED.search(str(fault)):
            skipped.append(what)
            raise Skipped(f"{what} is not reachable") from fault
        raise


# --- one function for each client: writes the program into its own folder, and returns how to run it
# ----------------------

def written(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def redis_cli(text, folder):
    return ["bash", "-eu", written(folder, "program.sh", text)]


def redis_py(text, folder):
    return [python_with_redis(), written(folder, "program.py", text)]


def of_node(text, folder):
    os.symlink(os.path.join(node_modules(FOLDER), "node_modules"), os.path.join(folder, "node_modules"))
    return ["node", written(folder, "program.js", text)]


def ioredis_6(text, folder):
    assert text.count('require("ioredis")') == 1
    return of_node(text.replace('require("ioredis")', 'require("ioredis-6")'), folder)


def redigo(text, folder):
    made = os.path.join(folder, "program")
    build_with_redigo(FOLDER, written(folder, "program.go", text), made)
    return [made]


def go_redis(text, folder):
    made = os.path.join(folder, "program")
    written(folder, "main.go", text)
    for name in ("go.mod", "go.sum"):
        shutil.copy(os.path.join(HERE, "go-redis", name), folder)
    where = {**os.environ, "GO111MODULE": "on", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "GOPATH": os.path.join(FOLDER, "go"),
             "GOCACHE": os.path.join(FOLDER, "go-cache")}
    fetch("the Go module proxy", ["go", "mod", "download"], cwd=folder, env=where)
    make("go-redis", ["go", "build", "-o", made, "."], cwd=folder, env=where)
    return [made]


def jars():
    """The folder with the libraries of pom.xml and their dependencies."""
    made = os.path.join(FOLDER, "jars")
    if not os.path.isdir(made):
        fetch("Maven Central", ["mvn", "--batch-mode", "--quiet", "-f", os.path.join(HERE, "java", "pom.xml"),
                                f"-Dmaven.repo.local={os.path.join(FOLDER, 'maven')}", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
                                f"-DoutputDirectory={made}.new"])
        os.rename(f"{made}.new", made)
    return os.path.join(made, "*")


def of_java(text, folder):
    name = re.search(r"^public class (\w+)", text, re.MULTILINE)[1]
    source = written(folder, f"{name}.java", text)
    libraries = jars()
    make("the program", ["javac", "-d", folder, "-cp", libraries, source])
    return ["java", "-cp", f"{folder}:{libraries}", name]


MAKERS = {"redis-cli": [redis_cli], "redis-py": [redis_py], "ioredis": [of_node, ioredis_6], "node-redis": [of_node], "redigo": [redigo],
          "go-redis": [go_redis], "jedis": [of_java], "lettuce": [of_java]}


# --- running ----------------------------------------------------------------------------------------------------------

def page():
    with open(os.path.join(ROOT, "docs/guides/redis-clients.md"), encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    programs = {name: text for _, name, text in blocks if name}
    (printed,) = [text for what, _, text in blocks if what == "prints"]
    return programs, printed


def works(maker, text, printed):
    folder = os.path.join(FOLDER, f"program-{os.getpid()}")
    os.makedirs(folder)
    try:
        with daemon(WEIR, "--keys", "10000") as server:
            assert PORT_SHOWN in text
            command = maker(text.replace(PORT_SHOWN, str(server.port)), folder)
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0 and done.stdout.replace("ERR ", "") == printed, f"{done.returncode}\n{done.stdout}{done.stderr}"
    finally:
        shutil.rmtree(folder)


def main():
    programs, printed = page()
    unknown = programs.keys() ^ MAKERS.keys()
    assert not unknown, f"docs/guides/redis-clients.md and MAKERS differ: {unknown}"
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # suites of several builds share the folder
        status = run([(f"{name}{' 6' if maker is ioredis_6 else ''}", lambda maker=maker, name=name: works(maker, programs[name], printed))
                      for name in CLIENTS for maker in MAKERS[name]])
    return SKIPPED if not status and len(skipped) == len(CLIENTS) else status


if __name__ == "__main__":
    sys.exit(main())
