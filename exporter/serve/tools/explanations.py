"""Tools about chains: all of a time span, one in full, and what differs from an earlier time span."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from exporter.chains.chain import Change
from exporter.explain.comparison import compared
from exporter.explain.comparison_text import comparison_document, comparison_lines
from exporter.explain.explanation import Explanation
from exporter.explain.stored import explain_stored
from exporter.explain.text import summary
from exporter.history.as_of import known_now
from exporter.history.reader import opened
from exporter.history.recorded_chains import by_chain, latest_named
from exporter.history.run import RecordedEvent
from exporter.serve.tools import chain_facts
from exporter.serve.tools.answer import NextCall, ToolAnswer
from exporter.serve.tools.failure import UnknownName
from exporter.serve.tools.parameters import Parameter
from exporter.serve.tools.tool import AT, INTEGER, NUMBER, OBJECT, SINCE, STRING, WORKLOAD, Tool, ToolCall
from exporter.units import NANOSECONDS, seconds

_ID_CHARACTERS_MIN: Final = 4
_SHOWN_CHARACTERS: Final = 64
_WINDOW_SECONDS: Final = 11.0


def explained(call: ToolCall, *, with_operations: bool = False) -> Explanation:
    """What was known at the end of the span of a call. Raises BadInput and NotPossibleHere."""
    return explain_stored(
        call.history,
        call.seconds("since"),
        call.text("workload"),
        with_operations=with_operations,
        at_unix_ns=call.at_unix_ns(),
        scope=call.scope,
    )


def _explain(call: ToolCall) -> ToolAnswer:
    found = explained(call)
    chains = [chain_facts.brief(chain, found) for chain in found.chains]
    following = NextCall("episode", {"chain_id": chains[0]["chain_id"]}) if chains else NextCall("operations", {})
    return ToolAnswer(
        {
            "status": found.status.value,
            "summary": summary(found),
            "workloads": len(found.processes),
            "since_unix_seconds": seconds(found.since_unix_ns),
            "until_unix_seconds": seconds(found.now_unix_ns),
        },
        "chains",
        chains,
        following,
    )


EXPLAIN: Final = Tool(
    "explain",
    "Ask this first: whether GPU jobs of this node are slow now or were in the time span, the cause, the culprit and the remedy."
    " The worst chain comes first.",
    (SINCE, WORKLOAD, AT),
    {
        "status": STRING,
        "summary": STRING,
        "workloads": INTEGER,
        "since_unix_seconds": NUMBER,
        "until_unix_seconds": NUMBER,
    },
    "chains",
    _explain,
)


def _episode(call: ToolCall) -> ToolAnswer:
    with opened(call.history, scope=call.scope) as history:
        events = _events_of(known_now(history, call.since_unix_ns(), time.time_ns()).events, call.text("chain_id"))
    found = _explained_around(call, events)
    flat = [one for chain in found.chains for one in (chain, *chain.waiting)]
    chain = next(one for one in flat if one.event.chain_id == events[-1].event.chain_id)
    process = found.process_of(chain)
    sums: dict[str, Any] = {}
    if process is not None:
        step_ns = process.step_ns
        sums = {
            "steps": process.steps.counts.total,
            "step_mean_seconds": seconds(round(step_ns)) if step_ns is not None else None,
            "lost_seconds_by_cause": {cause: round(seconds(ns), 3) for cause, ns in process.lost_ns.most_common(8)},
        }
    following = NextCall("stacks", {"chain_id": chain.event.chain_id[:8]})
    facts = {"chain": chain_facts.whole(chain, found), "process": sums or None}
    return ToolAnswer(facts, "course", [_moment(one) for one in events], following)


def _events_of(events: Sequence[RecordedEvent], wanted: str) -> list[RecordedEvent]:
    """Those of the chain whose id begins so, oldest first. Raises UnknownName."""
    chains = by_chain(events)
    matching = [chain_id for chain_id in chains if len(wanted) >= _ID_CHARACTERS_MIN and chain_id.startswith(wanted)]
    if len(matching) == 1:
        return chains[matching[0]]
    known = latest_named(chains)
    raise UnknownName(
        f"{'more than one' if matching else 'no'} chain begins with {wanted[:_SHOWN_CHARACTERS]!r}",
        remedy=f"the latest of this time: {known}" if known else "no chain is known in this time: use a larger since",
    )


def _explained_around(call: ToolCall, events: Sequence[RecordedEvent]) -> Explanation:
    """The time in which a chain was open, its last window included."""
    last = events[-1].event
    is_over = last.change is Change.RESOLVED
    until_unix_ns = last.at_unix_ns if is_over else time.time_ns()
    return explain_stored(
        call.history,
        seconds(until_unix_ns - last.began_unix_ns) + _WINDOW_SECONDS,
        with_operations=True,
        at_unix_ns=until_unix_ns if is_over else None,
        scope=call.scope,
    )


def _moment(recorded: RecordedEvent) -> dict[str, Any]:
    event = recorded.event
    return {
        "at_unix_seconds": seconds(event.at_unix_ns),
        "change": event.change.value,
        "severity": event.severity.name.lower(),
        "lost_ratio": round(event.lost_share, 4),
    }


EPISODE: Final = Tool(
    "episode",
    "One chain in full: evidence, causes with their shares, culprits with process ids, lines of Python, commands of the remedy,"
    " and its course.",
    (
        Parameter("chain_id", "the first characters of its id, at least four", default=None),
        Parameter("since", "how far to look back for it", default="24h"),
    ),
    {"chain": OBJECT, "process": OBJECT},
    "course",
    _episode,
)


def _compare(call: ToolCall) -> ToolAnswer:
    before_unix_ns = call.moment_unix_ns("before")
    if before_unix_ns is None:
        before_unix_ns = time.time_ns() - int(2 * call.seconds("since") * NANOSECONDS)
    later = explain_stored(
        call.history, call.seconds("since"), call.text("workload"), with_operations=True, scope=call.scope
    )
    earlier = explain_stored(
        call.history,
        call.seconds("since"),
        call.text("workload"),
        with_operations=True,
        at_unix_ns=before_unix_ns,
        may_be_empty=True,
        scope=call.scope,
    )
    comparison = compared(earlier, later)
    document = comparison_document(comparison)
    differing = [one for one in document["workloads"] if one.pop("differs")]
    return ToolAnswer(
        {
            "summary": comparison_lines(comparison)[0],
            "compared": len(document["workloads"]),
            "earlier": document["earlier"],
            "later": document["later"],
        },
        "workloads",
        differing,
        NextCall("explain", {"since": call.text("since")}),
    )


COMPARE: Final = Tool(
    "compare",
    "What differs between the last time span and one of the same length that ended earlier: steps, lost time, calls. Only"
    " workloads that differ are listed.",
    (
        SINCE,
        Parameter("before", "end of the earlier span, such as 14:02 or 1h; empty for twice as long ago as `since`"),
        WORKLOAD,
    ),
    {"summary": STRING, "compared": INTEGER, "earlier": OBJECT, "later": OBJECT},
    "workloads",
    _compare,
)
