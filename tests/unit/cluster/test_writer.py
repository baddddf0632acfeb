"""The thread that writes to the store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from exporter.catalog import CLUSTER_METRICS
from exporter.catalog import cluster as catalog
from exporter.clock import Clock
from exporter.cluster.errors import QueueFull, StoreUnavailable, Unstorable
from exporter.cluster.folder import StoreFolder
from exporter.cluster.records import Batch, Stored
from exporter.cluster.retention import Retention, RetentionLimits
from exporter.cluster.store import ClusterStore, StoreLimits
from exporter.cluster.writer import QUEUED_ROWS_MAX, StoreWriter
from exporter.own_metrics.store import OwnMetrics
from tests.support.cluster_rows import HOUR, NOON, batch, rows_of, window
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

KEEP_ALL = RetentionLimits(10**6 * HOUR, 1 << 40)


class HeldStore(ClusterStore):
    """Each commit waits until it may go on, and may fail."""

    def __init__(self, folder: StoreFolder) -> None:
        super().__init__(folder, StoreLimits(), NOON)
        self.may_write = threading.Event()
        self.is_writing = threading.Event()
        self.failure: Exception | None = None
        self.groups: list[int] = []

    def add(self, batches: Sequence[Batch], now_unix_ns: int) -> list[Stored]:
        self.is_writing.set()
        assert self.may_write.wait(PATIENCE_SECONDS)
        self.groups.append(len(batches))
        if self.failure is not None:
            raise self.failure
        return super().add(batches, now_unix_ns)


class Scene:
    def __init__(self, store: HeldStore, writer: StoreWriter, own: OwnMetrics) -> None:
        self.store = store
        self.writer = writer
        self._own = own

    def value(self, metric: object) -> float | None:
        return next((one.points[0].value for one in self._own.families() if one.metric is metric), None)  # type: ignore[return-value]


@contextmanager
def scene(path: Path) -> Iterator[Scene]:
    own, clock = OwnMetrics(CLUSTER_METRICS), Clock()
    folder = StoreFolder(path)
    store = HeldStore(folder)
    writer = StoreWriter(
        store, Retention(folder, KEEP_ALL, clock.now()), own, clock, gather_seconds=0.0, tick_seconds=3600.0
    )
    writer.start()
    try:
        yield Scene(store, writer, own)
    finally:
        store.may_write.set()
        writer.stop()
        folder.close()


def result(future: Future[Stored]) -> Stored:
    return future.result(PATIENCE_SECONDS)


class TestWriter:
    def test_batch_is_acknowledged_after_it_is_on_the_disk(self, tmp_path: Path) -> None:
        with scene(tmp_path) as found:
            future = found.writer.submit(batch(window()))
            found.store.is_writing.wait(PATIENCE_SECONDS)
            assert not future.done()

            found.store.may_write.set()
            assert result(future) == Stored(1, 0, 0)
        assert found.value(catalog.STORED_ROWS) == 1

    def test_batches_that_arrive_during_a_commit_share_the_next_one(self, tmp_path: Path) -> None:
        with scene(tmp_path) as found:
            first = found.writer.submit(batch(window(0)))
            found.store.is_writing.wait(PATIENCE_SECONDS)
            more = [found.writer.submit(batch(window(10 * number))) for number in range(1, 4)]
            found.store.may_write.set()

            assert [result(one) for one in (first, *more)] == [Stored(1, 0, 0)] * 4
            assert found.store.groups == [1, 3]

    def test_queue_is_bounded(self, tmp_path: Path) -> None:
        """What does not fit is refused at once; the sender tries again."""
        with scene(tmp_path) as found:
            found.writer.submit(batch(*(window(number) for number in range(QUEUED_ROWS_MAX))))
            found.store.is_writing.wait(PATIENCE_SECONDS)
            with pytest.raises(QueueFull, match=f"{QUEUED_ROWS_MAX} rows wait to be written"):
                found.writer.submit(batch(window(-10)))

    def test_batch_larger_than_the_queue_is_taken_by_an_empty_one(self, tmp_path: Path) -> None:
        with scene(tmp_path) as found:
            found.store.may_write.set()
            future = found.writer.submit(batch(*(window(number) for number in range(QUEUED_ROWS_MAX + 1))))

            assert result(future) == Stored(QUEUED_ROWS_MAX + 1, 0, 0)

    def test_failure_is_every_senders_and_ends_with_a_commit(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with scene(tmp_path) as found:
            found.store.may_write.set()
            found.store.failure = StoreUnavailable("the disk is full")
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                result(found.writer.submit(batch(window())))
            assert found.writer.failure == "the disk is full"
            assert found.value(catalog.COMMIT_FAILURES) == 1

            found.store.failure = None
            found.writer._not_before = 0.0
            assert result(found.writer.submit(batch(window()))) == Stored(1, 0, 0)
            assert found.writer.failure == ""
        assert caplog.text.count("store writes paused: the disk is full") == 1
        assert "store writes resumed" in caplog.text

    def test_after_a_failure_batches_are_refused_at_once(self, tmp_path: Path) -> None:
        with scene(tmp_path) as found:
            found.store.may_write.set()
            found.store.failure = StoreUnavailable("the disk is full")
            with pytest.raises(StoreUnavailable):
                result(found.writer.submit(batch(window())))
            found.writer._not_before = float("inf")
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                found.writer.submit(batch(window()))

    def test_failure_ends_without_a_batch(self, tmp_path: Path) -> None:
        """A balancer sends none to a store that is not ready."""
        with scene(tmp_path) as found:
            found.store.may_write.set()
            found.store.failure = StoreUnavailable("the disk is full")
            with pytest.raises(StoreUnavailable):
                result(found.writer.submit(batch(window())))
            found.writer._tick_at = 0.0
            found.writer.copy_open_segment(tmp_path / "copy").result(PATIENCE_SECONDS)

            eventually(lambda: found.writer.failure == "", "it is ready")

    def test_batch_that_cannot_be_stored_costs_only_itself(self, tmp_path: Path) -> None:
        """It is a defect, so that its sender must not try again."""
        with scene(tmp_path) as found:
            futures = [found.writer.submit(batch(window(0)))]
            found.store.is_writing.wait(PATIENCE_SECONDS)
            futures.append(found.writer.submit(batch(window(10), window(20))))
            futures.append(found.writer.submit(batch(window(30, steps=2**70), window(40))))
            found.store.may_write.set()

            assert result(futures[0]) == Stored(1, 0, 0)
            assert result(futures[1]) == Stored(2, 0, 0)
            with pytest.raises(Unstorable):
                result(futures[2])
        assert rows_of(tmp_path, "select count(*) from windows") == [(3,)]

    def test_defect_does_not_end_the_thread(self, tmp_path: Path) -> None:
        with scene(tmp_path) as found:
            found.store.may_write.set()
            found.store.failure = ZeroDivisionError()
            with pytest.raises(StoreUnavailable, match="internal error"):
                result(found.writer.submit(batch(window())))
            found.store.failure = None
            found.writer._not_before = 0.0

            assert result(found.writer.submit(batch(window()))) == Stored(1, 0, 0)

    def test_copy_has_all_that_was_acknowledged(self, tmp_path: Path) -> None:
        with scene(tmp_path / "store") as found:
            found.store.may_write.set()
            result(found.writer.submit(batch(window())))

            assert found.writer.copy_open_segment(tmp_path / "copy").result(PATIENCE_SECONDS)
            with duckdb.connect(tmp_path / "copy", read_only=True) as connection:
                assert connection.execute("select count(*) from windows").fetchall() == [(1,)]

    def test_copy_that_fails_is_the_askers_failure(self, tmp_path: Path) -> None:
        with scene(tmp_path / "store") as found:
            found.store.may_write.set()
            result(found.writer.submit(batch(window(0))))
            with pytest.raises(StoreUnavailable):
                found.writer.copy_open_segment(tmp_path / "none" / "copy").result(PATIENCE_SECONDS)

            assert result(found.writer.submit(batch(window(10)))) == Stored(1, 0, 0)

    def test_what_is_queued_is_written_before_it_stops(self, tmp_path: Path) -> None:
        with scene(tmp_path) as found:
            futures = [found.writer.submit(batch(window(10 * number))) for number in range(5)]
            found.store.may_write.set()
            found.writer.stop()

            assert [result(one) for one in futures] == [Stored(1, 0, 0)] * 5
            with pytest.raises(StoreUnavailable, match="the store stops"):
                found.writer.submit(batch(window(90)))

    def test_empty_batch_is_acknowledged_at_once(self, tmp_path: Path) -> None:
        with scene(tmp_path) as found:
            assert found.writer.submit(batch()).result(0) == Stored(0, 0, 0)


WRITES_UNTIL_KILLED = """
import sys
from pathlib import Path
from exporter.catalog import CLUSTER_METRICS
from exporter.clock import Clock
from exporter.cluster.folder import StoreFolder
from exporter.cluster.retention import Retention, RetentionLimits
from exporter.cluster.store import ClusterStore, StoreLimits
from exporter.cluster.writer import StoreWriter
from exporter.own_metrics.store import OwnMetrics
from tests.support.cluster_rows import batch, window

folder, clock = StoreFolder(Path(sys.argv[1])), Clock()
store = ClusterStore(folder, StoreLimits(), clock.now().unix_ns)
retention = Retention(folder, RetentionLimits(1 << 62, 1 << 40), clock.now())
writer = StoreWriter(store, retention, OwnMetrics(CLUSTER_METRICS), clock, gather_seconds=0.001)
writer.start()
for number in range(10**9):
    writer.submit(batch(window(number), window(number, process=2))).result()
    print(number, flush=True)
"""


class TestKilled:
    def test_every_acknowledged_row_is_there_once(self, tmp_path: Path) -> None:
        """SIGKILL at any moment of a commit, three times; each program sends again all that the last one sent."""
        acknowledged = 0
        for _ in range(3):
            process = subprocess.Popen(
                [sys.executable, "-c", WRITES_UNTIL_KILLED, str(tmp_path)],
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[3],
            )
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) >= acknowledged + 15:
                    break
            os.kill(process.pid, signal.SIGKILL)
            acknowledged = max([acknowledged, int(line), *map(int, process.stdout.read().split())])
            process.wait()
            process.stdout.close()

        with scene(tmp_path) as found:
            found.store.may_write.set()
        found_rows = rows_of(tmp_path, "select process, began_unix_ns from windows")
        begins = [NOON + number * 10**9 for number in range(acknowledged + 1)]
        assert len(set(found_rows)) == len(found_rows)
        assert set(found_rows) >= {(process, began) for process in (1, 2) for began in begins}
        assert len(found_rows) <= 2 * (acknowledged + 2)
