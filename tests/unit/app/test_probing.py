"""app.probing: probes while the exporter runs. The kernel accepts any probe."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import catalog
from exporter.app.probing import Probing
from exporter.catalog import Metric
from exporter.kernel.abi import Api, EventKind
from exporter.kernel.events import KernelEvent
from exporter.own_metrics.store import OwnMetrics
from exporter.probes.discovery import Discovery
from exporter.probes.looks import Looks
from exporter.probes.search import LibrarySearch
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.support.records import own_sample
from tests.support.traced import eventually
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_process, process

PATH = "/opt/libcudart.so.12"
CUDART = Image([Sym("cudaMalloc")]).content()


class Bench:
    """Probing of a node on which no process maps a library yet."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.libbpf = FakeLibbpf()
        self.own = OwnMetrics()
        kernel = kernel_of(self.libbpf)
        processes = process(proc, 1, maps=b"")
        self.discovery = Discovery(kernel, processes, frozenset(Api), with_launches=True)
        self.looks = Looks(self.discovery, processes, None, str, interval_seconds=3600.0)
        search = LibrarySearch(self.discovery, processes)
        self.probing = Probing(kernel, self.discovery, self.looks, search, self.own, wake=lambda: None)

    def run(self, tgid: int) -> None:
        """Start a process that maps a library, and look at all."""
        mapping_process(self.proc, tgid, PATH, CUDART)
        self.looks.walk_now()

    def value(self, metric: Metric, **labels: str) -> float | None:
        return own_sample(self.own, metric.name, **labels)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.probing.close()


class TestDisable:
    def test_every_probe_is_removed_once(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING)
        bench.run(7)
        bench.probing.disable()

        assert [bench.probing.remove_if_disabled() for _ in range(2)] == [True, False]
        assert bench.libbpf.uprobes == []
        (record,) = caplog.records
        assert record.getMessage().startswith("all probes removed from 1 library files in ")

    def test_nothing_is_removed_before(self, bench: Bench) -> None:
        bench.run(7)

        assert not bench.probing.remove_if_disabled()
        assert len(bench.discovery.probed()) == 1

    def test_removal_is_reported(self, bench: Bench) -> None:
        bench.probing.remove()

        assert bench.value(catalog.own.PROBES_ENABLED) == 0


class TestSurplus:
    def test_only_events_of_surplus_attachments_count(self, bench: Bench) -> None:
        """Attachments 1 and 2, of two files."""
        for tgid in (7, 8):
            bench.run(tgid)
        bench.probing.start()
        bench.probing.note_surplus(
            [KernelEvent(EventKind.PROCESS_ENDED, 1, 2, 1), KernelEvent(EventKind.ATTACHMENT_SURPLUS, 1, 2, 1)]
        )

        eventually(lambda: bench.discovery.surplus == {("runtime",): 1}, "it is counted")


class TestFirstWalk:
    def test_exporter_is_ready_after_it(self, bench: Bench) -> None:
        before = bench.probing.is_first_walk_over
        bench.probing.look_at_everything()

        assert (before, bench.probing.is_first_walk_over) == (False, True)

    def test_node_without_a_library_is_reported_once(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        bench.probing.look_at_everything()

        (record,) = caplog.records
        assert record.getMessage().startswith("no CUDA or NCCL library in use yet")
