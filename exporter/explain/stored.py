"""The explanation of what `run` has written to its history."""

from __future__ import annotations

import time
from pathlib import Path

from exporter.errors import BadInput
from exporter.explain.episodes import EpisodeState, EpisodeSummary
from exporter.explain.explanation import Explanation, explain
from exporter.explain.headline import who
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
        runs, events = history.runs(), history.told(since_unix_ns)

        def explanation(selected: Selection, *, with_operations: bool) -> Explanation:
            return explain(
                runs,
                events,
                history.seen(since_unix_ns),
                selection=selected,
                since_unix_ns=since_unix_ns,
                now_unix_ns=now_unix_ns,
                with_operations=with_operations,
            )

        found = explanation(selection, with_operations=with_operations)
        if workload and not (found.processes or found.episodes):
            known = explanation(Selection(), with_operations=False)
            raise BadInput(f"--workload: no process matches {workload!r}", remedy=_names(known))
    return found


def _names(known: Explanation) -> str:
    names = sorted({who(one.labels.identity, one.labels.tgid, one.labels.comm) for one in known.processes})
    if not names:
        return "no process made a traced call in this time; increase --since"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"there are {', '.join(names[:_MAX_NAMES])}{more}"


def open_chain(path: Path, chain_id: str) -> EpisodeSummary:
    """The open chain whose id begins with these characters. Raises BadInput if there is none with a known culprit."""
    now_unix_ns = time.time_ns()
    with opened(path) as history:
        found = explain(
            history.runs(),
            history.told(now_unix_ns),
            (),
            selection=Selection(),
            since_unix_ns=now_unix_ns,
            now_unix_ns=now_unix_ns,
        )
    opened_ones = [episode for episode in found.episodes if episode.state is EpisodeState.GOING_ON]
    matching = [
        one for one in opened_ones if len(chain_id) >= _CHAIN_ID_MIN and one.report.chain_id.startswith(chain_id)
    ]
    if len(matching) != 1:
        known = ", ".join(f"{one.report.chain_id[:8]} ({one.report.cause.value})" for one in opened_ones)
        raise BadInput(
            f"--confirm: no open chain begins with {chain_id!r}",
            remedy=f"open chains: {known}" if known else "no chain is open",
        )
    (episode,) = matching
    if episode.advice is None or not episode.advice.culprit_tgids:
        raise BadInput(
            f"--confirm: chain {chain_id} ({episode.report.cause.value}) has no culprit that could be paused"
        )
    return episode
