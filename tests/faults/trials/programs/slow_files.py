"""A file system in user space with one file, `data`, whose reads can be made slow.

`python slow_files.py FOLDER BYTES`: mounts it there and prints `ready`. A line on standard input is how many seconds each read
takes from now on; it is echoed once it holds. The end of standard input ends it. It speaks the kernel's own protocol
(linux/fuse.h), so that no library is needed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

IN_HEADER, OUT_HEADER = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
ATTRIBUTES = struct.Struct("<6Q10I")
LOOKUP, FORGET, GETATTR = 1, 2, 3
OPEN, READ, STATFS, RELEASE = 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 25, 26, 27, 28, 29
INTERRUPT, DESTROY, BATCH_FORGET = 36, 38, 42
WITHOUT_ANSWER = {FORGET, INTERRUPT, BATCH_FORGET}
ROOT, FILE = 1, 2
DIRECT_IO = 1  # of an open file: each read reaches us
VALID_SECONDS = 3600
REQUEST_BYTES = 1 << 20
MNT_DETACH = 2


class SlowFiles:
    """device: /dev/fuse, mounted. size_bytes: of the file."""

    def __init__(self, device: int, size_bytes: int) -> None:
        self.read_seconds = 0.0
        self._device = device
        self._size_bytes = size_bytes
        self._readers = ThreadPoolExecutor(8)

    def serve(self) -> None:
        """Until it is unmounted."""
        while True:
            try:
                request = os.read(self._device, REQUEST_BYTES)
            except OSError as error:
                if error.errno == errno.ENOENT:  # the request was given up
                    continue
                return
            _, operation, unique, node, *_ = IN_HEADER.unpack_from(request)
            if operation in WITHOUT_ANSWER:
                continue
            if operation == READ:
                self._readers.submit(self._read, unique, request[IN_HEADER.size :], node)
                continue
            try:
                self._answer(unique, self._done(operation, node, request[IN_HEADER.size :]))
            except OSError as error:
                self._answer(unique, b"", error.errno or errno.EIO)

    def _done(self, operation: int, node: int, body: bytes) -> bytes:
        if operation == INIT:
            readahead, flags = struct.unpack_from("<II", body, 8)
            answer = struct.pack("<IIIIHHIIHHI", 7, 31, readahead, flags & 1, 16, 12, 1 << 17, 1, 0, 0, 0)
            return answer.ljust(64, b"\0")
        if operation == LOOKUP:
            if body.rstrip(b"\0") != b"data":
                raise OSError(errno.ENOENT, "")
            return struct.pack("<QQQQII", FILE, 0, VALID_SECONDS, VALID_SECONDS, 0, 0) + self._attributes(FILE)
        if operation == GETATTR:
            return struct.pack("<QII", VALID_SECONDS, 0, 0) + self._attributes(node)
        if operation in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, DIRECT_IO, 0)
        if operation in (READDIR, RELEASE, RELEASEDIR, FLUSH, DESTROY):
            return b""
        if operation == STATFS:
            return bytes(80)
        raise OSError(errno.ENOSYS, "")

    def _attributes(self, node: int) -> bytes:
        is_root = node == ROOT
        mode = stat.S_IFDIR | 0o755 if is_root else stat.S_IFREG | 0o444
        size_bytes = 0 if is_root else self._size_bytes
        return ATTRIBUTES.pack(node, size_bytes, size_bytes >> 9, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _read(self, unique: int, body: bytes, _node: int) -> None:
        _, offset, size_bytes = struct.unpack_from("<QQI", body)
        if self.read_seconds:
            time.sleep(self.read_seconds)
        self._answer(unique, bytes(max(min(size_bytes, self._size_bytes - offset), 0)))

    def _answer(self, unique: int, body: bytes, error: int = 0) -> None:
        with suppress(FileNotFoundError):  # the request was given up
            os.write(self._device, OUT_HEADER.pack(OUT_HEADER.size + len(body), -error, unique) + body)


def main() -> None:
    """Mounts, serves, unmounts."""
    folder, size_bytes = sys.argv[1].encode(), int(sys.argv[2])
    c_library = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if c_library.mount(b"slow-files", folder, b"fuse", ctypes.c_ulong(0), options):
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    try:
        files = SlowFiles(device, size_bytes)
        threading.Thread(target=files.serve, daemon=True).start()
        print("ready", flush=True)
        for line in sys.stdin:
            files.read_seconds = float(line)
            print(line, end="", flush=True)
    finally:
        c_library.umount2(folder, MNT_DETACH)
    os._exit(0)  # readers may still sleep


if __name__ == "__main__":
    main()
