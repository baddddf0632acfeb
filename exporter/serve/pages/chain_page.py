"""The page of a chain, from the answer of `episode`: what happened, why, what to do, evidence, course and timeline."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from exporter.model import Identity
from exporter.serve.pages.chain_tables import severity_mark
from exporter.serve.pages.charts import bar
from exporter.serve.pages.commands import commands
from exporter.serve.pages.layout import PageFrame, Viewer, page
from exporter.serve.pages.markup import Child, Markup, element
from exporter.serve.pages.span import PageSpan, moment_text
from exporter.serve.pages.tables import NONE, TableColumn, facts, table
from exporter.serve.pages.timeline_links import timeline_link
from exporter.serve.pages.workload_links import selected, workload_link
from exporter.serve.tools.explanations import EPISODE
from exporter.serve.tools.tool import ToolCall
from exporter.text.figures import duration, factor, percent, time_of_day
from exporter.units import NANOSECONDS

_COURSE: Final = (
    TableColumn("Time"),
    TableColumn("Change"),
    TableColumn("Severity"),
    TableColumn("Time lost", is_number=True),
)
_CAUSES: Final = (TableColumn("Cause"), TableColumn("Share", is_number=True), TableColumn(""))
_CULPRITS: Final = (TableColumn("Culprit"), TableColumn("Share", is_number=True), TableColumn(""))
_LINES: Final = (
    TableColumn("Line of Python"),
    TableColumn("Operation"),
    TableColumn("Slow calls", is_number=True),
    TableColumn("Total", is_number=True),
)
_BEFORE_SECONDS: Final = 60
"""In the timeline, before the chain began."""


def chain_page(call: ToolCall, span: PageSpan, viewer: Viewer) -> bytes:
    """call: of `episode`. Raises UnknownName."""
    found = EPISODE.run(call)
    chain, process = found.facts["chain"], found.facts["process"]
    chain_id = chain["chain_id"]
    is_open = chain["state"] == "open"
    frame = PageFrame(
        f"{chain['cause']}, {chain['who']}", ("chains", chain_id[:8]), span, viewer, is_live=is_open and not span.until
    )
    return page(
        frame,
        element(
            "nav", element("a", "Overview", href=span.link("")), f" / chain {chain_id[:8]}", aria_label="Breadcrumb"
        ),
        element(
            "section",
            element("p", severity_mark(chain["severity"]), ", ", element("span", chain["state"], class_="status")),
            element("h1", chain["verdict"], id="verdict-title"),
            element("div", _advice(chain), class_="advice"),
            id="verdict",
            class_=f"verdict {'bad' if is_open else 'warned'}",
            aria_labelledby="verdict-title",
        ),
        element("section", element("h2", "Facts"), _facts(chain, process, span)),
        _shares("Lost time by cause", _CAUSES, [(one["cause"], one["share_ratio"]) for one in chain["causes"]]),
        _shares("Culprits", _CULPRITS, [(one["name"], one["share_ratio"]) for one in chain["culprits"]]),
        element("section", element("h2", "Evidence"), _evidence(chain)),
        element("section", element("h2", "Course"), _course(found.items)),
        element("section", element("h2", "Timeline"), _timeline(chain)),
    )


def _advice(chain: Mapping[str, Any]) -> tuple[Child, ...]:
    return (
        element("p", element("strong", "Do: "), chain["remedy"]) if chain["remedy"] else None,
        commands(chain["commands"]),
        element("p", f"Tested by an experiment: {chain['confirmation']}.") if chain["confirmation"] else None,
    )


def _facts(chain: Mapping[str, Any], process: Mapping[str, Any] | None, span: PageSpan) -> Markup:
    identity = Identity(*(chain[name] for name in ("node", "rank", "container", "namespace", "pod")))
    until_ns = _ns(chain["known_until_unix_seconds"])
    began_ns = _ns(chain["began_unix_seconds"])
    usual, slowdown = chain["usual_step_seconds"], chain["slowdown_ratio"]
    waiting = ", ".join(filter(None, chain["ranks_that_wait"]))
    lost, lost_now = chain["lost_ratio"], chain["lost_ratio_now"]
    now = f"{percent(lost_now)} now, " if lost_now is not None else ""
    return facts(
        (
            ("Workload", workload_link(chain["who"], identity, chain["pid"], span) if process else chain["who"]),
            ("Node", chain["node"]),
            ("Namespace", chain["namespace"]),
            ("Pod", chain["pod"]),
            ("Container", chain["container"]),
            ("Process id", str(chain["pid"] or "")),
            ("Began", time_of_day(began_ns, until_ns, None)),
            (
                "Open" if chain["state"] == "open" else "Known until",
                duration(until_ns - began_ns) if chain["state"] == "open" else time_of_day(until_ns, until_ns, None),
            ),
            ("End", chain["end"].replace("_", " ")),
            ("Time lost", f"{now}{percent(lost)} at the worst" if lost else ""),
            ("Lost GPU time", duration(chain["lost_seconds"] * NANOSECONDS) if chain["lost_seconds"] else ""),
            (
                "Steps",
                f"{factor(1 + slowdown)} times as long as {duration(usual * NANOSECONDS)}"
                if usual and slowdown is not None
                else "",
            ),
            ("Effect", chain["effect"]),
            ("Late rank", chain["peer_rank"]),
            ("Ranks that wait", waiting),
            ("Culprits' process ids", ", ".join(map(str, chain["culprit_pids"]))),
            ("Detail", chain["detail"]),
            ("Chain", element("code", chain["chain_id"])),
        )
    )


def _shares(title: str, columns: Sequence[TableColumn], shares: Sequence[tuple[str, float]]) -> Markup | None:
    if not shares:
        return None
    rows = [(name, percent(share), bar(((name, share),), 1.0)) for name, share in shares]
    return element("section", element("h2", title), table(title, columns, rows))


def _evidence(chain: Mapping[str, Any]) -> tuple[Child, ...]:
    lines = [
        (one["place"], one["operation"], f"{one['slow_calls']:,}", duration(one["slow_seconds"] * NANOSECONDS))
        for one in chain["lines"]
    ]
    stacks = chain["evidence"]
    return (
        table("Lines of Python that made slow calls while the chain was open", _LINES, lines) if lines else None,
        element("pre", [element("span", f"{one}", class_="line") for one in stacks], tabindex=0, aria_label="Stacks")
        if stacks
        else None,
        element(
            "p",
            "No stack was collected: that is done for calls that are stuck or slow, and needs the programs for stacks; "
            "`gpu-stall-exporter check` says whether they load.",
            class_="empty",
        )
        if not stacks and not lines
        else None,
    )


def _course(moments: Sequence[Mapping[str, Any]]) -> Markup:
    last_ns = _ns(moments[-1]["at_unix_seconds"])
    rows = [
        (
            time_of_day(_ns(one["at_unix_seconds"]), last_ns, None),
            one["change"],
            severity_mark(one["severity"]),
            percent(one["lost_ratio"]) if one["lost_ratio"] else NONE,
        )
        for one in moments
    ]
    return table("Changes of the chain, oldest first", _COURSE, rows)


def _timeline(chain: Mapping[str, Any]) -> Markup:
    """From before it began until its end."""
    identity = Identity(*(chain[name] for name in ("node", "rank", "container", "namespace", "pod")))
    until_ns = _ns(chain["known_until_unix_seconds"])
    seconds = round(chain["known_until_unix_seconds"] - chain["began_unix_seconds"]) + _BEFORE_SECONDS
    end_ns = until_ns + _WINDOW_NS
    at = "" if chain["state"] == "open" or end_ns > time.time_ns() else moment_text(end_ns)
    return timeline_link(f"{seconds}s", at, selected(identity, chain["pid"]))


_WINDOW_NS: Final = 11 * NANOSECONDS
"""The window in which it ended ends later."""


def _ns(unix_seconds: float) -> int:
    return round(unix_seconds * NANOSECONDS)
