"""The JSON form of an answer of NCCL's RAS: since 2.28.7.

In: bytes of a tenant's process. Out: a Report, or Untrusted. In 2.28.9 a comma is missing at the end of a line.
Source: NCCL's user guide, Troubleshooting, RAS, JSON Output.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from exporter.ras.report import (
    COMMUNICATORS_MAX,
    HOST_CHARACTERS,
    OPERATION_CHARACTERS,
    OPERATIONS_MAX,
    RANKS_MAX,
    VALUE_MAX,
    VERSION_CHARACTERS,
    Absence,
    LaunchGroup,
    MissingRank,
    RankProcess,
    RasCommunicator,
    Report,
    UnequalLaunches,
)
from exporter.text import untrusted
from exporter.text.untrusted import member

JSON_BYTES_MAX: Final = 16 << 20
"""20,000 ranks of communicators."""
_ALL_RANKS_MAX: Final = 1 << 20
_TGID_MAX: Final = (1 << 31) - 1
_NO_ERROR: Final = (0, 7)  # ncclSuccess, ncclInProgress
_WITHOUT_COMMA: Final = re.compile(rb'(["0-9a-z}\]])(\r?\n[ \t]*")')
"""The end of a member, and the name of the next one on the next line. Of valid JSON nothing matches."""


def report_of_json(raw: bytes) -> Report:
    """Raises Untrusted."""
    try:
        document = untrusted.json_value(raw, JSON_BYTES_MAX)
    except untrusted.Untrusted:
        document = untrusted.json_value(_WITHOUT_COMMA.sub(rb"\1,\2", raw[: JSON_BYTES_MAX + 1]), JSON_BYTES_MAX)
    known = untrusted.mapping(document)
    members: set[RankProcess] = set()
    documents = list(map(untrusted.mapping, untrusted.sequence(member(known, "communicators"), COMMUNICATORS_MAX)))
    if sum(untrusted.count(member(one, "size"), RANKS_MAX) for one in documents) > _ALL_RANKS_MAX:
        raise untrusted.Untrusted("too many ranks")
    found = [_communicator(one, members) for one in documents]
    own = untrusted.mapping(known.get("ras", {}))
    return Report(
        version=untrusted.text(member(known, "nccl_version"), VERSION_CHARACTERS),
        sizes=tuple(one.size for one in found),
        communicators=tuple(found),
        members=frozenset(members),
        has_all_members=True,
        timeouts=untrusted.count(own.get("timeouts_count", 0), VALUE_MAX),
    )


def _communicator(document: Mapping[str, Any], members: set[RankProcess]) -> RasCommunicator:
    size = untrusted.count(member(document, "size"), RANKS_MAX)
    ranks = [untrusted.mapping(one) for one in untrusted.sequence(member(document, "ranks"), RANKS_MAX)]
    missing = [
        _missing_rank(untrusted.mapping(one), size)
        for one in untrusted.sequence(document.get("missing_ranks", ()), RANKS_MAX)
    ]
    numbers = [_rank(one, size) for one in ranks]
    members |= {RankProcess(size, rank, _tgid(one)) for rank, one in zip(numbers, ranks, strict=True)}
    members |= {RankProcess(size, one.rank, one.tgid) for one in missing}
    named = {*numbers, *(one.rank for one in missing)}
    missing += [MissingRank(rank, Absence.UNKNOWN) for rank in range(size) if rank not in named]
    return RasCommunicator(
        hash=_hash(member(document, "hash")),
        size=size,
        missing_count=len(missing),
        missing=tuple(sorted(missing)),
        unequal=tuple(_unequal(numbers, ranks)),
        failed=sum(map(_has_failed, ranks)),
    )


def _missing_rank(document: Mapping[str, Any], size: int) -> MissingRank:
    status = untrusted.mapping(member(document, "status"))
    if untrusted.switch(status.get("considered_dead", False)):
        absence = Absence.DEAD
    elif untrusted.switch(member(status, "unresponsive")):
        absence = Absence.SILENT
    else:
        absence = Absence.LEFT
    host = untrusted.text(document.get("host", ""), HOST_CHARACTERS)
    return MissingRank(_rank(document, size), absence, _tgid(document), "" if host == "unknown" else host)


def _unequal(numbers: Sequence[int], ranks: Sequence[Mapping[str, Any]]) -> Iterator[UnequalLaunches]:
    counts = [untrusted.mapping(one.get("collective_counts", {}), OPERATIONS_MAX) for one in ranks]
    names = dict.fromkeys(name for one in counts for name in one)
    if len(names) > OPERATIONS_MAX:
        raise untrusted.Untrusted("ranks have too many different operations")
    for name in names:
        launched = [untrusted.count(one.get(name, 0), VALUE_MAX) for one in counts]
        if len(set(launched)) > 1:
            yield UnequalLaunches(
                untrusted.text(name, OPERATION_CHARACTERS), groups_of(zip(numbers, launched, strict=True))
            )


def groups_of(launched: Iterable[tuple[int, int]]) -> tuple[LaunchGroup, ...]:
    """launched: pairs of a rank, and how often it has launched."""
    ranks_of: dict[int, list[int]] = {}
    for rank, count in launched:
        ranks_of.setdefault(count, []).append(rank)
    sizes = Counter({count: len(ranks) for count, ranks in ranks_of.items()})
    return tuple(LaunchGroup(count, found, tuple(sorted(ranks_of[count]))) for count, found in sizes.most_common())


def _has_failed(rank: Mapping[str, Any]) -> bool:
    status = untrusted.mapping(member(rank, "status"))
    codes = [untrusted.integer(member(status, name)) for name in ("init_state", "async_error")]
    return any(code not in _NO_ERROR for code in codes) or untrusted.switch(status.get("abort_flag", False))


def _rank(document: Mapping[str, Any], size: int) -> int:
    return untrusted.count(member(document, "rank"), max(size - 1, 0))


def _tgid(document: Mapping[str, Any]) -> int:
    """0 for -1: NCCL does not know it."""
    tgid = untrusted.integer(document.get("pid", -1))
    return tgid if 0 < tgid <= _TGID_MAX else 0


def _hash(value: Any) -> int:
    """`0xae94423cfbb2ef4a`"""
    if not re.fullmatch(r"0x[0-9a-f]{1,16}", word := untrusted.word(value)):
        raise untrusted.Untrusted("the hash of a communicator is not a hexadecimal number")
    return int(word, 16)
