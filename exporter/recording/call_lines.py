"""Single calls as lines of text, as they happen: so many of each second, and then how many more there were.

In: calls. Out: lines. Pure: the time is that of the calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from exporter.recording.recorded_calls import RecordedCalls, SingleCall, StateSpan
from exporter.text import figures
from exporter.units import NANOSECONDS


def call_lines(read: RecordedCalls, found: Iterable[SingleCall | StateSpan], most_per_second: int) -> Iterator[str]:
    """read: what `found` comes from, for names of threads. A line is never longer than a name and its arguments."""
    second, shown, more = 0, 0, 0
    slowest: SingleCall | None = None
    for call in found:
        if not isinstance(call, SingleCall):
            continue
        if call.ended_unix_ns // NANOSECONDS > second:
            if more:
                yield _more(more, slowest)
            second, shown, more, slowest = call.ended_unix_ns // NANOSECONDS, 0, 0, None
        if shown < most_per_second:
            shown += 1
            yield _line(read, call)
            continue
        more += 1
        if slowest is None or _length_ns(call) > _length_ns(slowest):
            slowest = call
    if more:
        yield _more(more, slowest)


def _length_ns(call: SingleCall) -> int:
    return call.ended_unix_ns - call.began_unix_ns


def _line(read: RecordedCalls, call: SingleCall) -> str:
    at = time.strftime("%H:%M:%S", time.gmtime(call.ended_unix_ns // NANOSECONDS))
    known = read.threads.get((call.process, call.tid))
    place = f"pid {known.tgid} {known.comm} {call.tid}" if known else f"thread {call.tid}"
    arguments = "".join(f" {name}={value}" for name, value in call.arguments.items())
    length = figures.duration(_length_ns(call))
    name = "  " * call.depth + call.name
    return f"{at}.{call.ended_unix_ns % NANOSECONDS // 1000:06d}  {place}  {name}  {length}{arguments}"


def _more(more: int, slowest: SingleCall | None) -> str:
    named = f"; the slowest: {slowest.name}, {figures.duration(_length_ns(slowest))}" if slowest else ""
    return f"  {more:,} more calls in this second{named}"
