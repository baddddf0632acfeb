"""Finds jobs that make no progress at all: no step ends, and no kernel is launched.

In: the state of a process at every tick, and collectives that it has not entered. Out: Transitions of a chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from exporter.accounting.progress import Standing
from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, Effect, End, Severity, Transition
from exporter.chains.ranks import Missing
from exporter.chains.span import ProcessState
from exporter.chains.thresholds import (
    HANG_NS,
    HANG_STEPS,
    STALLED_CRITICAL_NS,
    STALLED_NS,
    STALLED_STEPS,
    UNKNOWN_HANG_NS,
)
from exporter.chains.verdict import severity_of
from exporter.units import NANOSECONDS


class Standstill:
    """Standstill of one process: an open chain for a collective that it does not enter, or for any other reason.

    is_in_doubt: it may stand still, so that slow steps are not judged. needs_threads: what its threads do has to be read.
    """

    def __init__(self, process: int, new_id: Callable[[], str]) -> None:
        self._process = process
        self._new_id = new_id
        self._since_ns = 0  # of its last progress
        self._progress = (-1, -1)
        self._chain: Chain | None = None
        self.is_in_doubt = False
        self.needs_threads = False

    @property
    def chains(self) -> list[Chain]:
        """The open one, if there is one."""
        return [self._chain] if self._chain else []

    def update(
        self, seen: ProcessState, missing: Missing | None, pace_ns: int, *, slow_step_ns: int = 0, is_explained: bool
    ) -> list[Transition]:
        """Update at a tick. missing: a collective that this process has not entered. pace_ns: length of a step, 0 if unknown.

        slow_step_ns: length of its steps while chains are open, 0 without one. is_explained: a cause of an open chain may keep it
        from making any step, or it waits for another rank of this node.
        """
        progress = (seen.progress.steps, seen.progress.kernels)
        if progress != self._progress:
            self._progress, self._since_ns = progress, seen.now_ns
        for_ns = seen.now_ns - self._since_ns
        is_long = bool(pace_ns) and for_ns >= max(STALLED_NS, STALLED_STEPS * max(pace_ns, slow_step_ns))
        is_hang = missing is not None and _is_hang(missing, seen.now_ns, pace_ns)
        self.needs_threads = is_long
        self.is_in_doubt = is_hang or self._chain is not None or _is_late(missing, seen, self._since_ns, pace_ns)
        if missing is not None and is_hang:
            return self._hang(missing, seen, pace_ns)
        if self._chain is not None:
            return self._go_on(seen, for_ns, is_long=is_long)
        standing = seen.progress.standing
        if is_long and standing is not None and not is_explained and standing.has_work:
            return [
                self._open(
                    Cause.STALLED, Effect.STEP, self._since_ns, seen, pace_ns, detail=_detail(standing, for_ns, seen)
                )
            ]
        return []

    def end(self, now_ns: int) -> list[Transition]:
        """Resolve the open chain: the process has ended."""
        return [_lasting(self._chain, now_ns).resolved(now_ns, End.JOB_ENDED)] if self._chain else []

    def _hang(self, missing: Missing, seen: ProcessState, pace_ns: int) -> list[Transition]:
        if self._chain is None:
            effect = Effect.COLLECTIVE
            return [self._open(Cause.NCCL_HANG, effect, missing.since_ns, seen, pace_ns, peer=str(missing.rank))]
        if self._chain.cause is Cause.NCCL_HANG:
            self._chain = _lasting(self._chain, seen.now_ns)
            return []
        self._chain = replace(
            _lasting(self._chain, seen.now_ns),
            cause=Cause.NCCL_HANG,
            effect=Effect.COLLECTIVE,
            severity=Severity.CRITICAL,
            peer=str(missing.rank),
        )
        return [Transition(Change.ESCALATED, self._chain)]

    def _go_on(self, seen: ProcessState, for_ns: int, *, is_long: bool) -> list[Transition]:
        assert self._chain is not None  # noqa: S101 - it is open
        if self._chain.cause is Cause.NCCL_HANG or not is_long:
            until_ns = max(self._since_ns, self._chain.opened_ns)
            resolved, self._chain = _lasting(self._chain, until_ns).resolved(until_ns, End.RECOVERED), None
            return [resolved]
        self._chain = _lasting(self._chain, seen.now_ns)
        if for_ns < STALLED_CRITICAL_NS or self._chain.severity is Severity.CRITICAL:
            return []
        self._chain = replace(self._chain, severity=Severity.CRITICAL)
        return [Transition(Change.ESCALATED, self._chain)]

    def _open(
        self,
        cause: Cause,
        effect: Effect,
        began_ns: int,
        seen: ProcessState,
        pace_ns: int,
        *,
        peer: str = "",
        detail: str = "",
    ) -> Transition:
        self._chain = Chain(
            id=self._new_id(),
            process=self._process,
            cause=cause,
            effect=effect,
            severity=severity_of(cause, 1.0),
            began_ns=began_ns,
            opened_ns=seen.now_ns,
            updated_ns=seen.now_ns,
            slowdown=None,
            usual_step_ns=pace_ns,
            lost_share=1.0,
            contribution=1.0,
            peer=peer,
            detail=detail,
            lost_ns=seen.now_ns - began_ns,
        )
        return Transition(Change.OPENED, self._chain)


def _lasting(chain: Chain, now_ns: int) -> Chain:
    """The chain up to a moment: all time since its onset is lost."""
    return replace(chain, updated_ns=max(now_ns, chain.updated_ns), lost_ns=now_ns - chain.began_ns)


def _is_hang(missing: Missing, now_ns: int, pace_ns: int) -> bool:
    for_ns = now_ns - missing.since_ns
    return for_ns >= (max(HANG_NS, HANG_STEPS * pace_ns) if pace_ns else UNKNOWN_HANG_NS)


def _is_late(missing: Missing | None, seen: ProcessState, since_ns: int, pace_ns: int) -> bool:
    """Whether it may never enter the collective: two steps have passed without one."""
    if missing is None or not pace_ns:
        return False
    return seen.now_ns - missing.since_ns > 2 * pace_ns and since_ns <= missing.since_ns


def _detail(standing: Standing, for_ns: int, seen: ProcessState) -> str:
    """`no step has ended and no kernel was launched for 12 s: thread 4711 has been in cudaStreamSynchronize for 11.8 s`

    And for each communicator with operations that are not known to be complete: `; communicator 0 waits for 2 operations`.
    """
    waits = "".join(
        f"; communicator {number} waits for {count} operations" for number, count in seen.unfinished.items()
    )
    return f"no step has ended and no kernel was launched for {for_ns / NANOSECONDS:.0f} s: {standing.sentence}{waits}"
