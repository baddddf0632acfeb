"""One file of the store."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from exporter.cluster.errors import DamagedSegment, StoreUnavailable, Unstorable
from exporter.cluster.segment import Segment
from exporter.errors import NotPossibleHere
from tests.support.cluster_rows import NOON, window

ROW = (NOON, "node", *window())


def counted(path: Path) -> int:
    with duckdb.connect(path, read_only=True) as connection:
        return int(connection.execute("select count(*) from windows").fetchall()[0][0])


class TestSegment:
    def test_rows_are_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        with closing(Segment(tmp_path / "a")) as segment:
            segment.add([ROW], [], [])
        with closing(Segment(tmp_path / "a")) as segment:
            assert list(segment.window_ids()) == [("node", "00000000000000aa", 1, [NOON])]

    def test_sealed_segment_opens_where_it_is_copied_to(self, tmp_path: Path) -> None:
        """Without a log, and without permission to write."""
        segment = Segment(tmp_path / "open")
        segment.add([ROW], [], [])
        segment.seal(tmp_path / "sealed")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        shutil.copy(tmp_path / "sealed", elsewhere / "copied")

        assert {one.name for one in tmp_path.iterdir()} == {"sealed", "elsewhere"}
        assert (tmp_path / "sealed").stat().st_mode & 0o777 == 0o440
        assert counted(elsewhere / "copied") == 1
        with closing(Segment(elsewhere / "copied", is_sealed=True)) as copied:
            assert len(list(copied.window_ids())) == 1

    def test_copy_of_an_open_segment_opens_while_it_is_written(self, tmp_path: Path) -> None:
        with closing(Segment(tmp_path / "a")) as segment:
            segment.add([ROW], [], [])
            segment.copy_to(tmp_path / "copy")
            segment.add([(NOON, "node", *window(10))], [], [])
            assert counted(tmp_path / "copy") == 1

    def test_rows_that_a_table_cannot_hold_leave_the_segment_as_it_was(self, tmp_path: Path) -> None:
        with closing(Segment(tmp_path / "a")) as segment:
            with pytest.raises(Unstorable, match=r"cannot store rows: .*"):
                segment.add([ROW, (NOON, "node", *window(steps=2**64))], [], [])
            segment.add([ROW], [], [])
            assert len(list(segment.window_ids())) == 1

    def test_newer_segment_is_refused(self, tmp_path: Path) -> None:
        Segment(tmp_path / "a").close()
        with duckdb.connect(tmp_path / "a") as connection:
            connection.execute("update segment set version = 2")

        with pytest.raises(NotPossibleHere, match="a was written by a newer version of this program"):
            Segment(tmp_path / "a")

    @pytest.mark.parametrize("content", [b"hello" * 1000, b"x"])
    def test_other_file_is_damaged(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "a").write_bytes(content)

        with pytest.raises(DamagedSegment, match=r"cannot open .*a: "):
            Segment(tmp_path / "a")

    def test_other_database_is_damaged(self, tmp_path: Path) -> None:
        duckdb.connect(tmp_path / "a").close()

        with pytest.raises(DamagedSegment, match="a is not a segment of a store"):
            Segment(tmp_path / "a")

    def test_file_that_is_gone_cannot_be_sealed(self, tmp_path: Path) -> None:
        segment = Segment(tmp_path / "a")
        segment.add([ROW], [], [])
        (tmp_path / "a").unlink()

        with pytest.raises(StoreUnavailable, match=r"cannot write .*a"):
            segment.seal(tmp_path / "sealed")
