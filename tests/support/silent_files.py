"""A file system in user space with the files of a folder, which stops answering, or dies, when it is wanted.

`python -m tests.support.silent_files MOUNTPOINT FOLDER USER`: mounts it for this user id, and prints `ready`. After a line on
standard input, which is echoed, nothing is answered any more: what reads a file hangs, and no signal ends it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.trials.programs.slow_files import (
    FILE,
    LOOKUP,
    OPEN,
    OPENDIR,
    VALID_SECONDS,
    SlowFiles,
)


class SilentFiles(SlowFiles):
    """Files have the numbers from FILE on, in the order of their names."""

    def __init__(self, device: int, folder: Path) -> None:
        super().__init__(device, 0)
        self._names = [path.name for path in sorted(folder.iterdir())]
        self._contents = [(folder / name).read_bytes() for name in self._names]
        self.is_silent = threading.Event()

    def _done(self, operation: int, node: int, body: bytes) -> bytes:
        if self.is_silent.is_set():
            threading.Event().wait()
        if operation == LOOKUP:
            name = os.fsdecode(body.rstrip(b"\0"))
            if name not in self._names:
                raise OSError(errno.ENOENT, "")
            found = FILE + self._names.index(name)
            return struct.pack("<QQQQII", found, 0, VALID_SECONDS, VALID_SECONDS, 0, 0) + self._attributes(found)
        if operation in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        return super()._done(operation, node, body)

    def _attributes(self, node: int) -> bytes:
        self._size_bytes = len(self._contents[node - FILE]) if node >= FILE else 0
        return super()._attributes(node)

    def _read(self, unique: int, body: bytes, node: int) -> None:
        if self.is_silent.is_set():
            return
        _, offset, size_bytes = struct.unpack_from("<QQI", body)
        self._answer(unique, self._contents[node - FILE][offset : offset + size_bytes])


def main() -> None:
    mountpoint, folder, user = sys.argv[1:4]
    library = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={user},group_id=0,allow_other".encode()
    if library.mount(b"silent-files", mountpoint.encode(), b"fuse", ctypes.c_ulong(0), options):
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    files = SilentFiles(device, Path(folder))
    threading.Thread(target=files.serve, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        files.is_silent.set()
        print(line, end="", flush=True)


class Served:
    """A mounted file system."""

    def __init__(self, process: subprocess.Popen[str], mountpoint: Path) -> None:
        self._process = process
        self._mountpoint = mountpoint
        self._is_detached = False

    def detach(self) -> None:
        """Unmount it; files that are in use stay as they are."""
        if not self._is_detached:
            subprocess.run(["umount", "--lazy", str(self._mountpoint)], check=True)
            self._is_detached = True

    def fall_silent(self) -> None:
        """Answer nothing any more."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("silent\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "silent\n"

    def die(self) -> None:
        """The program ends and the mount stays, as when it crashes: every request gets an error, that of close(2) too."""
        self._process.kill()
        self._process.wait()


@contextmanager
def served(mountpoint: Path, folder: Path, user: int = 0) -> Iterator[Served]:
    """The files of a folder, served at a mount point."""
    mountpoint.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(mountpoint), str(folder), str(user)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    files = Served(process, mountpoint)
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield files
        finally:
            process.kill()  # what hangs in a file gets an error
            files.detach()


if __name__ == "__main__":
    main()
