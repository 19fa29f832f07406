#!/usr/bin/env python3
"""A TCP proxy that simulates network faults.

    fault_proxy.py HOST:PORT [LISTEN_PORT]

In a program, FaultProxy(port) listens at its own `port`, with a thread; see its methods. As a command it prints its
port. Each line of standard input is the name of a method and its argument: `delay 0.02`, `cut`, `drop_replies`, `hold`,
`refuse`, `cut_replies_after 10`, `restore`. It ends with its input."""

import collections
import os
import selectors
import socket
import struct
import sys
import threading
import time

PIECE = 1 << 16
KEPT_MOST = 1 << 24  # bytes buffered in one direction; a sender of more is cut off


class Way:
    """One direction of a connection."""

    def __init__(self, source, sink, is_reply):
        self.source, self.sink, self.is_reply = source, sink, is_reply
        self.waiting = collections.deque()  # (due time, bytes)
        self.kept = 0
        self.passed = 0
        self.is_over = False  # the source has closed


class Connection:
    def __init__(self, client, server):
        self.ways = [Way(client, server, False), Way(server, client, True)]
        self.sockets = [client, server]


class FaultProxy:
    def __init__(self, port, host="127.0.0.1", listen_port=0):
        self.target = (host, port)
        self.lock = threading.RLock()
        self.connections = set()
        self.accepted = 0
        self.selector = selectors.DefaultSelector()
        self.bell = os.pipe()
        os.set_blocking(self.bell[0], False)
        self.selector.register(self.bell[0], selectors.EVENT_READ)
        self.is_ending = False
        self.listener = None
        self.port = listen_port
        self._forget_faults()
        self._listen()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    # --- faults; each lasts until `restore` ---

    def delay(self, seconds):
        """Delays all bytes in both directions."""
        self._set(delay_s=float(seconds))

    def drop_replies(self):
        """Drops the server's replies; requests pass."""
        self._set(drops_replies=True)

    def hold(self):
        """Holds all bytes silently. They pass after `restore`."""
        self._set(holds=True)

    def cut_replies_after(self, n):
        """Cuts each connection after n more bytes of replies, possibly within a reply."""
        with self.lock:
            for connection in self.connections:
                connection.ways[1].passed = 0
            self._set(cut_after=int(n))

    def cut(self):
        """Resets all connections now. New ones are accepted."""
        with self.lock:
            for connection in list(self.connections):
                self._close(connection, resets=True)
        self._ring()

    def refuse(self):
        """Resets all connections and refuses new ones."""
        with self.lock:
            if self.listener:
                self.selector.unregister(self.listener)
                self.listener.close()
                self.listener = None
        self.cut()

    def restore(self):
        """Ends all faults."""
        with self.lock:
            self._forget_faults()
            if self.listener is None:
                self._listen()
        self._ring()

    def is_empty(self):
        """Whether no bytes are on their way, including late ones of closed connections."""
        with self.lock:
            return not any(way.waiting for connection in self.connections for way in connection.ways) and \
                not any(key.data for key, _ in self.selector.select(0))

    def end(self):
        self.is_ending = True
        self._ring()
        self.thread.join()
        self.selector.close()
        for descriptor in self.bell:
            os.close(descriptor)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    # --- implementation ---

    def _forget_faults(self):
        self.delay_s = 0.0
        self.drops_replies = self.holds = False
        self.cut_after = None

    def _set(self, **faults):
        with self.lock:
            for name, value in faults.items():
                setattr(self, name, value)
        self._ring()

    def _ring(self):
        os.write(self.bell[1], b"!")

    def _listen(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.selector.register(self.listener, selectors.EVENT_READ)

    def _accept(self):
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        self.accepted += 1
        try:
            server = socket.create_connection(self.target, 5)
        except OSError:
            self._reset(client)
            return
        connection = Connection(client, server)
        self.connections.add(connection)
        for way in connection.ways:
            way.source.setblocking(False)
            way.source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(way.source, selectors.EVENT_READ, (connection, way))

    @staticmethod
    def _reset(one):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()

    def _close(self, connection, resets=False):
        self.connections.discard(connection)
        for one in connection.sockets:
            try:
                self.selector.unregister(one)
            except (KeyError, ValueError):
                pass
            if resets:
                self._reset(one)
            else:
                one.close()

    def _receive(self, connection, way):
        try:
            piece = way.source.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            way.is_over = True
            self.selector.unregister(way.source)
        elif not (way.is_reply and self.drops_replies):
            way.waiting.append((time.monotonic() + self.delay_s, piece))
            way.kept += len(piece)
            if way.kept > KEPT_MOST:
                self._close(connection, resets=True)

    def _pass_on(self, connection, way, now):
        """Sends what is due. False: the connection is over."""
        while way.waiting and way.waiting[0][0] <= now:
            _, piece = way.waiting[0]
            if way.is_reply and self.cut_after is not None:
                piece = piece[:self.cut_after - way.passed]
            try:
                sent = way.sink.send(piece) if piece else 0
            except BlockingIOError:
                return True
            except OSError:
                return False
            way.passed += sent
            if way.is_reply and self.cut_after is not None and way.passed >= self.cut_after:
                self._close(connection, resets=True)
                return True
            way.kept -= sent
            due, piece = way.waiting.popleft()
            if sent < len(piece):
                way.waiting.appendleft((due, piece[sent:]))
                return True
        return not (way.is_over and not way.waiting)

    def _pass_all(self):
        """Returns how long there is nothing to do."""
        now, pause = time.monotonic(), None
        for connection in list(self.connections):
            for way in connection.ways:
                if connection not in self.connections or self.holds:
                    break
                if not self._pass_on(connection, way, now):
                    self._close(connection)
                    break
                if way.waiting:
                    due = max(way.waiting[0][0] - now, 0.001)
                    pause = due if pause is None else min(pause, due)
        return pause

    def _look(self, key):
        if key.fileobj == self.bell[0]:
            os.read(self.bell[0], PIECE)
        elif key.fileobj is self.listener:
            self._accept()
        elif key.data and key.data[0] in self.connections:
            self._receive(*key.data)

    def _run(self):
        pause = None
        while not self.is_ending:
            events = self.selector.select(pause)
            with self.lock:
                for key, _ in events:
                    self._look(key)
                pause = self._pass_all()
        with self.lock:
            for connection in list(self.connections):
                self._close(connection)
            if self.listener:
                self.listener.close()


def main(target, listen_port=0):
    host, _, port = target.rpartition(":")
    with FaultProxy(int(port), host, int(listen_port)) as proxy:
        print(proxy.port, flush=True)
        for line in sys.stdin:
            name, *arguments = line.split() or ["restore"]
            if name.startswith("_") or name in ("end", "port") or not callable(getattr(FaultProxy, name, None)):
                print(f"no such fault: {name}", file=sys.stderr, flush=True)
                continue
            getattr(proxy, name)(*arguments)
            print("ok", flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
