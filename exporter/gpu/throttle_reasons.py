"""Why the clocks of a GPU are throttled, and for how long so far: the driver's bits become reasons, samples become time.

In: the bits of a sample, and when it was taken. Out: nanoseconds by reason, which never go back. Pure.

New drivers have counters for five of these reasons, in different units. They are not used: a series would mean different things
on different drivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OTHER: Final = "other"

_HW_SLOWDOWN: Final = 0x8
_IDLE: Final = 0x1
_REASONS: Final = {
    0x2: "app_clocks",
    0x4: "power",
    _HW_SLOWDOWN: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "thermal_sw",
    0x40: "thermal_hw",
    0x80: "hw_power_brake",
    0x100: "display",
}
"""Bit -> label. Source: nvmlClocksEventReasons in nvml.h; tests/contract/test_nvml.py compares."""
_EXPLAINS_HW_SLOWDOWN: Final = 0x40 | 0x80
REASONS: Final = (*_REASONS.values(), OTHER)
"""Values of the label `reason`."""


def reasons_of(bits: int) -> frozenset[str]:
    """`hw_slowdown` only without the bit of one of its two causes. An idle GPU is not throttled."""
    if bits & _EXPLAINS_HW_SLOWDOWN:
        bits &= ~_HW_SLOWDOWN
    found = {label for bit, label in _REASONS.items() if bits & bit}
    known = sum(_REASONS) | _IDLE
    return frozenset(found | {OTHER} if bits & ~known else found)


class Throttling:
    """Throttled time of one GPU. A sample covers the time since the sample before; none after longest_ns or a failed sample."""

    def __init__(self, longest_ns: int) -> None:
        self._longest_ns = longest_ns
        self._sampled_ns: int | None = None
        self._total_ns: dict[str, int] = {}

    def miss(self) -> None:
        """A sample has failed, so the next one covers no time."""
        self._sampled_ns = None

    def add(self, bits: int | None, now_ns: int) -> None:
        """Add a sample that was taken now. bits: None when the GPU does not report them."""
        before_ns, self._sampled_ns = self._sampled_ns, now_ns if bits is not None else None
        if bits is None:
            return
        self._total_ns = self._total_ns or dict.fromkeys(REASONS, 0)
        if before_ns is None or now_ns - before_ns > self._longest_ns:
            return
        for reason in reasons_of(bits):
            self._total_ns[reason] += now_ns - before_ns

    def total_ns(self) -> Mapping[str, int]:
        """Every reason, starting at 0, so that increase() sees the first one; empty before the first sample with bits."""
        return dict(self._total_ns)
