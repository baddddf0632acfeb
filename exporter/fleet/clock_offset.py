"""How far the clock of a node is from the one of this machine, with the bound within which that is true. Pure.

In: samples, each a request and its answer with the readings of both machines. Out: ClockOffset, and sentences for people. No time
is corrected by it: the offset is stated beside the answers.

Monotonic clocks are compared, since nothing sets them. Of all samples the one with the shortest round trip says most: when the
node answered lies within the trip, so the middle of it is off by half of it at most, however unequal the two ways are. The
differences of each machine's own clocks, as they were last, turn that into an offset of the times of day: a clock that is set
between two samples, or within one, is followed. Source: RFC 5905, section 8, and its figure of the on-wire protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from exporter.fleet.clock_reading import ClockReading, NodeClock
from exporter.host.kernel_clock import KernelClock
from exporter.text.figures import duration
from exporter.text.untrusted import Untrusted

WARNED_NS: Final = 10_000_000
"""Ten milliseconds, a step of a fast job: times of nodes that are further apart do not show which of them was first."""

_PARTS: Final = 1_000_000
_DRIFT_PARTS: Final = 2 * 500
"""Parts of a million: the kernel lets a daemon make a clock faster or slower by 500 (MAXFREQ), and there are two clocks."""

_ROUNDING_NS: Final = 2
"""Two halves, and readings in whole nanoseconds."""


class ClockSample(NamedTuple):
    """One request. sent: read before its first byte was sent. received: read after the answer had come."""

    sent: ClockReading
    node: NodeClock
    received: ClockReading

    @property
    def whole_ns(self) -> int:
        return self.received.monotonic_ns - self.sent.monotonic_ns

    @property
    def taken_ns(self) -> int:
        """By the node, in its own time."""
        return self.node.sent.monotonic_ns - self.node.received.monotonic_ns

    @property
    def trip_ns(self) -> int:
        """The two ways. Negative by the drift at most, when they are short and the node's clock is the faster one."""
        return self.whole_ns - self.taken_ns


class ClockOffset(NamedTuple):
    """ahead_ns: of the time of day of the node; negative: behind. bound_ns: the true offset is at most so far from that.

    kernel_bound_ns: how far apart the two may be by what both kernels say; None if one is not synchronized or does not say.
    """

    ahead_ns: int
    bound_ns: int
    kernel_bound_ns: int | None


def clock_offset(samples: Sequence[ClockSample], kernel: KernelClock) -> ClockOffset:
    """As of the last sample. samples: in the order of time, one at least. kernel: of this machine.

    Raises Untrusted if the readings of the node contradict each other.
    """
    for one in samples:
        if one.taken_ns < 0 or one.trip_ns < -_drift_ns(one.whole_ns):
            raise Untrusted("the node says that it took longer than there was from request to answer")
    best, last = min(samples, key=lambda one: one.trip_ns), samples[-1]
    twice_ns = (
        best.node.received.monotonic_ns
        - best.sent.monotonic_ns
        + best.node.sent.monotonic_ns
        - best.received.monotonic_ns
    )
    ahead_ns = twice_ns // 2 + last.node.sent.difference_ns - last.received.difference_ns
    drift_ns = _drift_ns(last.received.monotonic_ns - best.sent.monotonic_ns)
    read_ns = last.node.sent.within_ns + last.received.within_ns
    bound_ns = max(best.trip_ns, 0) // 2 + drift_ns + read_ns + _ROUNDING_NS
    return ClockOffset(ahead_ns, bound_ns, _kernel_bound_ns(kernel, last.node.kernel))


def offset_phrase(offset: ClockOffset) -> str:
    """`3.2 ms ahead, ± 410 us`."""
    where = "ahead" if offset.ahead_ns >= 0 else "behind"
    return f"{duration(abs(offset.ahead_ns))} {where}, ± {duration(offset.bound_ns)}"


def offset_text(node: str, offset: ClockOffset) -> str:
    """`the clock of gpu7 is 3.2 ms ahead, ± 410 us; by both kernels they are within 2.1 ms`."""
    measured = f"the clock of {node} is {offset_phrase(offset)}"
    if offset.kernel_bound_ns is None:
        return f"{measured}; one of the two is not known to be synchronized"
    return f"{measured}; by both kernels they are within {duration(offset.kernel_bound_ns)}"


def offset_warning(node: str, offset: ClockOffset, limit_ns: int = WARNED_NS) -> str:
    """What to do about an offset that is larger than the limit, or than the kernels say, whatever the bound hides; else ""."""
    least_ns = abs(offset.ahead_ns) - offset.bound_ns
    if least_ns > limit_ns:
        why = f"times that {node} reports are not corrected"
    elif offset.kernel_bound_ns is not None and least_ns > offset.kernel_bound_ns:
        why = "one of the two kernels is wrong about its clock"
    else:
        return ""
    return f"{offset_text(node, offset)}; {why}; check `chronyc tracking` on both"


def _drift_ns(elapsed_ns: int) -> int:
    return elapsed_ns * _DRIFT_PARTS // _PARTS + 1


def _kernel_bound_ns(one: KernelClock, other: KernelClock) -> int | None:
    if not (one.is_synchronized and other.is_synchronized):
        return None
    if one.max_error_ns is None or other.max_error_ns is None:
        return None
    return one.max_error_ns + other.max_error_ns
