#!/usr/bin/env python3
"""python_workers.py: the worker processes of a web server share one limit, as under gunicorn.
The parent binds a socket and forks. All workers accept from it and use one table in shared memory, so a client has one
quota, whichever worker serves it. The example is also its own client, and fails if one request too many is allowed.

    PYTHONPATH=bindings/python WEIR_LIBRARY=build/src/libweir.so python3 examples/python_workers.py"""

import collections
import concurrent.futures
import http.client
import http.server
import os
import select
import socket
import sys

import weir

WORKERS = 4
LIMIT, QUOTA = "20/day", 20  # the first refill is after 72 minutes, so none while this runs
CLIENTS, REQUESTS = ("alice", "bob", "carol"), 30  # each
TIMEOUT_S = 30
NAME = f"weir-python-workers-{os.getpid()}"  # yours would be "weir-shop"


def open_table():
    """Each worker calls this when it starts. The first one makes the table, the others attach to it."""
    table = weir.Table(keys=10_000, shared=NAME)
    return table, table.add_limit("per client", LIMIT)


class Handler(http.server.BaseHTTPRequestHandler):
    per_client: weir.Limit
    timeout = TIMEOUT_S

    def do_GET(self):
        verdict = self.per_client.take(self.headers["X-Api-Key"])
        self.send_response(200 if verdict else 429)
        self.send_header("X-RateLimit-Remaining", str(verdict.remaining))
        if not verdict:
            self.send_header("Retry-After", str(-(-verdict.retry_after // 10**9)))  # whole seconds, rounded up
        self.end_headers()

    def log_message(self, *_):
        pass


def work(listener, stop):
    """Serves until the other end of `stop` is closed."""
    table, Handler.per_client = open_table()
    with table:
        while stop not in select.select([listener, stop], [], [])[0]:
            try:
                connection, address = listener.accept()
            except BlockingIOError:  # another worker was faster
                continue
            with connection:
                Handler(connection, address, None)


def start_worker(listener, stop, go_on):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(go_on)
            work(listener, stop)
            status = 0
        except BaseException as fault:  # the child must not run the parent's cleanup
            print(f"worker: {fault!r}", file=sys.stderr)
        finally:
            os._exit(status)
    return child


def ask(port, client):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/", headers={"X-Api-Key": client})
        answer = connection.getresponse()
        answer.read()
        return answer.status, client
    finally:
        connection.close()


def serve_and_ask():
    """Returns (number of responses by client and status, number of workers that failed)."""
    stop, go_on = os.pipe()
    workers = []
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            listener.setblocking(False)
            port = listener.getsockname()[1]
            for _ in range(WORKERS):  # fork before threads are started
                workers.append(start_worker(listener, stop, go_on))
        with concurrent.futures.ThreadPoolExecutor(6) as threads:
            asked = [threads.submit(ask, port, client) for _ in range(REQUESTS) for client in CLIENTS]
            answers = collections.Counter(each.result() for each in asked)
    finally:
        os.close(go_on)
        failed = sum(os.waitpid(worker, 0)[1] != 0 for worker in workers)
        os.close(stop)
    return answers, failed


def main():
    table, per_client = open_table()  # so that unlink below always finds it
    try:
        answers, failed = serve_and_ask()
        served, refused = (sum(n for (status, _), n in answers.items() if status == wanted) for wanted in (200, 429))
        print(f"{served} served, {refused} refused with 429")
        exact = all(answers[200, client] == QUOTA and answers[429, client] == REQUESTS - QUOTA for client in CLIENTS)
        return 0 if exact and not failed and per_client.stats() == (served, refused) else 1
    finally:
        weir.Table.unlink(NAME)  # else it would stay until a reboot
        table.close()


if __name__ == "__main__":
    sys.exit(main())
