"""Numbers, times and ranks as short text for people."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

from exporter.units import NANOSECONDS

_MILLISECOND = 1_000_000
_MICROSECOND = 1_000


def percent(share: float) -> str:
    """0.46 -> `46 %`, 0.008 -> `0.8 %`."""
    hundredths = share * 100
    return f"{hundredths:.0f} %" if hundredths >= 9.95 or hundredths == 0 else f"{hundredths:.1f} %"


def length(duration_ns: float) -> str:
    """`14.0 ms`, `9.3 s`, `24 s`, `3 min 20 s`, `5 h 12 min`."""
    if duration_ns < NANOSECONDS:
        factor, unit = (_MILLISECOND, "ms") if duration_ns >= _MILLISECOND else (_MICROSECOND, "us")
        return (
            f"{duration_ns / factor:.3g} {unit}"
            if duration_ns >= 100 * factor
            else f"{duration_ns / factor:.1f} {unit}"
        )
    if duration_ns < 10 * NANOSECONDS:
        return f"{duration_ns / NANOSECONDS:.1f} s"
    seconds = round(duration_ns / NANOSECONDS)
    minutes, seconds = divmod(seconds, 60)
    if not minutes:
        return f"{seconds} s"
    hours, minutes = divmod(minutes, 60)
    first, second = (
        (f"{hours} h", f"{minutes} min" * bool(minutes))
        if hours
        else (f"{minutes} min", f"{seconds} s" * bool(seconds))
    )
    return f"{first} {second}".rstrip()


def time_of_day(unix_ns: int, now_unix_ns: int, zone: tzinfo | None, *, with_zone: bool = True) -> str:
    """`14:02:11 CET`; with the date if it is not today. zone: None for the local one."""
    moment, now = (datetime.fromtimestamp(ns / NANOSECONDS, zone).astimezone(zone) for ns in (unix_ns, now_unix_ns))
    text = moment.strftime("%H:%M:%S" if moment.date() == now.date() else "%Y-%m-%d %H:%M:%S")
    return f"{text} {moment.tzname()}" if with_zone else text


def ranks(numbers: Iterable[str]) -> str:
    """`rank 3`, `ranks 0-2, 4`."""
    known = set(filter(None, numbers))
    counted = sorted(int(number) for number in known if number.isascii() and number.isdigit())
    spans: list[list[int]] = []
    for number in counted:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    names = [
        f"{first}-{last}" if last > first + 1 else ", ".join(map(str, range(first, last + 1))) for first, last in spans
    ]
    names += sorted(number for number in known if not (number.isascii() and number.isdigit()))
    return f"{'rank' if len(known) == 1 else 'ranks'} {', '.join(names)}"


def parts(shares: Iterable[tuple[str, float]], least: float = 0.01) -> str:
    """`stress-ng 94 %, cron 4 %`, without shares below `least`."""
    return ", ".join(f"{name} {percent(share)}" for name, share in shares if share >= least)
