"""pipeline.snapshot: what a scrape gets, while ticks go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter import catalog
from exporter.history.window import CommunicatorWindow
from exporter.kernel.abi import ThreadState
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.readings import Accounts, Reading
from exporter.kernel.tables import Tables
from exporter.model import Identity, Snapshot
from exporter.series.host_totals import TotalsByIdentity, TracedProcess
from exporter.series.store import SeriesStore
from exporter.totals import Series
from tests.support.patience import PATIENCE_SECONDS
from tests.support.records import series_of
from tests.unit.pipeline.bench import Bench


class _Disks:
    """A collector of the machine. asked: the traced processes it was given."""

    resets = 3

    def __init__(self) -> None:
        self.is_broken = False
        self.asked: list[Sequence[TracedProcess]] = []

    def collect(self, _now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        """A container that the exporter does not trace."""
        self.asked.append(traced)
        if self.is_broken:
            raise RuntimeError("a defect in a collector")
        return {Identity("gpu7", container="db"): {Series(catalog.block.BYTES, ("sda", "read")): 512}}


class _HeldTables(Tables):
    """A reading for a snapshot waits until it is let go. is_reading: it waits."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_reading, self.may_go_on = threading.Event(), threading.Event()

    def read(self, of: Mapping[int, ProcessRow] | None = None) -> Reading:
        """What Tables reads; if all processes are wanted, a while later."""
        reading = super().read(of)
        if of is None:
            self.is_reading.set()
            assert self.may_go_on.wait(PATIENCE_SECONDS)
        return reading


class _HeldAccounts(Tables):
    """Reads where the time of threads went, and returns a while later."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_reading, self.may_go_on = threading.Event(), threading.Event()

    def read_accounts(self, *arguments: Any, **named: Any) -> Accounts:
        """What Tables reads."""
        accounts = super().read_accounts(*arguments, **named)
        self.is_reading.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return accounts


class _HeldStore(SeriesStore):
    """A snapshot waits until it is let go."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_busy, self.may_go_on = threading.Event(), threading.Event()

    def snapshot(self, *arguments: Any) -> Snapshot:
        """What SeriesStore makes, a while later."""
        self.is_busy.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return super().snapshot(*arguments)


class TestSnapshots:
    """What a scrape gets."""

    def test_process_is_exported_after_its_first_tick(self, bench: Bench) -> None:
        """With its rank, its operations and its info."""
        bench.tracking.tick([])

        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}
        assert list(bench.exported(catalog.workload.INFO)) == [("3", "100", "python", *[""] * 11)]

    def test_process_before_its_first_tick_is_not_exported(self, bench: Bench) -> None:
        """A scrape before the tick has no identity for it."""
        assert bench.snapshots.snapshot().families == ()

    def test_snapshots_within_200_ms_are_shared(self, bench: Bench) -> None:
        """Two Prometheus servers and a push cost one reading."""
        first = bench.snapshots.snapshot()
        bench.now += 0.19

        assert bench.snapshots.snapshot() is first

    def test_snapshot_after_200_ms_is_a_new_one(self, bench: Bench) -> None:
        """It holds the call that was counted in between."""
        bench.tracking.tick([])
        before = bench.snapshots.snapshot()
        bench.kernel.call(1, "cudaMalloc", durations_ns=[500])
        bench.now += 0.21
        after = bench.snapshots.snapshot()

        values = [series_of(s.families, catalog.cuda.OPERATIONS)["3", "runtime", "cudaMalloc"] for s in (before, after)]
        assert values == [2, 3]

    def test_shared_snapshot_reads_no_table(self, bench: Bench) -> None:
        """The operations are the expensive part."""
        bench.tracking.tick([])
        before = bench.kernel.maps["operations"].times_read
        bench.snapshots.snapshot()
        bench.snapshots.snapshot()
        read = bench.kernel.maps["operations"].times_read - before

        assert read == 1

    def test_tick_without_an_end_or_a_rename_reads_small_tables_only(self, bench: Bench) -> None:
        """A tick comes four times a second."""
        bench.tracking.tick([])
        bench.tracking.tick([])

        assert bench.kernel.maps["operations"].times_read == 0


class TestTicksBesideSnapshots:
    """Ticks go on while a snapshot is taken."""

    @contextmanager
    def taking(self, bench: Bench) -> Iterator[None]:
        """A snapshot, in a thread of its own; over when the block is left."""
        thread = threading.Thread(target=bench.snapshots.snapshot, daemon=True)
        thread.start()
        yield
        thread.join(PATIENCE_SECONDS)

    def test_process_that_ends_while_tables_are_read_counts_once(self, tmp_path: Path) -> None:
        """Its two calls were read, and kept before they were exported."""
        bench = Bench(tmp_path, _HeldTables)
        bench.kernel.process(1)
        bench.kernel.call(1, "cudaMalloc", durations_ns=[1_000] * 2)
        bench.tracking.tick([])
        held = bench.tables
        assert isinstance(held, _HeldTables)
        with self.taking(bench):
            assert held.is_reading.wait(PATIENCE_SECONDS)
            bench.tracking.tick([1])
            held.may_go_on.set()

        assert series_of(bench.snapshots.snapshot().families, catalog.cuda.OPERATIONS) == {
            ("3", "runtime", "cudaMalloc"): 2
        }

    def test_tick_does_not_wait_for_the_accounting_lock(self, tmp_path: Path) -> None:
        """It admits a process; what was lost in between is charged once, at the tick after."""
        bench = Bench(tmp_path, _HeldAccounts)
        bench.kernel.process(1)
        bench.kernel.feeding(1, dry_ns={ThreadState.IO: 250_000_000})
        bench.tracking.tick([])
        held = bench.tables
        assert isinstance(held, _HeldAccounts)
        with self.taking(bench):
            assert held.is_reading.wait(PATIENCE_SECONDS)
            bench.kernel.process(2, tgid=200)
            bench.kernel.feeding(1, dry_ns={ThreadState.IO: 750_000_000})
            bench.tracking.tick([])
            tracked = bench.own_value("gpustall_exporter_tracked_processes")
            held.may_go_on.set()
        bench.tracking.tick([])

        assert (tracked, bench.exported(catalog.sched.LOST)) == (2, {("3", "block_io"): 0.75})

    def test_process_is_retired_at_the_next_tick_when_the_lock_is_taken(self, tmp_path: Path) -> None:
        """The tick returns at once; nothing is lost, nothing counts twice."""
        bench = Bench(tmp_path, make_store=_HeldStore)
        bench.kernel.process(1)
        bench.kernel.call(1, "cudaMalloc", durations_ns=[1_000] * 2)
        bench.tracking.tick([])
        held = bench.store
        assert isinstance(held, _HeldStore)
        with self.taking(bench):
            assert held.is_busy.wait(PATIENCE_SECONDS)
            bench.tracking.tick([1])
            still_there = bool(bench.kernel.maps["operations"].rows)
            held.may_go_on.set()
        bench.tracking.tick([])

        assert (still_there, bench.kernel.maps["operations"].rows) == (True, {})
        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}


class TestOwnMetrics:
    """The exporter's metrics about snapshots and tables."""

    def test_tracked_processes_are_counted(self, bench: Bench) -> None:
        """Those alive."""
        bench.tracking.tick([])

        assert bench.own_value("gpustall_exporter_tracked_processes") == 1

    def test_map_entries_and_capacity_are_reported(self, bench: Bench) -> None:
        """Entries as last read; capacity of every table."""
        bench.tracking.tick([])
        bench.snapshots.snapshot()

        assert bench.own_value("gpustall_exporter_map_entries", map="operations") == 1
        assert bench.own_value("gpustall_exporter_map_capacity", map="allocations") == 64

    def test_series_are_counted(self, bench: Bench) -> None:
        """One histogram, one counter, one info, and three kinds of chains that have not been opened."""
        bench.tracking.tick([])
        bench.snapshots.snapshot()

        assert bench.own_value("gpustall_exporter_series") == 6


class TestWindows:
    """What was read, by process, for windows."""

    def test_scrape_hands_over_what_it_has_read(self, bench: Bench) -> None:
        """With the identity of each process."""
        bench.tracking.tick([])
        bench.snapshots.snapshot()
        (window,) = bench.windows.windows()

        assert (window.labels.identity.rank, window.labels.tgid, window.labels.comm) == ("3", 100, "python")
        assert [(one.name, one.calls) for one in window.operations] == [("cudaMalloc", 2)]

    def test_without_scrapes_it_is_read_on_request(self, bench: Bench) -> None:
        """And no snapshot is made for it."""
        bench.tracking.tick([])
        bench.snapshots.feed_windows()

        assert [one.calls for one in bench.windows.windows()[0].operations] == [2]
        assert bench.own_value("gpustall_exporter_series") is None

    def test_nothing_is_handed_over_before_a_window_is_due(self, bench: Bench) -> None:
        """A scrape every second is more than it needs."""
        bench.windows.is_wanted = False
        bench.tracking.tick([])
        bench.snapshots.snapshot()

        assert bench.windows.received == []

    def test_nothing_is_read_once_it_is_closed(self, bench: Bench) -> None:
        """The programs are gone."""
        bench.snapshots.close()
        bench.snapshots.feed_windows()

        assert bench.windows.received == []

    def test_last_totals_of_a_process_are_handed_over(self, bench: Bench) -> None:
        """By the tick that retires it."""
        bench.tracking.tick([])
        bench.kernel.call(1, "cudaMalloc", durations_ns=[500])
        bench.tracking.tick([1])
        bench.snapshots.feed_windows()
        (window,) = bench.windows.windows()

        assert (window.process, window.operations[0].calls) == (1, 3)

    def test_process_that_destroyed_its_communicators_and_ended_has_them(self, bench: Bench) -> None:
        """As jobs do at their end. The tick before saw them."""
        bench.kernel.communicator(1, digest=0xABC, rank=3, ranks=16)
        bench.kernel.progress(1, enqueued=12, completed=10, collectives=11)
        bench.tracking.tick([])
        bench.kernel.maps["communicators"].rows.clear()
        bench.kernel.call(1, "cudaMalloc", durations_ns=[500])
        bench.tracking.tick([1])
        bench.snapshots.feed_windows()
        (window,) = bench.windows.windows()

        assert window.communicators == (CommunicatorWindow(0xABC, 3, 16, 11, None),)

    def test_process_that_has_just_ended_has_its_communicators(self, bench: Bench) -> None:
        """Its tick was the first one that saw them."""
        bench.tracking.tick([])
        bench.kernel.communicator(1, digest=0xABC, rank=3, ranks=16)
        bench.kernel.progress(1, enqueued=12, completed=10, collectives=11)
        bench.kernel.call(1, "cudaMalloc", durations_ns=[500])
        bench.tracking.tick([1])
        bench.snapshots.feed_windows()
        (window,) = bench.windows.windows()

        assert window.communicators == (CommunicatorWindow(0xABC, 3, 16, 11, None),)


class TestHostCollectors:
    """Collectors of the machine."""

    def test_their_totals_are_exported_beside_those_of_processes(self, tmp_path: Path) -> None:
        """Under the names of containers without a traced process."""
        disks = _Disks()
        bench = Bench(tmp_path, host_collectors={"block": disks})
        bench.kernel.process(1)
        bench.tracking.tick([])
        (family,) = [f for f in bench.snapshots.snapshot().families if f.metric is catalog.block.BYTES]

        assert [(point.identity, point.labels, point.value) for point in family.points] == [
            (Identity("gpu7", container="db"), ("sda", "read"), 512)
        ]
        assert disks.asked == [[TracedProcess(1, 100, Identity("gpu7", rank="3"))]]
        assert bench.own_value("gpustall_exporter_collector_resets_total", collector="block") == 3

    def test_failure_of_one_costs_its_metrics_alone(self, tmp_path: Path) -> None:
        """And is counted."""
        disks = _Disks()
        bench = Bench(tmp_path, host_collectors={"block": disks})
        bench.kernel.process(1)
        bench.kernel.call(1, "cudaMalloc", durations_ns=[1_000])
        bench.tracking.tick([])
        disks.is_broken = True

        assert bench.exported(catalog.block.BYTES) == {}
        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 1}
        assert bench.own_value("gpustall_exporter_collector_success", collector="block") == 0
