"""A Comparison as text for people, and as a JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from typing import Any, Final

from exporter.catalog import COMMON_LABELS
from exporter.explain.comparison import Comparison, Difference, WorkloadChange
from exporter.explain.document import gap_documents
from exporter.explain.explanation import Explanation
from exporter.explain.text import gap_lines
from exporter.history.process_names import process_name
from exporter.text import figures
from exporter.text.figures import percent, time_of_day
from exporter.units import seconds

VERSION = 1
_LISTED_MAX: Final = 20
_CHANGES_MAX: Final = 4


def comparison_lines(of: Comparison, zone: tzinfo | None = None) -> list[str]:
    """Without line ends. zone: None for the local one."""
    length = figures.duration(of.later.now_unix_ns - of.later.since_unix_ns)
    ends = [time_of_day(one.now_unix_ns, of.later.now_unix_ns, zone) for one in (of.later, of.earlier)]
    notable = [one for one in of.workloads if one.is_notable]
    head = f"The {length} to {ends[0]}, compared with the {length} to {ends[1]}:"
    gaps = [line for one in (of.earlier, of.later) for line in gap_lines(one, zone)]
    if not of.workloads:
        return [f"{head} no process made a traced call in either.", *gaps]
    same = len(of.workloads) - len(notable)
    lines = [head if notable else f"{head} nothing differs."]
    for one in notable[:_LISTED_MAX]:
        lines += _workload(one)
    if len(notable) > _LISTED_MAX:
        lines.append(f"  and {len(notable) - _LISTED_MAX} more; --format=json lists all")
    if same:
        lines.append(
            f"  {same} other{'s do' if same > 1 else ' does'} not differ." if notable else f"  {same} compared."
        )
    return [*lines, *gaps]


def _workload(one: WorkloadChange) -> Iterator[str]:
    name = process_name(one.labels.identity, one.labels.tgid, one.labels.comm)
    if not one.is_in_earlier:
        yield f"  {name} is new"
        return
    if not one.is_in_later:
        yield f"  {name} did nothing any more"
        return
    yield f"  {name}: {'; '.join(_sums(one))}"
    for cause in one.causes[:_CHANGES_MAX]:
        is_more = (cause.change.later or 0.0) > (cause.change.earlier or 0.0)
        culprit = f", culprit {cause.culprit}" if cause.culprit else ""
        yield f"    {'more' if is_more else 'less'} lost to {cause.name}: {_shares(cause.change)} of the time{culprit}"
    for operation in one.operations[:_CHANGES_MAX]:
        yield f"    {operation.name}: {_durations(operation.change)} a call"


def _sums(one: WorkloadChange) -> Iterator[str]:
    ratio = one.step_ns.ratio
    if ratio is not None and one.step_ns.is_notable:
        yield f"steps take {figures.factor(ratio)} times as long, {_durations(one.step_ns)}"
    elif ratio is not None:
        yield f"steps are as long as before, {figures.duration(one.step_ns.later or 0.0)}"
    yield f"lost {_shares(one.lost_ratio)} of the time"


def _shares(change: Difference) -> str:
    return f"{percent(change.earlier or 0.0)} -> {percent(change.later or 0.0)}"


def _durations(change: Difference) -> str:
    return " -> ".join(figures.duration(one or 0.0) for one in change)


def comparison_document(of: Comparison) -> dict[str, Any]:
    """Times are seconds since 1970; names and units are those of document()."""
    return {
        "version": VERSION,
        "earlier": _span(of.earlier),
        "later": _span(of.later),
        "workloads": [
            {
                "pid": one.labels.tgid,
                "comm": one.labels.comm,
                **dict(zip(COMMON_LABELS, one.labels.identity.values(), strict=True)),
                "is_in_earlier": one.is_in_earlier,
                "is_in_later": one.is_in_later,
                "differs": one.is_notable,
                "step_mean_seconds": _pair(one.step_ns, is_time=True),
                "lost_ratio": _pair(one.lost_ratio),
                "causes": [
                    {"cause": cause.name, "share_ratio": _pair(cause.change), "culprit": cause.culprit}
                    for cause in one.causes
                ],
                "operations": [
                    {"operation": operation.name, "mean_seconds": _pair(operation.change, is_time=True)}
                    for operation in one.operations
                ],
            }
            for one in of.workloads
        ],
    }


def _span(of: Explanation) -> dict[str, Any]:
    return {
        "since_unix_seconds": seconds(of.since_unix_ns),
        "until_unix_seconds": seconds(of.now_unix_ns),
        "gaps": gap_documents(of),
    }


def _pair(change: Difference, *, is_time: bool = False) -> dict[str, float | None]:
    values = (None if one is None else seconds(round(one)) if is_time else one for one in change)
    return dict(zip(("earlier", "later"), values, strict=True))
