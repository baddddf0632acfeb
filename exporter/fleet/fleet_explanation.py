"""The answer to `explain --nodes`: verdicts about jobs, nodes that failed, and what single nodes report.

In: answers and failures of the nodes. Out: a FleetExplanation, for text and JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from exporter.errors import BadInput
from exporter.fleet.asking import NodeAnswer, known_clocks
from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.failure import NodeFailure
from exporter.fleet.job_verdict import JobKind, JobVerdict, verdicts
from exporter.fleet.rank_report import NodeReport
from exporter.rules.cost import DEFAULT, Rate

_SECONDS_OF_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class FleetExplanation:
    """jobs: the worst first. reports: by node, in the order of the nodes. usd_per_hour: of a GPU; None: not known.

    clocks: how far that of a node is off, by node; those that are not known are missing.
    """

    since_seconds: float
    jobs: tuple[JobVerdict, ...]
    failures: tuple[NodeFailure, ...]
    reports: Mapping[str, NodeReport]
    usd_per_hour: float | None = None
    clocks: Mapping[str, ClockOffset] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether all nodes have answered."""
        return not self.failures

    def without_answers(self) -> FleetExplanation:
        """The failures alone."""
        return replace(self, jobs=(), reports={}, clocks={})

    def usd(self, gpu_seconds: float) -> float | None:
        return None if self.usd_per_hour is None else gpu_seconds / _SECONDS_OF_HOUR * self.usd_per_hour

    @property
    def wrong(self) -> tuple[JobVerdict, ...]:
        """Jobs with something to say about them."""
        return tuple(one for one in self.jobs if one.kind is not JobKind.FINE or one.conflicts)


def explained_fleet(
    answers: Sequence[NodeAnswer[NodeReport] | NodeFailure], since_seconds: float, usd_per_hour: float | None = None
) -> FleetExplanation:
    """since_seconds: length of the span."""
    failures: list[NodeFailure] = []
    reports: dict[str, NodeReport] = {}
    for one in answers:
        if isinstance(one, NodeFailure):
            failures.append(one)
        else:
            reports[one.node.name] = one.document
    return FleetExplanation(
        since_seconds,
        tuple(verdicts(reports, since_seconds)),
        tuple(failures),
        reports,
        usd_per_hour,
        known_clocks(answers),
    )


def price_of(rates: Iterable[Rate]) -> float:
    """USD per hour of any GPU: a history does not say which model a node has. Raises BadInput where there are several prices."""
    prices = {rate.model: rate.usd_per_hour for rate in rates}
    if DEFAULT in prices:
        return prices[DEFAULT]
    if len(prices) == 1:
        return next(iter(prices.values()))
    raise BadInput(
        "--rates: several models have prices, and a history does not say which one a node has",
        remedy=f"add {DEFAULT} = PRICE to the file",
    )
