"""The calls of a workload and their durations: a row for each operation, and the lines of Python whose calls were slow. Pure."""

from __future__ import annotations

from typing import Final

from exporter.scrape.view import OperationRates, SlowLine, Workload
from exporter.text import figures
from exporter.top import terminal_text
from exporter.top.layout import Column, Line, Style, StyledText, table
from exporter.top.terminal_text import Glyphs

_NAME_COLUMNS_MIN: Final = 12
_LINES_MAX: Final = 3
_INDENT: Final = "  "


def operations_title(workload: Workload, glyphs: Glyphs, *, with_node: bool) -> Line:
    """The workload, and its calls per second."""
    calls = f"{figures.rate(workload.calls_per_second)} calls/s"
    sampled = f" {glyphs.dot} sampling 1 in 64 kernel launches" if workload.is_sampled else ""
    return (
        StyledText(
            f"{terminal_text.name_of(workload.identity, with_node=with_node)} {glyphs.dot} {calls}{sampled}", Style.BOLD
        ),
    )


def operation_table(workload: Workload, width: int, glyphs: Glyphs) -> tuple[Line, ...]:
    """A heading and the rows, in the order of the workload."""
    operations = workload.operations

    def column(title: str, importance: int, cells: list[StyledText]) -> Column:
        return Column(title, cells, importance, is_number=True)

    def quantile(number: int) -> list[StyledText]:
        return [
            StyledText(terminal_text.duration(o.quantiles_seconds[number] if o.quantiles_seconds else None, glyphs))
            for o in operations
        ]

    errors = [
        StyledText(figures.rate(o.errors_per_second), Style.HIGH if o.errors_per_second else Style.PLAIN)
        for o in operations
    ]
    columns = [
        Column(
            "OPERATION",
            [StyledText(_operation_name(one)) for one in operations],
            10,
            columns_max=max(width // 2, _NAME_COLUMNS_MIN),
        ),
        column("CALLS/S", 8, [StyledText(figures.rate(one.calls_per_second)) for one in operations]),
        column(
            "TIME",
            5,
            [
                StyledText(terminal_text.share(one.busy_share, glyphs) if one.quantiles_seconds else glyphs.nothing)
                for one in operations
            ],
        ),
        column("P50", 6, quantile(0)),
        column("P95", 4, quantile(1)),
        column("P99", 7, quantile(2)),
        *([column("ERRORS/S", 9, errors)] if any(one.errors_per_second for one in operations) else []),
    ]
    return table(columns, width, glyphs)


def rows_with_lines(workload: Workload, width: int, glyphs: Glyphs) -> tuple[Line, tuple[tuple[Line, ...], ...]]:
    """The heading, and for each operation its row and the lines of Python below it."""
    heading, *rows = operation_table(workload, width, glyphs)
    shown: set[str] = set()
    found = []
    for operation, row in zip(workload.operations, rows, strict=True):
        # A slow call is not known by communicator: the first row of its operation has all of them.
        lines = () if operation.name in shown else _slow_lines(workload, operation.name, glyphs)
        shown.add(operation.name)
        found.append((row, *lines))
    return heading, tuple(found)


def _slow_lines(workload: Workload, operation: str, glyphs: Glyphs) -> tuple[Line, ...]:
    """`  slow 18.0/s of 20.1ms, 36%: allocate (train.py:33)`: short, so that a narrow terminal shows the line."""
    lines = [one for one in workload.slow_lines if one.operation == operation]
    shown = tuple(_slow_line(one, glyphs) for one in lines[:_LINES_MAX])
    left_out = len(lines) - _LINES_MAX
    more = StyledText(f"{_INDENT}and {left_out} more", Style.DIM)
    return (*shown, (more,)) if left_out > 0 else shown


def _slow_line(one: SlowLine, glyphs: Glyphs) -> Line:
    mean = terminal_text.duration(one.mean_seconds, glyphs)
    rates = f"slow {figures.rate(one.calls_per_second)}/s of {mean}, {terminal_text.share(one.busy_share, glyphs)}"
    return (StyledText(f"{_INDENT}{rates}: ", Style.DIM), StyledText(one.line))


def _operation_name(operation: OperationRates) -> str:
    """`ncclAllReduce [0]`, with the number of the communicator."""
    return f"{operation.name} [{operation.communicator}]" if operation.communicator else operation.name
