"""Names of segments."""

from __future__ import annotations

import pytest

from exporter.cluster.segment_name import SegmentName, hour_of
from tests.support.cluster_rows import HOUR, NOON


class TestSegmentName:
    def test_name_has_number_and_hour(self) -> None:
        """2027-01-15 12:00 UTC is 500,004 hours after 1970."""
        assert hour_of(NOON + HOUR - 1) == 500_004
        assert str(SegmentName(12, 500_004, is_open=False)) == "000012-20270115T12.duckdb"
        assert str(SegmentName(12, 500_004, is_open=True)) == "000012-20270115T12.open.duckdb"

    def test_parsed_name_is_the_one_that_was_written(self) -> None:
        name = SegmentName(1_234_567, 500_004, is_open=True)

        assert SegmentName.parsed(str(name)) == name
        assert str(name.sealed()) == "1234567-20270115T12.duckdb"

    @pytest.mark.parametrize(
        "text",
        ["lock", "000012-20270115T12.duckdb.wal", "000012-20271315T12.duckdb", "12-20270115T12.duckdb", "x.duckdb"],
    )
    def test_other_files_are_no_segments(self, text: str) -> None:
        assert SegmentName.parsed(text) is None

    def test_order_is_that_of_the_numbers(self) -> None:
        """The clock was set back between the two."""
        assert SegmentName(1, 500_004, is_open=False) < SegmentName(2, 400_000, is_open=False)
