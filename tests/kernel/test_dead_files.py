"""A file system in user space that has died: its files are skipped and counted, and others are read as before.

The kernel reports an error for each request to it, also when a file is closed that was opened before.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.host.eh_frame import FrameRules
from exporter.host.libraries import LibraryKind, SkippedLibrary, SkipReason, find, inspect
from exporter.host.likely_libraries import in_root
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from tests.support.patience import PATIENCE_SECONDS
from tests.support.silent_files import Served, served
from tests.support.traced import only

NAME = "libcudart.so.12"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the stand-in's runtime, which nothing has mapped before."""
    if not Path("/dev/fuse").exists():
        pytest.skip("needs /dev/fuse")
    path = tmp_path / "libraries"
    path.mkdir()
    shutil.copy(standin.build_dir() / NAME, path)
    return path


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """Where the file system is."""
    return tmp_path / "mounted"


@pytest.fixture
def files(folder: Path, mounted: Path) -> Iterator[Served]:
    """The same library, on a file system that root has mounted."""
    with served(mounted, folder) as files:
        yield files


@pytest.fixture
def reader() -> Iterator[TenantReader]:
    """A reader of the real /proc."""
    reader = TenantReader(Processes(), PATIENCE_SECONDS)
    yield reader
    reader.close()


def mapped(path: Path) -> mmap.mmap:
    """A page of a library in this process, executable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(fd, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
    finally:
        os.close(fd)


def descriptors() -> set[str]:
    """The open ones of this process."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def examined(reader: TenantReader, path: Path) -> dict[str, int]:
    """What the reader finds in a library."""
    found = reader.inspect_file(path, LibraryKind.RUNTIME, ["cudaMalloc"])
    assert isinstance(found, ExaminedLibrary)
    found.close()
    return dict(found.offsets)


class TestDeadFileSystem:
    """It dies while a file of it is open."""

    def test_close_reports_an_error(self, files: Served, mounted: Path) -> None:
        """Otherwise the others would test nothing."""
        fd = os.open(mounted / NAME, os.O_RDONLY)
        files.die()
        with pytest.raises(OSError, match=os.strerror(errno.ENOTCONN)):
            os.close(fd)

    def test_reader_goes_on_with_other_files(
        self, files: Served, mounted: Path, folder: Path, reader: TenantReader
    ) -> None:
        """The reader had the dead one open, and closes it before the next one."""
        before = examined(reader, mounted / NAME)
        files.die()

        assert examined(reader, folder / NAME) == before
        assert examined(reader, folder / NAME) == before

    def test_mapped_library_is_skipped_as_not_answered(self, files: Served, mounted: Path) -> None:
        """It is no privilege that is missing, and nothing is wrong with the file."""
        page = mapped(mounted / NAME)
        files.die()
        library = only(one for one in find(Processes(), os.getpid()) if str(mounted) in one.mapping.shown_path)
        found = inspect(Processes(), os.getpid(), library)
        page.close()

        assert isinstance(found, SkippedLibrary)
        assert found.reason is SkipReason.UNANSWERED
        assert os.strerror(errno.ENOTCONN) in found.detail

    def test_no_descriptor_is_left_open(self, files: Served, mounted: Path) -> None:
        page = mapped(mounted / NAME)
        library = only(one for one in find(Processes(), os.getpid()) if str(mounted) in one.mapping.shown_path)
        before = descriptors()
        files.die()
        inspect(Processes(), os.getpid(), library)
        after = descriptors()
        page.close()

        assert after == before

    def test_unwinding_ends_without_an_error(self, files: Served, mounted: Path) -> None:
        """And closes every file once: a number that was closed may belong to another file."""
        page = mapped(mounted / NAME)
        library = only(one for one in find(Processes(), os.getpid()) if str(mounted) in one.mapping.shown_path)
        before = descriptors()
        with FrameRules(Processes(), os.getpid()) as rules:
            rules.at(library.mapping.start)
            opened = descriptors() - before
            files.die()
        after = descriptors()
        page.close()

        assert (len(opened), after) == (1, before)

    def test_search_finds_what_lies_beside_it(self, folder: Path, tmp_path: Path) -> None:
        """One folder of /opt is dead; the other has an environment."""
        alive = tmp_path / "opt/envs/envs/job/lib"
        alive.mkdir(parents=True)
        shutil.copy(folder / NAME, alive)
        with served(tmp_path / "opt/dead", folder) as files:
            files.die()
            found = list(in_root(tmp_path))

        assert found == [(alive / NAME, LibraryKind.RUNTIME)]
