"""libraries.py: installs the Redis clients for tests, from Debian and from the npm registry.

Each FOLDER keeps builds and downloads for the next run. A library that cannot be installed fails the test."""

import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def make(what, command, **more):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AssertionError(f"{what} cannot be had: {error}") from error
    assert done.returncode == 0, f"{what} cannot be had: {' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}"
    return done.stdout


def is_older(made, *sources):
    return not os.path.exists(made) or any(os.path.getmtime(made) < os.path.getmtime(source) for source in sources)


def build_with_redigo(folder, source, made):
    """Uses Debian's sources only."""
    where = {"GOPATH": "/usr/share/gocode", "GO111MODULE": "off", "GOPROXY": "off", "GOFLAGS": "",
             "GOCACHE": os.path.join(folder, "go-cache")}
    make("redigo (Debian: golang-go, golang-github-gomodule-redigo-dev)", ["go", "build", "-o", made, source],
         env={**os.environ, **where})


def node_modules(folder):
    """The folder with the modules that package-lock.json pins."""
    lock, made = os.path.join(HERE, "package-lock.json"), os.path.join(folder, "node")
    mark = os.path.join(made, "fetched")
    if is_older(mark, lock):
        shutil.rmtree(made, ignore_errors=True)
        os.makedirs(made)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(HERE, name), made)
        make("ioredis and node-redis (Debian: nodejs, npm; the packages themselves from npm's registry)",
             ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", os.path.join(folder, "npm-cache")],
             cwd=made)
        with open(mark, "w", encoding="ascii"):
            pass
    return made


def python_with_redis():
    python = "/usr/bin/python3"  # Debian's Python: others do not have its packages
    make("redis-py (Debian: python3-redis)", [python, "-c", "import redis"])
    return python
