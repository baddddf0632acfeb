"""libraries: which mappings are CUDA libraries, and that the file opened is the one mapped."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from exporter.errors import MalformedElf, NotPossibleHere, ProcessGone
from exporter.host.libraries import (
    FileId,
    LibraryKind,
    MappedLibrary,
    OpenedLibrary,
    SkippedLibrary,
    SkipReason,
    find,
    inspect,
    kind_of,
    open_library,
)
from exporter.host.mappings import Mapping, parse_executable_mappings
from exporter.host.processes import Processes
from tests.support.counted import lines_run

from .elf_image import Image, Sym
from .process_tree import process

PATH = b"/opt/cuda/libcudart.so.12"


class TestKinds:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("libcudart.so", LibraryKind.RUNTIME),
            ("libcudart.so.12", LibraryKind.RUNTIME),
            ("libcudart.so.12.9.79", LibraryKind.RUNTIME),
            ("libcudart-d0da41ae.so.11.0", LibraryKind.RUNTIME),
            ("libcuda.so.1", LibraryKind.DRIVER),
            ("libcuda.so.570.124.06", LibraryKind.DRIVER),
            ("libcuda.so.1.1", LibraryKind.DRIVER),  # of WSL2, behind its libcuda.so.1
            ("libcuda_loader.so", None),  # of WSL2
            ("libnccl.so.2", LibraryKind.NCCL),
            ("libnccl-0a1b2c3d.so.2.19.3", LibraryKind.NCCL),
            ("libtorch_cuda.so", LibraryKind.NCCL),
            ("libcudart_static.a", None),
            ("libcudart-static.so", None),
            ("libcudart.sox", None),
            ("libcudadebugger.so.1", None),
            ("libcuda.so", LibraryKind.DRIVER),
            ("libcudadevrt.so", None),
            ("libnccl-net.so", None),
            ("libnccl-net-ofi.so.0", None),
            ("libnccl-tuner.so", None),
            ("libnccl-profiler.so", None),
            ("libtorch_cuda_linalg.so", None),
            ("libtorch.so", None),
            ("mylibcudart.so", None),
        ],
    )
    def test_kind_is_decided_by_the_name(self, name: str, kind: LibraryKind | None) -> None:
        """NVIDIA's own names and auditwheel's; not plugins, debuggers and archives."""
        assert kind_of(f"/usr/lib/{name}".encode()) == kind

    def test_folder_does_not_decide(self) -> None:
        """A folder may have a library's name."""
        assert kind_of(b"/opt/libcudart.so.12/data") is None


class TestFind:
    def test_each_file_is_listed_once_with_its_first_range(self, tmp_path: Path) -> None:
        """A library split into two executable mappings, and a second library."""
        maps = (
            b"1000-2000 r-xp 00000000 fe:00 26 /lib/libcudart.so.12\n"
            b"3000-4000 r-xp 00002000 fe:00 26 /lib/libcudart.so.12\n"
            b"5000-6000 r--p 00000000 fe:00 27 /lib/libcuda.so.1\n"
            b"6000-7000 r-xp 00001000 fe:00 27 /lib/libcuda.so.1 (deleted)\n"
        )

        found = find(process(tmp_path, 7, maps=maps), 7)

        assert [(library.kind, library.mapping.start, library.mapping.is_deleted) for library in found] == [
            (LibraryKind.RUNTIME, 0x1000, False),
            (LibraryKind.DRIVER, 0x6000, True),
        ]

    def test_process_without_cuda_has_no_libraries(self, tmp_path: Path) -> None:
        assert find(process(tmp_path, 7, maps=b"1000-2000 r-xp 00000000 fe:00 26 /lib/libc.so.6\n"), 7) == []

    def test_mappings_of_other_files_are_not_parsed(self, tmp_path: Path) -> None:
        """Most of a machine's processes have nothing else: 200 mappings cost the lines of Python that one costs."""
        line = b"7f5e89d3f000-7f5e89e95000 r-xp 00026000 fe:00 326269                     /usr/lib/libm.so.6\n"
        process(tmp_path, 7, maps=line)
        processes = process(tmp_path, 8, maps=line * 200)
        one, many = (lines_run(lambda tgid=tgid: find(processes, tgid)) for tgid in (7, 8))  # type: ignore[misc]

        assert one == many


def open_below(folder: Path) -> list[Path]:
    """Files in the folder that this process has open."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            links.append(descriptor.readlink())
    return [link for link in links if link.is_relative_to(folder)]


class TestOpen:
    def tree(self, tmp_path: Path, *, inode: int | None = None) -> tuple[Processes, Mapping]:
        """A process 7 whose root holds a library; its mapping has that file's inode unless given."""
        processes = process(tmp_path / "proc", 7)
        file = tmp_path / "proc/7/root" / os.fsdecode(PATH[1:])
        file.parent.mkdir(parents=True)
        file.write_bytes(Image([Sym("cudaLaunchKernel")]).content())
        (tmp_path / "proc/7/map_files").mkdir()
        status = file.stat()
        return processes, Mapping(0x1000, 0x2000, PATH, status.st_dev, inode or status.st_ino, False)

    def test_map_files_comes_first(self, tmp_path: Path) -> None:
        """It leads to the mapped file, whatever is at the path by now."""
        processes, mapping = self.tree(tmp_path, inode=1)
        mapped = tmp_path / "mapped"
        mapped.write_bytes(b"mapped")
        (tmp_path / "proc/7/map_files/1000-2000").symlink_to(mapped)

        fd = open_library(processes, 7, mapping)

        assert os.read(fd, 10) == b"mapped"
        assert not os.get_inheritable(fd)
        os.close(fd)

    def test_path_below_root_is_used_when_the_inode_is_the_same(self, tmp_path: Path) -> None:
        """Without the capability for map_files."""
        processes, mapping = self.tree(tmp_path)

        with_fd = inspect(processes, 7, MappedLibrary(LibraryKind.RUNTIME, mapping))

        assert isinstance(with_fd, OpenedLibrary)
        with with_fd:
            assert with_fd.file_id == FileId(mapping.device, mapping.inode, 0)
            assert with_fd.elf.symbol_offsets(["cudaLaunchKernel"]) == {"cudaLaunchKernel": 0x100}
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(with_fd.fd)

    def test_another_file_at_the_path_is_not_opened(self, tmp_path: Path) -> None:
        """An update replaced the library; probes in the new file would count nothing."""
        processes, mapping = self.tree(tmp_path, inode=1)

        skipped = inspect(processes, 7, MappedLibrary(LibraryKind.RUNTIME, mapping))

        assert isinstance(skipped, SkippedLibrary)
        assert skipped.reason is SkipReason.VANISHED
        assert open_below(tmp_path) == []

    def test_process_that_ended_is_gone(self, tmp_path: Path) -> None:
        with pytest.raises(ProcessGone):
            open_library(Processes(tmp_path), 7, Mapping(0x1000, 0x2000, PATH, 1, 1, False))

    def test_symbolic_link_to_itself_is_denied(self, tmp_path: Path) -> None:
        processes, mapping = self.tree(tmp_path)
        file = tmp_path / "proc/7/root" / os.fsdecode(PATH[1:])
        file.unlink()
        file.symlink_to(file)

        with pytest.raises(NotPossibleHere):
            open_library(processes, 7, mapping)

    @pytest.mark.parametrize(
        ("kind", "reason"), [("fuse.squashfuse", SkipReason.USER_FILE_SYSTEM), ("ext4", SkipReason.DENIED)]
    )
    def test_refusal_by_fuse_takes_no_capability(self, tmp_path: Path, kind: str, reason: SkipReason) -> None:
        """It lets the user read who has mounted it, as in a rootless container, and no one else."""
        processes, mapping = self.tree(tmp_path)
        file = tmp_path / "proc/7/root" / os.fsdecode(PATH[1:])
        file.unlink()
        file.symlink_to(file)
        device = f"{os.major(mapping.device)}:{os.minor(mapping.device)}"
        (tmp_path / "proc/7/mountinfo").write_text(f"36 25 {device} / /image ro - {kind} image ro,user_id=0\n")

        skipped = inspect(processes, 7, MappedLibrary(LibraryKind.RUNTIME, mapping))

        assert isinstance(skipped, SkippedLibrary)
        assert skipped.reason is reason

    def test_pipe_with_the_name_of_a_library_does_not_block(self, tmp_path: Path) -> None:
        """Opening a pipe for reading waits for a writer."""
        processes, mapping = self.tree(tmp_path)
        os.mkfifo(tmp_path / "proc/7/map_files/1000-2000")

        with pytest.raises(MalformedElf, match="not a regular file"):
            open_library(processes, 7, mapping)

    def test_file_that_is_no_library_is_malformed_and_closed(self, tmp_path: Path) -> None:
        """A script with the name of a library leaks no descriptor."""
        processes, mapping = self.tree(tmp_path)
        (tmp_path / "proc/7/map_files/1000-2000").symlink_to(tmp_path / "proc/7/stat")

        skipped = inspect(processes, 7, MappedLibrary(LibraryKind.RUNTIME, mapping))

        assert isinstance(skipped, SkippedLibrary)
        assert (skipped.reason, skipped.detail[: len(PATH)]) == (SkipReason.MALFORMED, PATH.decode())
        assert open_below(tmp_path) == []

    def test_path_with_a_zero_byte_is_skipped(self, tmp_path: Path) -> None:
        """No path has one; a tree that is not /proc may."""
        processes, mapping = self.tree(tmp_path)
        hostile = Mapping(mapping.start, mapping.end, b"/a\0b", 0, 1, False)

        with pytest.raises(ProcessGone):
            open_library(processes, 7, hostile)

    def test_own_mapped_file_is_opened_through_real_proc(self) -> None:
        """Python's own code, with map_files where this user may use it."""
        processes, tgid = Processes(), os.getpid()
        mapping = next(m for m in parse_executable_mappings(processes.maps(tgid)) if not m.is_deleted)

        with_fd = inspect(processes, tgid, MappedLibrary(LibraryKind.RUNTIME, mapping))

        assert isinstance(with_fd, OpenedLibrary)
        with with_fd:
            assert with_fd.elf.machine in ("x86_64", "aarch64")
            assert with_fd.file_id.inode == mapping.inode
