"""Reads the files of one process in /proc.

In: the /proc root and a tgid. Out: plain values, with printable texts. The observed process can write most of them, so every read
has an upper limit. A process may end between two reads.
Source: proc(5); the kernel's fs/proc/array.c and fs/proc/base.c.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.text.printable import printable_bytes

STAT_BYTES_MAX: Final = 4 * 1024
CGROUP_BYTES_MAX: Final = 64 * 1024
ENVIRON_BYTES_MAX: Final = 2 * 1024 * 1024
MAPS_BYTES_MAX: Final = 32 * 1024 * 1024
READ_BYTES: Final = 64 * 1024
VALUE_CHARACTERS_MAX: Final = 256
COMM_CHARACTERS_MAX: Final = 64

_START_TIME_FIELD: Final = 19  # field 22 of stat(5); field 3 is the first one behind the command's parentheses


class ProcessStat(NamedTuple):
    """The part of /proc/TGID/stat that identifies the process: a tgid is reused, tgid and start time together are not."""

    comm: str
    state: str
    parent_tgid: int
    start_time_ticks: int


@dataclass(frozen=True, slots=True)
class Processes:
    """Reads one /proc tree. Methods raise ProcessGone for a process that ended, NotPossibleHere for a missing permission."""

    proc: Path = Path("/proc")

    def tgids(self) -> list[int]:
        """All processes, ascending."""
        try:
            with os.scandir(self.proc) as entries:
                names = [entry.name for entry in entries]
        except OSError as error:
            raise NotPossibleHere(f"cannot list {self.proc}: {error.strerror}") from error
        return sorted(int(name) for name in names if name.isascii() and name.isdecimal())

    def stat(self, tgid: int) -> ProcessStat:
        """Command, state, parent and start time. The command may hold spaces, parentheses and newlines."""
        return parse_stat(tgid, self.read(tgid, "stat", STAT_BYTES_MAX))

    def is_alive(self, tgid: int) -> bool:
        """Whether it has not ended, or its end was not waited for yet."""
        try:
            self.stat(tgid)
        except ProcessGone:
            return False
        except NotPossibleHere:
            pass  # it exists, and is of another user
        return True

    def start_time_ticks(self, tgid: int) -> int:
        """When the process started, in clock ticks since boot."""
        return self.stat(tgid).start_time_ticks

    def comm(self, tgid: int) -> str:
        """The command's name, printable. Read from its own file: stat escapes it since Linux 4.18."""
        return printable_bytes(self.read(tgid, "comm", STAT_BYTES_MAX).removesuffix(b"\n"), COMM_CHARACTERS_MAX)

    def environ(self, tgid: int, names: frozenset[str]) -> dict[str, str]:
        """The variables among `names`, as they were when the program started; later calls of setenv() have no effect.

        Nothing beyond ENVIRON_BYTES_MAX is read. When a name is set twice, the first one counts, as in getenv(3).
        """
        environment = self.read(tgid, "environ", ENVIRON_BYTES_MAX + 1)
        return parse_environ(environment, names)

    def cgroup(self, tgid: int) -> str:
        """The lines of /proc/TGID/cgroup, for workloads.container.parse_cgroup()."""
        return self.read(tgid, "cgroup", CGROUP_BYTES_MAX).decode("utf-8", "replace")

    def maps(self, tgid: int) -> bytes:
        """/proc/TGID/maps, up to MAPS_BYTES_MAX: some 300,000 mappings. Empty for a kernel thread."""
        return self.read(tgid, "maps", MAPS_BYTES_MAX)

    def link(self, tgid: int, name: str) -> bytes:
        """The target of the symbolic link /proc/TGID/name, such as `exe`."""
        try:
            return os.readlink(os.fsencode(self.proc) + b"/%d/%s" % (tgid, name.encode()))  # noqa: PTH115 - bytes
        except OSError as error:
            raise translated(error, tgid, name) from error

    def read(self, tgid: int, name: str, limit_bytes: int) -> bytes:
        """At most `limit_bytes` of /proc/TGID/name."""
        try:
            fd = os.open(f"{self.proc}/{tgid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise translated(error, tgid, name) from error
        try:
            return _read_to_end(fd, limit_bytes)
        except OSError as error:
            raise translated(error, tgid, name) from error
        finally:
            os.close(fd)


def _read_to_end(fd: int, limit_bytes: int) -> bytes:
    """One read for most files; /proc gives at most a page or so per read of a long one."""
    pieces = []
    while limit_bytes > 0:
        piece = os.read(fd, min(limit_bytes, READ_BYTES))
        if not piece:
            break
        pieces.append(piece)
        limit_bytes -= len(piece)
    return b"".join(pieces)


def translated(error: OSError, tgid: int, name: str) -> ProcessGone | NotPossibleHere:
    """The exception of ours for an errno: ProcessGone for ENOENT and ESRCH, else NotPossibleHere."""
    if error.errno in (errno.ENOENT, errno.ESRCH):
        return ProcessGone(f"process {tgid} ended")
    remedy = ""
    if error.errno in (errno.EACCES, errno.EPERM):
        remedy = (
            "grant CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH and CAP_CHECKPOINT_RESTORE, outside of a user namespace;"
            " `gpu-stall-exporter check` shows which of them is missing"
        )
    return NotPossibleHere(f"cannot read {name} of process {tgid}: {error.strerror}", remedy=remedy)


def parse_stat(tgid: int, text: bytes) -> ProcessStat:
    """Before: b"7 (a) (b) S 1 ...". After: ProcessStat("a) (b", "S", 1, ...).

    Raises ProcessGone for a text that ends early, which happens when the process ends during the read.
    """
    before, separator, after = text.rpartition(b")")
    comm = before.partition(b"(")[2]
    fields = after.split()
    try:
        if not separator:
            raise ValueError("no command in parentheses")
        state, parent, start_time = fields[0], fields[1], fields[_START_TIME_FIELD]
        return ProcessStat(
            printable_bytes(comm, COMM_CHARACTERS_MAX), printable_bytes(state, 1), _number(parent), _number(start_time)
        )
    except (IndexError, ValueError) as error:
        raise ProcessGone(f"process {tgid}: stat ends early") from error


def parse_environ(environment: bytes, names: frozenset[str]) -> dict[str, str]:
    """Before: b"RANK=3\\0PATH=/bin\\0", {"RANK"}. After: {"RANK": "3"}. A variable that is cut at the limit is left out."""
    if len(environment) > ENVIRON_BYTES_MAX:
        environment = environment[: environment.rfind(b"\0", 0, ENVIRON_BYTES_MAX) + 1]
    environment = b"\0" + environment
    found = {}
    for name in names:
        key = b"\0" + name.encode("utf-8", "surrogateescape") + b"="
        position = environment.find(key)
        if position < 0:
            continue
        start = position + len(key)
        end = environment.find(b"\0", start, start + 4 * VALUE_CHARACTERS_MAX)
        value = environment[start : end if end >= 0 else start + 4 * VALUE_CHARACTERS_MAX]
        found[name] = printable_bytes(value, VALUE_CHARACTERS_MAX)
    return found


def _number(digits: bytes) -> int:
    """A decimal number of the kernel; int() alone accepts "1_0", "+1" and a million digits."""
    if not (digits.isdigit() and len(digits) <= 20):
        raise ValueError(f"{digits[:20]!r} is not a number")
    return int(digits)
