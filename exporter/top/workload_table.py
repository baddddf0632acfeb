"""A row for each workload: its names, its step, its lost time, a bar of the causes, and the causes. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from exporter.causes import largest_culprit
from exporter.chains.chain import Severity
from exporter.chains.thresholds import SEVERITY_SHARES
from exporter.scrape.view import Workload
from exporter.top import terminal_text
from exporter.top.layout import Column, Line, Rest, Style, StyledText, clipped, table
from exporter.top.terminal_text import Glyphs

CAUSE_STYLES: Final = (Style.CAUSE_1, Style.CAUSE_2, Style.CAUSE_3, Style.CAUSE_4)
"""Styles of a workload's causes, the largest first; the fourth style is for all further ones."""

SEVERITY_STYLES: Final = {
    Severity.NONE: Style.PLAIN,
    Severity.LOW: Style.LOW,
    Severity.MEDIUM: Style.MEDIUM,
    Severity.HIGH: Style.HIGH,
    Severity.CRITICAL: Style.CRITICAL,
}
SHOWN_FROM: Final = 0.0005
"""Smaller shares are not displayed."""

_BAR_COLUMNS_MAX: Final = 40
_BAR_COLUMNS_MIN: Final = 8
_WHY_COLUMNS: Final = 24
_REST_COLUMNS_MIN: Final = 6
_REST_COLUMNS_WANTED: Final = 48
_SPARED: Final = 3  # a column of this importance is left out to make room for two causes
_NAME_COLUMNS_MAX: Final = 24


def workload_table(rows: Sequence[Workload], width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """Names that all rows share are left out; a bar and the causes fill the rest of the width."""

    def why(columns: int) -> list[Line]:
        return [_why(row, columns, glyphs) for row in rows]

    def heading(columns: int) -> str:
        bar = _bar_columns(columns)
        return f"{'OF ALL TIME':<{bar}.{bar}}  WHY" if bar else "WHY"

    return table(
        _workload_columns(rows, glyphs),
        width,
        glyphs,
        Rest(heading, why, _REST_COLUMNS_MIN, _REST_COLUMNS_WANTED, _SPARED),
    )


def _workload_columns(rows: Sequence[Workload], glyphs: Glyphs) -> list[Column]:
    def names(title: str, importance: int, values: Sequence[str], *, is_kept: bool = False) -> list[Column]:
        if not is_kept and (not any(values) or (len(values) > 1 and len(set(values)) == 1)):
            return []
        cells = [StyledText(value or glyphs.nothing) for value in values]
        return [Column(title, cells, importance, columns_max=_NAME_COLUMNS_MAX)]

    late = [StyledText(terminal_text.duration(row.late_seconds, glyphs)) for row in rows]
    steps = [StyledText(_step(row, glyphs), Style.DIM if row.is_step_old else Style.PLAIN) for row in rows]
    nodes = [row.identity.node for row in rows]
    return [
        *names("RANK", 11, [row.identity.rank for row in rows], is_kept=True),
        *(names("NODE", 6, nodes) if len(set(nodes)) > 1 else []),  # a single one is in the title
        *names("NAMESPACE", 2, [row.identity.namespace for row in rows]),
        *names("POD", 5, [row.identity.pod for row in rows]),
        *names("CONTAINER", 4, [row.identity.container for row in rows]),
        *names("PROCESS", 3, [_process(row) for row in rows]),
        Column("STEP", steps, 7, is_number=True),
        *([Column("LATE", late, 1, is_number=True)] if any(row.late_seconds for row in rows) else []),
        Column("LOST", [_lost(row, glyphs) for row in rows], 10, is_number=True),
    ]


def _step(row: Workload, glyphs: Glyphs) -> str:
    return f"{'~' if row.is_step_old else ''}{terminal_text.duration(row.step_seconds, glyphs)}"


def _process(row: Workload) -> str:
    """`trainer 4027`, `trainer x3`."""
    if not row.processes:
        return ""
    first = row.processes[0]
    return f"{first.comm} {first.pid}" if len(row.processes) == 1 else f"{first.comm} x{len(row.processes)}"


def _lost(row: Workload, glyphs: Glyphs) -> StyledText:
    severity = Severity(bisect_right(SEVERITY_SHARES, row.lost_share or 0.0))
    return StyledText(terminal_text.share(row.lost_share, glyphs), SEVERITY_STYLES[severity])


def _bar_columns(columns: int) -> int:
    """0 if the causes would not have room beside a bar."""
    bar = min(columns - 2 - _WHY_COLUMNS, columns // 3, _BAR_COLUMNS_MAX)
    return bar if bar >= _BAR_COLUMNS_MIN else 0


def _why(row: Workload, columns: int, glyphs: Glyphs) -> Line:
    """The bar, and the causes in its order with their largest culprit: `cpu_contention 40% (stress-ng)  lock 6%`."""
    bar = _bar_columns(columns)
    spans: list[StyledText] = [*_bar(row, bar, glyphs), StyledText("  ")] if bar else []
    for number, loss in enumerate(row.lost or ()):
        if number and loss.share < SHOWN_FROM:
            break
        style = CAUSE_STYLES[min(number, len(CAUSE_STYLES) - 1)]
        culprit = f" ({largest_culprit(loss.culprits)})" if loss.culprits else ""
        spans.append(StyledText(f"{'  ' if number else ''}{loss.cause}", style))
        spans.append(StyledText(f" {terminal_text.share(loss.share, glyphs)}{culprit}"))
    return clipped(tuple(spans), columns, glyphs)


def _bar(row: Workload, columns: int, glyphs: Glyphs) -> list[StyledText]:
    """The whole time; each cause has its part and a shade of its own, the fourth and further ones the same."""
    spans, so_far, filled = [], 0.0, 0
    for number, loss in enumerate(row.lost or ()):
        so_far += loss.share
        upto = min(round(so_far * columns), columns)
        shade = min(number, len(glyphs.shades) - 1)
        if upto > filled:
            spans.append(StyledText(glyphs.shades[shade] * (upto - filled), CAUSE_STYLES[shade]))
        filled = max(filled, upto)
    if not filled and so_far >= SHOWN_FROM:
        spans.append(StyledText(glyphs.sliver, CAUSE_STYLES[0]))
        filled = 1
    spans.append(StyledText(glyphs.track * (columns - filled), Style.DIM))
    return spans
