"""Builds a /proc tree in a folder, with the files that Processes and libraries read."""

from __future__ import annotations

import os
from pathlib import Path

from exporter.host.processes import Processes


def stat_line(tgid: int, comm: bytes = b"python", start_time_ticks: int = 4711) -> bytes:
    """A line of /proc/TGID/stat: parent 1, and field 22 is the start time."""
    before = b"S 1 7 7 0 -1 4194560 100 0 0 0 5 3 0 0 20 0 12 0"
    after = b"123456 789 18446744073709551615 1 1 0" + 24 * b" 0"
    return b"%d (%s) %s %d %s\n" % (tgid, comm, before, start_time_ticks, after)


def process(proc: Path, tgid: int, **files: bytes) -> Processes:
    """Adds one process with these files; `stat` is there unless given."""
    folder = proc / str(tgid)
    folder.mkdir(parents=True)
    for name, content in {"stat": stat_line(tgid), **files}.items():
        (folder / name).write_bytes(content)
    return Processes(proc)


def mapping_process(proc: Path, tgid: int, path: str, content: bytes) -> Processes:
    """Adds one process that maps a file of its own, which has this path in its root."""
    processes = process(proc, tgid)
    file = proc / str(tgid) / "root" / path.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    (proc / str(tgid) / "map_files").mkdir()
    (proc / str(tgid) / "map_files" / "1000-2000").symlink_to(file)
    status = file.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    (proc / str(tgid) / "maps").write_text(f"1000-2000 r-xp 00000000 {device} {status.st_ino} {path}\n")
    return processes


def mapping_files(proc: Path, tgid: int, files: dict[str, bytes]) -> Processes:
    """Adds one process that maps files of its own, each with 128 KiB of code."""
    processes = process(proc, tgid)
    folder = proc / str(tgid) / "map_files"
    folder.mkdir()
    lines = []
    for number, (path, content) in enumerate(files.items(), 1):
        file = proc / str(tgid) / "root" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        status = file.stat()
        addresses = f"{number << 20:x}-{(number << 20) + (128 << 10):x}"
        (folder / addresses).symlink_to(file)
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        lines.append(f"{addresses} r-xp 00000000 {device} {status.st_ino} {path}\n")
    (proc / str(tgid) / "maps").write_text("".join(lines))
    return processes


def unmap(proc: Path, tgid: int) -> None:
    """The process goes on without its library."""
    (proc / str(tgid) / "maps").write_text("")
