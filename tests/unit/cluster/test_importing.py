"""Histories become rows of a store, each once."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from exporter.cluster.folder import StoreFolder
from exporter.cluster.importing import ImportedCounts, import_history
from exporter.cluster.store import ClusterStore, StoreLimits
from exporter.errors import NotPossibleHere
from exporter.history.file_guard import claim
from exporter.history.store import Store as HistoryStore
from exporter.history.window_batch import WindowBatch
from tests.support.cluster_rows import NOON, batch, rows_of, window
from tests.support.history import NOON as HISTORY_NOON
from tests.support.history import SECOND, a_membership, a_window
from tests.support.investigated import an_hour


def imported(store: Path, *histories: Path) -> list[ImportedCounts]:
    with closing(StoreFolder(store)) as folder, closing(ClusterStore(folder, StoreLimits(), NOON)) as opened:
        return [import_history(one, folder, opened, NOON) for one in histories]


class TestImport:
    def test_windows_and_chains_are_rows(self, tmp_path: Path) -> None:
        """Twelve windows, three changes of chains, one of which is over; evidence is not pushed, and not imported."""
        assert imported(tmp_path / "store", an_hour(tmp_path)) == [ImportedCounts(16, 0, 0)]

        counted = "select sender, node, rank, count(*), sum(steps) from windows group by all order by rank"
        assert rows_of(tmp_path / "store", counted) == [
            ("import", "gpu7", "3", 6, 3000),
            ("import", "gpu7", "4", 6, 3000),
        ]
        assert rows_of(tmp_path / "store", "select change from chain_events order by change") == [
            ("opened",),
            ("opened",),
            ("resolved",),
        ]
        assert rows_of(tmp_path / "store", "select chain_id, cause from chain_spans") == [("2" * 32, "cpu_contention")]

    def test_history_that_is_imported_again_adds_nothing(self, tmp_path: Path) -> None:
        """Also a copy of it, by the same command or by a later one."""
        history = an_hour(tmp_path)
        copied = tmp_path / "copy.sqlite"
        shutil.copy(history, copied)

        assert imported(tmp_path / "store", history, copied) == [ImportedCounts(16, 0, 0), ImportedCounts(0, 16, 0)]
        assert imported(tmp_path / "store", history) == [ImportedCounts(0, 16, 0)]

    def test_window_that_was_pushed_is_left_out(self, tmp_path: Path) -> None:
        """It has another id, but the same node, number of the process and begin."""
        history = one_window(tmp_path)
        began = HISTORY_NOON
        pushed = window(node="gpu7", pid=7)._replace(began_unix_ns=began, ended_unix_ns=began + 10 * SECOND)
        other_node = pushed._replace(node="gpu8", process=2)
        with (
            closing(StoreFolder(tmp_path / "store")) as folder,
            closing(ClusterStore(folder, StoreLimits(), NOON)) as store,
        ):
            store.add([batch(pushed, other_node)], NOON)

        assert imported(tmp_path / "store", history) == [ImportedCounts(0, 1, 0)]

    def test_job_is_the_largest_communicator_of_the_process(self, tmp_path: Path) -> None:
        imported(tmp_path / "store", one_window(tmp_path))

        assert rows_of(tmp_path / "store", "select job, communicator_hashes from windows") == [("000000000000004d", [])]

    def test_damaged_segment_of_the_store_does_not_prevent_it(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "store").mkdir()
        (tmp_path / "store" / "000001-20270115T12.duckdb").write_bytes(b"damaged" * 1000)
        with (
            closing(StoreFolder(tmp_path / "store")) as folder,
            closing(ClusterStore(folder, StoreLimits(), NOON)) as store,
        ):
            assert import_history(one_window(tmp_path), folder, store, NOON).rows == 1
        assert "rows imported from it again will be stored twice" in caplog.text

    def test_other_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"hello" * 100)

        with pytest.raises(NotPossibleHere, match="x is not a history of this program"):
            imported(tmp_path / "store", tmp_path / "x")


def one_window(folder: Path) -> Path:
    """A history with a window of a process that is in two communicators."""
    path = folder / "one" / "history.sqlite"
    file = claim(path)
    store = HistoryStore(file, 4 << 20, began_unix_ns=HISTORY_NOON, version="1.0", has_chains=True)
    memberships = [a_membership(communicator=78, ranks=2, rank=0), a_membership(communicator=77, ranks=16)]
    made = WindowBatch(HISTORY_NOON, HISTORY_NOON + 10 * SECOND, [a_window(10.0)], (), memberships)
    store.write([], [made], HISTORY_NOON + 10 * SECOND)
    store.close()
    file.release()
    return path
