#!/usr/bin/env python3
"""The example services that limit their clients: FastAPI, Express, and two in C.

    services_test.py WEIR EXAMPLES HTTP_IN_PROCESS HTTP_ASKING [FOLDER]

FOLDER keeps npm downloads for the next run. Without it only the services in C run. FastAPI and Express get a longer
timeout for Weir than in their files, because the test machine may be busy."""

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from daemon import TIMEOUT_S, Daemon, run
from visitor import changed, check_denied, check_smooth, check_told, clients, crowd, free_port, visit

WEIR, EXAMPLES, IN_PROCESS, ASKING, *FOLDERS = map(os.path.abspath, sys.argv[1:6])


def fetch_express():
    """The folder of Node modules, as the example's lock file says."""
    source, made = os.path.join(EXAMPLES, "express"), os.path.join(FOLDERS[0], "express")
    lock, mark = os.path.join(source, "package-lock.json"), os.path.join(made, "fetched")
    os.makedirs(FOLDERS[0], exist_ok=True)
    with open(os.path.join(FOLDERS[0], "lock"), "w", encoding="ascii") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not os.path.exists(mark) or os.path.getmtime(mark) < os.path.getmtime(lock):
            shutil.rmtree(made, ignore_errors=True)
            os.makedirs(made)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(os.path.join(source, name), made)
            done = subprocess.run(
                ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache",
                 os.path.join(FOLDERS[0], "npm-cache")],
                cwd=made, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, f"Express cannot be had from npm: {(done.stdout + done.stderr)[-2000:]}"
            with open(mark, "w", encoding="ascii"):
                pass
    return os.path.join(made, "node_modules")


def take(name, folder, *changes):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        text = changed(file.read(), *changes)
    path = os.path.join(folder, os.path.basename(name))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


# Each returns a command and its environment, for a folder, a port and Weir's HTTP address.
def fastapi(folder, port, weir):
    take("fastapi/app.py", folder, ("timeout=0.5", "timeout=30"))
    return ["/usr/bin/python3", "-B", "-m", "uvicorn", "--app-dir", folder, "--no-proxy-headers", "--port", str(port),
            "app:app"], {"WEIR": f"http://{weir}"}


def express(folder, port, weir):
    return ["node", take("express/app.js", folder, ("timeout(500 ", "timeout(30000 "))], {
        "WEIR": f"http://{weir}", "PORT": str(port), "NODE_PATH": fetch_express()}


def http_asking(_, port, weir):
    return [ASKING, weir, str(port)], {}


def http_in_process(_folder, port, _weir):
    return [IN_PROCESS, os.path.join(EXAMPLES, "proxies/limits.yaml"), str(port)], {}


@contextlib.contextmanager
def running(service, weir, more=None, is_killed=False):
    """The port of the service. It must exit with 0 when it is stopped, unless it is killed."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="weir-services-") as folder, tempfile.TemporaryFile() as log:
        command, environment = service(folder, port, weir)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   env={**os.environ, **environment, **(more or {})})

        def said():
            log.seek(0)
            return log.read().decode(errors="replace")

        end = time.monotonic() + TIMEOUT_S
        try:
            while True:
                with contextlib.suppress(ConnectionRefusedError):
                    visit(port, "127.0.0.1", target="/")
                    break
                assert process.poll() is None and time.monotonic() < end, f"{command[0]} does not start: {said()}"
                time.sleep(0.02)
            yield port
            if is_killed:
                return
            process.terminate()
            status = process.wait(TIMEOUT_S)
            assert status in (0, -15), (status, said())
        except (AssertionError, KeyError, ValueError) as fault:
            raise AssertionError(f"{type(fault).__name__}: {fault}\n{said()}") from fault
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def limits(port, check):
    client = next(clients)
    for remaining in range(19, -1, -1):
        status, headers, _ = visit(port, client, target="/page?n=1")
        assert status == 200 and headers["ratelimit"].startswith(f'"per-client";r={remaining};t='), (status, headers)
        assert "retry-after" not in headers, headers
    check(visit(port, client), "per-client")
    check(visit(port, client, headers=[("X-Forwarded-For", "203.0.113.7")]), "per-client")
    client = next(clients)
    for i in range(2):
        assert visit(port, client, "POST", f"/orders/{i}", body=b"")[0] == 200
    check(visit(port, client, "POST", "/orders/7", body=b""), "orders")
    status, _, _ = visit(port, next(clients), target="/" + "a" * 9000)
    assert status >= 400, f"{status}: what cannot be decided gets in"
    for key in ("a key", "100% & another?"):
        for _ in range(5):
            assert visit(port, next(clients), target="/page", headers=[("X-Api-Key", key)])[0] == 200
        check(visit(port, next(clients), target="/page", headers=[("X-Api-Key", key)]), "per-key")


def asks(service):
    """The service limits clients, fails open without Weir, and limits again when Weir is back."""
    with tempfile.TemporaryDirectory(prefix="weir-services-") as folder:
        settings = os.path.join(EXAMPLES, "proxies/weir.yaml")
        weir = Daemon(WEIR, folder, ("--keys", "10000", "--workers", "1", "--config", settings),
                      http=f"127.0.0.1:{free_port()}", cwd=os.path.dirname(EXAMPLES))
        try:
            weir.start()
            with running(service, weir.http) as port:
                limits(port, check_told)
                n = connections(int(weir.http.split(":")[1]))
                assert n <= 4, f"{n} connections: they are not kept"
                assert weir.end() == 0, weir.said()
                client = next(clients)
                for _ in range(22):
                    status, headers, _ = visit(port, client, target="/page")
                    assert status == 200 and "ratelimit" not in headers, (status, headers)
                weir.start()
                limits(port, check_told)
            assert weir.end() == 0, weir.said()
        finally:
            weir.close()


def closed_limits_stay_closed(service):
    """The store is down and the limits fail closed: Weir replies 503 with a decision, and the service allows no
    request."""
    with tempfile.TemporaryDirectory(prefix="weir-services-") as folder:
        settings = os.path.join(EXAMPLES, "proxies/weir.yaml")
        weir = Daemon(WEIR, folder, ("--keys", "10000", "--workers", "1", "--config", settings, "--store",
                                     f"redis://127.0.0.1:{free_port()}", "--on-store-failure", "closed"),
                      http=f"127.0.0.1:{free_port()}", cwd=os.path.dirname(EXAMPLES))
        try:
            weir.start()
            with running(service, weir.http) as port:
                for _ in range(5):
                    status, headers, body = visit(port, next(clients), target="/page")
                    assert status == 503 and b'"allowed":false' in body and "retry-after" in headers, (status, headers, body)
            assert weir.end() == 0, weir.said()
        finally:
            weir.close()


def fails_closed(service):
    """With WEIR_FAIL=closed, the service allows no request without Weir."""
    with running(service, f"127.0.0.1:{free_port()}", {"WEIR_FAIL": "closed"}) as port:
        status, headers, _ = visit(port, next(clients), target="/page")
        assert status == 503 and headers["retry-after"] == "1", (status, headers)


def honours_delays(service):
    """The second request of a client has to wait for a day: its response does not come."""
    with tempfile.TemporaryDirectory(prefix="weir-services-") as folder:
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write("limits:\n  - name: shaped\n    key: [ip, path]\n    limit: 1/day leaky queue 5\n")
        weir = Daemon(WEIR, folder, ("--keys", "10000", "--workers", "1", "--policy", policy), http=f"127.0.0.1:{free_port()}")
        try:
            weir.start()
            with running(service, weir.http, is_killed=True) as port:  # uvicorn would wait for the request, a day
                client = next(clients)
                status, headers, _ = visit(port, client, target="/page")
                assert status == 200 and "ratelimit" in headers, (status, headers)
                with socket.create_connection(("127.0.0.1", port), TIMEOUT_S, (client, 0)) as waits:
                    waits.sendall(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n")
                    waits.settimeout(1)
                    with contextlib.suppress(socket.timeout):
                        raise AssertionError(waits.recv(4096))
                assert visit(port, next(clients), target="/page")[0] == 200
            assert weir.end() == 0, weir.said()
        finally:
            weir.close()


def smooths(service):
    """15 requests at once get their responses one by one, at the limit's rate. A request that would wait too long is
    denied."""
    with tempfile.TemporaryDirectory(prefix="weir-services-") as folder:
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write("limits:\n  - {name: smooth, key: [ip], match: {path: /page}, limit: 50/s leaky queue 20}\n"
                       "  - {name: daily, key: [ip], match: {path: /daily}, limit: 1/day leaky queue 20}\n")
        weir = Daemon(WEIR, folder, ("--keys", "10000", "--workers", "1", "--policy", policy), http=f"127.0.0.1:{free_port()}")
        try:
            weir.start()
            with running(service, weir.http, {"WEIR_WAIT_MS": "20000", "WEIR_FAIL": "closed"}) as port:
                client = next(clients)
                check_smooth(*crowd(port, client, 15, "/page"), 20 * 10**6)
                assert [visit(port, client, target="/daily")[0] for _ in range(2)] == [200, 429]
            assert weir.end() == 0, weir.said()
        finally:
            weir.close()


def connections(port):
    """Connections to this port now or within the last minute: the kernel remembers closed ones that long."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split()[1:4] for line in file][1:]
    ends = [(int(here.split(":")[1], 16), int(there.split(":")[1], 16)) for here, there, _ in rows]
    return len({tuple(sorted(pair)) for pair in ends if port in pair and 0 not in pair})


def limits_itself(service):
    with running(service, None) as port:
        limits(port, check_denied)


def guide_runs():
    """The commands of docs/guides/express.md, with Express from npm."""
    root, build = os.path.dirname(EXAMPLES), os.path.dirname(WEIR)
    done = subprocess.run([sys.executable, os.path.join(root, "tests/house/docs.py"), build, os.path.join(build, "src/libweir.a"), "--all",
                           "docs/guides/express.md"], env={**os.environ, "NODE_PATH": fetch_express()}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def main():
    services = [fastapi, express, http_asking] if FOLDERS else [http_asking]
    tests = [(service.__name__, lambda service=service: asks(service)) for service in services]
    tests += [(f"{service.__name__}: closed limits stay closed", lambda service=service: closed_limits_stay_closed(service))
              for service in services]
    for check in (fails_closed, honours_delays, smooths):
        tests += [(f"{service.__name__}: {check.__name__.replace('_', ' ')}", lambda service=service, check=check: check(service))
                  for service in services if service is not http_asking]
    if FOLDERS:
        tests.append(("docs/guides/express.md", guide_runs))
    return run([*tests, ("http_in_process", lambda: limits_itself(http_in_process))])


if __name__ == "__main__":
    sys.exit(main())
