"""app.probing: probes while the exporter runs. The kernel accepts any probe, and its news of mappings are written by the test."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import pytest

from exporter import catalog
from exporter.app.probing import Probing
from exporter.app.wakeups import Wakeups
from exporter.catalog import Metric
from exporter.kernel.abi import Api, EventKind
from exporter.kernel.events import KernelEvent
from exporter.kernel.mapping_watch import Mapped
from exporter.own_metrics.store import OwnMetrics
from exporter.probes.discovery import Discovery
from exporter.probes.search import LibrarySearch, LikelyLibraries
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.support.records import own_sample
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_process, process

PATH = "/opt/libcudart.so.12"
CUDART = Image([Sym("cudaMalloc")]).content()


class FakeMappings:
    """News of mappings, as of perf_event_open(2)."""

    def __init__(self) -> None:
        self.fresh: set[Mapped] = set()
        self.lost = 0

    def drain(self) -> set[Mapped]:
        fresh, self.fresh = self.fresh, set()
        return fresh


class FakeWakeups:
    """With a MappingWatch until it is closed."""

    def __init__(self) -> None:
        self.mappings: FakeMappings | None = FakeMappings()

    def close_mappings(self) -> None:
        self.mappings = None


class Bench:
    """Probing of a node on which no process maps a library yet."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.libbpf = FakeLibbpf()
        self.wakeups = FakeWakeups()
        self.own = OwnMetrics()
        kernel = kernel_of(self.libbpf)
        processes = process(proc, 1, maps=b"")
        self.discovery = Discovery(kernel, processes, frozenset(Api), 3600.0, with_launches=True)
        search = LibrarySearch(LikelyLibraries(processes), lambda: None)
        self.probing = Probing(kernel, self.discovery, search, cast(Wakeups, self.wakeups), self.own)
        self.discovery.walk_all()

    def run(self, tgid: int) -> None:
        """Start a process that maps a library; the kernel reports it."""
        mapping_process(self.proc, tgid, PATH, CUDART)
        assert self.wakeups.mappings is not None
        self.wakeups.mappings.fresh = {Mapped(tgid, 26, PATH.encode())}

    def value(self, metric: Metric, **labels: str) -> float | None:
        return own_sample(self.own, metric.name, **labels)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class TestFreshMappings:
    def test_library_is_probed_as_soon_as_it_is_mapped(self, bench: Bench) -> None:
        """The next walk would be in an hour."""
        bench.run(7)
        bench.probing.look_at_fresh_mappings()

        assert [file.path for file in bench.discovery.probed()] == [PATH]

    def test_lost_news_are_counted_and_begin_a_walk(self, bench: Bench) -> None:
        mapping_process(bench.proc, 7, PATH, CUDART)
        assert bench.wakeups.mappings is not None
        bench.wakeups.mappings.lost = 5
        bench.probing.look_at_fresh_mappings()
        bench.discovery.step(60.0)

        assert bench.value(catalog.own.LOSSES, program="mapping_watch", reason="ring_full") == 5
        assert [file.path for file in bench.discovery.probed()] == [PATH]

    def test_nothing_happens_without_news_of_mappings(self, bench: Bench) -> None:
        """The kernel may refuse them."""
        bench.wakeups.mappings = None
        bench.probing.look_at_fresh_mappings()

        assert bench.discovery.probed() == []


class TestDisable:
    def test_every_probe_is_removed_once(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING)
        bench.run(7)
        bench.probing.look_at_fresh_mappings()
        bench.probing.disable()

        assert [bench.probing.remove_if_disabled() for _ in range(2)] == [True, False]
        assert bench.libbpf.uprobes == {}
        (record,) = caplog.records
        assert record.getMessage().startswith("all probes removed from 1 library files in ")

    def test_nothing_is_removed_before(self, bench: Bench) -> None:
        bench.run(7)
        bench.probing.look_at_fresh_mappings()

        assert not bench.probing.remove_if_disabled()
        assert len(bench.discovery.probed()) == 1

    def test_removal_is_reported_and_mappings_are_not_watched_any_more(self, bench: Bench) -> None:
        bench.probing.remove()

        assert bench.value(catalog.own.PROBES_ENABLED) == 0
        assert bench.wakeups.mappings is None


class TestSurplus:
    def test_only_events_of_surplus_attachments_detach(self, bench: Bench) -> None:
        """Attachments 1 and 2 are on equal files."""
        for tgid in (7, 8):
            bench.run(tgid)
            bench.probing.look_at_fresh_mappings()
        bench.probing.resolve_surplus([KernelEvent(EventKind.PROCESS_ENDED, 1, 2, 1)])
        before = len(bench.discovery.probed())
        bench.probing.resolve_surplus([KernelEvent(EventKind.ATTACHMENT_SURPLUS, 1, 2, 1)])

        assert (before, len(bench.discovery.probed())) == (2, 1)
