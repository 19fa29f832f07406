"""go_programs.py: programs from the Go module proxy, built into a folder that keeps them for the next run."""

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
# Messages of go without a connection, or from a proxy that does not have the module.
UNREACHED = re.compile(r"dial tcp|no such host|i/o timeout|connection refused|network is unreachable|temporary failure|"
                       r"403 Forbidden|404 Not Found|50[0-9] ", re.IGNORECASE)


# Debian's go is older than these programs need. The module proxy has newer ones, as modules.
GO_LEAST, GO = (1, 26), "1.26.11"
GO_SUMS = {"linux-amd64": "h1:KyINmJ/FQdKRmDYGuTAAXkumyeR2DyUlSNHZj7XaLFg="}


class Unreached(Exception):
    """The Go module proxy cannot be reached."""


def go_of(folder):
    """The go that is installed if it is new enough, else one from the module proxy."""
    found = re.match(r"go version go(\d+)\.(\d+)", subprocess.run(["go", "version"], capture_output=True, text=True, check=True).stdout)
    if found and (int(found[1]), int(found[2])) >= GO_LEAST:
        return "go"
    machine = f"linux-{({'x86_64': 'amd64', 'aarch64': 'arm64'}).get(platform.machine(), platform.machine())}"
    module = json.loads(run_go("go", folder, "mod", "download", "-json", f"golang.org/toolchain@v0.0.1-go{GO}.{machine}"))
    assert module["Sum"] == GO_SUMS.get(machine, module["Sum"]), module["Sum"]
    place = module["Dir"]
    for where in ("bin", f"pkg/tool/{machine.replace('-', '_')}"):  # files of modules cannot be run
        for name in os.listdir(os.path.join(place, where)):
            os.chmod(os.path.join(place, where, name), 0o755)
    return os.path.join(place, "bin/go")


def go(folder, *words, where=None):
    return run_go(go_of(folder), folder, *words, where=where)


def run_go(program, folder, *words, where=None):
    environment = {**os.environ, "GO111MODULE": "on", "GOFLAGS": "-modcacherw -buildvcs=false", "GOTOOLCHAIN": "local",
                   "GOPATH": os.path.join(folder, "go"), "GOCACHE": os.path.join(folder, "go-cache"), "GOBIN": os.path.join(folder, "bin"),
                   "CGO_ENABLED": "0"}
    done = subprocess.run([program, *words], cwd=where or folder, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode == 0:
        return done.stdout
    said = (done.stdout + done.stderr)[-2000:]
    if UNREACHED.search(said):
        raise Unreached(said.strip().splitlines()[-1])
    raise AssertionError(f"go {' '.join(words)}: {said}")


def build(folder, name, module, version, content, package):
    """The path of the program. `content` is the checksum of the module, as in go.sum. The module's go.mod pins the rest."""
    made = os.path.join(folder, f"{name}-{version}")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(made):
            return made
        found = json.loads(go(folder, "mod", "download", "-json", f"{module}@{version}"))
        assert found["Sum"] == content, f"{module} {version} has changed: {found['Sum']}"
        go(folder, "install", "-p", "2", f"{module}/{package}@{version}")
        os.rename(os.path.join(folder, "bin", os.path.basename(package)), made)
    return made


def ratelimit(folder):
    """The newest version of envoyproxy/ratelimit that the module proxy has."""
    return build(folder, "ratelimit", "github.com/envoyproxy/ratelimit", "v1.4.1-0.20260122083618-3fb702589d36",
                 "h1:nEi1OH2qhE8NtcuBgO/uKpTw/P0nVu4i8mZvL6oD9CQ=", "src/service_cmd")


def grpcurl(folder):
    return build(folder, "grpcurl", "github.com/fullstorydev/grpcurl", "v1.9.4", "h1:7bC3tlRwS7dPyfhBo0Xmigns8hWH/K4fg9NrafpY57k=",
                 "cmd/grpcurl")


def h2spec(folder):
    """h2spec has no go.mod, so h2spec/go.mod pins the modules that it needs."""
    made = os.path.join(folder, "h2spec-v2.2.1")
    source = os.path.join(folder, "h2spec")
    os.makedirs(source, exist_ok=True)
    with open(os.path.join(folder, "h2spec.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(made):
            return made
        for name in ("go.mod", "go.sum"):
            shutil.copy(os.path.join(HERE, "clients/h2spec", name), source)
        go(folder, "mod", "download", where=source)
        go(folder, "build", "-p", "2", "-o", made, "github.com/summerwind/h2spec/cmd/h2spec", where=source)
    return made
