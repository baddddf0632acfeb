"""history.store: a real SQLite file of bounded size."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from exporter.chains.chain import Change, Present
from exporter.chains.event import ChainEvent
from exporter.errors import NotPossibleHere
from exporter.history import reader
from exporter.history.collective_mark import CollectiveMark
from exporter.history.file_guard import Unusable, claim
from exporter.history.membership import RecordedMembership
from exporter.history.packing import packed, unpacked
from exporter.history.run import RecordedEvent
from exporter.history.scope import Scope
from exporter.history.store import MIN_BYTES, SCHEMA_VERSION, CorruptError, Store
from exporter.history.window_batch import WindowBatch
from exporter.python.call_site import CallSite
from exporter.totals import Counts, HistogramTotal
from tests.support.history import NOON, SECOND, a_call_site, a_membership, a_window, an_event, resolved

MAX_BYTES = 2 * MIN_BYTES


@contextmanager
def opened(path: Path, max_bytes: int = MAX_BYTES) -> Iterator[Store]:
    """A store that is closed as if the exporter was killed."""
    file = claim(path)
    try:
        store = Store(file, max_bytes, began_unix_ns=NOON, version="1.0", has_chains=True)
        try:
            yield store
        finally:
            store.close()
    finally:
        file.release()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that does not exist yet."""
    return tmp_path / "history" / "history.sqlite"


def a_batch(ended_seconds: float = 10.0, *, processes: int = 1, seed: int | None = None) -> WindowBatch:
    """Windows of ten seconds. seed: for numbers that compress badly."""
    window = a_window(ended_seconds)
    rng = random.Random(seed)
    windows = []
    for number in range(processes):
        noise = HistogramTotal(Counts.of([rng.getrandbits(30) + 1 for _ in range(60)], 100), rng.getrandbits(60))
        windows.append(a_window(ended_seconds, process=number, steps=noise if seed is not None else window.steps))
    return WindowBatch(window.began_unix_ns, window.ended_unix_ns, windows)


def an_update(chain: str, lost_share: float) -> ChainEvent:
    """chain: the character that its id is made of."""
    return an_event(change=Change.UPDATED, chain_id=chain * 32, lost_share=lost_share)


def with_sites(ended_seconds: float, *sites: CallSite) -> WindowBatch:
    """One process with slow calls."""
    window = a_window(ended_seconds, call_sites=sites)
    return WindowBatch(window.began_unix_ns, window.ended_unix_ns, [window])


class TestWriting:
    def test_events_and_windows_are_read_with_their_run(self, path: Path) -> None:
        with opened(path) as store:
            store.write([an_event()], [a_batch(processes=2)], NOON + 11 * SECOND)
        with reader.opened(path) as history:
            (run,) = history.runs()
            (recorded,) = history.events(NOON)
            (windows,) = history.windows(NOON)

        assert (run.began_unix_ns, run.seen_unix_ns, run.ended_unix_ns) == (NOON, NOON + 11 * SECOND, None)
        assert (run.has_chains, run.window_seconds) == (True, 10.0)
        assert recorded == RecordedEvent(run.id, an_event())
        assert (windows.run, list(windows.windows)) == (run.id, [a_window(process=0), a_window(process=1)])

    def test_next_run_writes_to_the_same_file(self, path: Path) -> None:
        for ended_seconds in (10.0, 30.0):
            with opened(path) as store:
                store.write([], [a_batch(ended_seconds)], NOON)
        with reader.opened(path) as history:
            assert [one.run for one in history.windows(0)] == [1, 2]

    def test_run_that_was_stopped_has_an_end(self, path: Path) -> None:
        """Unlike one that was killed."""
        file = claim(path)
        store = Store(file, MAX_BYTES, began_unix_ns=NOON, version="1.0", has_chains=False)
        store.close(NOON + SECOND)
        file.release()
        with reader.opened(path) as history:
            (run,) = history.runs()

        assert (run.ended_unix_ns, run.has_chains) == (NOON + SECOND, False)

    def test_windows_are_packed_and_unpacked(self) -> None:
        """All windows of a batch together."""
        assert unpacked(packed([a_window()]), NOON, NOON + 10 * SECOND) == [a_window()]

    def test_window_of_a_process_is_small(self) -> None:
        """Eight ranks, a day, with histograms: well within the default of 64 MiB."""
        day = 24 * 3600 / 10

        assert len(packed(a_batch(processes=8).windows)) * day < 8 << 20

    def test_removed_file_is_detected(self, path: Path) -> None:
        """Rows written to it are lost."""
        with opened(path) as store:
            assert store.is_in_place()
            path.unlink()
            assert not store.is_in_place()


class TestUpdates:
    """What holds now of a chain that goes on: one row for each chain, so that it does not grow with time."""

    def changes(self, path: Path, *batches: Sequence[ChainEvent]) -> list[tuple[str, Change, float]]:
        """(first character of the chain, change, lost share) of the rows, after these batches have been written."""
        with opened(path) as store:
            for events in batches:
                store.write(events, [], NOON)
        with reader.opened(path) as history:
            return [(one.event.chain_id[0], one.event.change, one.event.lost_share) for one in history.events(0)]

    def test_update_takes_the_place_of_the_one_before(self, path: Path) -> None:
        """Each chain has one."""
        updates = [an_update("1", share) for share in (0.2, 0.3)] + [an_update("2", 0.9), an_update("1", 0.4)]

        assert self.changes(path, [an_event()], updates[:3], updates[3:]) == [
            ("1", Change.OPENED, 0.46),
            ("2", Change.UPDATED, 0.9),
            ("1", Change.UPDATED, 0.4),
        ]

    @pytest.mark.parametrize("change", [Change.ESCALATED, Change.EVIDENCE, Change.RESOLVED])
    def test_what_comes_next_takes_its_place(self, path: Path, change: Change) -> None:
        """The last row of a chain is how it is."""
        found = self.changes(path, [an_update("1", 0.2)], [an_event(change=change)])

        assert found == [("1", change, 0.46)]

    def test_write_that_failed_leaves_the_rows_of_before(self, path: Path) -> None:
        """The row of a lost update may be that of another chain later: its event stays."""
        with opened(path) as store:
            store.write([an_update("1", 0.2)], [], NOON)
            with pytest.raises(OverflowError):
                store.write([an_update("1", 0.3), an_event(at_unix_ns=1 << 70)], [], NOON)
            store.write([an_event(chain_id="2" * 32)], [], NOON)
            store.write([an_update("1", 0.4)], [], NOON)
        with reader.opened(path) as history:
            found = [(one.event.chain_id[0], one.event.change) for one in history.events(0)]

        assert found == [("2", Change.OPENED), ("1", Change.UPDATED)]

    def test_it_is_read_with_what_holds_now(self, path: Path) -> None:
        now = Present(0.2, None, (("backup", 1.0),))
        with opened(path) as store:
            store.write([an_event(change=Change.UPDATED, now=now)], [], NOON)
        with reader.opened(path) as history:
            assert history.events(0)[0].event.present == now


class TestVersions:
    def test_file_of_version_1_goes_on_with_call_sites(self, path: Path) -> None:
        """Its windows have none; those that follow do."""
        with opened(path) as store:
            store.write([], [a_batch(10.0)], NOON)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(
                "drop table stacks; drop table collectives; drop table memberships; pragma user_version = 1;"
            )
        with reader.opened(path) as history:
            assert [one.windows[0].call_sites for one in history.windows(0)] == [()]

        with opened(path) as store:
            store.write([], [with_sites(20.0, a_call_site())], NOON)
        with reader.opened(path) as history:
            assert [one.windows[0].call_sites for one in history.windows(0)] == [(), (a_call_site(),)]

    def test_file_of_version_2_goes_on_with_collectives(self, path: Path) -> None:
        """None is known of before."""
        with opened(path) as store:
            store.write([], [a_batch(10.0)], NOON)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("drop table collectives; drop table memberships; pragma user_version = 2;")
        with reader.opened(path) as history:
            assert list(history.collectives()) == []

        mark = CollectiveMark((1 << 64) - 1, 41, NOON)
        with opened(path) as store:
            store.write([], [a_batch(20.0)._replace(collectives=[mark])], NOON)
        with reader.opened(path) as history:
            assert list(history.collectives()) == [(2, mark)]

    def test_file_of_version_3_goes_on_with_memberships(self, path: Path) -> None:
        """None is known of before."""
        with opened(path) as store:
            store.write([], [a_batch(10.0)], NOON)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("drop table memberships; pragma user_version = 3;")
        with reader.opened(path) as history:
            assert list(history.memberships(0)) == []

        with opened(path) as store:
            store.write([], [a_batch(20.0)._replace(memberships=[a_membership()])], NOON)
        with reader.opened(path) as history:
            assert [one.membership for one in history.memberships(0)] == [a_membership()]


class TestMemberships:
    def test_last_state_is_kept(self, path: Path) -> None:
        """One row for a process and a communicator, whose hash has all 64 bits."""
        known = a_membership(communicator=(1 << 64) - 1)
        with opened(path) as store:
            store.write([], [a_batch(10.0)._replace(memberships=[known])], NOON)
            later = known._replace(collectives=99, entered_unix_ns=NOON + 19 * SECOND)
            store.write([], [a_batch(20.0)._replace(memberships=[later])], NOON)

        with reader.opened(path) as history:
            assert list(history.memberships(0)) == [RecordedMembership(1, NOON + 20 * SECOND, later)]

    def test_those_of_ended_processes_are_left_out(self, path: Path) -> None:
        """Process 1 was seen last in the first window, process 2 in the second one."""
        with opened(path) as store:
            store.write([], [a_batch(10.0)._replace(memberships=[a_membership(process=1)])], NOON)
            store.write([], [a_batch(20.0)._replace(memberships=[a_membership(process=2)])], NOON)

        with reader.opened(path) as history:
            assert [one.membership.process for one in history.memberships(NOON + 15 * SECOND)] == [2]

    def test_those_of_other_namespaces_are_not_seen(self, path: Path) -> None:
        with opened(path) as store:
            store.write([], [a_batch(10.0)._replace(memberships=[a_membership()])], NOON)

        with reader.opened(path, scope=Scope(namespaces=frozenset(("team-a",)))) as history:
            assert list(history.memberships(0)) == []

    @pytest.mark.parametrize(
        "change",
        ["rank = 16", "ranks = -1", "labels = '[]'", "labels = '{'", "communicator = 'a'", "collectives = 1.5"],
    )
    def test_row_that_is_none_is_damage(self, path: Path, change: str) -> None:
        with opened(path) as store:
            store.write([], [a_batch(10.0)._replace(memberships=[a_membership()])], NOON)
        with closing(sqlite3.connect(path)) as connection, connection as transaction:
            transaction.execute(f"update memberships set {change}")  # noqa: S608 - a change above

        with reader.opened(path) as history, pytest.raises(NotPossibleHere, match="cannot read the history"):
            list(history.memberships(0))


class TestPruning:
    def test_old_rows_are_deleted(self, path: Path) -> None:
        with opened(path) as store:
            early, late = an_event(0.0), an_event(100.0, chain_id="2" * 32)
            marks = [CollectiveMark(77, 41, NOON + 10 * SECOND), CollectiveMark(77, 42, NOON + 200 * SECOND)]
            places = [a_membership(process=1)], [a_membership(process=2)]
            batches = [
                a_batch(10.0)._replace(memberships=places[0]),
                a_batch(200.0)._replace(collectives=marks, memberships=places[1]),
            ]
            store.write([resolved(early, 5), late], batches, NOON)
            store.prune(NOON + 50 * SECOND, [])
        with reader.opened(path) as history:
            assert [one.ended_unix_ns for one in history.windows(0)] == [NOON + 200 * SECOND]
            assert [one.event for one in history.events(0)] == [late]
            assert [mark.number for _, mark in history.collectives()] == [42]
            assert [one.membership.process for one in history.memberships(0)] == [2]

    def test_events_of_an_open_chain_stay(self, path: Path) -> None:
        """However old they are."""
        with opened(path) as store:
            store.write([an_event()], [], NOON)
            store.prune(NOON + 10**6 * SECOND, [an_event().chain_id])
        with reader.opened(path) as history:
            assert [one.event for one in history.events(NOON + 10**6 * SECOND)] == [an_event()]

    def test_all_files_together_stay_below_the_limit(self, path: Path) -> None:
        """The write-ahead log included. The latest rows stay, the oldest are deleted."""
        with opened(path, MIN_BYTES) as store:
            largest = 0
            for number in range(1, 150):
                store.write([], [a_batch(10.0 * number, processes=40, seed=number)], NOON)
                store.prune(0, [])
                largest = max(largest, store.size_bytes())
        with reader.opened(path) as history:
            kept = [(one.ended_unix_ns - NOON) // (10 * SECOND) for one in history.windows(0)]

        assert MIN_BYTES / 2 < largest <= MIN_BYTES
        assert kept == list(range(kept[0], 150))
        assert 10 < kept[0] < 140

    def test_file_shrinks_to_a_smaller_limit(self, path: Path) -> None:
        """When it is pruned for the first time."""
        with opened(path, 8 * MIN_BYTES) as store:
            for number in range(1, 220):
                store.write([], [a_batch(10.0 * number, processes=40, seed=number)], NOON)
        before = path.stat().st_size
        with opened(path, MIN_BYTES) as store:
            store.prune(0, [])
            after = store.size_bytes()

        assert before > MIN_BYTES >= after

    def test_write_ahead_log_is_full_while_a_reader_holds_it(self, path: Path) -> None:
        """Until the reader closes the file."""
        with opened(path, MIN_BYTES) as store:
            store.write([], [a_batch()], NOON)
            with reader.opened(path) as history:
                for number in range(1, 150):
                    if store.is_wal_full():
                        break
                    store.write([], [a_batch(10.0 * number, processes=40, seed=number)], NOON)
                store.checkpoint()
                assert store.is_wal_full()
                assert len(list(history.windows(0))) == 1
            store.checkpoint()
            assert not store.is_wal_full()


class TestOtherFiles:
    @pytest.mark.parametrize("content", [b"no database at all", b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 9000])
    def test_garbage_is_corrupt(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(0o750)
        path.write_bytes(content)
        with pytest.raises(CorruptError), opened(path):
            pass

    def test_damaged_pages_are_found_when_it_is_opened(self, path: Path) -> None:
        with opened(path, 8 * MIN_BYTES) as store:
            for number in range(1, 40):
                store.write([], [a_batch(10.0 * number, processes=40, seed=number)], NOON)
        with path.open("r+b") as file:
            file.seek(4096 * 3)
            file.write(b"\xa5" * 4096 * 4)
        with pytest.raises(CorruptError), opened(path):
            pass

    def test_empty_file_is_used(self, path: Path) -> None:
        path.parent.mkdir(0o750)
        path.touch()
        with opened(path) as store:
            store.write([an_event()], [], NOON)
        with reader.opened(path) as history:
            assert len(history.events(0)) == 1

    def test_file_of_a_newer_version_is_not_changed(self, path: Path) -> None:
        with opened(path):
            pass
        with sqlite3.connect(path) as connection:
            connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(Unusable, match="newer version"), opened(path):
            pass

        assert path.read_bytes() == before

    def test_database_of_another_program_is_not_changed(self, path: Path) -> None:
        path.parent.mkdir(0o750)
        with sqlite3.connect(path) as connection:
            connection.execute("create table bookmarks (url text)")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(Unusable, match="another program"), opened(path):
            pass

        assert path.read_bytes() == before

    def test_missing_table_is_corrupt(self, path: Path) -> None:
        with opened(path):
            pass
        with sqlite3.connect(path) as connection:
            connection.execute("drop table events")
        connection.close()
        with opened(path) as store, pytest.raises(CorruptError):
            store.write([an_event()], [], NOON)
