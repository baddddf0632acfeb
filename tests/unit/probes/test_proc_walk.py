"""probes.proc_walk: which processes a walk finds, and which files it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.host.processes import MAPS_BYTES_MAX, Processes
from exporter.host.reader import TenantReader
from exporter.kernel.abi import Api
from exporter.probes.discovery import Discovery
from exporter.probes.proc_walk import ProcWalk
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_process, process

PATH = "/opt/libcudart.so.12"
CUDART = Image([Sym("cudaMalloc")]).content()


class Node:
    """Owners are processes. alone: processes that are not read together with others."""

    def __init__(self, proc: Path) -> None:
        processes = Processes(proc)
        self.alone: set[int] = set()
        self.reader = TenantReader(processes, patience_seconds=3.0)
        self.discovery = Discovery(kernel_of(FakeLibbpf()), processes, frozenset(Api), with_launches=True, owner_of=str)
        self.walk = ProcWalk(self.discovery, processes, str, self.alone.__contains__)

    def found(self) -> list[tuple[int, bool]]:
        """Each process of a walk that is to be looked at, and whether its look has begun. None is looked at."""
        return [(tgid, steps is not None) for tgid, steps, _ in self.walk.steps(self.reader) if tgid]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.reader.close()


class TestSteps:
    def test_processes_with_libraries_are_found(self, node: Node, tmp_path: Path) -> None:
        mapping_process(tmp_path, 7, PATH, CUDART)
        process(tmp_path, 8, maps=b"")

        assert node.found() == [(7, True)]

    def test_process_that_is_read_alone_is_left_to_its_look(self, node: Node, tmp_path: Path) -> None:
        mapping_process(tmp_path, 7, PATH, CUDART)
        node.alone.add(7)

        assert node.found() == [(7, False)]

    def test_processes_that_are_read_with_one_that_does_not_answer_are_left_to_their_looks(
        self, node: Node, tmp_path: Path
    ) -> None:
        mapping_process(tmp_path, 7, PATH, CUDART)
        process(tmp_path, 8)
        os.mkfifo(tmp_path / "8/maps")

        assert node.found() == [(7, False), (8, False)]


class TestUse:
    @pytest.fixture
    def node(self, node: Node, tmp_path: Path) -> Node:
        """One library is probed."""
        mapping_process(tmp_path, 7, PATH, CUDART)
        node.walk.whole(node.reader)
        assert len(node.discovery.probed()) == 1
        return node

    def test_mapped_file_stays_though_its_process_is_not_looked_at(self, node: Node) -> None:
        """Its owner may have no time left."""
        for _ in range(3):
            node.found()

        assert len(node.discovery.probed()) == 1

    def test_file_of_a_process_that_is_not_read_stays(self, node: Node) -> None:
        node.alone.add(7)
        for _ in range(3):
            node.found()

        assert len(node.discovery.probed()) == 1

    def test_file_of_a_process_with_more_mappings_than_are_read_stays(self, node: Node, tmp_path: Path) -> None:
        """The file may be among the others."""
        (tmp_path / "7/maps").write_bytes(b"\n" * MAPS_BYTES_MAX)
        for _ in range(3):
            node.found()

        assert len(node.discovery.probed()) == 1
        assert node.discovery.unreadable_processes == 1

    def test_file_that_is_not_mapped_any_more_is_detached(self, node: Node, tmp_path: Path) -> None:
        (tmp_path / "7/maps").write_text("")
        for _ in range(3):
            node.found()

        assert len(node.discovery.probed()) == 0
