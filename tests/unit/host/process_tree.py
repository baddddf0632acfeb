"""Builds a /proc tree in a folder, with the files that Processes and libraries read."""

from __future__ import annotations

from pathlib import Path

from exporter.host.processes import Processes


def stat_line(tgid: int, comm: bytes = b"python", start_time_ticks: int = 4711) -> bytes:
    """A line of /proc/TGID/stat: parent 1, and field 22 is the start time."""
    before = b"S 1 7 7 0 -1 4194560 100 0 0 0 5 3 0 0 20 0 12 0"
    return b"%d (%s) %s %d 123456 789 18446744073709551615 1 1 0\n" % (tgid, comm, before, start_time_ticks)


def process(proc: Path, tgid: int, **files: bytes) -> Processes:
    """Adds one process with these files; `stat` is there unless given."""
    folder = proc / str(tgid)
    folder.mkdir(parents=True)
    for name, content in {"stat": stat_line(tgid), **files}.items():
        (folder / name).write_bytes(content)
    return Processes(proc)
