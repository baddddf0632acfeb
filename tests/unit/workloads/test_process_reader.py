"""process_reader: what is read of a process in /proc, once, and whether it still runs."""

from __future__ import annotations

from pathlib import Path

from exporter.host.processes import Processes
from exporter.workloads.process_reader import ProcessReader
from exporter.workloads.rank import Rank
from tests.support.direct_reads import DirectReads
from tests.unit.host.process_tree import process
from tests.unit.workloads.registries import CGROUP, DOCKER_ID, NO_CULPRIT, START_NS, row

SECOND_NS = 1_000_000_000
LIBTORCH = b"7f00-7f10 r--p 00000000 fe:00 26      /lib/libtorch.so\n"


def reader_of(proc: Path, **files: bytes) -> ProcessReader:
    """A reader of /proc with process 100."""
    processes = process(proc, 100, **{**NO_CULPRIT, **files})
    return ProcessReader(processes, DirectReads(processes), with_engines=True)


class TestRead:
    def test_rank_and_container_are_those_of_the_process(self, tmp_path: Path) -> None:
        found = reader_of(tmp_path, environ=b"RANK=3\0WORLD_SIZE=8\0", cgroup=CGROUP).read(1, row(), 1000)

        assert (found.rank.rank, found.rank.world_size, found.container.id) == ("3", "8", DOCKER_ID)
        assert (found.is_readable, found.owner.key) == (True, f"container {DOCKER_ID}")

    def test_process_with_another_start_is_another_one(self, tmp_path: Path) -> None:
        """Its tgid was used again: neither rank nor container, and the user as owner."""
        reader = reader_of(tmp_path, environ=b"RANK=3\0", cgroup=CGROUP)
        found = reader.read(1, row(start_ns=START_NS - SECOND_NS), 1000)

        assert (found.rank, found.container.id, found.owner.key) == (Rank(), "", "uid 1000")
        assert not found.is_readable

    def test_process_outside_of_the_namespace_is_not_read(self, tmp_path: Path) -> None:
        """The kernel gives it no tgid."""
        assert not reader_of(tmp_path).read(1, row(tgid=0), 0).is_readable

    def test_engine_is_looked_for_in_libraries_later(self, tmp_path: Path) -> None:
        """Once, where no program shows one."""
        reader = reader_of(tmp_path, maps=LIBTORCH)
        found = reader.read(1, row(), 0)
        assert found.engine == ""
        reader.read_some_libraries({1: found})

        assert found.engine == "pytorch"

    def test_processes_that_have_ended_do_not_queue_up(self, tmp_path: Path) -> None:
        """A hundred short ones since the last tick."""
        reader = reader_of(tmp_path, maps=LIBTORCH)
        for number in range(100):
            reader.read(number, row(), 0)
        last = reader.read(100, row(), 0)
        reader.read_some_libraries({100: last})

        assert last.engine == "pytorch"


class TestIsAlive:
    def test_process_that_started_then_runs(self, tmp_path: Path) -> None:
        """Others with its tgid do not count; one that /proc does not show is taken to run."""
        reader = reader_of(tmp_path)

        assert reader.is_alive(row())
        assert not reader.is_alive(row(start_ns=START_NS + SECOND_NS))
        assert not reader.is_alive(row(tgid=101))
        assert reader.is_alive(row(tgid=0))

    def test_unreadable_process_is_taken_to_run(self, tmp_path: Path) -> None:
        reader = ProcessReader(Processes(tmp_path), DirectReads(Processes(tmp_path)), with_engines=False)
        (tmp_path / "100").mkdir()
        (tmp_path / "100/stat").mkdir()  # cannot be read as a file

        assert reader.is_alive(row())
