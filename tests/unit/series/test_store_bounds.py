"""store: what programs choose is bounded: error codes, and identities that others need."""

from __future__ import annotations

from collections.abc import Mapping

from exporter import catalog
from exporter.series.store import SeriesStore
from exporter.totals import Series, Total
from tests.support.records import at, series_of
from tests.unit.series.stores import (
    CALLS,
    NO_RANK,
    RANK_0,
    calls_of,
    exported,
    opened,
)


class TestBounds:
    """What programs choose: codes, and identities that others need."""

    ERRORS = tuple(
        Series(catalog.cuda.OPERATION_ERRORS, ("runtime", "cudaMalloc", str(code))) for code in range(1, 100)
    )

    def test_errors_beyond_the_limit_of_codes_are_added_up(self) -> None:
        """99 codes of 7 errors each: 32 have series, and `other` has the rest. It stays so when the process has ended."""
        store = opened()
        totals: dict[Series, Total] = dict.fromkeys(self.ERRORS, 7)
        for families in (
            exported(store, {1: totals}, {1: RANK_0}, 1.0),
            exported(_after_retiring(store, totals), {}, {}, 2.0),
        ):
            found = series_of(families, catalog.cuda.OPERATION_ERRORS)

            assert len(found) == 33
            assert found["0", "runtime", "cudaMalloc", "other"] == 67 * 7
        assert store.take_folded() == {RANK_0: 67}

    def test_series_of_an_evicted_workload_end(self) -> None:
        """The process goes on under another identity, from there."""
        store = opened()
        exported(store, {1: {CALLS: 5}}, {1: RANK_0}, 1.0)
        store.rename(1, RANK_0, {CALLS: 5})
        store.end(RANK_0, at(2.0))

        assert calls_of(exported(store, {1: {CALLS: 8}}, {1: NO_RANK}, 3.0)) == {"": 3}

    def test_totals_of_a_brief_workload_go_to_another(self) -> None:
        """Nothing is lost, and the sum of both does not change."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 5})
        store.retire(2, NO_RANK, {CALLS: 7})
        store.fold(RANK_0, NO_RANK, at(1.0))

        assert calls_of(exported(store, {}, {}, 2.0)) == {"": 12}


def _after_retiring(store: SeriesStore, totals: Mapping[Series, Total]) -> SeriesStore:
    store.retire(1, RANK_0, totals)
    return store
