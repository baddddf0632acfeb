"""A change of a chain, with the labels of its process, times of day and the remedy: what every output of chains receives.

In: a Transition, and what is known of its process. Out: a ChainEvent, which converts to a JSON document and back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, Self

from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, End, Present, Severity, Transition, blamed
from exporter.chains.remedies import ProcessContext, remedy_of
from exporter.clock import Moment
from exporter.model import Identity
from exporter.text import untrusted
from exporter.text.figures import factor, percent
from exporter.text.printable import printable
from exporter.units import seconds

_KEYS = {"tgid": "pid", "culprit_tgids": "culprit_pids"}
"""Fields whose names in documents are those that users know."""
_FIELDS = {key: field for field, key in _KEYS.items()}

TIME_NS_MAX: Final = (1 << 63) - 1
"""Limit of a time of day or a length: until the year 2262."""
_MEMBERS_MAX: Final = 64
_PARTS_MAX: Final = 256  # names with their shares
_LINES_MAX: Final = 256
_PROCESSES_MAX: Final = 4096
_TGID_MAX: Final = 1 << 22  # PID_MAX_LIMIT
_OTHER_SHARE: Final = 0.02  # a smaller difference between now and the worst time is not worth a word
_PATH_CHARACTERS: Final = 5120  # PATH_MAX, and a command around it

Parts = tuple[tuple[str, float], ...]
"""Names with their shares of one, largest first."""


class ChainProcess(NamedTuple):
    """The process of a chain, as it was at a transition or when its threads were sampled: it may have ended since.

    charged_since_ns: since when time is charged to each culprit, CLOCK_MONOTONIC. traced_tgids: all GPU processes of the node.
    """

    identity: Identity | None
    tgid: int
    culprit_tgids: tuple[int, ...]
    charged_since_ns: tuple[int, ...] = ()
    traced_tgids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChainEvent:
    """Times of day are of the clock as it was set when the event was made.

    duration_ns: from the begin of the chain to its end, or to this event; measured by CLOCK_MONOTONIC.
    identity: None until the labels of the process are known. tgid: 0 if the process is not in the exporter's pid namespace.
    start_ticks, culprit_start_ticks: when these processes were started, in clock ticks since boot, as in /proc/PID/stat; 0 if not
    known, as in events of older versions; so is lost_ns 0 in those. Ids are reused: a process is its id and its start.
    evidence: lines of text, only of Change.EVIDENCE: where threads are stuck, and their callers.
    now: as of Chain; None in events of older versions. The other fields are those of Chain, ProcessContext and Remedy.
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
    start_ticks: int = 0
    culprit_start_ticks: tuple[int, ...] = ()
    lost_ns: int = 0
    now: Present | None = None

    @classmethod
    def from_transition(
        cls,
        transition: Transition,
        identity: Identity | None,
        context: ProcessContext,
        now: Moment,
        evidence: tuple[str, ...] = (),
    ) -> Self:
        """now: the time of the transition. The remedy is against those who are culprits then."""
        change, chain = transition
        remedy = remedy_of(replace(chain, culprits=chain.present.culprits), context, identity)
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
            cgroup=printable(context.cgroup),
            culprit_tgids=context.culprit_tgids,
            remedy=remedy.what,
            commands=remedy.commands,
            evidence=evidence,
            detail=chain.detail,
            start_ticks=context.start_ticks,
            culprit_start_ticks=context.culprit_start_ticks,
            lost_ns=chain.lost_ns,
            now=chain.now,
        )

    @property
    def present(self) -> Present:
        """What holds at the time of the event; of a resolved chain, its worst time."""
        return self.now or Present(self.lost_share, self.slowdown, self.culprits)

    @property
    def culprit(self) -> str:
        """Who is most to blame at the time of the event, as of blamed()."""
        return blamed(self.peer, self.present.culprits)

    def lost(self, *, is_over: bool) -> tuple[str, str]:
        """How much of the time is lost, and what follows the cause: `46 %` and `now, 55 % at its worst`, the second "" where now
        is its worst time. Of a chain that is over `up to 55 %`, and `100 %` of a job that stood still.
        """
        worst, present = percent(self.lost_share), percent(self.present.lost_share)
        if is_over:
            is_all = self.lost_share >= 1 or self.cause is Cause.COLD_START
            return worst if is_all else f"up to {worst}", ""
        is_other = self.lost_share - self.present.lost_share >= _OTHER_SHARE
        return present, f" now, {worst} at its worst" if is_other else ""

    @property
    def sentence(self) -> str:
        """`cpu_contention: 46 % of the time is lost to it, steps take 1.9 times as long, culprit stress-ng (97 %)`."""
        facts, present = [], self.present
        if self.lost_share:
            lost, worst = self.lost(is_over=self.change is Change.RESOLVED)
            facts.append(f"{lost} of the time is lost to it{worst}")
        if present.slowdown is not None:
            facts.append(f"steps take {factor(1 + present.slowdown)} times as long")
        if present.culprits:
            culprit, part = present.culprits[0]
            facts.append(f"culprit {culprit} ({percent(part)})")
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
            "culprit": self.culprit,
            "peer": self.peer,
            "detail": self.detail,
            "lost_share": f"{self.lost_share:.3f}",
            "lost_share_now": f"{self.now.lost_share:.3f}" if self.now else "",
            "lost_seconds": f"{seconds(self.lost_ns):.2f}" if self.lost_ns else "",
            "contribution": f"{self.contribution:.3f}",
            "open_seconds": f"{seconds(self.duration_ns):.2f}",
            "end": self.end.value if self.end else "",
        }
        return {name: value for name, value in known.items() if value}

    def to_document(self) -> dict[str, Any]:
        """What JSON can hold: the severity by its name, thread group ids by the names that users know them by."""
        now = self.now._asdict() if self.now else None
        found = asdict(self) | {"severity": self.severity.name.lower(), "now": now}
        return {_KEYS.get(name, name): value for name, value in found.items()}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """The event that became this document, its text printable and bounded. Raises ValueError for anything else."""
        known = {_FIELDS.get(key, key): value for key, value in untrusted.mapping(document, _MEMBERS_MAX).items()}
        if unknown := known.keys() - cls.__slots__:
            raise untrusted.Untrusted(f"unknown fields: {untrusted.text(', '.join(sorted(unknown)))}")
        of = partial(untrusted.member, known)
        end = of("end")
        return cls(
            change=Change(untrusted.word(of("change"))),
            at_unix_ns=untrusted.count(of("at_unix_ns"), TIME_NS_MAX),
            chain_id=untrusted.text(of("chain_id")),
            cause=Cause(untrusted.word(of("cause"))),
            effect=Effect(untrusted.word(of("effect"))),
            severity=_severity(of("severity")),
            began_unix_ns=untrusted.count(of("began_unix_ns"), TIME_NS_MAX),
            duration_ns=untrusted.count(of("duration_ns"), TIME_NS_MAX),
            slowdown=None if of("slowdown") is None else untrusted.number(of("slowdown")),
            usual_step_ns=round(untrusted.number(of("usual_step_ns"))),
            lost_share=untrusted.number(of("lost_share")),
            contribution=untrusted.number(of("contribution")),
            shares=_parts(of("shares")),
            culprits=_parts(of("culprits")),
            peer=untrusted.text(of("peer")),
            is_chronic=untrusted.switch(of("is_chronic")),
            end=End(untrusted.word(end)) if end else None,
            identity=Identity.from_document(of("identity")),
            tgid=untrusted.count(of("tgid"), _TGID_MAX),
            cgroup=untrusted.text(of("cgroup"), _PATH_CHARACTERS),
            culprit_tgids=untrusted.counts(of("culprit_tgids"), _PROCESSES_MAX),
            remedy=untrusted.text(of("remedy"), untrusted.LINE_CHARACTERS),
            commands=_lines(of("commands"), _PATH_CHARACTERS),
            evidence=_lines(known.get("evidence", ()), untrusted.LINE_CHARACTERS),
            detail=untrusted.text(known.get("detail", ""), untrusted.LINE_CHARACTERS),
            start_ticks=untrusted.count(known.get("start_ticks", 0)),
            culprit_start_ticks=untrusted.counts(known.get("culprit_start_ticks", ()), _PROCESSES_MAX),
            lost_ns=untrusted.count(known.get("lost_ns", 0), TIME_NS_MAX),
            now=_present(known.get("now")),
        )


class ChainSink(Protocol):
    """Receives chain events: log, history, recording, OTLP."""

    def on_chain_event(self, event: ChainEvent) -> None:
        """Called in a tick: it must not block."""


def _present(document: Any) -> Present | None:
    if document is None:
        return None
    of = partial(untrusted.member, untrusted.mapping(document, len(Present._fields)))
    slowdown = of("slowdown")
    return Present(
        untrusted.number(of("lost_share")),
        None if slowdown is None else untrusted.number(slowdown),
        _parts(of("culprits")),
    )


def _parts(pairs: Any) -> Parts:
    found = (untrusted.sequence(pair, length=2) for pair in untrusted.sequence(pairs, _PARTS_MAX))
    return tuple((untrusted.text(name), untrusted.number(part)) for name, part in found)


def _lines(lines: Any, characters_max: int) -> tuple[str, ...]:
    return tuple(untrusted.text(line, characters_max) for line in untrusted.sequence(lines, _LINES_MAX))


def _severity(name: Any) -> Severity:
    try:
        return Severity[untrusted.word(name).upper()]
    except KeyError:
        raise untrusted.Untrusted("unknown severity") from None
