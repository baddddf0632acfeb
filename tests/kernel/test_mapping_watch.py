"""kernel.mapping_watch: executable mappings are reported by the CPU on which they are made, also by CPUs that come later."""

from __future__ import annotations

import mmap
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.errors import KernelRefused
from exporter.kernel.mapping_watch import MappingWatch
from exporter.kernel.perf_events import CPUS, online_cpus
from tests.support.hotplug import CPU, switch
from tests.support.patience import PATIENCE_SECONDS

MARKS = (b"libcudart",)
ONLY_POSSIBLE = 4095
"""A CPU that no machine here has."""


@contextmanager
def watching(cpus: Path = CPUS) -> Iterator[MappingWatch]:
    """An open watch."""
    watch = MappingWatch(MARKS, cpus=cpus)
    try:
        yield watch
    finally:
        watch.close()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A file of one page with a name that counts."""
    path = tmp_path / "libcudart.so.12"
    path.write_bytes(bytes(mmap.PAGESIZE))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the kernel's folder of CPUs; only CPU 0 is online."""
    path = tmp_path / "cpus"
    path.mkdir()
    (path / "online").write_text("0\n")
    return path


def map_on(cpu: int, library: Path) -> None:
    """Map the file as a linker does, on one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        with library.open("rb") as file:
            mmap.mmap(
                file.fileno(), mmap.PAGESIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC
            ).close()
    finally:
        os.sched_setaffinity(0, before)


def descriptors() -> set[str]:
    """The open ones of this process."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def reported(watch: MappingWatch) -> list[bytes]:
    """The paths of new mappings by this process."""
    return [mapped.path for mapped in watch.drain() if mapped.tgid == os.getpid()]


class TestMappingWatch:
    """One ring a CPU. A second CPU comes online, in the list of CPUs at least."""

    pytestmark = pytest.mark.skipif(CPU not in online_cpus(), reason="needs two CPUs")

    def test_mapping_is_reported_on_every_cpu(self, library: Path) -> None:
        with watching() as watch:
            for cpu in (0, CPU):
                map_on(cpu, library)

                assert reported(watch) == [os.fsencode(library)]

    def test_cpu_that_comes_online_is_followed(self, folder: Path, library: Path) -> None:
        """What was mapped there before is for the next scan to find."""
        with watching(folder) as watch:
            map_on(CPU, library)
            before = reported(watch)
            (folder / "online").write_text(f"0-{CPU}\n")
            new = watch.follow_cpus()
            map_on(CPU, library)

            assert (before, len(new), len(watch.filenos())) == ([], 1, 2)
            assert reported(watch) == [os.fsencode(library)]

    def test_descriptor_of_a_new_cpu_becomes_readable(self, folder: Path, library: Path) -> None:
        with watching(folder) as watch, select.epoll() as epoll:
            (folder / "online").write_text(f"0-{CPU}\n")
            for fd in watch.follow_cpus():
                epoll.register(fd, select.EPOLLIN | select.EPOLLET)
            map_on(CPU, library)

            assert len(epoll.poll(PATIENCE_SECONDS)) == 1

    def test_report_of_a_cpu_that_went_offline_is_kept(self, folder: Path, library: Path) -> None:
        """Its ring is closed, and so are its descriptors."""
        (folder / "online").write_text(f"0-{CPU}\n")
        with watching(folder) as watch:
            map_on(CPU, library)
            (folder / "online").write_text("0\n")
            watch.follow_cpus()

            assert len(watch.filenos()) == 1
            assert reported(watch) == [os.fsencode(library)]

    def test_cpus_that_are_only_possible_cost_nothing(self, folder: Path) -> None:
        """A machine may have 128 possible CPUs and two: no ring is made for the others."""
        (folder / "possible").write_text(f"0-{ONLY_POSSIBLE}\n")
        with watching(folder) as watch:
            assert len(watch.filenos()) == 1

    def test_nothing_stays_open_if_one_cpu_cannot_be_watched(self, folder: Path) -> None:
        """There is no such CPU."""
        (folder / "online").write_text(f"0,{ONLY_POSSIBLE}\n")
        before = descriptors()
        with pytest.raises(KernelRefused, match=f"on CPU {ONLY_POSSIBLE}: "):
            MappingWatch(MARKS, cpus=folder)

        assert descriptors() == before

    def test_new_cpu_that_cannot_be_watched_is_refused_once(self, folder: Path, library: Path) -> None:
        """The others go on."""
        with watching(folder) as watch:
            (folder / "online").write_text(f"0-{CPU},{ONLY_POSSIBLE}\n")
            with pytest.raises(KernelRefused):
                watch.follow_cpus()
            again = watch.follow_cpus()
            map_on(CPU, library)

            assert again == []
            assert reported(watch) == [os.fsencode(library)]


@pytest.mark.idle_machine
class TestHotplug:
    """CPU 1 goes offline and comes back between two looks at the list of CPUs, which is then the same."""

    def test_mappings_on_a_cpu_that_was_offline_are_reported(self, second_cpu: None, library: Path) -> None:
        """The kernel ends an event for good when its CPU goes offline."""
        with watching() as watch:
            switch("0")
            switch("1")
            map_on(CPU, library)
            before = reported(watch)
            watch.follow_cpus()
            map_on(CPU, library)

            assert (before, reported(watch)) == ([], [os.fsencode(library)])

    def test_cpu_that_is_offline_is_left_out(self, second_cpu: None, library: Path) -> None:
        """And followed when it comes back."""
        with watching() as watch:
            switch("0")
            watch.follow_cpus()
            offline = len(watch.filenos())
            switch("1")
            watch.follow_cpus()
            map_on(CPU, library)

            assert (offline, len(watch.filenos())) == (len(online_cpus()) - 1, len(online_cpus()))
            assert reported(watch) == [os.fsencode(library)]
