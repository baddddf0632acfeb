"""app.self_metrics: the exporter's metrics about itself, from a /proc of files and a kernel that accepts any probe."""

from __future__ import annotations

from pathlib import Path

from exporter import catalog
from exporter.app.self_metrics import report_attachments, report_snapshot
from exporter.catalog import Metric
from exporter.host.leases import Lease
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.kernel.abi import Api, DropProgram, DropReason
from exporter.kernel.tables import Tables
from exporter.own_metrics.store import OwnMetrics
from exporter.pipeline.tick import Pipeline
from exporter.probes.discovery import Discovery
from exporter.probes.proc_walk import ProcWalk
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.records import point, snapshot_of
from tests.support.tables import FakeTables
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_process

CUDART = Image([Sym("cudaMalloc"), Sym("cudaFree", 0x401010)]).content()


def values(own: OwnMetrics, metric: Metric) -> dict[tuple[str, ...], object]:
    """Labels -> value."""
    return {p.labels: p.value for family in own.families() if family.metric is metric for p in family.points}


def walk_all(discovery: Discovery, processes: Processes) -> None:
    reader = TenantReader(processes, patience_seconds=PATIENCE_SECONDS)
    ProcWalk(discovery, processes, str).whole(reader)
    reader.close()


class TestAttachments:
    def test_files_and_their_functions_are_added_up_by_library(self, tmp_path: Path) -> None:
        """Two copies of one library, and one that cannot be probed."""
        for tgid in (7, 8):
            processes = mapping_process(tmp_path, tgid, "/opt/libcudart.so.12", CUDART)
        mapping_process(tmp_path, 9, "/opt/libnccl.so.2", Image([Sym("other")]).content())
        discovery = Discovery(kernel_of(FakeLibbpf()), processes, frozenset(Api), with_launches=True)
        walk_all(discovery, processes)
        own = OwnMetrics()
        report_attachments(own, discovery)

        assert values(own, catalog.own.ATTACHMENTS) == {("runtime", "single"): 2}
        assert values(own, catalog.own.ATTACHED_FUNCTIONS) == {("runtime",): 4}
        assert values(own, catalog.own.ATTACH_FAILURES) == {("nccl", "no_symbols"): 1}

    def test_files_that_may_be_overwritten_are_added_up_by_library(self, tmp_path: Path) -> None:
        """Three copies, one of which has a lease."""
        for tgid in (7, 8, 9):
            processes = mapping_process(tmp_path, tgid, "/opt/libcudart.so.12", CUDART)
        discovery = Discovery(kernel_of(FakeLibbpf()), processes, frozenset(Api), with_launches=True)
        walk_all(discovery, processes)
        for probed, lease in zip(discovery.probed(), (Lease(-1, lambda _: None), None, None), strict=True):
            probed.lease = lease
        own = OwnMetrics()
        report_attachments(own, discovery)

        assert values(own, catalog.own.UNGUARDED_LIBRARIES) == {("runtime",): 2}

    def test_file_that_is_detached_is_not_reported_any_more(self, tmp_path: Path) -> None:
        processes = mapping_process(tmp_path, 7, "/opt/libcudart.so.12", CUDART)
        discovery = Discovery(kernel_of(FakeLibbpf()), processes, frozenset(Api), with_launches=True)
        walk_all(discovery, processes)
        own = OwnMetrics()
        report_attachments(own, discovery)
        discovery.close()
        report_attachments(own, discovery)

        assert values(own, catalog.own.ATTACHMENTS) == {}


class TestSnapshot:
    def reported(self, kernel: FakeTables, misses: dict[str, int] | None = None) -> OwnMetrics:
        """After a snapshot of two series that took 0.25 s."""
        own = OwnMetrics()
        pipeline = Pipeline(Tables(kernel.maps, kernel.iterate), ("cuda",), lambda: 0)
        snapshot = snapshot_of(
            catalog.cuda.OPERATIONS, *(point(1, "runtime", name) for name in ("cudaMalloc", "cudaFree"))
        )
        report_snapshot(own, pipeline, lambda: misses or {}, snapshot, 0.25)
        return own

    def test_duration_and_number_of_series(self) -> None:
        own = self.reported(FakeTables())

        assert values(own, catalog.own.PUBLISH_DURATION) == {(): 0.25}
        assert values(own, catalog.own.SERIES) == {(): 2}

    def test_dropped_records_are_reported_by_program_and_reason(self) -> None:
        kernel = FakeTables()
        program, reason = next(iter(DropProgram)), next(iter(DropReason))
        kernel.dropped(program, reason, 7)

        assert values(self.reported(kernel), catalog.own.LOSSES)[program.name.lower(), reason.name.lower()] == 7

    def test_skipped_runs_are_added_up_over_the_programs_of_an_object(self) -> None:
        misses = {"sched_switch": 2, "sched_waking": 3, "cuda_enter": 1}
        losses = values(self.reported(FakeTables(), misses), catalog.own.LOSSES)

        assert (losses["sched", "recursion"], losses["cuda", "recursion"]) == (5, 1)
