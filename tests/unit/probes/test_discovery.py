"""probes.discovery: which library files are probed, and until when. Processes are files, and the kernel accepts any probe."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.host.libraries import LibraryKind, OpenedLibrary, inspect_file, kind_of
from exporter.kernel.abi import Api
from exporter.probes.discovery import Discovery
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_process, process, unmap

RUNTIME, NCCL = "/opt/cuda/libcudart.so.12", "/opt/nccl/libnccl.so.2"
CUDART = Image([Sym("cudaMalloc"), Sym("cudaFree", 0x401010)]).content()
OTHER_CUDART = Image([Sym("cudaMalloc")], build_id=bytes(20)).content()
LIBNCCL = Image([Sym("ncclAllReduce")], soname="libnccl.so.2").content()


class Node:
    """A /proc and a kernel without programs that identify files, as before 6.1."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.now = 0.0
        self.libbpf = FakeLibbpf()
        self.processes = process(proc, 1, maps=b"")
        self.discovery = self.discover()

    def discover(
        self,
        apis: frozenset[Api] = frozenset(Api),
        *,
        with_launches: bool = True,
        only_in: Path | None = None,
        kind: AttachKind = AttachKind.SINGLE,
    ) -> Discovery:
        self.discovery = Discovery(
            kernel_of(self.libbpf, kind),
            self.processes,
            apis,
            0.0,
            with_launches=with_launches,
            only_in=only_in,
            clock=lambda: self.now,
        )
        return self.discovery

    def run(self, tgid: int, path: str = RUNTIME, content: bytes = CUDART) -> None:
        """Start a process that maps a library of its own."""
        mapping_process(self.proc, tgid, path, content)

    def end(self, tgid: int) -> None:
        shutil.rmtree(self.proc / str(tgid))

    def walk(self, times: int = 1) -> list[str]:
        """Paths of probed files after so many whole walks."""
        for _ in range(times):
            self.discovery.walk_all()
        return sorted(file.path for file in self.discovery.probed())

    def failures(self) -> dict[tuple[str, ...], int]:
        return dict(self.discovery.failures)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def prepare(node: Node, path: str, content: bytes) -> None:
    """The search has found a file that no process maps."""
    file = node.proc.parent / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    kind = kind_of(path.encode())
    assert kind is not None
    found = inspect_file(file, kind)
    assert isinstance(found, OpenedLibrary)
    node.discovery.prepare(found)


class TestPreparing:
    """Files that a process may map."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> Node:
        """A kernel that probes a whole library at once."""
        (tmp_path / "proc").mkdir()
        node = Node(tmp_path / "proc")
        node.discover(kind=AttachKind.MULTI)
        return node

    def test_file_is_probed_before_a_process_maps_it(self, node: Node) -> None:
        prepare(node, RUNTIME, CUDART)

        assert len(node.discovery.probed()) == 1

    def test_it_stays_probed_for_three_minutes(self, node: Node) -> None:
        """Walks without a user do not detach it; after that they do."""
        prepare(node, RUNTIME, CUDART)
        within = len(node.walk(3))
        node.now = 180.0

        assert (within, node.walk(3)) == (1, [])

    def test_it_stays_longer_if_it_is_found_again(self, node: Node) -> None:
        prepare(node, RUNTIME, CUDART)
        node.now = 100.0
        prepare(node, RUNTIME, CUDART)
        node.now = 279.0

        assert len(node.walk(3)) == 1

    def test_file_with_nothing_to_probe_is_no_failure(self, node: Node) -> None:
        """PyTorch's library without NCCL in it."""
        prepare(node, "/opt/libtorch_cuda.so", CUDART)

        assert (node.discovery.probed(), node.failures()) == ([], {})

    def test_sixty_four_files_are_probed(self, node: Node) -> None:
        for number in range(65):
            prepare(node, f"/opt/{number}/libcudart.so.12", CUDART)

        assert len(node.discovery.probed()) == 64

    def test_single_probes_are_not_placed_in_advance(self, node: Node) -> None:
        """Each would take the kernel long to remove."""
        node.discover(kind=AttachKind.SINGLE)
        prepare(node, RUNTIME, CUDART)

        assert node.discovery.probed() == []

    def test_frozen_and_disabled_place_nothing(self, node: Node) -> None:
        for stop in (Discovery.freeze, Discovery.disable):
            stop(node.discover(kind=AttachKind.MULTI))
            prepare(node, RUNTIME, CUDART)

            assert node.discovery.probed() == []


class TestAttaching:
    def test_libraries_of_every_process_are_probed(self, node: Node) -> None:
        node.run(7)
        node.run(8, NCCL, LIBNCCL)

        assert node.walk() == [RUNTIME, NCCL]

    def test_file_is_probed_once(self, node: Node) -> None:
        """However many walks find it: an entry and a return for each of two functions."""
        node.run(7)
        node.walk(3)

        assert len(node.libbpf.uprobes) == 4

    def test_api_that_is_not_wanted_is_left_alone(self, node: Node) -> None:
        node.discover(frozenset({Api.NCCL}))
        node.run(7)
        node.run(8, NCCL, LIBNCCL)

        assert node.walk() == [NCCL]

    def test_only_one_directory_is_probed_when_it_is_given(self, node: Node) -> None:
        node.discover(only_in=Path("/opt/nccl"))
        node.run(7)
        node.run(8, NCCL, LIBNCCL)

        assert node.walk() == [NCCL]

    def test_launches_are_left_out_when_they_are_off(self, node: Node) -> None:
        node.discover(with_launches=False)
        node.run(7, content=Image([Sym("cudaMalloc"), Sym("cudaLaunchKernel", 0x401010)]).content())
        node.walk()
        (file,) = node.discovery.probed()

        assert file.attachment is not None
        assert file.attachment.functions == ("cudaMalloc",)

    def test_library_is_expected_before_a_process_maps_it(self, node: Node, tmp_path: Path) -> None:
        file = tmp_path / "libcudart.so.12"
        file.write_bytes(CUDART)
        node.discovery.expect(file, LibraryKind.RUNTIME)

        assert [file.path for file in node.discovery.probed()] == [str(file)]

    def test_process_that_has_ended_is_no_failure(self, node: Node) -> None:
        node.discovery.look_at(4711)

        assert node.failures() == {}


class TestFailures:
    def test_library_without_a_wanted_function_is_counted_once(self, node: Node) -> None:
        """It is not opened again at every walk."""
        node.run(7, content=Image([Sym("other")]).content())

        assert node.walk(2) == []
        assert node.failures() == {("runtime", "no_symbols"): 1}

    def test_malformed_library_is_counted(self, node: Node) -> None:
        node.run(7, content=b"not an ELF file")

        assert node.walk(2) == []
        assert node.failures() == {("runtime", "malformed"): 1}

    def test_refusal_of_the_kernel_is_counted(self, node: Node) -> None:
        node.libbpf.refused_after = 0
        node.run(7)

        assert node.walk(2) == []
        assert node.failures() == {("runtime", "refused"): 1}

    def test_the_first_failure_of_a_reason_is_logged(self, node: Node, caplog: pytest.LogCaptureFixture) -> None:
        """Two files, one line."""
        caplog.set_level(logging.WARNING)
        node.libbpf.refused_after = 0
        node.run(7)
        node.run(8)
        node.walk()

        assert node.failures() == {("runtime", "refused"): 2}
        (record,) = caplog.records
        assert record.getMessage().startswith(f"cannot probe a runtime library (refused): {RUNTIME}: cannot attach")


class TestDetaching:
    def test_file_that_no_process_maps_is_kept_for_one_walk(self, node: Node) -> None:
        node.run(7)
        node.walk()
        unmap(node.proc, 7)

        assert node.walk() == [RUNTIME]

    def test_file_that_no_process_maps_in_two_walks_is_detached(self, node: Node) -> None:
        node.run(7)
        node.walk()
        unmap(node.proc, 7)

        assert node.walk(2) == []
        assert node.libbpf.uprobes == {}

    def test_noted_use_counts_as_mapped(self, node: Node) -> None:
        """The process may have ended before the walk met it."""
        node.run(7)
        node.walk()
        inode = (node.proc / "7/root" / RUNTIME[1:]).stat().st_ino
        node.end(7)
        node.walk()
        node.discovery.note_use({(inode, RUNTIME.encode())})

        assert node.walk() == [RUNTIME]

    def test_close_detaches_everything(self, node: Node) -> None:
        node.run(7)
        node.walk()
        node.discovery.close()

        assert (node.libbpf.uprobes, node.discovery.probed()) == ({}, [])


class TestDisable:
    def test_nothing_is_attached_any_more(self, node: Node) -> None:
        """What is attached stays, until close()."""
        node.run(7)
        node.walk()
        node.discovery.disable()
        node.run(8, NCCL, LIBNCCL)
        node.discovery.look_at(8)

        assert [file.path for file in node.discovery.probed()] == [RUNTIME]


class TestFreeze:
    def test_later_library_is_counted_and_not_probed(self, node: Node) -> None:
        node.run(7)
        node.walk()
        node.discovery.freeze()
        node.run(8, NCCL, LIBNCCL)

        assert node.walk(2) == [RUNTIME]
        assert node.failures() == {("nccl", "frozen"): 1}

    def test_unused_file_stays_probed(self, node: Node) -> None:
        """It could not be attached again."""
        node.run(7)
        node.walk()
        node.discovery.freeze()
        node.end(7)

        assert node.walk(3) == [RUNTIME]


class TestSurplus:
    """Two attachments that see the same calls; their numbers are 1 and 2 in the order of attaching."""

    def test_second_attachment_on_equal_files_is_detached(self, node: Node) -> None:
        node.run(7)
        node.walk()
        node.run(8)
        node.walk()
        node.discovery.resolve_surplus(2, 1)

        assert len(node.discovery.probed()) == 1
        assert node.discovery.surplus == {("runtime",): 1}

    def test_it_is_not_attached_again(self, node: Node) -> None:
        """Its names lead to the other one now."""
        node.run(7)
        node.walk()
        node.run(8)
        node.walk()
        node.discovery.resolve_surplus(2, 1)

        assert len(node.walk(3)) == 1

    def test_both_stay_if_the_files_differ(self, node: Node) -> None:
        """One forwards its calls to the other, which may be called directly as well."""
        node.run(7)
        node.walk()
        node.run(8, content=OTHER_CUDART)
        node.walk()
        node.discovery.resolve_surplus(2, 1)

        assert len(node.discovery.probed()) == 2
        assert node.discovery.surplus == {("runtime",): 1}

    def test_attachment_that_is_gone_is_ignored(self, node: Node) -> None:
        node.run(7)
        node.walk()
        node.discovery.resolve_surplus(2, 1)

        assert node.discovery.surplus == {}


class TestWalk:
    def test_walk_goes_on_where_it_stopped(self, node: Node) -> None:
        """Without time, each step looks at one process."""
        node.run(7)
        node.run(8, NCCL, LIBNCCL)
        found = []
        for _ in range(3):
            node.discovery.step(-1.0)
            found.append(len(node.discovery.probed()))

        assert found[-1] == 2
        assert found[0] < 2

    def test_next_walk_waits_for_its_interval(self, node: Node) -> None:
        node.discovery.interval_seconds = 3600.0
        node.walk()
        node.run(7)
        node.discovery.step()

        assert node.discovery.probed() == []

    def test_hurry_begins_it_at_once(self, node: Node) -> None:
        node.discovery.interval_seconds = 3600.0
        node.walk()
        node.run(7)
        node.discovery.hurry()
        node.discovery.step(60.0)

        assert [file.path for file in node.discovery.probed()] == [RUNTIME]
