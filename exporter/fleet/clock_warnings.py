"""Which clocks are off, for people: a line for each node, or one line where it is rather the clock of this machine.

In: offsets by name of the node. Out: lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exporter.fleet.clock_offset import ClockOffset, offset_warning
from exporter.text.figures import duration

LINES_MAX: Final = 8
_SUSPECTED_MIN: Final = 3
"""Nodes that agree against this machine: two of two may both be wrong."""


def clock_warnings(offsets: Mapping[str, ClockOffset]) -> list[str]:
    """At most LINES_MAX and one more."""
    warned = {node: line for node, offset in offsets.items() if (line := offset_warning(node, offset))}
    ahead = [node for node in warned if offsets[node].ahead_ns >= 0]
    behind = [node for node in warned if offsets[node].ahead_ns < 0]
    agreeing = max(ahead, behind, key=len)
    found: list[str] = []
    if len(agreeing) >= _SUSPECTED_MIN and 2 * len(agreeing) > len(offsets):
        found.append(_own_clock(agreeing, offsets))
        warned = {node: line for node, line in warned.items() if node not in agreeing}
    found += [*warned.values()][:LINES_MAX]
    if len(warned) > LINES_MAX:
        found.append(f"the clocks of {len(warned) - LINES_MAX} more nodes are off")
    return found


def _own_clock(agreeing: list[str], offsets: Mapping[str, ClockOffset]) -> str:
    sizes_ns = [abs(offsets[node].ahead_ns) for node in agreeing]
    where = "ahead" if offsets[agreeing[0]].ahead_ns >= 0 else "behind"
    return (
        f"the clocks of {len(agreeing)} of {len(offsets)} nodes are {duration(min(sizes_ns))} to {duration(max(sizes_ns))}"
        f" {where}; the clock of this machine may be the wrong one; check `chronyc tracking` here"
    )
