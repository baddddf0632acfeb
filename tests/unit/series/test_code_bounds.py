"""code_bounds: how many error codes of a workload have series."""

from __future__ import annotations

from exporter import catalog
from exporter.model import Identity
from exporter.series.code_bounds import CODES_MAX, CodeBounds
from exporter.totals import Series

RANK_0, RANK_1 = Identity(rank="0"), Identity(rank="1")


def error(code: str) -> Series:
    return Series(catalog.cuda.OPERATION_ERRORS, ("runtime", "cudaMalloc", code))


def full() -> CodeBounds:
    """Rank 0 has as many codes as it may have: 1, 2, 3 and so on."""
    bounds = CodeBounds()
    for code in range(1, CODES_MAX + 1):
        bounds.series(RANK_0, error(str(code)))
    return bounds


class TestCodes:
    def test_first_codes_keep_their_series(self) -> None:
        assert full().series(RANK_0, error("1")) == error("1")

    def test_further_codes_are_other(self) -> None:
        """And are counted once each."""
        bounds = full()

        assert [bounds.series(RANK_0, error("700")) for _ in range(3)] == [error("other")] * 3
        assert (bounds.take_folded(), bounds.take_folded()) == ({RANK_0: 1}, {})

    def test_other_workloads_have_codes_of_their_own(self) -> None:
        assert full().series(RANK_1, error("700")) == error("700")

    def test_codes_of_nccl_are_counted_apart(self) -> None:
        series = Series(catalog.nccl.OPERATION_ERRORS, ("ncclAllReduce", "5"))

        assert full().series(RANK_0, series) == series

    def test_series_without_a_code_are_not_bounded(self) -> None:
        series = Series(catalog.cuda.OPERATIONS, ("runtime", "cudaMalloc"))

        assert full().series(RANK_0, series) == series

    def test_codes_are_free_when_the_series_have_ended(self) -> None:
        bounds = full()
        bounds.forget(RANK_0)

        assert bounds.series(RANK_0, error("700")) == error("700")
