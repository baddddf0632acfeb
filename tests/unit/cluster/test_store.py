"""One open segment, sealed ones, and each row once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from exporter.cluster.errors import StoreUnavailable
from exporter.cluster.folder import StoreFolder
from exporter.cluster.records import Stored
from exporter.cluster.store import ClusterStore, StoreLimits
from exporter.errors import NotPossibleHere
from tests.support.cluster_rows import HOUR, NOON, SECOND, batch, chain_event, chain_span, rows_of, store_at, window

FIRST, FIRST_OPEN = "000001-20270115T12.duckdb", "000001-20270115T12.open.duckdb"


def names(path: Path) -> set[str]:
    return {one.name for one in path.iterdir()} - {"lock"}


class TestRows:
    def test_rows_are_there_after_a_restart_and_are_not_stored_again(self, tmp_path: Path) -> None:
        every = batch(window(), events=(chain_event(),), spans=(chain_span(),))
        with store_at(tmp_path) as store:
            assert store.add([every], NOON) == [Stored(3, 0, 0)]
            assert store.add([every], NOON) == [Stored(0, 3, 0)]
        with store_at(tmp_path) as store:
            assert store.add([every], NOON) == [Stored(0, 3, 0)]

        for table in ("windows", "chain_events", "chain_spans"):
            assert rows_of(tmp_path, f"select count(*) from {table}") == [(1,)]  # noqa: S608

    def test_row_of_the_hour_before_is_not_stored_again(self, tmp_path: Path) -> None:
        """The sender got no answer, and tries again in the next hour; also after a restart."""
        with store_at(tmp_path) as store:
            store.add([batch(window())], NOON)
            assert store.add([batch(window(), window(10))], NOON + HOUR) == [Stored(1, 1, 0)]
        with store_at(tmp_path, NOON + HOUR) as store:
            assert store.add([batch(window(), window(10))], NOON + HOUR) == [Stored(0, 2, 0)]

    def test_empty_store_has_no_file(self, tmp_path: Path) -> None:
        with store_at(tmp_path) as store:
            store.add([batch()], NOON)

        assert names(tmp_path) == set()


class TestSegments:
    def test_segment_is_sealed_when_its_hour_is_over(self, tmp_path: Path) -> None:
        with store_at(tmp_path) as store:
            store.add([batch(window())], NOON)
            store.tick(NOON + HOUR - 1)
            assert FIRST_OPEN in names(tmp_path)
            store.tick(NOON + HOUR)
            assert names(tmp_path) == {FIRST}

    def test_clock_that_is_set_back_begins_another_segment(self, tmp_path: Path) -> None:
        """Numbers keep the order in which rows arrived."""
        with store_at(tmp_path) as store:
            store.add([batch(window(0))], NOON)
            store.add([batch(window(10))], NOON - 24 * HOUR)
            store.add([batch(window(20), window(0), window(10))], NOON)

        assert sorted(names(tmp_path) - {"000003-20270115T12.open.duckdb.wal"}) == [
            FIRST,
            "000002-20270114T12.duckdb",
            "000003-20270115T12.open.duckdb",
        ]
        assert rows_of(tmp_path, "select began_unix_ns from windows") == [
            (NOON,),
            (NOON + 10 * SECOND,),
            (NOON + 20 * SECOND,),
        ]

    def test_large_segment_is_sealed_within_its_hour(self, tmp_path: Path) -> None:
        with store_at(tmp_path, limits=StoreLimits(segment_bytes=1)) as store:
            store.add([batch(window(0))], NOON)
            store.add([batch(window(10))], NOON)
            store.tick(NOON)

        assert names(tmp_path) == {FIRST, "000002-20270115T12.duckdb"}

    def test_segments_that_a_killed_program_has_left_are_sealed(self, tmp_path: Path) -> None:
        with store_at(tmp_path) as store:
            store.add([batch(window(0))], NOON)
        (tmp_path / FIRST_OPEN).rename(tmp_path / "000007-20270115T11.open.duckdb")
        with store_at(tmp_path) as store:
            assert names(tmp_path) == {"000007-20270115T11.duckdb"}
            assert store.add([batch(window(0), window(10))], NOON) == [Stored(1, 1, 0)]

        assert "000008-20270115T12.open.duckdb" in names(tmp_path)

    def test_damaged_segment_is_put_aside_and_the_store_goes_on(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / FIRST_OPEN).write_bytes(b"damaged" * 1000)
        with store_at(tmp_path) as store:
            assert store.add([batch(window())], NOON) == [Stored(1, 0, 0)]

        assert f"{FIRST_OPEN}.damaged" in names(tmp_path)
        assert "renamed to 000001-20270115T12.open.duckdb.damaged, its rows are not in the store" in caplog.text

    def test_damaged_sealed_segment_is_left_alone(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / FIRST).write_bytes(b"damaged" * 1000)
        with store_at(tmp_path) as store:
            assert store.add([batch(window())], NOON) == [Stored(1, 0, 0)]

        assert FIRST in names(tmp_path)
        assert "its rows will be stored twice if senders repeat them" in caplog.text

    @pytest.mark.parametrize("is_sealed", [True, False])
    def test_older_program_refuses_a_store_of_a_newer_one(self, tmp_path: Path, is_sealed: bool) -> None:
        with store_at(tmp_path) as store:
            store.add([batch(window())], NOON)
            if is_sealed:
                store.tick(NOON + HOUR)
        (segment,) = tmp_path.glob("*.duckdb")
        segment.chmod(0o600)
        with duckdb.connect(segment) as connection:
            connection.execute("update segment set version = 2")

        with pytest.raises(NotPossibleHere, match="was written by a newer version"), store_at(tmp_path):
            pass
        assert segment.exists()

    def test_open_segment_of_an_older_version_is_sealed(self, tmp_path: Path) -> None:
        """Its tables are never changed."""
        with store_at(tmp_path) as store:
            store.add([batch(window())], NOON)
        with duckdb.connect(tmp_path / FIRST_OPEN) as connection:
            connection.execute("update segment set version = 0")
        with store_at(tmp_path) as store:
            assert names(tmp_path) == {FIRST}
            assert store.add([batch(window(), window(10))], NOON) == [Stored(1, 1, 0)]


class TestCopy:
    def test_copy_has_all_rows_of_the_open_segment(self, tmp_path: Path) -> None:
        """Other processes can open it while the store is written."""
        with store_at(tmp_path / "store") as store:
            assert not store.copy_open_to(tmp_path / "copy")
            store.add([batch(window())], NOON)
            assert store.copy_open_to(tmp_path / "copy")
            store.add([batch(window(10))], NOON)
            with duckdb.connect(tmp_path / "copy", read_only=True) as connection:
                assert connection.execute("select count(*) from windows").fetchall() == [(1,)]


class TestFailures:
    def test_nothing_is_taken_when_the_disk_is_nearly_full(self, tmp_path: Path) -> None:
        """Whether it starts then or fills up later; it goes on when there is room."""
        full = StoreLimits(min_free_bytes=1 << 60)
        with store_at(tmp_path, limits=full) as store, pytest.raises(StoreUnavailable, match=r"the disk of .* is full"):
            store.add([batch(window())], NOON)
        with store_at(tmp_path) as store:
            assert store.add([batch(window())], NOON) == [Stored(1, 0, 0)]

    def test_commit_that_failed_is_neither_lost_nor_stored_twice(self, tmp_path: Path) -> None:
        """The file is opened again, and what is in it decides."""
        folder = StoreFolder(tmp_path)
        with closing(folder), closing(ClusterStore(folder, StoreLimits(), NOON)) as store:
            store.add([batch(window(0))], NOON)
            assert store._open is not None
            store._open[1].close()  # as after an error of DuckDB, which invalidates the connection
            with pytest.raises(StoreUnavailable):
                store.add([batch(window(10))], NOON)
            assert store.add([batch(window(0), window(10))], NOON) == [Stored(1, 1, 0)]

        assert rows_of(tmp_path, "select count(*), count(distinct began_unix_ns) from windows") == [(2, 2)]
