"""pipeline.collector_runs: a defect costs the metrics of the collector it is in."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exporter import catalog
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.readings import Reading
from exporter.kernel.tables import Tables
from exporter.model import Histogram
from tests.unit.pipeline.bench import Bench


class _BrokenCommunicators(dict[int, list[CommunicatorRow]]):
    """Raises when the nccl collector goes through it; the cuda collector never does."""

    def items(self) -> Iterator[tuple[int, list[CommunicatorRow]]]:  # type: ignore[override]
        raise RuntimeError("a defect in a collector")


class _TablesThatBreakNccl(Tables):
    """Readings of which only the communicators are unusable."""

    is_broken = True

    def read(self, of: Mapping[int, ProcessRow] | None = None) -> Reading:
        """What Tables reads, with a trap in it."""
        reading = super().read(of)
        return replace(reading, communicators=_BrokenCommunicators()) if self.is_broken else reading


class TestFailingCollector:
    """A defect costs the metrics of the collector it is in."""

    @pytest.fixture
    def broken(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Bench:
        """The nccl collector fails on every reading."""
        caplog.set_level(logging.CRITICAL)
        made = Bench(tmp_path, _TablesThatBreakNccl)
        made.kernel.process(1, communicators=1)
        made.kernel.call(1, "cudaMalloc", durations_ns=[1_000])
        made.kernel.call(1, "ncclAllReduce", durations_ns=[1_000], communicator=1)
        made.tracking.tick([])
        return made

    def test_other_collectors_metrics_are_there(self, broken: Bench) -> None:
        """CUDA operations are exported, NCCL operations are not."""
        assert broken.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 1}
        assert broken.exported(catalog.nccl.OPERATION_DURATION) == {}

    def test_totals_of_ended_processes_are_not_exported_alone(self, broken: Bench) -> None:
        """A counter that lacks the living would go back."""
        broken.tables.is_broken = False  # type: ignore[attr-defined]
        broken.tracking.tick([1])
        broken.kernel.process(2)
        broken.kernel.call(2, "ncclAllReduce", durations_ns=[1_000], communicator=1)
        broken.tracking.tick([])
        whole = broken.exported(catalog.nccl.OPERATION_DURATION)
        broken.tables.is_broken = True  # type: ignore[attr-defined]

        assert [sum(value.counts) for value in whole.values() if isinstance(value, Histogram)] == [2]
        assert broken.exported(catalog.nccl.OPERATION_DURATION) == {}

    def test_failure_is_counted_by_collector(self, broken: Bench) -> None:
        """One run, one error; success is 0 for it and 1 for the other."""
        broken.snapshots.snapshot()

        errors, success = "gpustall_exporter_collector_errors_total", "gpustall_exporter_collector_success"
        assert (broken.own_value(errors, collector="nccl"), broken.own_value(errors, collector="cuda")) == (1, 0)
        assert (broken.own_value(success, collector="nccl"), broken.own_value(success, collector="cuda")) == (0, 1)

    def test_collector_that_works_again_is_exported_again(self, broken: Bench) -> None:
        """Its totals are the kernel's: nothing was lost while it failed."""
        broken.snapshots.snapshot()
        broken.tables.is_broken = False  # type: ignore[attr-defined]

        assert list(broken.exported(catalog.nccl.OPERATION_DURATION)) == [("3", "ncclAllReduce", "0")]
        assert broken.own_value("gpustall_exporter_collector_success", collector="nccl") == 1
