"""The clocks of one machine at one moment, as a node gives them to those who compare clocks.

In: the clocks of the kernel. Out: readings, and the document of `GET /api/v1/clock` with two of them, made and read here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from exporter.host.kernel_clock import KernelClock, kernel_clock
from exporter.text import untrusted

CLOCK_PATH: Final = "/api/v1/clock"
"""Where `serve` has the document."""

_TRIES: Final = 3
_ERROR_NS_MAX: Final = 1 << 62


class ClockReading(NamedTuple):
    """Both clocks at one moment. within_ns: how far from that moment the time of day may have been read."""

    unix_ns: int
    monotonic_ns: int
    within_ns: int = 0

    @property
    def difference_ns(self) -> int:
        """Between the two clocks: it changes when the time of day is set, and at no other time."""
        return self.unix_ns - self.monotonic_ns


class NodeClock(NamedTuple):
    """received, sent: when the node had the request, and when it answered."""

    received: ClockReading
    sent: ClockReading
    kernel: KernelClock


def clock_reading(
    monotonic_ns: Callable[[], int] = time.monotonic_ns, unix_ns: Callable[[], int] = time.time_ns
) -> ClockReading:
    """The closest of a few: a thread that is preempted between the two clocks reads moments that are far apart."""
    found = []
    for _ in range(_TRIES):
        before, of_day, after = monotonic_ns(), unix_ns(), monotonic_ns()
        found.append(ClockReading(of_day, (before + after) // 2, (after - before + 1) // 2))
    return min(found, key=lambda one: one.within_ns)


def node_clock() -> NodeClock:
    """The clocks of this machine, for a request that has just arrived."""
    received = clock_reading()
    kernel = kernel_clock()
    return NodeClock(received, clock_reading(), kernel)


def clock_document(clock: NodeClock) -> dict[str, Any]:
    return {
        "received": clock.received._asdict(),
        "sent": clock.sent._asdict(),
        "kernel": clock.kernel._asdict(),
    }


def clock_of(document: Any) -> NodeClock:
    """Raises Untrusted."""
    found = untrusted.mapping(document)
    kernel = untrusted.mapping(untrusted.member(found, "kernel"))
    is_synchronized, error_ns = untrusted.member(kernel, "is_synchronized"), untrusted.member(kernel, "max_error_ns")
    return NodeClock(
        _reading(untrusted.member(found, "received")),
        _reading(untrusted.member(found, "sent")),
        KernelClock(
            None if is_synchronized is None else untrusted.switch(is_synchronized),
            None if error_ns is None else untrusted.count(error_ns, _ERROR_NS_MAX),
        ),
    )


def _reading(value: Any) -> ClockReading:
    found = untrusted.mapping(value)
    return ClockReading(*(untrusted.count(untrusted.member(found, name)) for name in ClockReading._fields))
