"""A change of a chain, with the labels of its process, times of day and the remedy: what every output of chains receives.

In: a Transition, and what is known of its process. Out: a ChainEvent, which converts to a JSON document and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol, Self

from exporter.causes import Cause, largest_culprit
from exporter.chains.chain import Change, Effect, End, Severity, Transition
from exporter.chains.remedies import ProcessContext, remedy_of
from exporter.clock import Moment
from exporter.model import Identity
from exporter.units import seconds

_KEYS = {"tgid": "pid", "culprit_tgids": "culprit_pids"}
"""Fields whose names in documents are those that users know."""
_FIELDS = {key: field for field, key in _KEYS.items()}

Parts = tuple[tuple[str, float], ...]
"""Names with their shares of one, largest first."""


class ChainProcess(NamedTuple):
    """The process of a chain, as it was at a transition or when its threads were sampled: it may have ended since."""

    identity: Identity | None
    tgid: int
    culprit_tgids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChainEvent:
    """Times of day are of the clock as it was set when the event was made.

    duration_ns: from the begin of the chain to its end, or to this event; measured by CLOCK_MONOTONIC.
    identity: None until the labels of the process are known. tgid: 0 if the process is not in the exporter's pid namespace.
    evidence: lines of text, only of Change.EVIDENCE: where threads are stuck, and their callers.
    The other fields are those of Chain, ProcessContext and Remedy.
    """

    change: Change
    at_unix_ns: int
    chain_id: str
    cause: Cause
    effect: Effect
    severity: Severity
    began_unix_ns: int
    duration_ns: int
    slowdown: float | None
    usual_step_ns: int
    lost_share: float
    contribution: float
    shares: Parts
    culprits: Parts
    peer: str
    is_chronic: bool
    end: End | None
    identity: Identity | None
    tgid: int
    cgroup: str
    culprit_tgids: tuple[int, ...]
    remedy: str
    commands: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    detail: str = ""

    @classmethod
    def from_transition(
        cls,
        transition: Transition,
        identity: Identity | None,
        context: ProcessContext,
        now: Moment,
        evidence: tuple[str, ...] = (),
    ) -> Self:
        """now: the time of the transition."""
        change, chain = transition
        remedy = remedy_of(chain, context)
        return cls(
            change=change,
            at_unix_ns=now.unix_ns,
            chain_id=chain.id,
            cause=chain.cause,
            effect=chain.effect,
            severity=chain.severity,
            began_unix_ns=now.unix_ns_of(chain.began_ns),
            duration_ns=(chain.resolved_ns or chain.updated_ns) - chain.began_ns,
            slowdown=chain.slowdown,
            usual_step_ns=chain.usual_step_ns,
            lost_share=chain.lost_share,
            contribution=chain.contribution,
            shares=chain.shares,
            culprits=chain.culprits,
            peer=chain.peer,
            is_chronic=chain.is_chronic,
            end=chain.end,
            identity=identity,
            tgid=context.tgid,
            cgroup=context.cgroup,
            culprit_tgids=context.culprit_tgids,
            remedy=remedy.what,
            commands=remedy.commands,
            evidence=evidence,
            detail=chain.detail,
        )

    @property
    def sentence(self) -> str:
        """`cpu_contention: steps take 1.9 times as long, 46% of the time is lost, 97% of it to stress-ng`."""
        facts = []
        if self.slowdown is not None:
            facts.append(f"steps take {1 + self.slowdown:.1f} times as long")
        if self.lost_share:
            facts.append(f"{self.lost_share:.0%} of the time is lost")
        if self.culprits:
            culprit, part = self.culprits[0]
            facts.append(f"{part:.0%} of it to {culprit}")
        if self.peer:
            facts.append(f"rank {self.peer} is late")
        if self.detail:
            facts.append(self.detail)
        return f"{self.cause.value}: {', '.join(facts)}" if facts else self.cause.value

    def fields(self) -> dict[str, str]:
        """Attributes of a record. Without empty ones, and without the remedy: no one groups by it."""
        known = {
            "chain_id": self.chain_id,
            "cause": self.cause.value,
            "effect": self.effect.value,
            "severity": self.severity.name.lower(),
            "rank": self.identity.rank if self.identity else "",
            "container": self.identity.container if self.identity else "",
            "pid": str(self.tgid or ""),
            "culprit": largest_culprit(self.culprits),
            "peer": self.peer,
            "detail": self.detail,
            "lost_share": f"{self.lost_share:.3f}",
            "contribution": f"{self.contribution:.3f}",
            "open_seconds": f"{seconds(self.duration_ns):.2f}",
            "end": self.end.value if self.end else "",
        }
        return {name: value for name, value in known.items() if value}

    def to_document(self) -> dict[str, Any]:
        """What JSON can hold: the severity by its name, thread group ids by the names that users know them by."""
        found = asdict(self) | {"severity": self.severity.name.lower()}
        return {_KEYS.get(name, name): value for name, value in found.items()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The event that became this document. Raises KeyError, TypeError or ValueError for anything else."""
        known = {_FIELDS.get(key, key): value for key, value in document.items()}
        known["severity"] = str(known["severity"])
        known |= {
            "change": Change(known["change"]),
            "cause": Cause(known["cause"]),
            "effect": Effect(known["effect"]),
            "severity": Severity[known["severity"].upper()],
            "shares": _parts(known["shares"]),
            "culprits": _parts(known["culprits"]),
            "end": End(known["end"]) if known["end"] else None,
            "identity": Identity(**known["identity"]) if known["identity"] else None,
            "culprit_tgids": tuple(map(int, known["culprit_tgids"])),
            "commands": tuple(map(str, known["commands"])),
            "evidence": tuple(map(str, known.get("evidence", ()))),
            "detail": str(known.get("detail", "")),
        }
        return cls(**known)


class ChainSink(Protocol):
    """Receives chain events: log, history, recording, OTLP."""

    def on_chain_event(self, event: ChainEvent) -> None:
        """Called in a tick: it must not block."""


def _parts(pairs: Any) -> Parts:
    return tuple((str(name), float(part)) for name, part in pairs)
