"""Reads the files of one process in /proc.

In: the /proc root and a tgid. Out: plain values, with printable texts. The observed process can write most of them, so every read
has an upper limit. A process may end between two reads. One whose main thread has ended while others go on (pthread_exit(3)) has
an empty folder: it is read in the folder of another thread.
Source: proc(5); the kernel's fs/proc/array.c and fs/proc/base.c.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
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
PATH_CHARACTERS_MAX: Final = 1024
THREADS_TRIED_MAX: Final = 16
"""Threads that are looked at after the main thread has ended: others leave /proc when they end, unless they are traced."""

_ENDED: Final = ("Z", "X")
"""States of a thread that has ended; it has no memory and no files any more."""
_LINKS_OF_ONE_THREAD: Final = 3  # of the folder `task`: two, and one for each thread
_ROOT_OF_VERSION_1: Final = re.compile(r"^[1-9][0-9]*:[^:\n]*:/$", re.MULTILINE)
_START_TIME_FIELD: Final = 19  # field 22 of stat(5); field 3 is the first one behind the command's parentheses


class ProcessStat(NamedTuple):
    """The part of /proc/TGID/stat that identifies the process: a tgid is reused, tgid and start time together are not."""

    comm: str
    state: str
    parent_tgid: int
    start_time_ticks: int


@dataclass(frozen=True, slots=True)
class Processes:
    """Reads one /proc tree. Methods raise ProcessGone for a process that ended, NotPossibleHere for a missing permission.

    from_root: applied to the text of a cgroup file; see CgroupPaths.from_root().
    """

    proc: Path = Path("/proc")
    from_root: Callable[[str], str] = str

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

    def cgroup(self, tgid: int, errors: str = "replace") -> str:
        """The lines of /proc/TGID/cgroup, for workloads.container.parse_cgroup(). errors: as in bytes.decode()."""
        text = self.read(tgid, "cgroup", CGROUP_BYTES_MAX).decode("utf-8", errors)
        # Version 1 shows a thread that has ended in the root.
        if _ROOT_OF_VERSION_1.search(text) and (thread := self._other_thread(tgid)):
            text = self._read(tgid, f"task/{thread}/cgroup", CGROUP_BYTES_MAX).decode("utf-8", errors)
        return self.from_root(text)

    def maps(self, tgid: int) -> bytes:
        """/proc/TGID/maps. Empty for a kernel thread. Raises NotPossibleHere beyond MAPS_BYTES_MAX: some 300,000 mappings.

        A part of them would read as if the others were not there.
        """
        maps = self.read(tgid, "maps", MAPS_BYTES_MAX)
        if len(maps) == MAPS_BYTES_MAX:
            raise NotPossibleHere(f"process {tgid} has more than {MAPS_BYTES_MAX >> 20} MiB of mappings")
        return maps

    def link(self, tgid: int, name: str) -> bytes:
        """The target of the symbolic link /proc/TGID/name, such as `exe`."""
        try:
            return self._link(tgid, name)
        except (ProcessGone, NotPossibleHere):
            if not (thread := self._other_thread(tgid)):
                raise
            return self._link(tgid, f"task/{thread}/{name}")

    def read(self, tgid: int, name: str, limit_bytes: int) -> bytes:
        """At most `limit_bytes` of /proc/TGID/name."""
        try:
            content = self._read(tgid, name, limit_bytes)
        except (ProcessGone, NotPossibleHere):
            if not (thread := self._other_thread(tgid)):
                raise
        else:
            if content or not (thread := self._other_thread(tgid)):
                return content
        return self._read(tgid, f"task/{thread}/{name}", limit_bytes)

    def working_directory(self, tgid: int) -> str:
        """As the process itself sees it, printable. Raises ProcessGone, NotPossibleHere."""
        return printable_bytes(self._link(tgid, "cwd"), PATH_CHARACTERS_MAX)

    def readable_id(self, tgid: int) -> int:
        """The number of the folder in /proc that shows the process: its tgid, or the id of a thread that has not ended.

        /proc does not list the folders of such ids, but it has them, with all files that the folder of a tgid has.
        """
        return self._other_thread(tgid) or tgid

    def _other_thread(self, tgid: int) -> int:
        """A thread that runs although the main thread has ended; 0 if the main thread has not, or none runs."""
        folder = f"{self.proc}/{tgid}/task"
        try:
            # Most processes without content are kernel threads, with one thread each.
            if os.stat(folder).st_nlink <= _LINKS_OF_ONE_THREAD or self._state(tgid) not in _ENDED:  # noqa: PTH116
                return 0
            with os.scandir(folder) as entries:
                tids = [int(entry.name) for entry in islice(entries, THREADS_TRIED_MAX) if entry.name.isdecimal()]
        except (OSError, ProcessGone, NotPossibleHere):
            return 0
        return next((tid for tid in tids if tid != tgid and self._is_running(tgid, tid)), 0)

    def _is_running(self, tgid: int, tid: int) -> bool:
        try:
            return self._state(tgid, f"task/{tid}/stat") not in _ENDED
        except (ProcessGone, NotPossibleHere):
            return False

    def _state(self, tgid: int, name: str = "stat") -> str:
        return parse_stat(tgid, self._read(tgid, name, STAT_BYTES_MAX)).state

    def _link(self, tgid: int, name: str) -> bytes:
        try:
            return os.readlink(os.fsencode(self.proc) + b"/%d/%s" % (tgid, name.encode()))  # noqa: PTH115 - bytes
        except OSError as error:
            raise translated(error, tgid, name) from error

    def _read(self, tgid: int, name: str, limit_bytes: int) -> bytes:
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
