"""visitor.py: clients of a limited site, each with its own address, and checks of their responses.

All of 127.0.0.0/8 is this machine: clients have addresses from 127.0.1.1 on."""

import contextlib
import http.client
import itertools
import json
import random
import socket
import threading
import time

from daemon import TIMEOUT_S

clients = (f"127.0.{i // 250 + 1}.{i % 250 + 1}" for i in itertools.count())


# Above 2048, of those that browsers and fetch of Node.js do not connect to.
BLOCKED_PORTS = {2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}


def free_port():
    """A port below the kernel's range for outgoing connections, so that no other program gets it by chance."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    while True:
        port = random.randrange(2048, max(first, 4096))
        if port in BLOCKED_PORTS:
            continue
        with socket.socket() as place, contextlib.suppress(OSError):
            place.bind(("0.0.0.0", port))
            return port


def changed(text, *changes):
    for old, new in changes:
        assert old in text, f"{old} is not there"
        text = text.replace(old, new)
    return text


def visit(port, client, method="GET", target="/", headers=(), body=None):
    """(status, headers with lower-case names, body) for a client at this address."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S, source_address=(client, 0))
    with contextlib.closing(connection):
        connection.putrequest(method, target)
        for name, value in headers:
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def crowd(port, client, n, target="/"):
    """n requests at once: the start, and the time of each 200, in ns."""
    since, arrivals, others = time.monotonic_ns(), [], []

    def come():
        status, headers, body = visit(port, client, target=target)
        (arrivals if status == 200 else others).append(time.monotonic_ns() if status == 200 else (status, headers, body))

    threads = [threading.Thread(target=come) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not others and len(arrivals) == n, others[:3]
    return since, arrivals


def check_smooth(since, arrivals, interval_ns):
    """Arrivals may be late, but the k-th is never earlier than k - 1 intervals after the first request was sent.
    Tolerates 1 % and 2 ms, because clocks differ."""
    for k, at in enumerate(sorted(arrivals)):
        assert (at - since) * 1.01 + 2 * 10**6 >= k * interval_ns, (k, at - since)


def check_denied(answer, limit):
    """Checks for a complete 429 by the limit of this name."""
    status, headers, body = answer
    assert status == 429, answer
    assert headers["content-type"].startswith("application/problem+json"), headers
    problem = json.loads(body)
    assert problem["type"].endswith("#quota-exceeded") and problem["status"] == 429, problem
    assert problem["violated-policies"] == [limit], problem
    assert "limits" not in problem and "shadow_denied" not in problem, problem  # a visitor sees no other limit
    seconds = int(headers["retry-after"])
    assert seconds > 0 and headers["ratelimit"].startswith(f'"{limit}";r=0;t={seconds}'), headers
    return headers, problem


def check_told(answer, limit):
    """The same, and that Weir sends nothing else."""
    headers, problem = check_denied(answer, limit)
    assert int(headers["retry-after"]) == -(-problem["retry_after_ns"] // 10**9), (headers, problem)
    assert headers["ratelimit-policy"].startswith(f'"{limit}";q='), headers
