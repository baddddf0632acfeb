"""What do the collectors of the machine cost untraced processes?

A read, a packet, a process: with nothing attached, with empty programs, and with ours.
"""

from __future__ import annotations

import mmap
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import NamedTuple

from exporter.config.probes import AttachKind
from exporter.kernel import loader
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import Kernel
from tests.bench.target import BUILD
from tests.faults.injectors import disk

ROUNDS = 60
PAGE_BYTES = 4096
SUBJECTS = tuple(subject for subject in loader.SUBJECTS if subject not in ("threads", "stacks"))

Operation = Callable[[], None]


class HostCost(NamedTuple):
    """Nanoseconds of one operation, medians over the rounds; what is added is above plain_ns.

    ratio: of the whole operation, with our programs against with empty ones.
    """

    name: str
    plain_ns: float
    empty_added_ns: float
    ours_added_ns: float
    ratio: float


def host_costs() -> Iterator[HostCost]:
    """Both sets of programs stay loaded, and are attached in turn: to the whole machine."""
    with closing(_empty()) as empty, closing(loader.load(subjects=SUBJECTS)) as ours:
        for kernel in (empty, ours):
            kernel.detach()
        for name, times, operation in ((_READ, 400, _read), (_PACKET, 1_000, _packet), (_PROCESS, 20, _process)):
            with operation() as once:
                rounds = [_round(once, times, (empty, ours), is_reversed=bool(n % 2)) for n in range(ROUNDS)]
            yield HostCost(
                name,
                statistics.median(plain for plain, _, _ in rounds),
                statistics.median(with_empty - plain for plain, with_empty, _ in rounds),
                statistics.median(with_ours - plain for plain, _, with_ours in rounds),
                statistics.median(with_ours / with_empty for _, with_empty, with_ours in rounds),
            )


_READ, _PACKET, _PROCESS = (
    "a read of 4 KiB from a disk",
    "a packet over the loopback interface",
    "a process that ends at once",
)


def _round(
    once: Operation, times: int, kernels: tuple[Kernel, Kernel], *, is_reversed: bool
) -> tuple[float, float, float]:
    plain = _ns(once, times)
    found = {}
    for at in (1, 0) if is_reversed else (0, 1):
        loader.attach_fixed(kernels[at])
        found[at] = _ns(once, times)
        kernels[at].detach()
    return plain, found[0], found[1]


def _ns(once: Operation, times: int) -> float:
    began_ns = time.perf_counter_ns()
    for _ in range(times):
        once()
    return (time.perf_counter_ns() - began_ns) / times


@contextmanager
def _read() -> Iterator[Operation]:
    """Reads of a loop device, past the page cache."""
    with disk.loop_device(1 << 20) as device, ExitStack() as stack:
        fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
        stack.callback(os.close, fd)
        page = mmap.mmap(-1, PAGE_BYTES)

        def once() -> None:
            os.preadv(fd, [page], 0)

        yield once


@contextmanager
def _packet() -> Iterator[Operation]:
    """To a socket of our own, with the soft interrupt that takes it there."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own,
    ):
        own.bind(("127.0.0.1", 0))
        sender.connect(own.getsockname())

        def once() -> None:
            sender.send(b"x")
            own.recv(1)

        yield once


@contextmanager
def _process() -> Iterator[Operation]:
    def once() -> None:
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)

    yield once


def _empty() -> Kernel:
    kernel = Kernel(Libbpf(), AttachKind.SESSION, {}, {}, {})
    for name in ("empty_sched", "empty_host"):
        loader.load_object(kernel, BUILD / f"{name}.bpf.o", None, {})
    return kernel
