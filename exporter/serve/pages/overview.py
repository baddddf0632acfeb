"""The first page: the verdict, open and past chains, where the time goes, and all workloads; what a person reads at 3 a.m."""

from __future__ import annotations

from collections import Counter
from typing import Final

from exporter.causes import largest_first
from exporter.explain.explanation import Explanation, Status
from exporter.explain.sums import ProcessSum
from exporter.explain.text import gap_lines, summary
from exporter.serve.pages.chain_tables import chain_lanes, chain_link, chain_table, is_open
from exporter.serve.pages.charts import bar, legend
from exporter.serve.pages.commands import commands
from exporter.serve.pages.layout import PageFrame, Viewer, page
from exporter.serve.pages.lost_time import lost_time_chart
from exporter.serve.pages.markup import Child, Markup, element
from exporter.serve.pages.not_measured import not_measured
from exporter.serve.pages.span import PageSpan
from exporter.serve.pages.tables import NONE, ROWS_MAX, TableColumn, table
from exporter.serve.pages.workload_links import name_of, workload_link
from exporter.serve.tools.explanations import explained
from exporter.serve.tools.tool import ToolCall
from exporter.text.figures import duration, percent

_STATUS: Final = {
    Status.SLOW: ("Slow now", "bad"),
    Status.SLOW_WHEN_STOPPED: ("Was slow when the exporter stopped", "bad"),
    Status.WAS_SLOW: ("Was slow", "warned"),
    Status.FINE: ("No slowdown", "good"),
    Status.TOO_EARLY: ("Too early", "unknown"),
    Status.CHAINS_OFF: ("No verdict", "unknown"),
    Status.NO_DATA: ("No data", "unknown"),
}
_SHADES: Final = (0.01, 0.05, 0.1, 0.25, 0.5)
"""Shares of time lost from which a cell of the grid is darker."""

_PROCESSES: Final = (
    TableColumn("Workload"),
    TableColumn("Steps", is_number=True),
    TableColumn("Step", is_number=True, hint="mean duration of a step"),
    TableColumn("Time lost", is_number=True, hint="share of the recorded time in which the GPU waited for the host"),
    TableColumn("By cause"),
    TableColumn("Most of it to"),
    TableColumn(
        "Off CPU",
        is_number=True,
        hint="sum over the threads that make calls, without waits for the GPU; 200 % is two threads",
    ),
    TableColumn("CPU stolen", is_number=True, hint="ready to run, but not on a CPU; sum over the same threads"),
)
_CAUSES: Final = (
    TableColumn("Cause"),
    TableColumn("Lost GPU time", is_number=True),
    TableColumn("Share", is_number=True, hint="of the recorded time of all workloads"),
    TableColumn(""),
    TableColumn("Workloads", is_number=True),
    TableColumn("Most of it to"),
)


def overview_page(call: ToolCall, span: PageSpan, viewer: Viewer) -> bytes:
    of = explained(call)
    opened = [one for one in of.chains if is_open(one)]
    past = sorted((one for one in of.chains if not is_open(one)), key=lambda one: -one.event.began_unix_ns)
    name, _ = _STATUS[of.status]
    frame = PageFrame(name, ("",), span, viewer, is_live=not span.until)
    return page(
        frame,
        _verdict(of, span),
        _section(
            "Open chains", chain_table("Open chains, the worst first", opened, of, span, "No chain is open."), "open"
        ),
        _section("Past chains", chain_table("Past chains, the latest first", past, of, span, _no_past(of)), "past"),
        _section("Chains over time", chain_lanes(of.chains, of, span), "lanes") if of.chains else None,
        _section("Lost GPU time", (_LOST_HINT, lost_time_chart(call, of)), "lost") if of.processes else None,
        _section("Where the time goes", _causes(of), "causes") if of.processes else None,
        _section("Workloads", _workloads(of, span), "workloads"),
        _section("Not measured here", _missing(of), "missing"),
    )


_LOST_HINT: Final = element(
    "p",
    "Lost in each second, of all workloads: 100 % is one GPU that waits for the host all the time, 200 % are two.",
    class_="hint",
)


def _section(title: str, content: Child, name: str) -> Markup:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, content, id=name, aria_labelledby=f"{name}-title")


def _no_past(of: Explanation) -> str:
    if of.run is not None and not of.run.has_chains:
        return "Chains are off: see below."
    return f"No chain ended in the last {duration(of.now_unix_ns - of.since_unix_ns)}."


def _verdict(of: Explanation, span: PageSpan) -> Markup:
    name, kind = _STATUS[of.status]
    worst = (
        of.chains[0] if of.chains and of.status in (Status.SLOW, Status.SLOW_WHEN_STOPPED, Status.WAS_SLOW) else None
    )
    advice: Child = None
    if worst is not None:
        steps = (
            element("p", element("strong", "Do: "), worst.event.remedy) if worst.event.remedy else None,
            commands(worst.commands),
            element("p", chain_link(worst, "Evidence and course of this chain", span)),
        )
        advice = element("div", steps, class_="advice")
    fixed = element("a", "Link to this moment", href=span.fixed(of.now_unix_ns).link("")) if not span.until else None
    return element(
        "section",
        element("p", element("span", name, class_="status"), " ", fixed, class_="status-line"),
        element("h1", summary(of), id="verdict-title"),
        advice,
        id="verdict",
        class_=f"verdict {kind}",
        aria_labelledby="verdict-title",
    )


def _causes(of: Explanation) -> Markup:
    covered_ns = sum(one.covered_ns for one in of.processes)
    lost_ns: Counter[str] = Counter()
    culprits_ns: dict[str, Counter[str]] = {}
    for process in of.processes:
        lost_ns.update(process.lost_ns)
        for (cause, culprit), ns in process.culprits_ns.items():
            culprits_ns.setdefault(cause, Counter())[culprit] += ns
    largest = max(lost_ns.values(), default=0)
    rows = []
    for cause, ns in largest_first(+lost_ns):  # without those of which nothing was lost
        culprits = culprits_ns.get(cause, Counter()).most_common(1)
        rows.append(
            (
                cause,
                duration(ns),
                percent(ns / covered_ns if covered_ns else 0.0),
                bar(((cause, ns / max(largest, 1)),), 1.0),
                str(sum(1 for one in of.processes if one.lost_ns.get(cause))),
                culprits[0][0] if culprits else NONE,
            )
        )
    return table("Lost GPU time by cause", _CAUSES, rows, "No GPU time was lost.")


def _workloads(of: Explanation, span: PageSpan) -> Markup:
    worst_first = sorted(of.processes, key=lambda one: -one.lost_share)
    total = max((one.lost_share for one in of.processes), default=0.0)
    caption = "Workloads, those that lost most of their time first"
    content: list[Child] = []
    if len(of.processes) > ROWS_MAX:
        content.append(_grid(of, span))
    content.append(
        table(
            caption,
            _PROCESSES,
            [_row(one, span, total) for one in worst_first],
            "No process made a traced call in this time span.",
        )
    )
    if causes := list(dict.fromkeys(cause for one in worst_first for cause, ns in largest_first(one.lost_ns) if ns)):
        content.append(legend(causes))
    return Markup("".join(map(str, content)))


def _row(process: ProcessSum, span: PageSpan, total: float) -> tuple[Child, ...]:
    covered_ns = max(process.covered_ns, 1)
    lost = largest_first(process.lost_ns)
    steps = process.steps.counts.total
    has_states = bool(process.states_ns)
    return (
        workload_link(name_of(process), process.labels.identity, process.labels.tgid, span),
        f"{steps:,}" if steps else NONE,
        duration(process.step_ns) if process.step_ns else NONE,
        percent(process.lost_share),
        bar(((cause, ns / covered_ns) for cause, ns in lost), total),
        lost[0][0] if lost and lost[0][1] else NONE,
        percent(process.off_cpu_ns / covered_ns) if has_states else NONE,
        percent(process.stolen_ns / covered_ns) if has_states else NONE,
    )


def _grid(of: Explanation, span: PageSpan) -> Markup:
    """A cell for each workload, in the order of ranks: the odd one is seen at a glance."""
    cells = []
    for process in of.processes:
        shade = sum(process.lost_share >= least for least in _SHADES)
        labels = process.labels
        said = f"{name_of(process)}: {percent(process.lost_share)} of its time lost"
        cell = workload_link(labels.identity.rank or str(labels.tgid), labels.identity, labels.tgid, span)
        cells.append(element("li", cell, class_=f"shade{shade}", title=said))
    scale = [
        element(
            "li", f"{'from' if number else 'below'} {percent(_SHADES[max(number - 1, 0)])}", class_=f"shade{number}"
        )
        for number in range(len(_SHADES) + 1)
    ]
    return element(
        "div",
        element("ol", cells, class_="grid", aria_label="Workloads by rank, darker where more time is lost"),
        element("ul", scale, class_="grid scale", aria_label="Share of time lost"),
    )


def _missing(of: Explanation) -> Markup:
    reasons = [element("li", element("strong", what), ": ", why, ".") for what, why in not_measured(of)]
    gaps = [element("li", line) for line in gap_lines(of)]
    return element("ul", reasons, gaps) if reasons or gaps else element("p", "Nothing is missing.")
