"""The page of a workload: where its time went, by cause, culprit, state of its threads, call and line of Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from exporter.causes import largest_first
from exporter.explain.sums import ProcessSum
from exporter.history.selection import Selection
from exporter.serve.pages.chain_tables import chain_table
from exporter.serve.pages.charts import bar
from exporter.serve.pages.layout import PageFrame, Viewer, page
from exporter.serve.pages.lost_time import lost_time_chart
from exporter.serve.pages.markup import Child, Markup, element
from exporter.serve.pages.span import PageSpan
from exporter.serve.pages.tables import NONE, TableColumn, facts, table
from exporter.serve.pages.timeline_links import timeline_link
from exporter.serve.pages.workload_links import name_of
from exporter.serve.tools.explanations import explained
from exporter.serve.tools.failure import UnknownName
from exporter.serve.tools.tables import OPERATIONS, STACKS
from exporter.serve.tools.tool import ToolCall
from exporter.text.figures import duration, percent
from exporter.units import NANOSECONDS

_SHOWN_CHARACTERS: Final = 64
_CAUSES: Final = (
    TableColumn("Cause"),
    TableColumn("Culprit"),
    TableColumn("Lost GPU time", is_number=True),
    TableColumn("Share", is_number=True),
    TableColumn(""),
)
_STATES: Final = (
    TableColumn("State of its threads"),
    TableColumn("Time", is_number=True),
    TableColumn("Threads", is_number=True, hint="mean number of threads in this state"),
)
_OPERATIONS: Final = (
    TableColumn("Operation"),
    TableColumn("Calls", is_number=True),
    TableColumn("Errors", is_number=True),
    TableColumn("Total", is_number=True),
    TableColumn("Mean", is_number=True),
    TableColumn("Median", is_number=True),
    TableColumn("Slowest percent", is_number=True, hint="99 % of the calls took no longer"),
)
_LINES: Final = (
    TableColumn("Line of Python"),
    TableColumn("Operation"),
    TableColumn("Slow calls", is_number=True),
    TableColumn("Total", is_number=True),
    TableColumn("Stack"),
)


def workload_page(call: ToolCall, span: PageSpan, viewer: Viewer) -> bytes:
    """Raises UnknownName."""
    wanted = call.text("workload")
    of = explained(call._replace(arguments={**call.arguments, "workload": ""}))
    selection = Selection.of(wanted)
    processes = [one for one in of.processes if selection.matches(one.labels.identity, one.labels.tgid)]
    if not wanted or not processes:
        raise UnknownName(
            f"no workload {wanted[:_SHOWN_CHARACTERS]!r} made a traced call in this time span",
            remedy="choose a larger one",
        )
    name = name_of(processes[-1])
    flat = [one for chain in of.chains for one in (chain, *chain.waiting)]
    chains = [one for one in flat if selection.matches(one.event.identity, one.event.tgid)]
    with_chain = call._replace(arguments={**call.arguments, "chain_id": ""})
    frame = PageFrame(name, ("workload",), span, viewer, kept=(("workload", wanted),))
    return page(
        frame,
        element("nav", element("a", "Overview", href=span.link("")), " / workload", aria_label="Breadcrumb"),
        element("h1", name),
        _facts(processes),
        _section("Chains", chain_table("Chains, the worst first", chains, of, span, "No chain in this time span.")),
        _section("Lost GPU time", (_LOST_HINT, lost_time_chart(call, of), _causes(processes))),
        _section("States of threads", _states(processes)),
        _section("Calls", _operations(OPERATIONS.run(call).items)),
        _section("Lines of Python", _lines(STACKS.run(with_chain).items)),
        _section("Timeline", timeline_link(span.since, span.until, wanted)),
    )


_LOST_HINT: Final = element("p", "Share of the time in which its GPU waited for the host.", class_="hint")


def _section(title: str, content: Child) -> Markup:
    return element("section", element("h2", title), content)


def _facts(processes: Sequence[ProcessSum]) -> Markup:
    last = processes[-1]
    labels, covered_ns = last.labels, sum(one.covered_ns for one in processes)
    steps = sum(one.steps.counts.total for one in processes)
    lost_ns = sum(one.lost_ns.total() for one in processes)
    return facts(
        (
            ("Node", labels.identity.node),
            ("Rank", labels.identity.rank),
            ("Namespace", labels.identity.namespace),
            ("Pod", labels.identity.pod),
            ("Container", labels.identity.container),
            ("Process id", str(labels.tgid or "not known")),
            ("Command", labels.comm),
            ("Recorded", duration(covered_ns)),
            ("Steps", f"{steps:,}" if steps else "none that recur regularly"),
            ("Step", duration(last.step_ns) if last.step_ns else ""),
            ("Time lost", f"{percent(min(lost_ns / covered_ns, 1.0) if covered_ns else 0.0)}, {duration(lost_ns)}"),
        )
    )


def _causes(processes: Sequence[ProcessSum]) -> Markup:
    covered_ns = max(sum(one.covered_ns for one in processes), 1)
    lost_ns, culprits_ns = Counter[str](), Counter[tuple[str, str]]()
    for one in processes:
        lost_ns.update(one.lost_ns)
        culprits_ns.update(one.culprits_ns)
    rows = []
    for cause, ns in largest_first(+lost_ns):  # without those of which nothing was lost
        named = [culprit for (of_cause, culprit), _ in largest_first(culprits_ns) if of_cause == cause]
        rows.append(
            (
                cause,
                ", ".join(named[:3]) or NONE,
                duration(ns),
                percent(ns / covered_ns),
                bar(((cause, ns / covered_ns),), 1.0),
            )
        )
    return table("Lost GPU time by cause", _CAUSES, rows, "No GPU time was lost.")


def _states(processes: Sequence[ProcessSum]) -> Markup:
    covered_ns = max(sum(one.covered_ns for one in processes), 1)
    states_ns = Counter[str]()
    for one in processes:
        states_ns.update(one.states_ns)
    rows = [(state, duration(ns), f"{ns / covered_ns:.2f}") for state, ns in largest_first(states_ns)]
    empty = "Not measured: scheduling is not traced (--no-collector.sched, or its programs did not load)."
    return table("Time of threads that make traced calls", _STATES, rows, empty)


def _operations(rows: Sequence[Mapping[str, Any]]) -> Markup:
    return table("Calls of CUDA and NCCL, most time first", _OPERATIONS, [_operation(one) for one in rows])


def _operation(one: Mapping[str, Any]) -> tuple[Child, ...]:
    times = [one.get(name) for name in ("timed_seconds", "mean_seconds", "p50_seconds", "p99_seconds")]
    return (
        one["operation"],
        f"{one['calls']:,}",
        f"{one['errors']:,}" if one["errors"] else NONE,
        *(duration(seconds * NANOSECONDS) if seconds else NONE for seconds in times),
    )


def _lines(items: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [
        (
            one["place"],
            one["operation"],
            f"{one['slow_calls']:,}",
            duration(one["slow_seconds"] * NANOSECONDS),
            element("details", element("summary", "frames"), element("p", one.get("frames", ""))),
        )
        for one in items
        if one["kind"] == "slow_calls"
    ]
    empty = "No slow call with a line of Python: no call was much slower than most, or the process is not CPython."
    return table("Slow calls by line of Python", _LINES, rows, empty)
