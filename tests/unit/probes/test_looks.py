"""probes.looks: libraries are found by threads, whatever one process does to them. The kernel accepts any probe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.kernel.abi import Api
from exporter.kernel.mapping_watch import Mapped
from exporter.probes.discovery import Discovery
from exporter.probes.looks import Looks
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.support.traced import eventually
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_process, process

PATH = "/opt/libcudart.so.12"
CUDART = Image([Sym("cudaMalloc")]).content()


class FakeWatch:
    """Reports of fresh mappings, as of perf_event_open(2)."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.fresh: set[Mapped] = set()
        self.lost = 0

    def filenos(self) -> list[int]:
        return [self.fd]

    def report(self, tgid: int, inode: int = 26) -> None:
        self.fresh.add(Mapped(tgid, inode, PATH.encode()))
        os.eventfd_write(self.fd, 1)

    def follow_cpus(self) -> list[int]:
        """One CPU, which stays."""
        return []

    def drain(self) -> set[Mapped]:
        fresh, self.fresh = self.fresh, set()
        return fresh

    def close(self) -> None:
        os.close(self.fd)


class Bench:
    """A node on which no process maps a library yet. Owners are processes. The next walk is in an hour."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.libbpf = FakeLibbpf()
        self.watch = FakeWatch()
        processes = process(proc, 1, maps=b"")
        self.discovery = Discovery(kernel_of(self.libbpf), processes, frozenset(Api), with_launches=True)
        self.looks = Looks(self.discovery, processes, self.watch, str, interval_seconds=3600.0)

    def run(self, tgid: int, content: bytes = CUDART) -> None:
        mapping_process(self.proc, tgid, PATH, content)

    def hang(self, tgid: int) -> None:
        """A process whose mappings cannot be read: a pipe without a writer does not answer."""
        process(self.proc, tgid)
        os.mkfifo(self.proc / str(tgid) / "maps")

    def probed(self) -> int:
        return len(self.discovery.probed())

    def start(self) -> None:
        self.looks.start()
        eventually(self.looks.is_first_walk_over.is_set, "the first walk is over")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.looks.close()


class TestFirstWalk:
    def test_libraries_of_every_process_are_probed(self, bench: Bench) -> None:
        for tgid in range(10, 30):
            bench.run(tgid)
        bench.start()

        assert bench.probed() == 20

    def test_one_that_does_not_answer_costs_itself(self, bench: Bench) -> None:
        """It is read together with others at first."""
        bench.hang(9)
        for tgid in range(10, 14):
            bench.run(tgid)
        bench.start()

        assert bench.probed() == 4

    def test_walk_in_the_calling_thread_is_whole(self, bench: Bench) -> None:
        bench.run(7)
        bench.looks.walk_now()

        assert (bench.probed(), bench.looks.is_first_walk_over.is_set()) == (1, True)


class TestFreshMappings:
    def test_library_is_probed_as_soon_as_it_is_mapped(self, bench: Bench) -> None:
        bench.start()
        bench.run(7)
        bench.watch.report(7)

        eventually(lambda: bench.probed() == 1, "the library is probed")

    def test_process_that_does_not_answer_delays_no_other(self, bench: Bench) -> None:
        """Ten of them, each of an owner of its own."""
        bench.start()
        for tgid in range(10, 20):
            bench.hang(tgid)
            bench.watch.report(tgid)
        bench.run(30)
        bench.watch.report(30)

        eventually(lambda: bench.probed() == 1, "the library is probed")

    def test_lost_reports_begin_a_walk(self, bench: Bench) -> None:
        bench.start()
        bench.run(7)
        bench.watch.lost = 5
        bench.watch.report(1)

        eventually(lambda: bench.probed() == 1, "the library is probed")
        assert bench.looks.lost_mappings == 5

    def test_nothing_is_probed_after_disable(self, bench: Bench) -> None:
        bench.start()
        bench.discovery.disable()
        bench.run(7)
        bench.watch.report(7)
        bench.looks.close()

        assert bench.probed() == 0


class TestSurplus:
    def test_surplus_attachment_is_counted(self, bench: Bench) -> None:
        """Attachments 1 and 2, of two files."""
        for tgid in (7, 8):
            bench.run(tgid)
        bench.start()
        bench.looks.note_surplus(2, 1)

        eventually(lambda: bench.discovery.surplus == {("runtime",): 1}, "it is counted")


class TestClose:
    def test_close_does_not_wait_for_a_look_that_hangs(self, bench: Bench) -> None:
        """It may be called twice."""
        bench.hang(7)
        bench.looks.start()
        bench.looks.close()
        bench.looks.close()

        assert bench.probed() == 0
