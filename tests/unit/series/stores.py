"""A SeriesStore, what is put into it, and what it exports."""

from __future__ import annotations

from collections.abc import Mapping

from exporter import catalog
from exporter.model import Family, Histogram, Identity
from exporter.series.store import SeriesStore
from exporter.totals import Call, Counts, HistogramTotal, Series, Totals
from tests.support.records import at, series_of

TTL_SECONDS = 900.0
RANK_0, RANK_1, NO_RANK = Identity(rank="0"), Identity(rank="1"), Identity()
CALLS = Series(catalog.cuda.OPERATIONS, ("runtime", "cudaMalloc"))
DURATION = Series(catalog.cuda.OPERATION_DURATION, ("runtime", "cudaMalloc"))
LIVE = Series(catalog.allocator.LIVE, ())
COMMUNICATOR = Series(catalog.nccl.COMMUNICATOR_INFO, ("0", "abc", "0", "2"))


def histogram(slot: int, count: int, sum_ns: int, exemplar: Call | None = None) -> HistogramTotal:
    """`count` calls in one slot."""
    return HistogramTotal(Counts.of([count], begin=slot), sum_ns, exemplar)


def opened() -> SeriesStore:
    """A store opened at 0 s."""
    return SeriesStore(TTL_SECONDS, at(0.0))


def exported(
    store: SeriesStore, totals: Totals, identities: Mapping[int, Identity], now_seconds: float
) -> tuple[Family, ...]:
    """The exemplar of rank 0, whose processes have these histograms."""
    return store.snapshot(totals, identities, at(now_seconds)).families


def calls_of(families: tuple[Family, ...]) -> dict[str, int]:
    """Rank -> calls of cudaMalloc."""
    found = series_of(families, catalog.cuda.OPERATIONS)
    return {rank: value for (rank, *_), value in found.items() if isinstance(value, int)}


def value_of(families: tuple[Family, ...], series: Series, rank: str = "0") -> int | float | Histogram | None:
    """One series of one rank; None when it is not exported."""
    return series_of(families, series.metric).get((rank, *series.labels))
