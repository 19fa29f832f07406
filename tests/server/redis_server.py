"""redis_server.py: a Redis for a test, on its own Unix socket, that can be stopped, killed and started again."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

from daemon import TIMEOUT_S, connect_to


class Redis:
    def __init__(self, folder, *options):
        self.folder, self.options, self.process = folder, options, None
        self.path = os.path.join(folder, "redis.socket")
        self.url = f"redis+unix://{self.path}"

    def start(self):
        # redis-tools has the server under the name of one of its tools. The package redis-server would start a service.
        with open(os.path.join(self.folder, "redis.log"), "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", self.folder, "--save", "",
                 "--appendonly", "no", *self.options],
                executable=shutil.which("redis-check-rdb"), stdout=log, stderr=log)
        end = time.monotonic() + TIMEOUT_S
        while not self.answers():
            assert time.monotonic() < end and self.process.poll() is None, "no Redis came up: install redis-tools"
            time.sleep(0.01)

    def answers(self):
        with contextlib.suppress(OSError), self.connect() as client:
            client.sendall(b"PING\r\n")
            return client.recv(1) in (b"+", b"-")
        return False

    def connect(self):
        return connect_to(self.path)

    def tell(self, how):
        self.process.send_signal(how)

    def end(self):
        if self.process is None:
            return
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        self.process = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


@contextlib.contextmanager
def redis(*options):
    """A running Redis. It is killed in the end, even if it was stopped."""
    with tempfile.TemporaryDirectory(prefix="weir-redis-") as folder:
        one = Redis(folder, *options)
        try:
            one.start()
            yield one
        finally:
            if one.process and one.process.poll() is None:
                one.tell(signal.SIGCONT)
            one.end()
