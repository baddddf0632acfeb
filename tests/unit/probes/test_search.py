"""search: each file once, when the first process comes that may map it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.config.probes import AttachKind
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.kernel.abi import Api
from exporter.probes.discovery import Discovery
from exporter.probes.search import LibrarySearch, LikelyLibraries
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.support.patience import PATIENCE_SECONDS

NCCL = "lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"


class Machine:
    """Its /proc, and roots of containers. Time stands still but for pass_seconds()."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.reader = TenantReader(Processes(folder / "proc"), patience_seconds=PATIENCE_SECONDS)
        self.likely = LikelyLibraries(Processes(folder / "proc"), self.reader, lambda: self.now)
        (folder / "proc").mkdir()

    def library(self, path: str) -> None:
        """A real library in a root."""
        file = self.folder / path
        file.parent.mkdir(parents=True)
        shutil.copy(standin.build_dir() / "libnccl.so.2", file)

    def process(self, tgid: int, root: str, executable: str = "/bin/sh") -> None:
        """In a mount namespace with the name of its root."""
        process = self.folder / "proc" / str(tgid)
        (process / "ns").mkdir(parents=True)
        (process / "ns/mnt").symlink_to(f"mnt:[{root}]")
        (process / "root").symlink_to(self.folder / root)
        (process / "exe").symlink_to(executable)
        (process / "cmdline").write_bytes(executable.encode() + b"\0")

    def found(self) -> list[str]:
        """Relative to the folder."""
        return [str(likely.path.resolve().relative_to(self.folder)) for _, likely in self.likely.fresh()]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Without processes."""
    machine = Machine(tmp_path)
    yield machine
    machine.reader.close()


class TestFresh:
    """What is found, and when."""

    def test_library_of_an_image_is_found_with_the_first_process_of_its_container(self, machine: Machine) -> None:
        """Once."""
        machine.library(f"image/opt/conda/{NCCL}")
        before = machine.found()
        machine.process(10, "image")
        with_first = machine.found()
        machine.process(11, "image")

        assert (before, with_first, machine.found()) == ([], [f"image/opt/conda/{NCCL}"], [])

    def test_library_of_an_environment_is_found_with_its_interpreter(self, machine: Machine) -> None:
        machine.library(f"host/srv/job/.venv/{NCCL}")
        machine.process(10, "host")
        before = machine.found()
        machine.process(11, "host", "/srv/job/.venv/bin/python")

        assert (before, machine.found()) == ([], [f"host/srv/job/.venv/{NCCL}"])

    def test_all_places_are_searched_again_after_a_minute(self, machine: Machine) -> None:
        """What was installed since is found, and what was found before as well."""
        machine.library(f"host/usr/{NCCL}")
        machine.process(10, "host")
        machine.found()
        machine.library(f"host/usr/local/{NCCL}")
        machine.now = 59.0
        before = machine.found()
        machine.now = 60.0

        assert (before, set(machine.found())) == ([], {f"host/usr/{NCCL}", f"host/usr/local/{NCCL}"})


class TestSearch:
    """Files that are found are probed."""

    def test_found_libraries_are_probed(self, machine: Machine) -> None:
        machine.library(f"host/usr/{NCCL}")
        machine.process(10, "host")

        assert self.probed_in(machine) == ["libnccl.so.2"]

    def test_file_that_is_no_library_is_left_alone(self, machine: Machine) -> None:
        """An installation that is not complete yet."""
        machine.library(f"host/usr/{NCCL}")
        (machine.folder / "host/usr" / NCCL).write_bytes(b"")
        machine.process(10, "host")

        assert self.probed_in(machine) == []

    @staticmethod
    def probed_in(machine: Machine) -> list[str]:
        processes = Processes(machine.folder / "proc")
        kernel = kernel_of(FakeLibbpf(), AttachKind.MULTI)
        discovery = Discovery(kernel, processes, frozenset(Api), with_launches=True)
        search = LibrarySearch(discovery, processes)
        search.search_now()
        search.close()
        return [Path(file.path).name for file in discovery.probed()]
