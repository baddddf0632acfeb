"""A disk of its own for the job (a loop device), and a limit on how fast the job may read it."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.injectors import NotPossible
from tests.faults.injectors.cgroups import Group
from tests.faults.injectors.cpu import named_shell

READER = "fault-reader"


@contextmanager
def file_of(size_bytes: int) -> Iterator[Path]:
    """A file of random bytes, written to the disk; removed at the end."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="gpu-stall-") as folder:
        path = Path(folder) / "data"
        with path.open("wb") as file:
            for _ in range(size_bytes >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        yield path


def forget_pages(path: Path) -> None:
    """Have the page cache drop a file that no process maps."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def held_pages(path: Path) -> Iterator[None]:
    """The page cache keeps a whole file, whatever a kernel that reclaims in advance (DAMON) thinks of it."""
    c_library = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        first = ctypes.c_char.from_buffer(pages)
        try:
            if c_library.mlock(ctypes.byref(first), ctypes.c_size_t(len(pages))) != 0:
                raise NotPossible(f"mlock: {os.strerror(ctypes.get_errno())}")
            yield
        finally:
            del first


@contextmanager
def loop_device(size_bytes: int) -> Iterator[Path]:
    """A block device over a file; detached at the end."""
    if os.geteuid() != 0:
        raise NotPossible("loop devices are made by root")
    if shutil.which("losetup") is None:
        raise NotPossible("losetup is not installed")
    with file_of(size_bytes) as path:
        done = subprocess.run(["losetup", "--find", "--show", path], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotPossible(f"losetup: {done.stderr.strip()}")
        device = Path(done.stdout.strip())
        try:
            yield device
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)


@contextmanager
def slow_reads(group: Group, device: Path, bytes_per_second: int) -> Iterator[None]:
    """What is in the group reads the device no faster than this."""
    number = device.stat().st_rdev
    name = f"{os.major(number)}:{os.minor(number)}"
    if group.version == 1:
        file, limit, none = "blkio.throttle.read_bps_device", f"{name} {bytes_per_second}", f"{name} 0"
    else:
        file, limit, none = "io.max", f"{name} rbps={bytes_per_second}", f"{name} rbps=max"
    group.write(file, limit)
    try:
        yield
    finally:
        group.write(file, none)


@contextmanager
def flood(path: Path, count: int, name: str = READER) -> Iterator[None]:
    """So many processes read a file from end to end, a MiB at a time and past the page cache: the disk is never without them."""
    dd = shutil.which("dd")
    if dd is None:
        raise NotPossible("there is no dd")
    with tempfile.TemporaryDirectory() as folder:
        reader = Path(folder) / name
        reader.symlink_to(dd)
        read = f"{reader} if={path} of=/dev/null bs=1M iflag=direct 2>/dev/null"
        with named_shell(name, f'while kill -0 "$1" 2>/dev/null; do {read}; done', count=count):
            yield


@contextmanager
def readers(device: Path, count: int) -> Iterator[None]:
    """Processes that read a device from end to end, past the page cache, for ever."""
    script = f'while kill -0 "$1" 2>/dev/null; do dd if={device} of=/dev/null bs=1M iflag=direct 2>/dev/null; done'
    with named_shell(READER, script, count=count):
        yield
