#!/usr/bin/env python3
"""Access to /metrics: with a token, without one, and at a separate address.

    metrics_listen_test.py WEIR"""

import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, connect_to, daemon, run  # noqa: E402

WEIR = sys.argv[1]
USERS = "users:\n  app: {token: app-token}\n  dash: {token: dash-token, role: read}\n"
LIMITS = "limits:\n  - {name: many, key: ip, limit: 1000/s}\n"


@contextlib.contextmanager
def serving(settings, *options):
    """The server and the address of its metrics, or None."""
    with tempfile.TemporaryDirectory(prefix="weir-metrics-") as folder:
        config = os.path.join(folder, "weir.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(settings + LIMITS)
        with daemon(WEIR, "--config", config, "--keys", "1000", "--workers", "2", *options, http="127.0.0.1:0") as one:
            line = one.process.stdout.readline().decode()
            yield one, re.fullmatch(r"weir serve: metrics at (.*)\n", line)[1] if "metrics at" in line else None


def get(where, path, token=None, host=None, method="GET"):
    """(status, text)"""
    client = http.client.HTTPConnection("127.0.0.1" if "/" in where else where, timeout=TIMEOUT_S)
    if "/" in where:
        client.sock = connect_to(where)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    client.request(method, path, headers={**headers, **({"Host": host} if host else {})})
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    return answer.status, text


def statuses(where, *rows):
    for status, path, *more in rows:
        found, text = get(where, path, *more)
        assert found == status, (where, path, more, found, text[:200])


def an_address_of_its_own():
    with serving(USERS + "metrics_listen: 127.0.0.1:0\n") as (one, where):
        statuses(where, (200, "/metrics"), (200, "/healthz"), (200, "/readyz"), (200, "/metrics", "wrong-token"),
                 (404, "/v1/check?ip=10.0.0.1", "app-token"), (404, "/v1/limits", "dash-token"), (404, "/"), (404, "/openapi.json"),
                 (404, "/v1/authorize"), (404, "/health"), (404, "/v1/keys/1%2Fs/a", "dash-token"), (404, "/nothing"),
                 (403, "/metrics", None, "evil.example"))
        assert get(where, "/metrics", method="POST")[0] == 405
        assert "rate_limiter_" in get(where, "/metrics")[1]
        assert get(where, "/v1/check")[1].count("only /metrics, /healthz and /readyz") == 1
        statuses(one.http_at, (401, "/metrics"), (403, "/metrics", "app-token"), (200, "/metrics", "dash-token"), (200, "/healthz"))


def a_path_of_its_own():
    with tempfile.TemporaryDirectory(prefix="weir-metrics-") as folder:
        path = os.path.join(folder, "metrics")
        with serving(USERS, "--metrics-listen", path, "--socket-mode", "0600") as (_, where):
            assert where == path and os.stat(path).st_mode & 0o777 == 0o600
            statuses(path, (200, "/metrics"), (404, "/v1/limits"))
        assert not os.path.exists(path)


def without_a_token():
    with serving(USERS + "metrics_open: true\n") as (one, where):
        assert where is None
        statuses(one.http_at, (200, "/metrics"), (200, "/metrics", "wrong-token"), (401, "/v1/limits"), (401, "/v1/live"),
                 (401, "/v1/check?ip=10.0.0.1"), (200, "/v1/check?ip=10.0.0.1", "app-token"),
                 (403, "/metrics", None, "evil.example"))  # DNS rebinding
    with serving(USERS + "metrics_open: true\nallowed_hosts: weir.example\n") as (one, _):
        statuses(one.http_at, (200, "/metrics", None, "weir.example"), (403, "/metrics", None, "other.example"))


def without_users():
    with serving("metrics_listen: [127.0.0.1:0]\n") as (one, where):
        statuses(where, (200, "/metrics"), (404, "/v1/limits"))
        statuses(one.http_at, (200, "/metrics"), (200, "/v1/limits"))


def other_machines_may_read_metrics_only():
    """A public address needs users; one for metrics does not."""
    with serving("", "--metrics-listen", "0.0.0.0:0") as (_, where):
        statuses("127.0.0.1:" + where.rsplit(":", 1)[1], (200, "/metrics"), (404, "/v1/limits"))


def an_address_in_use_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run([WEIR, "serve", "--listen", "127.0.0.1:0", "--http", "none", "--metrics-listen", where],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1 and f"--metrics-listen: {where}: Address already in use" in done.stderr, done


TESTS = [
    ("an address of its own", an_address_of_its_own),
    ("a path of its own", a_path_of_its_own),
    ("without a token", without_a_token),
    ("without users", without_users),
    ("other machines may read metrics only", other_machines_may_read_metrics_only),
    ("an address in use is an error", an_address_in_use_is_an_error),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
