"""Leases of files: a program that opens one of them for writing waits until what depends on its content is removed.

In: descriptors of files. Out: leases, and a call for each one that a writer breaks, while the
writer waits. Readers, and those who rename, link or delete the file, notice nothing.
Source: fcntl(2), "Leases"; break_lease() in the kernel's include/linux/filelock.h. A writer waits /proc/sys/fs/lease-break-time
at most (45 s), whatever the exporter does.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import logging
import os
import signal
import struct
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

_SET_SIGNAL: Final = 10  # F_SETSIG
_SET_OWNER: Final = 15  # F_SETOWN_EX
_OWNER: Final = struct.Struct("=ii")  # type 0: a thread; its tid
_BROKEN: Final = signal.SIGRTMIN + 1
"""Directed at the one thread that blocks it and waits for it."""
LOCAL_FILE_SYSTEMS: Final = frozenset(
    {
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # XFS
        0x9123683E,  # btrfs
        0xCA451A4E,  # bcachefs
        0xF2F52010,  # F2FS
        0x2FC12FC1,  # ZFS
        0x01021994,  # tmpfs
        0x794C7630,  # overlayfs
        0x73717368,  # squashfs
        0xE0F5E1E2,  # EROFS
    }
)
"""Magic numbers of those where a file is opened and closed without asking a server or another process."""
_CHECK_SECONDS: Final = 5.0
"""In case that a signal is lost."""
_POLL_SECONDS: Final = 0.05


class NoLease(enum.Enum):
    """Why there is no lease."""

    WRITTEN = "written"  # it is open for writing
    IMPOSSIBLE = "impossible"  # a capability is missing, or the file system has no leases


class Lease:
    """The lease of one file. Its methods may be called from any thread."""

    def __init__(self, fd: int, on_given_back: Callable[[Lease], None]) -> None:
        self._fd = fd
        self._on_given_back = on_given_back
        self._lock = threading.Lock()

    @property
    def is_current(self) -> bool:
        """Whether the file cannot have been written to since the lease was taken."""
        with self._lock:
            return self._fd >= 0 and fcntl.fcntl(self._fd, fcntl.F_GETLEASE) == fcntl.F_RDLCK

    def notify(self, tid: int) -> None:
        """Which thread is signalled when it is broken. Raises OSError."""
        with self._lock:
            if self._fd >= 0:
                _notify(self._fd, tid)

    def give_back(self) -> None:
        """A waiting writer goes on. May be called twice."""
        with self._lock:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            self._on_given_back(self)
            os.close(fd)


class Leases:
    """on_break: called in the thread of the leases for one that is broken; when it returns, the writer goes on."""

    def __init__(self, on_break: Callable[[Lease], None]) -> None:
        self._on_break = on_break
        self._lock = threading.Lock()
        self._leases: set[Lease] = set()
        self._closed = threading.Event()
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._tid = 0

    def take(self, fd: int) -> Lease | NoLease:
        """fd: of a regular file on a local file system; O_PATH is enough, and it may be closed afterwards."""
        self._start()
        try:
            own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            log.debug("no lease: cannot open the file: %s", error.strerror)
            return NoLease.IMPOSSIBLE
        try:
            _notify(own, self._tid)
            fcntl.fcntl(own, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            os.close(own)
            return NoLease.WRITTEN if error.errno == errno.EAGAIN else NoLease.IMPOSSIBLE
        lease = Lease(own, self._forget)
        with self._lock:
            self._leases.add(lease)
        if not lease.is_current:  # broken before the thread could know of it
            lease.give_back()
            return NoLease.WRITTEN
        return lease

    def change_thread(self) -> None:
        """Go on in a thread that has the capabilities of the caller, which may have dropped some."""
        self._end_thread()
        self._closed.clear()
        self._started.clear()
        self._start()
        for lease in self._all():
            lease.notify(self._tid)
        self._wake_thread()  # a lease may have been broken in between

    def close(self) -> None:
        """Give all back."""
        self._end_thread()
        for lease in self._all():
            lease.give_back()

    def _forget(self, lease: Lease) -> None:
        with self._lock:
            self._leases.discard(lease)

    def _all(self) -> list[Lease]:
        with self._lock:
            return list(self._leases)

    def _end_thread(self) -> None:
        self._closed.set()
        self._wake_thread()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _wake_thread(self) -> None:
        if self._thread is not None and self._thread.ident is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pthread_kill(self._thread.ident, _BROKEN)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
                self._thread.start()
        self._started.wait()

    def _run(self) -> None:
        # SIGIO: the kernel sends it in place of the other one if too many signals are queued.
        signals = {_BROKEN, signal.SIGIO}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        self._tid = threading.get_native_id()
        self._started.set()
        while not self._closed.is_set():
            try:
                signal.sigtimedwait(signals, _CHECK_SECONDS)
            except OSError:  # a seccomp filter refuses it: writers wait a little longer, and not for ever
                self._closed.wait(_POLL_SECONDS)
            for lease in self._all():
                if not self._closed.is_set() and not lease.is_current:
                    self._handle(lease)

    def _handle(self, lease: Lease) -> None:
        try:
            self._on_break(lease)
        except Exception:  # a writer must not wait for a internal error (bug)
            log.exception("cannot remove what depends on a file: internal error (bug)")
        finally:
            lease.give_back()


def _notify(fd: int, tid: int) -> None:
    fcntl.fcntl(fd, _SET_SIGNAL, _BROKEN)
    fcntl.fcntl(fd, _SET_OWNER, _OWNER.pack(0, tid))
