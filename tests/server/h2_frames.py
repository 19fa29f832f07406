"""h2_frames.py: frames of HTTP/2, written and read one by one, for what a library would not send."""

import socket
import struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ENHANCE_YOUR_CALM = 11
STREAMS_MAX = 128  # of the server


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A field that is not indexed, without Huffman coding; both are shorter than 127 bytes."""
    name, value = name.encode(), value if isinstance(value, bytes) else value.encode()
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def block(method="GET", path="/healthz", **more):
    return b"".join(literal(name, value) for name, value in
                    [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost"),
                     *((name.replace("_", "-"), value) for name, value in more.items())])


def headers(stream, flags=END_STREAM | END_HEADERS, **fields):
    return frame(HEADERS, flags, stream, block(**fields))


def settings(*pairs, ack=False):
    return frame(SETTINGS, ACK if ack else 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def reset(stream, code=8):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def window(stream, by):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", by))


class Connection:
    """Reads frames. A connection that the server has reset or closed ends the frames."""

    def __init__(self, address, *pairs, timeout_s=60):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.input = b""
        self.is_over = False
        self.send(PREFACE + settings(*pairs))

    def send(self, data):
        """False: the server has closed."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def read(self):
        """(kind, flags, stream, payload), or None at the end."""
        while len(self.input) < 9 or len(self.input) < 9 + int.from_bytes(self.input[:3], "big"):
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionError:
                piece = b""
            if not piece:
                self.is_over = True
                return None
            self.input += piece
        length = int.from_bytes(self.input[:3], "big")
        kind, flags, stream = self.input[3], self.input[4], int.from_bytes(self.input[5:9], "big")
        payload, self.input = self.input[9:9 + length], self.input[9 + length:]
        return kind, flags, stream, payload

    def until(self, kind, stream=None):
        """The next frame of this kind, or None."""
        while (got := self.read()) is not None:
            if got[0] == kind and stream in (None, got[2]):
                return got
        return None

    def body(self, stream):
        """The body of a response, up to its end."""
        content = b""
        while (got := self.read()) is not None:
            if got[2] == stream and got[0] == DATA:
                content += got[3]
            if got[2] == stream and got[0] in (DATA, HEADERS) and got[1] & END_STREAM:
                return content
            assert not (got[2] == stream and got[0] == RST_STREAM), got
        return None

    def close(self):
        self.socket.close()
