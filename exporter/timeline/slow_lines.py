"""Slow calls of a span of time by line of code: the lines that explain it, each with the stacks that led there.

In: call sites. Out: lines with their sums, those with the most time first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from exporter.python.call_site import CallSite, CallStack
from exporter.timeline.item import Arguments
from exporter.units import seconds

SHARE_MIN: Final = 0.005
"""A line whose slow calls took a smaller share of the span explains nothing, and most lines of a job are such."""


class SlowCallLine(NamedTuple):
    """sums: calls and time of all stacks. stacks: those with functions."""

    name: str
    sums: CallSite
    stacks: tuple[CallStack, ...]

    @property
    def arguments(self) -> Arguments:
        return {
            "operation": self.sums.operation,
            "slow_calls": self.sums.calls,
            "slow_seconds": seconds(self.sums.total_ns),
            "slow_from_seconds": seconds(self.sums.slow_from_ns),
        }


def slow_lines(sites: Iterable[CallSite], span_ns: int) -> list[SlowCallLine]:
    found: dict[str, SlowCallLine] = {}
    for site in sites:
        name = f"{site.operation} from {site.stack.place}"
        known = found.get(name)
        found[name] = SlowCallLine(
            name,
            site if known is None else known.sums.plus(site),
            (*(known.stacks if known else ()), *((site.stack,) if site.stack.frames else ())),
        )
    lines = [one for one in found.values() if one.sums.total_ns >= SHARE_MIN * span_ns]
    return sorted(lines, key=lambda one: -one.sums.total_ns)
