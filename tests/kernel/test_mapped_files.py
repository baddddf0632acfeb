"""mapped_files: the inodes that a process runs code from, by the running kernel."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.host.libraries import LibraryKind, find
from exporter.host.mappings import parse_executable_mappings
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from exporter.kernel.mapped_files import MappedFile, MappedFiles, RealFile
from tests.support.discovering import copied
from tests.support.held_calls import held_calls
from tests.support.mounts import mount_namespace
from tests.support.traced import tracer


@pytest.fixture(scope="module")
def mapped_files() -> Iterator[MappedFiles]:
    """With the program loaded."""
    with tracer() as traced:
        yield MappedFiles(traced.kernel)


def _of(mapped_files: MappedFiles, path: Path) -> RealFile | None:
    """The file at a path."""
    found = _mapped(mapped_files, path)
    return found.file if found else None


def _mapped(mapped_files: MappedFiles, path: Path) -> MappedFile | None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        address = ctypes.addressof(start)
        del start
        return mapped_files.at(os.getpid(), address)


class TestProcess:
    def test_every_executable_mapping_is_listed(self, mapped_files: MappedFiles) -> None:
        """With the addresses and inode numbers of /proc, since there is no overlay here."""
        with held_calls() as other:
            (tgid,) = other.tgids
            shown = {(one.start, one.end): one.inode for one in parse_executable_mappings(Processes().maps(tgid))}
            found = mapped_files.of_process(tgid)

        assert shown
        assert {place: one.file.inode for place, one in found.items() if place in shown} == shown

    def test_ended_process_has_no_mappings(self, mapped_files: MappedFiles) -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

        assert mapped_files.of_process(child) == {}


class TestOverlay:
    def test_file_of_the_layer_and_its_copy_are_two_files(self, mapped_files: MappedFiles, tmp_path: Path) -> None:
        """Two jobs by one path with a chmod in between: the first maps the file of the layer, the second its copy."""
        layer = copied(tmp_path / "layer")
        with mount_namespace() as inside, ExitStack() as jobs:
            merged = inside.overlay("merged", layer, tmp_path)
            told = []
            for _ in range(2):
                job = jobs.enter_context(held_calls(libraries=merged, before=inside.enter))
                told.append(self._of_runtime(mapped_files, job.tgids[0]))
                inside.run("chmod", "0700", merged / "libcudart.so.12")
            below = _of(mapped_files, layer / "libcudart.so.12")
            now = _of(mapped_files, inside.seen(merged / "libcudart.so.12"))

        assert None not in (below, now)
        assert told == [below, now]
        assert below != now

    @staticmethod
    def _of_runtime(mapped_files: MappedFiles, tgid: int) -> RealFile:
        (library,) = (one for one in find(Processes(), tgid) if one.kind is LibraryKind.RUNTIME)
        return mapped_files.of_process(tgid)[library.mapping.start, library.mapping.end].file


class TestAt:
    """The file that a probe would be placed in."""

    def test_hard_link_is_the_same_file_and_a_copy_is_not(self, mapped_files: MappedFiles, tmp_path: Path) -> None:
        one, link, copy = (tmp_path / name for name in ("one", "link", "copy"))
        one.write_bytes(b"content")
        link.hardlink_to(one)
        copy.write_bytes(b"content")
        files = [_of(mapped_files, path) for path in (one, link, copy)]

        assert files[0] is not None
        assert files[0] == files[1]
        assert files[0] != files[2]
        assert files[0].inode == one.stat().st_ino

    def test_file_system_of_a_file_is_known(self, mapped_files: MappedFiles) -> None:
        """tmpfs, mounted by root."""
        file = Path("/dev/shm/gpustall-mapped-file")
        file.write_bytes(b"content")
        found = _of(mapped_files, file)
        file.unlink()

        assert found is not None
        assert (found.file_system, found.is_in_user_namespace) == (0x01021994, False)

    @pytest.mark.parametrize("is_asked_for", [False, True])
    def test_time_of_a_change_is_that_of_stat(
        self, mapped_files: MappedFiles, tmp_path: Path, is_asked_for: bool
    ) -> None:
        """Also when a program has asked for it since: in the inode the kernel notes that, beside the nanoseconds."""
        file = tmp_path / "file"
        file.write_bytes(b"content")
        file.chmod(0o700)
        if is_asked_for:
            file.stat()
        found = _mapped(mapped_files, file)

        assert found is not None
        assert found.stamp.changed_ns == file.stat().st_ctime_ns

    def test_file_of_a_child_is_known(self, mapped_files: MappedFiles, tmp_path: Path) -> None:
        """The reader maps a library without executing it."""
        library = standin.build_dir() / "libcudart.so.12"
        reader = TenantReader(Processes(), patience_seconds=20.0)
        found = reader.inspect_file(library, LibraryKind.RUNTIME, ["cudaMalloc"])
        assert isinstance(found, ExaminedLibrary)
        real = mapped_files.at(reader.tgid, found.page)
        found.close()
        reader.close()

        assert real is not None
        assert real.file == _of(mapped_files, library)


class TestWithoutTheProgram:
    """A kernel that cannot load the program."""

    def test_no_mapping_is_known_and_nothing_fails(self) -> None:
        with tracer(subjects=("process", "cuda")) as traced:
            mapped_files = MappedFiles(traced.kernel)

            assert not mapped_files.is_possible
            assert mapped_files.of_process(os.getpid()) == {}
