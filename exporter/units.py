"""Units and bucket edges: nanoseconds to seconds, histogram slots to upper edges. Pure.

Slot k of an exponential histogram of scale 3 holds durations in (2**((k-1)/8), 2**(k/8)] units of 2**-30 s; its twin in C is
bpf/lib/hist.bpf.h. Both OpenTelemetry's exponential buckets and Prometheus' native schema 3 have these edges, in seconds.
"""

from __future__ import annotations

from bisect import bisect_left

SCALE = 3
SLOTS = 338  # exporter.kernel.abi.HIST_SLOTS; a test compares them
UNIT_EXPONENT = -30  # a slot's unit is 2**-30 s

CLASSIC_EXPONENTS = (-19, -16, -13, -10, -7, -5, -3, 0)
"""Classic buckets: `le` = 2**e seconds, 1.9 us to 1 s, a factor of 8 apart, of 4 where steps are. Subset of the slots' edges."""

CLASSIC_SLOTS = tuple((exponent - UNIT_EXPONENT) << SCALE for exponent in CLASSIC_EXPONENTS)
CLASSIC_EDGES_SECONDS = tuple(2.0**exponent for exponent in CLASSIC_EXPONENTS)

NANOSECONDS = 1_000_000_000
BOOT_TICKS = 100  # USER_HZ: what /proc/PID/stat counts start times in, on every architecture supported


def seconds(duration_ns: int) -> float:
    return duration_ns / NANOSECONDS


def slot_of(duration_ns: int) -> int:
    """The slot that the kernel adds a duration to. Source: duration_units() and hist_slot() in bpf/lib/hist.bpf.h."""
    clamped_ns = min(duration_ns, 1 << 43)
    units = clamped_ns + (clamped_ns * 1237182 >> 24)
    if units <= 1:
        return 0
    if units > 1 << 42:
        return SLOTS - 1
    octave = (units - 1).bit_length() - 1
    # (units / 2**octave)**8 <= 2**j, in integers: no rounding can put a value on an edge beyond it.
    power = units**8
    eighth = next(j for j in range(1, 9) if power <= 1 << (8 * octave + j))
    return 8 * octave + eighth


def upper_edge_seconds(slot: int) -> float:
    """Upper, inclusive edge of a slot; infinite for the overflow slot."""
    if slot == SLOTS - 1:
        return float("inf")
    return float(2.0 ** (slot / 8 + UNIT_EXPONENT))


def classic_bucket(duration_seconds: float) -> int:
    """Index of the classic bucket of a duration; len(CLASSIC_SLOTS) for +Inf."""
    return bisect_left(CLASSIC_EDGES_SECONDS, duration_seconds)


def spoken_bytes(amount: float) -> str:
    """`1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
