"""The folder of a store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from exporter.cluster.folder import StoreFolder
from exporter.cluster.segment_name import SegmentName
from exporter.errors import NotPossibleHere


class TestStoreFolder:
    def test_second_writer_is_refused_with_one_line(self, tmp_path: Path) -> None:
        with closing(StoreFolder(tmp_path)), pytest.raises(NotPossibleHere) as refused:
            StoreFolder(tmp_path)

        assert refused.value.one_line() == (
            f"cannot use the store at {tmp_path}: another process writes to it;"
            " stop `gpu-stall-exporter cluster`, or set another --store.path"
        )

    def test_lock_ends_with_the_writer(self, tmp_path: Path) -> None:
        StoreFolder(tmp_path).close()
        StoreFolder(tmp_path).close()

    def test_folder_is_made_for_its_user_and_group(self, tmp_path: Path) -> None:
        with closing(StoreFolder(tmp_path / "a" / "store")):
            assert (tmp_path / "a" / "store").stat().st_mode & 0o777 == 0o750

    def test_path_that_is_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(NotPossibleHere, match=r"cannot use the store at .*file: File exists"):
            StoreFolder(tmp_path / "file")

    def test_lock_that_is_a_link_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(NotPossibleHere):
            StoreFolder(tmp_path)
        assert not (tmp_path / "elsewhere").exists()

    def test_segments_are_listed_in_their_order(self, tmp_path: Path) -> None:
        for name in ("000010-20270115T12.open.duckdb", "000009-20270115T13.duckdb", "notes.txt"):
            (tmp_path / name).touch()

        with closing(StoreFolder(tmp_path)) as folder:
            assert folder.segments() == [SegmentName(9, 500_005, is_open=False), SegmentName(10, 500_004, is_open=True)]

    def test_damaged_segment_is_put_aside_with_its_log(self, tmp_path: Path) -> None:
        for name in ("000010-20270115T12.open.duckdb", "000010-20270115T12.open.duckdb.wal"):
            (tmp_path / name).touch()

        with closing(StoreFolder(tmp_path)) as folder:
            folder.put_aside(SegmentName(10, 500_004, is_open=True))
            assert folder.segments() == []
        assert {one.name for one in tmp_path.glob("0*")} == {
            "000010-20270115T12.open.duckdb.damaged",
            "000010-20270115T12.open.duckdb.damaged.wal",
        }
