"""probes.discovery: which library files are probed, and until when. Processes are files, and the kernel accepts any probe."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.host.libraries import LibraryKind, kind_of
from exporter.host.reader import TenantReader
from exporter.kernel.abi import Api
from exporter.probes.discovery import Discovery
from exporter.probes.file_shares import FileShares
from exporter.probes.proc_walk import ProcWalk
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.support.patience import PATIENCE_SECONDS
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
        self.reader = TenantReader(self.processes, patience_seconds=PATIENCE_SECONDS)
        self.owners: dict[int, str] = {}
        self.discovery = self.discover()

    def discover(
        self,
        apis: frozenset[Api] = frozenset(Api),
        *,
        with_launches: bool = True,
        only_in: Path | None = None,
        kind: AttachKind = AttachKind.SINGLE,
        files: int = 200,
    ) -> Discovery:
        self.discovery = Discovery(
            kernel_of(self.libbpf, kind),
            self.processes,
            apis,
            with_launches=with_launches,
            only_in=only_in,
            owner_of=lambda tgid: self.owners.get(tgid, "job"),
            shares=FileShares(files),
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
            ProcWalk(self.discovery, self.processes, lambda _: "job").whole(self.reader)
        return sorted(file.path for file in self.discovery.probed())

    def look_at(self, tgid: int) -> None:
        for _ in self.discovery.look_at(tgid, self.reader):
            pass

    def failures(self) -> dict[tuple[str, ...], int]:
        return dict(self.discovery.failures)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.reader.close()


def prepare(node: Node, path: str, content: bytes) -> None:
    """The search has found a file that no process maps."""
    file = node.proc.parent / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    kind = kind_of(path.encode())
    assert kind is not None
    node.discovery.prepare(1, file, kind, node.reader)


class TestPreparing:
    """Files that a process may map."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> Iterator[Node]:
        """A kernel that probes a whole library at once."""
        (tmp_path / "proc").mkdir()
        node = Node(tmp_path / "proc")
        node.discover(kind=AttachKind.MULTI)
        yield node
        node.reader.close()

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

        assert (list(node.discovery.probed()), node.failures()) == ([], {})

    def test_sixty_four_files_of_one_owner_are_probed(self, node: Node) -> None:
        """Then another one still has room."""
        for number in range(65):
            prepare(node, f"/opt/{number}/libcudart.so.12", CUDART)
        of_one = len(node.discovery.probed())
        node.owners[1] = "other"
        prepare(node, "/opt/other/libcudart.so.12", CUDART)

        assert (of_one, len(node.discovery.probed())) == (64, 65)

    def test_single_probes_are_not_placed_in_advance(self, node: Node) -> None:
        """Each would take the kernel long to remove."""
        node.discover(kind=AttachKind.SINGLE)
        prepare(node, RUNTIME, CUDART)

        assert list(node.discovery.probed()) == []

    def test_frozen_and_disabled_place_nothing(self, node: Node) -> None:
        for stop in (Discovery.freeze, Discovery.disable):
            stop(node.discover(kind=AttachKind.MULTI))
            prepare(node, RUNTIME, CUDART)

            assert list(node.discovery.probed()) == []


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
        node.discovery.expect(file, LibraryKind.RUNTIME, node.reader)

        assert [file.path for file in node.discovery.probed()] == [str(file)]

    def test_process_that_has_ended_is_no_failure(self, node: Node) -> None:
        node.look_at(4711)

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


class TestShares:
    """A node that may have twenty files known."""

    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.discover(files=20)
        return node

    def test_one_owner_gets_half_of_the_files(self, node: Node) -> None:
        for tgid in range(10, 30):
            node.run(tgid)

        assert len(node.walk()) == 10
        assert node.failures() == {("runtime", "share"): 10}

    def test_another_owner_who_comes_later_gets_its_share(self, node: Node) -> None:
        for tgid in range(10, 30):
            node.run(tgid)
        node.walk()
        node.run(30)
        node.owners[30] = "victim"

        assert len(node.walk()) == 11

    def test_files_without_probes_count(self, node: Node) -> None:
        """They are remembered, too."""
        for tgid in range(10, 30):
            node.run(tgid, content=b"not an ELF file")
        node.walk()

        assert node.failures() == {("runtime", "malformed"): 10, ("runtime", "share"): 10}

    def test_detached_files_are_given_back(self, node: Node) -> None:
        for tgid in range(10, 30):
            node.run(tgid)
        node.walk()
        for tgid in range(10, 30):
            unmap(node.proc, tgid)
        node.walk(2)
        for tgid in range(30, 40):
            node.run(tgid)

        assert len(node.walk()) == 10


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
        assert node.libbpf.uprobes == []

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

        assert (node.libbpf.uprobes, list(node.discovery.probed())) == ([], [])


class TestDisable:
    def test_nothing_is_attached_any_more(self, node: Node) -> None:
        """What is attached stays, until close()."""
        node.run(7)
        node.walk()
        node.discovery.disable()
        node.run(8, NCCL, LIBNCCL)
        node.look_at(8)

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

    @pytest.mark.parametrize("content", [CUDART, OTHER_CUDART], ids=["equal", "other"])
    def test_both_files_stay_probed(self, node: Node, content: bytes) -> None:
        """One forwards its calls to the other, which may be called directly as well. Equal files are two files all the same."""
        node.run(7)
        node.walk()
        node.run(8, content=content)
        node.walk()
        node.discovery.note_surplus(2, 1)

        assert len(node.discovery.probed()) == 2
        assert node.discovery.surplus == {("runtime",): 1}

    def test_attachment_that_is_gone_is_ignored(self, node: Node) -> None:
        node.run(7)
        node.walk()
        node.discovery.note_surplus(2, 1)

        assert node.discovery.surplus == {}
