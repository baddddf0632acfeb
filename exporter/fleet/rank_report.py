"""The report of a node about its ranks: a NodeReport, which converts to a small JSON document and back.

All times are ages by the node's own clock, such as "41 s ago", so that no clock of a node is ever compared with another one. A
document of another node is hostile: text becomes printable, and every list and number has a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

from exporter.causes import Cause
from exporter.history.membership import RANKS_MAX
from exporter.model import Identity
from exporter.text import untrusted

VERSION: Final = 1
RANKS_OF_NODE_MAX: Final = 256
PLACES_MAX: Final = 16
SLICES_MAX: Final = 40
CHAINS_MAX: Final = 8
CAUSES_MAX: Final = 24
REPORT_BYTES_MAX: Final = 4 << 20
_MEMBERS_MAX: Final = 32
_STATES: Final = ("open", "resolved", "interrupted")
_SEVERITIES: Final = ("none", "low", "medium", "high", "critical")


class Place(NamedTuple):
    """A rank in a communicator. communicator: its hash. collectives: entered so far.

    still_seconds: without another operation, as far as that is known.
    """

    communicator: int
    rank: int
    ranks: int
    collectives: int
    still_seconds: float


class RankSlice(NamedTuple):
    """Some seconds of a rank. covered_seconds: length of its windows. step_seconds, waiting_seconds, computing_seconds: sums over
    the steps that ended, over the waits for the GPU and for other ranks, and over time on a CPU. lost: seconds by cause.
    """

    ended_seconds_ago: float
    covered_seconds: float
    steps: int
    step_seconds: float
    waiting_seconds: float
    computing_seconds: float
    lost: Mapping[str, float]


class ReportedChain(NamedTuple):
    """state: as KnownState. line: of Python, "" if none is known. usual_step_seconds: 0 if it is not known."""

    chain_id: str
    cause: Cause
    state: str
    severity: str
    began_seconds_ago: float
    known_until_seconds_ago: float
    lost_ratio: float
    usual_step_seconds: float
    culprit: str
    peer_rank: str
    line: str
    detail: str


@dataclass(frozen=True, slots=True)
class RankReport:
    """One process. places: its communicators. slices: oldest first. is_gone: the process has ended, or is not known any more."""

    identity: Identity
    tgid: int
    comm: str
    is_gone: bool
    places: tuple[Place, ...]
    slices: tuple[RankSlice, ...]
    chains: tuple[ReportedChain, ...]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """written_seconds_ago: when the history was written last. truncated: ranks that were left out."""

    since_seconds: float
    is_recording: bool
    detects_chains: bool
    written_seconds_ago: float
    ranks: tuple[RankReport, ...]
    truncated: int = 0

    def to_document(self) -> dict[str, Any]:
        """A JSON value. Hashes are texts: they have 64 bits."""
        return {
            "version": VERSION,
            "since_seconds": _rounded(self.since_seconds),
            "is_recording": self.is_recording,
            "detects_chains": self.detects_chains,
            "written_seconds_ago": _rounded(self.written_seconds_ago),
            "truncated": self.truncated,
            "ranks": [_rank_document(one) for one in self.ranks],
        }

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """The inverse of to_document(). Raises ValueError for other documents."""
        known = untrusted.mapping(document, _MEMBERS_MAX)
        version = untrusted.count(untrusted.member(known, "version"))
        if version != VERSION:
            raise untrusted.Untrusted(f"ranks of version {version}, not {VERSION}")
        return cls(
            _age(known, "since_seconds"),
            untrusted.switch(untrusted.member(known, "is_recording")),
            untrusted.switch(untrusted.member(known, "detects_chains")),
            _age(known, "written_seconds_ago"),
            tuple(map(_rank_of, untrusted.sequence(untrusted.member(known, "ranks"), RANKS_OF_NODE_MAX))),
            untrusted.count(untrusted.member(known, "truncated"), RANKS_MAX),
        )


def decoded(raw: bytes | bytearray) -> NodeReport:
    """The report in the body of an answer. Raises Untrusted for anything else."""
    try:
        return NodeReport.from_document(untrusted.json_value(bytes(raw), REPORT_BYTES_MAX))
    except untrusted.Untrusted:
        raise
    except ValueError as error:
        raise untrusted.Untrusted(f"not a report of ranks: {untrusted.text(str(error))}") from None


def _rank_document(one: RankReport) -> dict[str, Any]:
    return {
        "identity": asdict(one.identity),
        "pid": one.tgid,
        "comm": one.comm,
        "is_gone": one.is_gone,
        "places": [[f"{place.communicator:016x}", *place[1:-1], _rounded(place.still_seconds)] for place in one.places],
        "slices": [
            [*map(_rounded, one[:-1]), {name: _rounded(lost) for name, lost in one.lost.items()}] for one in one.slices
        ],
        "chains": [_chain_document(chain) for chain in one.chains],
    }


def _chain_document(chain: ReportedChain) -> dict[str, Any]:
    return {name: _rounded(value) if isinstance(value, float) else value for name, value in chain._asdict().items()}


def _rounded(value: float) -> float:
    return round(value, 4)


def _age(known: Mapping[str, Any], name: str) -> float:
    return _positive(untrusted.member(known, name))


def _positive(value: Any) -> float:
    found = untrusted.number(value)
    if found < 0:
        raise untrusted.Untrusted(f"want a number from 0 on, not {found:g}")
    return found


def _rank_of(document: Any) -> RankReport:
    known = untrusted.mapping(document, _MEMBERS_MAX)

    def of(name: str, most: int) -> tuple[Any, ...]:
        return tuple(untrusted.sequence(untrusted.member(known, name), most))

    return RankReport(
        Identity.from_document(untrusted.member(known, "identity")) or Identity(),
        untrusted.count(untrusted.member(known, "pid")),
        untrusted.text(untrusted.member(known, "comm")),
        untrusted.switch(untrusted.member(known, "is_gone")),
        tuple(map(_place_of, of("places", PLACES_MAX))),
        tuple(map(_slice_of, of("slices", SLICES_MAX))),
        tuple(map(_chain_of, of("chains", CHAINS_MAX))),
    )


def _place_of(document: Any) -> Place:
    communicator, rank, ranks, collectives, still_seconds = untrusted.sequence(document, length=len(Place._fields))
    known_ranks = untrusted.count(ranks, RANKS_MAX)
    return Place(
        _hash_of(communicator),
        untrusted.count(rank, max(known_ranks - 1, 0)),
        known_ranks,
        untrusted.count(collectives),
        _positive(still_seconds),
    )


def _hash_of(value: Any) -> int:
    text = untrusted.word(value)
    if len(text) != 16 or not set(text) <= set("0123456789abcdef"):
        raise untrusted.Untrusted("want the hash of a communicator as 16 hexadecimal digits")
    return int(text, 16)


def _slice_of(document: Any) -> RankSlice:
    ended, covered, steps, step, waiting, computing, lost = untrusted.sequence(document, length=len(RankSlice._fields))
    by_cause = untrusted.mapping(lost, CAUSES_MAX)
    # All at once: a fleet of 200 nodes has 64,000 slices.
    ended, covered, step, waiting, computing, *losses = untrusted.amounts(
        (ended, covered, step, waiting, computing, *by_cause.values())
    )
    causes = map(_cause_name, by_cause)
    return RankSlice(
        ended, covered, untrusted.count(steps), step, waiting, computing, dict(zip(causes, losses, strict=True))
    )


@lru_cache(maxsize=128)
def _cause_name(name: str) -> str:
    """As text; a newer exporter may know causes that this one does not."""
    return untrusted.text(name)


def _chain_of(document: Any) -> ReportedChain:
    known = untrusted.mapping(document, _MEMBERS_MAX)

    def text(name: str, most: int = untrusted.NAME_CHARACTERS) -> str:
        return untrusted.text(untrusted.member(known, name), most)

    return ReportedChain(
        text("chain_id"),
        Cause(untrusted.word(untrusted.member(known, "cause"))),
        _word_of(known, "state", _STATES),
        _word_of(known, "severity", _SEVERITIES),
        _age(known, "began_seconds_ago"),
        _age(known, "known_until_seconds_ago"),
        _age(known, "lost_ratio"),
        _age(known, "usual_step_seconds"),
        text("culprit"),
        text("peer_rank"),
        text("line", untrusted.LINE_CHARACTERS),
        text("detail", untrusted.LINE_CHARACTERS),
    )


def _word_of(known: Mapping[str, Any], name: str, words: tuple[str, ...]) -> str:
    found = untrusted.word(untrusted.member(known, name))
    if found not in words:
        raise untrusted.Untrusted(f"{name}: want one of {', '.join(words)}")
    return found
