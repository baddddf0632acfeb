"""Charts as SVG in the page: bars of shares, chains as lanes of time, lost time by cause. A table beside each has its figures.

Positions and sizes are attributes: a page has no styles of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Final, NamedTuple

from exporter.causes import Cause, largest_first
from exporter.serve.pages.markup import Markup, element
from exporter.text.figures import percent, time_of_day

_HEIGHT: Final = 120
_LANE: Final = 20
_AXIS: Final = 20
_TICKS: Final = 6
_SHARE_MIN: Final = 0.001
_SIZE_MIN: Final = 0.3
_HEADROOM: Final = 1.2  # for the text of the scale
_SCALES: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100)

_COLOURS: Final[Mapping[str, int]] = {
    Cause.CPU_CONTENTION: 1,
    Cause.CPU_OVERSUBSCRIBED: 1,
    Cause.CPU_QUOTA: 2,
    Cause.IRQ: 2,
    Cause.WAKEUP_LATENCY: 2,
    Cause.BLOCK_IO: 3,
    Cause.MEMORY_RECLAIM: 3,
    Cause.MAJOR_FAULT: 3,
    Cause.NETWORK: 4,
    Cause.DATALOADER: 5,
    Cause.LOCK: 6,
}


class ChainLane(NamedTuple):
    """A chain in a chart. until_unix_ns: its end, as far as it is known."""

    name: str
    began_unix_ns: int
    until_unix_ns: int
    severity: str
    link: str


class ChartSpan(NamedTuple):
    """The axis of time. zone: None for the local one."""

    since_unix_ns: int
    until_unix_ns: int
    zone: tzinfo | None = None

    def share(self, unix_ns: int) -> float:
        """Share of the width, from the left."""
        share = (unix_ns - self.since_unix_ns) / max(self.until_unix_ns - self.since_unix_ns, 1)
        return min(max(share, 0.0), 1.0)

    def axis(self, height: int) -> Markup:
        """Lines, and the times below them."""
        length_ns = self.until_unix_ns - self.since_unix_ns
        marks = []
        for number in range(_TICKS + 1):
            x = _percent(number / _TICKS)
            unix_ns = self.since_unix_ns + length_ns * number // _TICKS
            text = time_of_day(unix_ns, self.until_unix_ns, self.zone, with_zone=False)
            anchor = "start" if number == 0 else "end" if number == _TICKS else "middle"
            marks.append(element("line", x1=x, x2=x, y1=0, y2=height, class_="tick"))
            is_outer = number in (0, _TICKS // 2, _TICKS)  # the others are left out on a narrow screen
            marks.append(
                element(
                    "text", text, x=x, y=height + 14, text_anchor=anchor, class_="label" if is_outer else "label wide"
                )
            )
        return element("g", marks, aria_hidden="true")


def _percent(share: float) -> str:
    """Widths are shares of the page's, so that text keeps its size on a narrow screen."""
    return f"{100 * share:.2f}%"


def colour_of(cause: str) -> str:
    """The class of a cause: related ones have one colour."""
    return f"c{_COLOURS.get(cause, 0)}"


def bar(shares: Iterable[tuple[str, float]], total: float) -> Markup:
    """Shares by cause beside each other. total: the length that fills it."""
    parts, begin = [], 0.0
    for cause, share in shares:
        width = min(share / total if total else 0.0, 1.0 - begin)
        if width < _SHARE_MIN:
            continue
        shown = element("title", f"{cause} {percent(share)}")
        parts.append(
            element("rect", shown, x=_percent(begin), width=_percent(width), height="100%", class_=colour_of(cause))
        )
        begin += width
    track = element("rect", width="100%", height="100%", class_="track")
    return element("svg", track, parts, class_="bar", aria_hidden="true")


def lanes(chains: Sequence[ChainLane], span: ChartSpan) -> Markup:
    """A line for each chain, from its begin to its end."""
    height = _LANE * len(chains)
    shapes = [_lane(one, _LANE * number, span) for number, one in enumerate(chains)]
    return _chart("Chains over time", span.axis(height), shapes, height=height + _AXIS)


def _lane(one: ChainLane, y: int, span: ChartSpan) -> Markup:
    begin, end = span.share(one.began_unix_ns), span.share(one.until_unix_ns)
    box = element(
        "rect",
        element("title", one.name),
        x=_percent(begin),
        y=y + 3,
        width=_percent(max(end - begin, 0.004)),
        height=_LANE - 6,
        rx=2,
        class_=f"s-{one.severity}",
    )
    most = max(end - begin, 1 - end, begin)  # its name stands where there is most room
    if most == end - begin:
        text = element("text", one.name, x=6, y=14, class_="over")
        name = element(
            "svg", text, x=_percent(begin), y=y, width=_percent(most), height=_LANE
        )  # cuts it off at the end
    elif most == 1 - end:
        name = element("text", one.name, x=_percent(end), y=y + 14, dx="6", text_anchor="start")
    else:
        name = element("text", one.name, x=_percent(begin), y=y + 14, dx="-6", text_anchor="end")
    return element("a", box, name, href=one.link, aria_label=one.name)


def stacked(columns: Sequence[tuple[int, Mapping[str, float]]], span: ChartSpan, interval_ns: int) -> Markup:
    """Time lost in a second, by cause, for each interval. columns: its begin, and shares of it; those of several GPUs add up."""
    most = max((sum(shares.values()) for _, shares in columns), default=0.0)
    top = next((step for step in _SCALES if most * _HEADROOM <= step), _SCALES[-1])
    order = [cause for cause, _ in largest_first(_summed(shares for _, shares in columns))]
    shapes = []
    for began_unix_ns, shares in columns:
        x = span.share(began_unix_ns)
        width = max(span.share(began_unix_ns + interval_ns) - x, _SHARE_MIN)
        y = float(_HEIGHT)
        for cause in order:
            size = min(shares.get(cause, 0.0) / top * _HEIGHT, y)
            if size >= _SIZE_MIN:
                y -= size
                shown = f"{time_of_day(began_unix_ns, span.until_unix_ns, span.zone)}: {cause} {percent(shares[cause])}"
                box = {"x": _percent(x), "y": f"{y:.1f}", "width": _percent(width), "height": f"{size:.1f}"}
                shapes.append(element("rect", element("title", shown), class_=colour_of(cause), **box))
    lines = [element("line", x1=0, x2="100%", y1=y, y2=y, class_="tick") for y in (0, _HEIGHT // 2, _HEIGHT)]
    scale = element("text", percent(top), x=4, y=14, class_="label")
    return _chart("Lost GPU time", lines, span.axis(_HEIGHT), shapes, scale, height=_HEIGHT + _AXIS)


def legend(causes: Iterable[str]) -> Markup:
    """Colours of causes."""
    swatch = element("rect", width=10, height=10, rx=2)
    found: dict[str, list[str]] = {}
    for cause in causes:
        found.setdefault(colour_of(cause), []).append(cause)
    items = [
        element(
            "li",
            element("svg", swatch, viewBox="0 0 10 10", class_=f"swatch {colour}", aria_hidden="true"),
            ", ".join(names),
        )
        for colour, names in found.items()
    ]
    return element("ul", items, class_="legend")


def _summed(many: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for shares in many:
        for cause, share in shares.items():
            found[cause] = found.get(cause, 0.0) + share
    return found


def _chart(name: str, *shapes: Iterable[Markup] | Markup, height: int) -> Markup:
    return element("svg", *shapes, height=height, class_="chart", role="group", aria_label=name)
