"""Which segments are removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.clock import Moment
from exporter.cluster.folder import StoreFolder
from exporter.cluster.retention import Retention, RetentionLimits
from tests.support.cluster_rows import HOUR, NOON

START = Moment(1000 * HOUR, NOON)
MIB = 1 << 20


def after(hours: float, jump_hours: float = 0) -> Moment:
    passed = int(hours * HOUR)
    return Moment(START.monotonic_ns + passed, START.unix_ns + passed + int(jump_hours * HOUR))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StoreFolder]:
    """Sealed segments of 9, 10 and 11 o'clock, of a MiB each, and an open one."""
    for number, hour in enumerate((9, 10, 11), 1):
        (tmp_path / f"00000{number}-20270115T{hour:02d}.duckdb").write_bytes(bytes(MIB))
    (tmp_path / "000004-20270115T12.open.duckdb").touch()
    found = StoreFolder(tmp_path)
    yield found
    found.close()


def numbers(folder: StoreFolder) -> list[int]:
    return [one.number for one in folder.segments()]


class TestRetention:
    def test_segment_is_removed_when_its_last_row_is_too_old(self, folder: StoreFolder) -> None:
        """The one of 9 o'clock ended at 10."""
        retention = Retention(folder, RetentionLimits(2 * HOUR, 100 * MIB), START)

        assert retention.apply(after(-0.001), 0) == []
        assert retention.apply(after(0), 0) == ["age"]
        assert numbers(folder) == [2, 3, 4]

    def test_oldest_are_removed_until_the_store_is_small_enough(self, folder: StoreFolder) -> None:
        """The open one counts, and stays."""
        retention = Retention(folder, RetentionLimits(1000 * HOUR, 2 * MIB), START)

        assert retention.apply(after(0), MIB) == ["size", "size"]
        assert numbers(folder) == [3, 4]
        assert retention.apply(after(0), 100 * MIB) == ["size"]
        assert numbers(folder) == [4]

    def test_nothing_is_removed_for_its_age_while_the_clock_is_wrong(
        self, folder: StoreFolder, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It jumps a year ahead, and is set right half an hour later."""
        retention = Retention(folder, RetentionLimits(24 * HOUR, 100 * MIB), START)

        assert retention.apply(after(1, jump_hours=8760), 0) == []
        assert retention.apply(after(1.5), 0) == []
        assert "the clock was set by 31536000 s" in caplog.text
        assert numbers(folder) == [1, 2, 3, 4]

    def test_clock_that_stays_is_believed_after_an_hour(self, folder: StoreFolder) -> None:
        retention = Retention(folder, RetentionLimits(24 * HOUR, 100 * MIB), START)
        retention.apply(after(1, jump_hours=8760), 0)

        assert retention.apply(after(2.1, jump_hours=8760), 0) == ["age", "age", "age"]

    def test_sealed_segments_are_counted(self, folder: StoreFolder) -> None:
        assert Retention(folder, RetentionLimits(HOUR, MIB), START).sealed() == (3, 3 * MIB)
