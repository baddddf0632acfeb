"""Numbers, durations, times of day and ranks as text: for sentences, and compact for tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Final

from exporter.units import NANOSECONDS

_MILLISECOND: Final = 1_000_000
_MICROSECOND: Final = 1_000
_SHARE_MIN: Final = 0.0005  # rounds to 0.1 %
_LAST_EDGE: Final = ">68m"  # beyond 4,096 s, the last edge of the kernel's buckets


def percent(share: float, space: str = " ") -> str:
    """0.46 -> `46 %`, 0.008 -> `0.8 %`, 0.0004 -> `<0.1 %`, 0 -> `0 %`. space: "" for tables."""
    if share <= 0:
        return f"0{space}%"
    if share < _SHARE_MIN:
        return f"<0.1{space}%"
    hundredths = share * 100
    return f"{hundredths:.0f}{space}%" if hundredths >= 9.95 else f"{hundredths:.1f}{space}%"


def factor(times: float) -> str:
    """1.87 -> `1.9`, 1066 -> `1,066`: how many times as long, as slow or as much."""
    return f"{times:.1f}" if times < 9.95 else f"{times:,.0f}"


def named_shares(shares: Iterable[tuple[str, float]], least: float = 0.01) -> str:
    """`stress-ng 94 %, cron 4.0 %`, without those below `least`."""
    return ", ".join(f"{name} {percent(share)}" for name, share in shares if share >= least)


def duration(duration_ns: float) -> str:
    """`14.0 ms`, `9.3 s`, `24 s`, `3 min 20 s`, `5 h 12 min`."""
    if duration_ns < NANOSECONDS:
        factor, unit = (_MILLISECOND, "ms") if duration_ns >= _MILLISECOND else (_MICROSECOND, "us")
        digits = ".3g" if duration_ns >= 100 * factor else ".1f"
        return f"{duration_ns / factor:{digits}} {unit}"
    if duration_ns < 10 * NANOSECONDS:
        return f"{duration_ns / NANOSECONDS:.1f} s"
    hours, minutes, rest = _clock(duration_ns / NANOSECONDS)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{rest} s"


def compact_duration(length_seconds: float, micro: str = "µ") -> str:
    """`850ns`, `2.17µs`, `13.1ms`, `1.24s`, `2m03s`, `1h02m`: three digits, no blanks."""
    if length_seconds == float("inf"):
        return _LAST_EDGE
    if length_seconds <= 0:
        return "0s"
    for unit, unit_seconds in (("ns", 1e-9), (f"{micro}s", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        value = length_seconds / unit_seconds
        if value < (59.95 if unit == "s" else 999.5):
            return f"{_three_digits(value)}{unit}"
    hours, minutes, rest = _clock(length_seconds)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def rate(per_second: float) -> str:
    """`0.97`, `53.1`, `480`, `8.50k`, `1.20M`."""
    for unit, factor in (("", 1.0), ("k", 1e3), ("M", 1e6)):
        if per_second / factor < 999.5:
            return "0" if per_second == 0 else f"{_three_digits(per_second / factor)}{unit}"
    return f"{per_second / 1e9:.3g}G"


def time_of_day(unix_ns: int, now_unix_ns: int, zone: tzinfo | None, *, with_zone: bool = True) -> str:
    """`14:02:11 CET`; with the date if it is not today's. zone: None for the local one."""
    moment, now = (datetime.fromtimestamp(ns / NANOSECONDS, zone).astimezone(zone) for ns in (unix_ns, now_unix_ns))
    text = moment.strftime("%H:%M:%S" if moment.date() == now.date() else "%Y-%m-%d %H:%M:%S")
    return f"{text} {moment.tzname()}" if with_zone else text


def ranks(numbers: Iterable[str]) -> str:
    """`rank 3`, `ranks 0-2, 4`."""
    known = set(filter(None, numbers))
    counted = sorted(int(number) for number in known if _is_number(number))
    spans: list[list[int]] = []
    for number in counted:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    names = [
        f"{first}-{last}" if last > first + 1 else ", ".join(map(str, range(first, last + 1))) for first, last in spans
    ]
    names += sorted(number for number in known if not _is_number(number))
    return f"{'rank' if len(known) == 1 else 'ranks'} {', '.join(names)}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _clock(length_seconds: float) -> tuple[int, int, int]:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(length_seconds), 60)
    return *divmod(minutes, 60), rest


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
