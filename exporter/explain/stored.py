"""The explanation of what `run` has written to its history."""

from __future__ import annotations

import time
from pathlib import Path

from exporter.errors import BadInput
from exporter.explain.chain_summary import ChainSummary, SummaryState
from exporter.explain.explanation import Explanation, explain
from exporter.explain.headline import process_name
from exporter.explain.selection import Selection
from exporter.history.reader import opened
from exporter.units import NANOSECONDS

_MAX_NAMES = 12
_CHAIN_ID_MIN = 4


def explain_stored(
    path: Path, since_seconds: float, workload: str = "", *, with_operations: bool = False
) -> Explanation:
    """workload: as in Selection.of(). Raises BadInput if it selects no process, and what opened() raises."""
    selection = Selection.of(workload)
    now_unix_ns = time.time_ns()
    since_unix_ns = now_unix_ns - int(since_seconds * NANOSECONDS)
    with opened(path) as history:
        runs, events = history.runs(), history.events(since_unix_ns)

        def explanation(selected: Selection, *, with_operations: bool) -> Explanation:
            return explain(
                runs,
                events,
                history.windows(since_unix_ns),
                selection=selected,
                since_unix_ns=since_unix_ns,
                now_unix_ns=now_unix_ns,
                with_operations=with_operations,
            )

        found = explanation(selection, with_operations=with_operations)
        if workload and not (found.processes or found.chains):
            known = explanation(Selection(), with_operations=False)
            raise BadInput(f"--workload: no process matches {workload!r}", remedy=_names(known))
    return found


def _names(known: Explanation) -> str:
    names = sorted({process_name(one.labels.identity, one.labels.tgid, one.labels.comm) for one in known.processes})
    if not names:
        return "no process made a traced call in this time; increase --since"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"there are {', '.join(names[:_MAX_NAMES])}{more}"


def open_chain(path: Path, chain_id: str) -> ChainSummary:
    """The open chain whose id begins with these characters. Raises BadInput if there is none with a known culprit."""
    now_unix_ns = time.time_ns()
    with opened(path) as history:
        found = explain(
            history.runs(),
            history.events(now_unix_ns),
            (),
            selection=Selection(),
            since_unix_ns=now_unix_ns,
            now_unix_ns=now_unix_ns,
        )
    open_chains = [chain for chain in found.chains if chain.state is SummaryState.OPEN]
    matching = [
        one for one in open_chains if len(chain_id) >= _CHAIN_ID_MIN and one.event.chain_id.startswith(chain_id)
    ]
    if len(matching) != 1:
        known = ", ".join(f"{one.event.chain_id[:8]} ({one.event.cause.value})" for one in open_chains)
        raise BadInput(
            f"--confirm: no open chain begins with {chain_id!r}",
            remedy=f"open chains: {known}" if known else "no chain is open",
        )
    (chain,) = matching
    if chain.advice is None or not chain.advice.culprit_tgids:
        raise BadInput(f"--confirm: chain {chain_id} ({chain.event.cause.value}) has no culprit that could be paused")
    if not any(chain.advice.culprit_start_ticks):
        raise BadInput(
            f"--confirm: the history does not say when the culprits of chain {chain_id} were started, so their pids may belong"
            " to other processes now",
            remedy="wait for the chain's next event; an exporter of an older version records no start times",
        )
    return chain
