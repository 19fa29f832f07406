"""hung_files.py: a FUSE file system whose files stop responding to reads, as on a file server that is down."""

import ctypes
import errno
import os
import struct
import tempfile
import threading

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 18, 25, 26, 27, 28, 29, 36, 42)
ROOT, FILE = 1, 2
DETACH = 2  # MNT_DETACH
LIBC = ctypes.CDLL(None, use_errno=True)


def why_not():
    """Why such a file system cannot be mounted here; None if it can."""
    if os.geteuid() != 0:
        return "only root may mount a file system"
    return None if os.path.exists("/dev/fuse") else "/dev/fuse not found"


class HungFiles:
    """A directory with one file. After `hang`, reads of it block until the reader is killed."""

    def __init__(self, name, text):
        self.name, self.text, self.is_hung = name, text.encode(), False
        self.has_hung = threading.Event()
        self.folder = tempfile.mkdtemp(prefix="weir-hung-")
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0".encode()
        if LIBC.mount(b"weir-hung", self.folder.encode(), b"fuse", 0, options) != 0:
            os.close(self.device)
            os.rmdir(self.folder)
            raise OSError(ctypes.get_errno(), "mount")
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        self.path = os.path.join(self.folder, name)

    def hang(self):
        self.is_hung = True

    def close(self):
        LIBC.umount2(self.folder.encode(), DETACH)
        self.thread.join(60)
        os.close(self.device)
        os.rmdir(self.folder)

    def attributes(self, node):
        is_file = node == FILE
        return struct.pack("<6Q10I", node, len(self.text) if is_file else 0, 1, 0, 0, 0, 0, 0, 0,
                           0o100644 if is_file else 0o40755, 1, 0, 0, 0, 4096, 0)

    def answer(self, operation, node, body):
        """The bytes of a reply, or an error."""
        if operation == INIT:
            return struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0, *[0] * 8)
        if operation == LOOKUP:
            if body.rstrip(b"\0").decode() != self.name:
                return errno.ENOENT
            return struct.pack("<4Q2I", FILE, 0, 0, 0, 0, 0) + self.attributes(FILE)
        if operation == GETATTR:
            return struct.pack("<Q2I", 0, 0, 0) + self.attributes(node)
        if operation in (OPEN, OPENDIR):
            return struct.pack("<Q2I", 0, 1, 0)  # FOPEN_DIRECT_IO
        if operation == READ:
            _, offset, size = struct.unpack_from("<2QI", body)
            return self.text[offset:offset + size]
        return b"" if operation in (RELEASE, RELEASEDIR, READDIR, FLUSH) else errno.ENOSYS

    def serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError as fault:
                if fault.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # unmounted
            operation, unique, node = struct.unpack_from("<I2Q", request, 4)
            body = request[40:]
            if operation in (FORGET, BATCH_FORGET):
                continue
            if operation == READ and self.is_hung:
                self.has_hung.set()
                continue
            if operation == INTERRUPT:  # the reader was killed
                unique, answer = struct.unpack_from("<Q", body)[0], errno.EINTR
            else:
                answer = self.answer(operation, node, body)
            error, data = (answer, b"") if isinstance(answer, int) else (0, answer)
            try:
                os.write(self.device, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
            except OSError:
                pass  # interrupted meanwhile
