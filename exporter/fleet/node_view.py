"""The workloads of a node for the table of `top`, from its explanation of the last seconds.

In: answers of `GET /api/v1/explain`, from nodes that are not trusted. Out: a NodeView.
A history has a window for each 8 to 11 s: the figures are those of the windows that ended in the span.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from exporter.causes import largest_first
from exporter.chains.chain import Severity
from exporter.fleet.exchange import NodeRequest
from exporter.fleet.failure import NodeFailureKind, NodeUnusable
from exporter.model import Identity
from exporter.scrape.view import CauseLoss, OpenChain, OperationRates, Process, Workload
from exporter.text import untrusted
from exporter.text.untrusted import Untrusted

SPAN_SECONDS: Final = 30
"""Two or three windows."""

_VERSION: Final = 1
_BYTES_MAX: Final = 4 << 20
_PROCESSES_MAX: Final = 4096
_CHAINS_MAX: Final = 4096
_WAITING_MAX: Final = 256
_CULPRITS_MAX: Final = 64
_CAUSES_MAX: Final = 64
_OPERATIONS_MAX: Final = 1024
_LABELS: Final = ("rank", "container", "namespace", "pod")
_STATE_OPEN: Final = "open"
_NCCL: Final = "nccl"

_Field = Callable[[str], Any]


class NodeView(NamedTuple):
    """is_recording: an exporter writes the history of the node now. The node of all identities is "" here."""

    is_recording: bool
    workloads: tuple[Workload, ...]
    chains: tuple[OpenChain, ...]


class _Operation(NamedTuple):
    """Sums of one process."""

    api: str
    name: str
    calls: int
    errors: int
    timed_seconds: float
    quantiles_seconds: tuple[float, float, float] | None


class _Process(NamedTuple):
    identity: Identity
    process: Process
    recorded_seconds: float
    steps: int
    step_seconds: float | None
    lost_seconds: Mapping[str, float]
    culprits: Sequence[tuple[str, str, float]]
    operations: Sequence[_Operation]


def view_request() -> NodeRequest:
    return NodeRequest(f"/api/v1/explain?{urlencode({'since': f'{SPAN_SECONDS}s'})}")


def decoded(body: bytearray) -> NodeView:
    """Raises Untrusted, and NodeUnusable for an explanation of another version."""
    document = untrusted.mapping(untrusted.json_value(bytes(body), _BYTES_MAX))
    of = partial(untrusted.member, document)
    if (version := untrusted.count(of("version"))) != _VERSION:
        raise NodeUnusable(NodeFailureKind.OTHER_VERSION, f"an explanation of version {version}, not {_VERSION}")
    by_identity: dict[Identity, list[_Process]] = defaultdict(list)
    for one in untrusted.sequence(of("processes"), _PROCESSES_MAX):
        process = _process_of(one)
        by_identity[process.identity].append(process)
    exporter = untrusted.mapping(of("exporter"))
    return NodeView(
        untrusted.switch(untrusted.member(exporter, "is_running")),
        tuple(_workload(identity, processes) for identity, processes in by_identity.items()),
        _open_chains(untrusted.sequence(of("chains"), _CHAINS_MAX)),
    )


# ---- workloads


def _process_of(document: Any) -> _Process:
    of = partial(untrusted.member, untrusted.mapping(document))
    mean = of("step_mean_seconds")
    lost = untrusted.mapping(of("lost_seconds"), _CAUSES_MAX)
    culprits = (partial(untrusted.member, untrusted.mapping(one)) for one in _some(of("culprits"), _CULPRITS_MAX))
    return _Process(
        _identity(of),
        Process(str(untrusted.count(of("pid"))), untrusted.text(of("comm"))),
        _positive(of("recorded_seconds")),
        untrusted.count(of("steps")),
        None if mean is None else _positive(mean),
        {untrusted.text(cause): _positive(one) for cause, one in lost.items()},
        [
            (untrusted.text(one("cause")), untrusted.text(one("name")), _positive(one("lost_seconds")))
            for one in culprits
        ],
        [_operation_of(one) for one in untrusted.sequence(of("operations"), _OPERATIONS_MAX)],
    )


def _operation_of(document: Any) -> _Operation:
    known = untrusted.mapping(document)
    of = partial(untrusted.member, known)
    quantiles = None
    if untrusted.count(of("timed_calls")):
        # An exporter of an older version has no p95.
        p50, p95, p99 = (_quantile(known.get(name)) for name in ("p50_seconds", "p95_seconds", "p99_seconds"))
        quantiles = (p50, p95, p99)
    return _Operation(
        untrusted.text(of("api")),
        untrusted.text(of("operation")),
        untrusted.count(of("calls")),
        untrusted.count(of("errors")),
        _positive(of("timed_seconds")),
        quantiles,
    )


def _quantile(value: Any) -> float:
    """null is a quantile beyond the last edge of the histogram."""
    return math.inf if value is None else _positive(value)


def _workload(identity: Identity, processes: Sequence[_Process]) -> Workload:
    """Several processes of one identity: sums, and of lost time the mean."""
    elapsed = max(one.recorded_seconds for one in processes)
    names = tuple(sorted(one.process for one in processes))
    if not elapsed:
        return Workload(identity, names, None)
    steps = sum(one.steps for one in processes)
    step_sum = sum((one.step_seconds or 0.0) * one.steps for one in processes)
    operations = _operations(processes, elapsed)
    return Workload(
        identity,
        names,
        elapsed,
        steps=steps,
        step_seconds=step_sum / steps if steps else None,
        lost=_lost(processes, elapsed * len(processes)),
        calls_per_second=_calls(processes) / elapsed,
        operations=operations,
    )


def _lost(processes: Sequence[_Process], elapsed: float) -> tuple[CauseLoss, ...]:
    """elapsed: of all processes together. The parts are no more than there was: windows are not cut at the edges of the span."""
    by_cause: dict[str, float] = defaultdict(float)
    culprits: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in processes:
        for cause, lost_seconds in one.lost_seconds.items():
            by_cause[cause] += lost_seconds
        for cause, name, lost_seconds in one.culprits:
            if name and lost_seconds:
                culprits[cause][name] += lost_seconds
    whole = max(elapsed, sum(by_cause.values()))
    return tuple(
        CauseLoss(
            cause, lost_seconds / whole, tuple((name, part / whole) for name, part in largest_first(culprits[cause]))
        )
        for cause, lost_seconds in largest_first(by_cause)
        if lost_seconds
    )


def _calls(processes: Sequence[_Process]) -> int:
    """Calls of the programs. A runtime call makes driver calls, so the larger of the two counts."""
    by_api: Counter[str] = Counter()
    for process in processes:
        for one in process.operations:
            by_api[one.api] += one.calls
    nccl = by_api.pop(_NCCL, 0)
    return max(by_api.values(), default=0) + nccl


def _operations(processes: Sequence[_Process], elapsed: float) -> tuple[OperationRates, ...]:
    """Quantiles are those of one process: the mean of several would be none."""
    by_name: dict[str, list[_Operation]] = defaultdict(list)
    for process in processes:
        for one in process.operations:
            if one.calls:
                by_name[one.name].append(one)
    found = [
        OperationRates(
            name,
            "",
            sum(one.calls for one in parts) / elapsed,
            sum(one.timed_seconds for one in parts) / elapsed,
            parts[0].quantiles_seconds if len(parts) == 1 else None,
            sum(one.errors for one in parts) / elapsed,
        )
        for name, parts in by_name.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.busy_share, -one.calls_per_second, one.name)))


# ---- chains


def _open_chains(documents: Sequence[Any]) -> tuple[OpenChain, ...]:
    """Also those of workloads that wait for another one; of one workload, cause and effect together."""
    found: dict[tuple[Identity, str, str], OpenChain] = {}
    for document in documents:
        waiting = untrusted.sequence(untrusted.member(untrusted.mapping(document), "waiting"), _WAITING_MAX)
        for one in map(_open_chain, (document, *waiting)):
            if one is None:
                continue
            key = one.identity, one.cause, one.effect
            other = found.get(key)
            found[key] = one if other is None else _both(one, other)
    return tuple(found.values())


def _open_chain(document: Any) -> OpenChain | None:
    of = partial(untrusted.member, untrusted.mapping(document))
    if untrusted.word(of("state")) != _STATE_OPEN:
        return None
    now = document.get("now")  # an older node has none
    of_now = of if now is None else partial(untrusted.member, untrusted.mapping(now))
    culprits = (untrusted.mapping(one) for one in _some(of_now("culprits"), _CULPRITS_MAX))
    return OpenChain(
        _identity(of),
        untrusted.text(of("cause")),
        untrusted.text(of("effect")),
        _severity(untrusted.word(of("severity"))),
        tuple(untrusted.text(untrusted.member(one, "name")) for one in culprits),
        (untrusted.text(of("chain_id")),),
        untrusted.number(of_now("lost_ratio")),
        untrusted.number(of("lost_ratio")),
    )


def _both(one: OpenChain, other: OpenChain) -> OpenChain:
    culprits = tuple(dict.fromkeys((*other.culprits, *one.culprits)))
    return other._replace(
        severity=max(one.severity, other.severity),
        culprits=culprits,
        ids=(*other.ids, *one.ids),
        lost_share=max(one.lost_share or 0.0, other.lost_share or 0.0),
        worst_lost_share=max(one.worst_lost_share or 0.0, other.worst_lost_share or 0.0),
    )


def _severity(name: str) -> Severity:
    try:
        return Severity[name.upper()]
    except KeyError:
        raise Untrusted("severity: want none, low, medium, high or critical") from None


# ---- fields


def _identity(of: _Field) -> Identity:
    return Identity("", *(untrusted.text(of(name)) for name in _LABELS))


def _some(value: Any, most: int) -> Sequence[Any]:
    """The first ones, which are the largest."""
    return untrusted.sequence(value)[:most]


def _positive(value: Any) -> float:
    return max(untrusted.number(value), 0.0)
