"""The explanation of what `run` has written to its history."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from exporter.errors import BadInput, NotPossibleHere
from exporter.explain.chain_summary import ChainSummary
from exporter.explain.explanation import Explanation, explain
from exporter.explain.new_normal import NEW_FOR_NS
from exporter.history.as_of import known_now, known_then
from exporter.history.process_names import no_match, process_name
from exporter.history.reader import History, opened
from exporter.history.recorded_chains import KnownState, by_chain, latest_named
from exporter.history.run import RecordedEvent, Run
from exporter.history.scope import EVERYTHING, Scope
from exporter.history.selection import Selection
from exporter.text.figures import time_of_day
from exporter.units import NANOSECONDS

_CHAIN_ID_MIN = 4
_CHAIN_ID = re.compile(f"[0-9a-f]{{{_CHAIN_ID_MIN},32}}")
_LATEST_NS = 3600 * NANOSECONDS
_BEFORE_CHAIN_NS = 10 * NANOSECONDS


def explain_stored(
    path: Path,
    since_seconds: float,
    workload: str = "",
    *,
    with_operations: bool = False,
    at_unix_ns: int | None = None,
    may_be_empty: bool = False,
    scope: Scope = EVERYTHING,
) -> Explanation:
    """workload: as in Selection.of(). at_unix_ns: what was known then; None for now.

    Raises BadInput if nothing had been recorded then, or if no process is selected, unless that may be; and what opened() raises.
    """
    selection = Selection.of(workload)
    now_unix_ns = time.time_ns() if at_unix_ns is None else at_unix_ns
    since_unix_ns = max(now_unix_ns - int(since_seconds * NANOSECONDS), 0)
    with opened(path, scope=scope) as history:
        if at_unix_ns is not None:
            _refuse_before(history.runs(), at_unix_ns)

        def explanation(selected: Selection, *, with_operations: bool) -> Explanation:
            events = _events(history, min(since_unix_ns, now_unix_ns - NEW_FOR_NS)) or history.events(since_unix_ns)
            known = (known_now if at_unix_ns is None else known_then)(history, since_unix_ns, now_unix_ns, events)
            return explain(
                known.runs,
                known.events,
                known.windows,
                selection=selected,
                since_unix_ns=since_unix_ns,
                now_unix_ns=now_unix_ns,
                ahead_unix_ns=known.ahead_unix_ns,
                with_operations=with_operations,
            )

        found = explanation(selection, with_operations=with_operations)
        if workload and not (may_be_empty or found.processes or found.chains):
            every = explanation(Selection(), with_operations=False)
            names = (process_name(one.labels.identity, one.labels.tgid, one.labels.comm) for one in every.processes)
            raise no_match(workload, names)
    return found


def explain_chain(path: Path, chain_id: str, *, with_operations: bool = False) -> Explanation:
    """The chain whose id begins with these characters, and its process, from shortly before its onset until now.

    Raises BadInput if no chain or several begin so, and what opened() raises.
    """
    now_unix_ns = time.time_ns()
    with opened(path) as history:
        of_chain = _of_chain(chain_id, history)
        last = of_chain[-1].event
        since_unix_ns = max(min(one.event.began_unix_ns for one in of_chain) - _BEFORE_CHAIN_NS, 0)
        known = known_now(history, since_unix_ns, now_unix_ns, _events(history, since_unix_ns) or of_chain)
        return explain(
            known.runs,
            known.events,
            known.windows,
            selection=Selection.of(f"pid={last.tgid}" if last.tgid else ""),
            since_unix_ns=since_unix_ns,
            now_unix_ns=now_unix_ns,
            ahead_unix_ns=known.ahead_unix_ns,
            with_operations=with_operations,
            chain_id=last.chain_id,
        )


def _events(history: History, since_unix_ns: int) -> list[RecordedEvent]:
    """Empty where there are too many to read."""
    with suppress(NotPossibleHere):
        return history.events(max(since_unix_ns, 0))
    return []


def _of_chain(wanted: str, history: History) -> list[RecordedEvent]:
    """The events of the only chain whose id begins so."""
    is_id = _CHAIN_ID.fullmatch(wanted) is not None
    matching = by_chain(history.events_of_chains(wanted)) if is_id else {}
    if len(matching) == 1:
        return next(iter(matching.values()))
    named = latest_named(by_chain(history.events(time.time_ns() - _LATEST_NS)))
    raise BadInput(
        f"--chain: {'more than one' if matching else 'no'} chain in the history begins with {wanted!r}",
        remedy=f"the latest are {named}" if named else "the history has no chains of the last hour",
    )


def _refuse_before(runs: Sequence[Run], at_unix_ns: int) -> None:
    begins = [run.began_unix_ns for run in runs]
    if not begins or min(begins) > at_unix_ns:
        began = f"the history begins at {time_of_day(min(begins), time.time_ns(), None)}" if begins else "it is empty"
        raise BadInput(f"nothing had been recorded at {time_of_day(at_unix_ns, time.time_ns(), None)}", remedy=began)


def open_chain(path: Path, chain_id: str) -> ChainSummary:
    """The open chain whose id begins with these characters. Raises BadInput if there is none with a known culprit."""
    now_unix_ns = time.time_ns()
    with opened(path) as history:
        known = known_now(history, now_unix_ns, now_unix_ns)
        found = explain(
            known.runs,
            known.events,
            (),
            selection=Selection(),
            since_unix_ns=now_unix_ns,
            now_unix_ns=now_unix_ns,
        )
    open_chains = [chain for chain in found.chains if chain.state is KnownState.OPEN]
    matching = [
        one for one in open_chains if len(chain_id) >= _CHAIN_ID_MIN and one.event.chain_id.startswith(chain_id)
    ]
    if len(matching) != 1:
        named = ", ".join(f"{one.event.chain_id[:8]} ({one.event.cause.value})" for one in open_chains)
        raise BadInput(
            f"--confirm: no open chain begins with {chain_id!r}",
            remedy=f"open chains: {named}" if named else "no chain is open",
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
