"""Tables of what each process did: steps, time, the operations that took most time, and the lines of Python with slow calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.explain.sums import ProcessSum
from exporter.history.window import OperationTime
from exporter.text.figures import duration, percent

TOP = 5
_HEAD = ("pid", "rank", "command", "steps", "step", "lost", "off CPU", "CPU stolen", "switches/s")
_OPERATION_HEAD = ("pid", "rank", "operation", "calls", "errors", "mean", "p50", "p99")
_SITE_HEAD = ("pid", "rank", "slow operation", "calls", "total", "mean", "slow from", "line of Python")
_LEGEND = (
    "off CPU and CPU stolen (ready to run, not on a CPU): sums over the threads that make calls; 200 % is two threads."
)


def rows(processes: Sequence[ProcessSum]) -> list[str]:
    """Lines of both tables."""
    if not processes:
        return []
    return [
        *_aligned([_HEAD, *(_process_row(process) for process in processes)]),
        _LEGEND,
        "",
        *_aligned([_OPERATION_HEAD, *(row for process in processes for row in _operation_rows(process))]),
        *_site_table(processes),
    ]


def _site_table(processes: Sequence[ProcessSum]) -> list[str]:
    """[] where no line of Python made a slow call."""
    found = [row for process in processes for row in _site_rows(process)]
    return ["", *_aligned([_SITE_HEAD, *found])] if found else []


def top(process: ProcessSum) -> list[OperationTime]:
    """Operations by total time, longest first."""
    return sorted(process.operations.values(), key=lambda one: (-one.timed.sum_ns, -one.calls, one.name))


def _process_row(process: ProcessSum) -> tuple[str, ...]:
    labels, covered_ns = process.labels, max(process.covered_ns, 1)
    steps = process.steps.counts.total
    return (
        str(labels.tgid or "-"),
        labels.identity.rank or "-",
        labels.comm or "-",
        f"{steps:,}" if steps else "-",
        duration(process.step_ns) if process.step_ns else "-",
        percent(process.lost_share),
        percent(process.off_cpu_ns / covered_ns),
        percent(process.stolen_ns / covered_ns),
        f"{(process.voluntary + process.involuntary) * 1e9 / covered_ns:,.0f}",
    )


def _operation_rows(process: ProcessSum) -> Iterable[tuple[str, ...]]:
    for one in top(process)[:TOP]:
        count = one.timed.counts.total
        quantiles = [one.timed.counts.quantile_ns(share) for share in (0.5, 0.99)]
        yield (
            str(process.labels.tgid or "-"),
            process.labels.identity.rank or "-",
            one.name,
            f"{one.calls:,}",
            f"{one.errors:,}" if one.errors else "-",
            duration(one.timed.sum_ns / count) if count else "-",
            *(duration(quantile) if quantile else "-" for quantile in quantiles),
        )


def _site_rows(process: ProcessSum) -> Iterable[tuple[str, ...]]:
    for one in process.call_sites.largest_first()[:TOP]:
        yield (
            str(process.labels.tgid or "-"),
            process.labels.identity.rank or "-",
            one.operation,
            f"{one.calls:,}",
            duration(one.total_ns),
            duration(one.total_ns / max(one.calls, 1)),
            duration(one.slow_from_ns) if one.slow_from_ns else "-",
            one.stack.place,
        )


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Names are aligned left, numbers right."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    is_text = [column in ("command", "operation", "slow operation", "line of Python") for column in table[0]]
    return [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in table
    ]
