"""Chains of a page: as a table, and as lanes of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from exporter.explain.chain_summary import ChainSummary
from exporter.explain.explanation import Explanation
from exporter.explain.headline import one_line
from exporter.history.process_names import process_name
from exporter.history.recorded_chains import KnownState
from exporter.serve.pages.charts import ChainLane, ChartSpan, lanes
from exporter.serve.pages.markup import Child, Markup, element
from exporter.serve.pages.span import PageSpan
from exporter.serve.pages.tables import NONE, TableColumn, table
from exporter.text.figures import duration, percent, ranks, time_of_day

_ID_CHARACTERS: Final = 8
_LANES_MAX: Final = 24

_COLUMNS: Final = (
    TableColumn("Severity"),
    TableColumn("Since"),
    TableColumn("Lasted", is_number=True),
    TableColumn("Cause"),
    TableColumn("Workload"),
    TableColumn("Time lost", is_number=True, hint="share of the time that is lost to the cause, at the worst"),
    TableColumn("Culprit"),
    TableColumn("Waiting"),
)


def is_open(chain: ChainSummary) -> bool:
    return chain.state is not KnownState.RESOLVED


def chain_table(caption: str, chains: Sequence[ChainSummary], of: Explanation, span: PageSpan, empty: str) -> Markup:
    return table(caption, _COLUMNS, [_row(one, of, span) for one in chains], empty)


def chain_link(chain: ChainSummary, text: Child, span: PageSpan) -> Markup:
    return element("a", text, href=span.link("chains", chain.event.chain_id[:_ID_CHARACTERS]))


def severity_mark(name: str) -> Markup:
    """Its colour repeats what its text says."""
    return element("span", name, class_=f"severity s-{name}")


def _row(chain: ChainSummary, of: Explanation, span: PageSpan) -> tuple[Child, ...]:
    event = chain.event
    process = of.process_of(chain)
    severity = event.severity.name.lower()
    return (
        chain_link(chain, severity_mark(severity), span),
        time_of_day(event.began_unix_ns, of.now_unix_ns, None, with_zone=False),
        duration(chain.duration_ns) + ("" if chain.state is not KnownState.INTERRUPTED else ", end not known"),
        chain_link(chain, event.cause.value, span),
        process_name(event.identity, event.tgid, process.labels.comm if process else ""),
        percent(event.lost_share) if event.lost_share else NONE,
        event.culprit or NONE,
        ranks(one.rank for one in chain.waiting) if any(one.rank for one in chain.waiting) else NONE,
    )


def chain_lanes(chains: Sequence[ChainSummary], of: Explanation, span: PageSpan) -> Markup | None:
    """None without chains. The worst come first, as in the tables."""
    shown = [
        ChainLane(
            one_line(one, of.process_of(one)),
            one.event.began_unix_ns,
            one.event.began_unix_ns + one.duration_ns,
            one.event.severity.name.lower(),
            span.link("chains", one.event.chain_id[:_ID_CHARACTERS]),
        )
        for one in chains[:_LANES_MAX]
    ]
    return lanes(shown, ChartSpan(of.since_unix_ns, of.now_unix_ns)) if shown else None
