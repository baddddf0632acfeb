"""history.store: a real SQLite file of bounded size."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.history import reader
from exporter.history.file_guard import Unusable, claim
from exporter.history.store import MIN_BYTES, SCHEMA_VERSION, CorruptError, Cut, Store, packed, unpacked
from exporter.totals import Counts, HistogramTotal
from tests.support.history import NOON, SECOND, a_report, a_window, resolved

MAX_BYTES = 2 * MIN_BYTES


@contextmanager
def opened(path: Path, max_bytes: int = MAX_BYTES) -> Iterator[Store]:
    """A store that is closed as if the exporter had been killed."""
    place = claim(path)
    try:
        store = Store(place, max_bytes, began_unix_ns=NOON, version="1.0", has_chains=True)
        try:
            yield store
        finally:
            store.close()
    finally:
        place.release()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a file that is not there yet."""
    return tmp_path / "history" / "history.sqlite"


def a_cut(ended_seconds: float = 10.0, *, processes: int = 1, seed: int | None = None) -> Cut:
    """Windows of ten seconds. seed: with numbers that cannot be compressed away."""
    window = a_window(ended_seconds)
    rng = random.Random(seed)
    windows = []
    for number in range(processes):
        noise = HistogramTotal(Counts.of([rng.getrandbits(30) + 1 for _ in range(60)], 100), rng.getrandbits(60))
        windows.append(a_window(ended_seconds, process=number, steps=noise if seed is not None else window.steps))
    return Cut(window.began_unix_ns, window.ended_unix_ns, windows)


class TestWriting:
    """What was written is read."""

    def test_reports_and_windows_come_back(self, path: Path) -> None:
        """With the run that wrote them."""
        with opened(path) as store:
            store.write([a_report()], [a_cut(processes=2)], NOON + 11 * SECOND)
        with reader.opened(path) as history:
            (run,) = history.runs()
            (told,) = history.told(NOON)
            (seen,) = history.seen(NOON)

        assert (run.began_unix_ns, run.seen_unix_ns, run.ended_unix_ns) == (NOON, NOON + 11 * SECOND, None)
        assert (run.has_chains, run.cut_seconds) == (True, 10.0)
        assert (told.run, told.report) == (run.id, a_report())
        assert (seen.run, list(seen.windows)) == (run.id, [a_window(process=0), a_window(process=1)])

    def test_next_run_goes_on_in_the_same_file(self, path: Path) -> None:
        """As a run of its own."""
        for ended_seconds in (10.0, 30.0):
            with opened(path) as store:
                store.write([], [a_cut(ended_seconds)], NOON)
        with reader.opened(path) as history:
            assert [seen.run for seen in history.seen(0)] == [1, 2]

    def test_run_that_ended_says_so(self, path: Path) -> None:
        """Unlike one that was killed."""
        place = claim(path)
        store = Store(place, MAX_BYTES, began_unix_ns=NOON, version="1.0", has_chains=False)
        store.close(NOON + SECOND)
        place.release()
        with reader.opened(path) as history:
            (run,) = history.runs()

        assert (run.ended_unix_ns, run.has_chains) == (NOON + SECOND, False)

    def test_windows_are_packed_and_unpacked(self) -> None:
        """All windows of a cut together."""
        assert unpacked(packed([a_window()]), NOON, NOON + 10 * SECOND) == [a_window()]

    def test_window_of_a_process_is_small(self) -> None:
        """Eight ranks, a day, with histograms: well within the default of 64 MiB."""
        day = 24 * 3600 / 10

        assert len(packed(a_cut(processes=8).windows)) * day < 8 << 20

    def test_removed_file_is_noticed(self, path: Path) -> None:
        """What is written into it then is lost."""
        with opened(path) as store:
            assert store.is_in_place()
            path.unlink()
            assert not store.is_in_place()


class TestPruning:
    """Oldest first."""

    def test_what_is_too_old_goes(self, path: Path) -> None:
        """And nothing else."""
        with opened(path) as store:
            early, late = a_report(0.0), a_report(100.0, chain_id="2" * 32)
            store.write([resolved(early, 5), late], [a_cut(10.0), a_cut(200.0)], NOON)
            store.prune(NOON + 50 * SECOND, [])
        with reader.opened(path) as history:
            assert [seen.ended_unix_ns for seen in history.seen(0)] == [NOON + 200 * SECOND]
            assert [told.report for told in history.told(0)] == [late]

    def test_chain_that_is_open_stays(self, path: Path) -> None:
        """However long ago it was opened."""
        with opened(path) as store:
            store.write([a_report()], [], NOON)
            store.prune(NOON + 10**6 * SECOND, [a_report().chain_id])
        with reader.opened(path) as history:
            assert [told.report for told in history.told(NOON + 10**6 * SECOND)] == [a_report()]

    def test_files_never_take_more_than_they_may(self, path: Path) -> None:
        """All of them together, the log included; the latest is there, the oldest is gone."""
        with opened(path, MIN_BYTES) as store:
            largest = 0
            for number in range(1, 150):
                store.write([], [a_cut(10.0 * number, processes=40, seed=number)], NOON)
                store.prune(0, [])
                largest = max(largest, store.size_bytes())
        with reader.opened(path) as history:
            kept = [(seen.ended_unix_ns - NOON) // (10 * SECOND) for seen in history.seen(0)]

        assert MIN_BYTES / 2 < largest <= MIN_BYTES
        assert kept == list(range(kept[0], 150))
        assert 10 < kept[0] < 140

    def test_file_shrinks_to_a_smaller_limit(self, path: Path) -> None:
        """At the first pruning."""
        with opened(path, 8 * MIN_BYTES) as store:
            for number in range(1, 220):
                store.write([], [a_cut(10.0 * number, processes=40, seed=number)], NOON)
        before = path.stat().st_size
        with opened(path, MIN_BYTES) as store:
            store.prune(0, [])
            after = store.size_bytes()

        assert before > MIN_BYTES >= after

    def test_reader_that_does_not_end_does_not_make_the_log_grow_for_ever(self, path: Path) -> None:
        """It is noticed, and over when the reader goes."""
        with opened(path, MIN_BYTES) as store:
            store.write([], [a_cut()], NOON)
            with reader.opened(path) as history:
                for number in range(1, 150):
                    if store.is_log_full():
                        break
                    store.write([], [a_cut(10.0 * number, processes=40, seed=number)], NOON)
                store.checkpoint()
                assert store.is_log_full()
                assert len(list(history.seen(0))) == 1
            store.checkpoint()
            assert not store.is_log_full()


class TestOtherFiles:
    """At the path."""

    @pytest.mark.parametrize("content", [b"no database at all", b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 9000])
    def test_garbage_is_corrupt(self, path: Path, content: bytes) -> None:
        """Whatever it begins with."""
        path.parent.mkdir(0o750)
        path.write_bytes(content)
        with pytest.raises(CorruptError), opened(path):
            pass

    def test_damage_inside_is_found_at_the_start(self, path: Path) -> None:
        """Pages overwritten in the middle."""
        with opened(path, 8 * MIN_BYTES) as store:
            for number in range(1, 40):
                store.write([], [a_cut(10.0 * number, processes=40, seed=number)], NOON)
        with path.open("r+b") as file:
            file.seek(4096 * 3)
            file.write(b"\xa5" * 4096 * 4)
        with pytest.raises(CorruptError), opened(path):
            pass

    def test_empty_file_is_begun(self, path: Path) -> None:
        """As one that is not there."""
        path.parent.mkdir(0o750)
        path.touch()
        with opened(path) as store:
            store.write([a_report()], [], NOON)
        with reader.opened(path) as history:
            assert len(history.told(0)) == 1

    def test_newer_version_is_left_alone(self, path: Path) -> None:
        """Byte for byte."""
        with opened(path):
            pass
        with sqlite3.connect(path) as connection:
            connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(Unusable, match="newer version"), opened(path):
            pass

        assert path.read_bytes() == before

    def test_database_of_another_program_is_left_alone(self, path: Path) -> None:
        """Byte for byte."""
        path.parent.mkdir(0o750)
        with sqlite3.connect(path) as connection:
            connection.execute("create table bookmarks (url text)")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(Unusable, match="another program"), opened(path):
            pass

        assert path.read_bytes() == before

    def test_tables_that_are_not_ours_are_corrupt(self, path: Path) -> None:
        """Somebody has changed the file."""
        with opened(path):
            pass
        with sqlite3.connect(path) as connection:
            connection.execute("drop table reports")
        connection.close()
        with opened(path) as store, pytest.raises(CorruptError):
            store.write([a_report()], [], NOON)
