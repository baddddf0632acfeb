"""Why are the clocks of a GPU held down, and for how long so far? The driver's bits become reasons, samples become time.

In: the bits of a sample, and when it was taken. Out: nanoseconds by reason, which never go back. Pure.

The driver has counters of its own for five of these reasons, in new releases only and not in one unit. With them a series would
not be one thing everywhere, so they are not used.
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
    """`hw_slowdown` only where neither of its two causes is named. An idle GPU is not held down."""
    if bits & _EXPLAINS_HW_SLOWDOWN:
        bits &= ~_HW_SLOWDOWN
    found = {label for bit, label in _REASONS.items() if bits & bit}
    known = sum(_REASONS) | _IDLE
    return frozenset(found | {OTHER} if bits & ~known else found)


class Throttling:
    """Of one GPU. A sample stands for the time since the one before; for none after longest_ns, or after one that failed."""

    def __init__(self, longest_ns: int) -> None:
        self._longest_ns = longest_ns
        self._sampled_ns: int | None = None
        self._booked: dict[str, int] = {}

    def miss(self) -> None:
        """A sample that was due has failed: the next one stands for nothing."""
        self._sampled_ns = None

    def add(self, bits: int | None, now_ns: int) -> None:
        """A sample, taken now. bits: None where it does not tell."""
        before_ns, self._sampled_ns = self._sampled_ns, now_ns if bits is not None else None
        if bits is None:
            return
        self._booked = self._booked or dict.fromkeys(REASONS, 0)
        if before_ns is None or now_ns - before_ns > self._longest_ns:
            return
        for reason in reasons_of(bits):
            self._booked[reason] += now_ns - before_ns

    def booked(self) -> Mapping[str, int]:
        """Every reason, 0 included, so that one that comes later is seen as growth; none before a sample that tells."""
        return dict(self._booked)
