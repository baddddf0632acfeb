"""A Libbpf without a kernel: it keeps what is attached, and says of maps and iterators what a test has put there."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from exporter.config.probes import AttachKind
from exporter.errors import KernelRefused
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import Kernel
from exporter.kernel.maps import KernelMap

PROGRAMS = ("cuda_session", "cuda_enter", "cuda_exit", "cuda_count", "nccl_enter", "nccl_exit", "nccl_session")


class Uprobe(NamedTuple):
    """A probe at one offset. program: its name."""

    program: str
    offset: int
    cookie: int
    is_return: bool


class FakeLibbpf:
    """Programs are handles: 1 + place in PROGRAMS. Links are descriptors of files in memory, which the exporter closes to detach.

    linked: descriptor of each link there ever was -> its inode and its probes. refused_after: probes that the kernel accepts
    before it refuses one; None: all. iterator_output: bytes of each run.
    """

    def __init__(self) -> None:
        self.linked: dict[int, tuple[int, list[Uprobe]]] = {}
        self.refused_after: int | None = None
        self.iterator_output: Callable[[int], bytes] = lambda _tid: b""
        self.batches: list[Sequence[tuple[bytes, bytes]]] = []
        self.rooms: list[int] = []
        self._links: dict[int, int] = {}
        self.events: dict[int, tuple[int, bool]] = {}

    @property
    def uprobes(self) -> list[Uprobe]:
        """Attached now, in the order in which they were attached."""
        return [one for fd, (inode, probes) in self.linked.items() if _inode(fd) == inode for one in probes]

    def program_fd(self, program: int) -> int:
        return program

    def link_uprobes(
        self,
        program_fd: int,
        _attach_type: int,
        _path: str,
        offsets: Sequence[int],
        cookies: Sequence[int],
        *,
        flags: int,
    ) -> int:
        return self._link(
            [self._probe(program_fd, *one, is_return=bool(flags)) for one in zip(offsets, cookies, strict=True)]
        )

    def link_event(self, program_fd: int, event_fd: int, cookie: int) -> int:
        offset, is_return = self.events.pop(event_fd)
        return self._link([self._probe(program_fd, offset, cookie, is_return=is_return)])

    def _probe(self, program: int, offset: int, cookie: int, *, is_return: bool) -> Uprobe:
        if self.refused_after is not None and len(self.uprobes) >= self.refused_after:
            raise KernelRefused(f"cannot attach: {os.strerror(errno.EINVAL)}")
        return Uprobe(PROGRAMS[program - 1], offset, cookie, is_return)

    def _link(self, probes: list[Uprobe]) -> int:
        fd = os.memfd_create("link")
        self.linked[fd] = os.fstat(fd).st_ino, probes
        return fd

    def attach_iterator(self, _program: int, _name: str, *, tid: int = 0) -> int:
        link = 1 + len(self._links)
        self._links[link] = tid
        return link

    def run_iterator(self, link: int) -> bytes:
        return self.iterator_output(self._links[link])

    def destroy_link(self, link: int) -> None:
        del self._links[link]

    def lookup_batch(
        self, _fd: int, _position: object, *, is_first: bool, keys: Any, values: Any, room: int
    ) -> tuple[int, bool]:
        """The next of `batches`; none is larger than `room`, or the result is -1."""
        if is_first:
            self.rooms.append(room)
        if len(self.batches[0]) > room:
            return -1, False
        batch = self.batches.pop(0)
        for buffer, column in ((keys, 0), (values, 1)):
            raw = b"".join(row[column] for row in batch)
            ctypes.memmove(buffer, raw, len(raw))
        return len(batch), not self.batches


class FakeEvents:
    """An EventSource of uprobes."""

    def __init__(self, libbpf: FakeLibbpf) -> None:
        self._libbpf = libbpf

    def uprobes(self, _library_fd: int, offsets: Sequence[int], *, is_return: bool) -> list[int]:
        events = [os.eventfd(0, os.EFD_CLOEXEC) for _ in offsets]
        self._libbpf.events |= {event: (offset, is_return) for event, offset in zip(events, offsets, strict=True)}
        return events

    def software(self, event: int, cpu: int, *, period: int = 0, flags: int = 0, watermark: int = 0) -> int:
        raise KernelRefused(f"no event {event}, {period}, {flags}, {watermark} on CPU {cpu}")


def _inode(fd: int) -> int:
    """0 if it is closed."""
    try:
        return os.fstat(fd).st_ino
    except OSError:
        return 0


def kernel_of(libbpf: FakeLibbpf, kind: AttachKind = AttachKind.SINGLE, **options: Any) -> Kernel:
    """A Kernel with all call programs loaded, and no map."""
    programs = {name: number for number, name in enumerate(PROGRAMS, 1)}
    return Kernel(cast(Libbpf, libbpf), kind, {}, programs, {}, event_source=FakeEvents(libbpf), **options)


def map_of(libbpf: FakeLibbpf, *, value_bytes: int, capacity: int) -> KernelMap:
    """A map with keys of four bytes."""
    return KernelMap(cast(Libbpf, libbpf), 3, 4, value_bytes, capacity)
