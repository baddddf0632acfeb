"""kernel.mapped_files: inodes of executable mappings, as an iterator program writes them."""

from __future__ import annotations

import os

from exporter.kernel import abi
from exporter.kernel.mapped_files import PROGRAM, FileStamp, MappedFile, MappedFiles, RealFile
from tests.support.fake_libbpf import FakeLibbpf, kernel_of

FILE = RealFile(address=0xFFFF8880, inode=26, generation=5, device=7)
STAMP = FileStamp(size_bytes=4096, changed_ns=11)


def row(start: int, end: int, file: RealFile = FILE, *, is_own: bool = True) -> bytes:
    return abi.MAPPING_ROW.pack(
        start,
        end,
        file.address,
        file.inode,
        STAMP.size_bytes,
        STAMP.changed_ns,
        file.generation,
        file.device,
        is_own,
        file.is_in_user_namespace,
        file.file_system,
    )


def mapped_files(written: bytes, of_others: bytes = b"") -> MappedFiles:
    """written: by the program of this process, and of_others of every other one."""
    libbpf = FakeLibbpf()
    libbpf.iterator_output = lambda tid: written if tid == os.getpid() else of_others
    kernel = kernel_of(libbpf)
    kernel.programs[PROGRAM] = 99
    return MappedFiles(kernel)


class TestIsPossible:
    def test_where_the_program_reads_one_process(self) -> None:
        assert mapped_files(row(0x1000, 0x2000)).is_possible

    def test_not_where_it_reads_other_processes_too(self) -> None:
        """Before 6.1 an iterator cannot be restricted to one process."""
        assert not mapped_files(row(0x1000, 0x2000) + row(0x1000, 0x2000, is_own=False)).is_possible

    def test_not_where_the_program_is_not_loaded(self) -> None:
        assert not MappedFiles(kernel_of(FakeLibbpf())).is_possible


class TestOfProcess:
    def test_each_mapping_has_its_file(self) -> None:
        other = FILE._replace(address=0xFFFF9990, inode=27)
        found = mapped_files(row(0, 1), row(0x1000, 0x2000) + row(0x5000, 0x6000, other))

        assert found.of_process(7) == {
            (0x1000, 0x2000): MappedFile(FILE, STAMP),
            (0x5000, 0x6000): MappedFile(other, STAMP),
        }

    def test_nothing_where_it_is_not_possible(self) -> None:
        assert mapped_files(b"", row(0x1000, 0x2000)).of_process(7) == {}


class TestAt:
    def test_file_is_that_of_the_range_that_holds_the_address(self) -> None:
        found = mapped_files(row(0, 1), row(0x1000, 0x2000, FILE._replace(inode=27)) + row(0x2000, 0x3000))

        assert (found.at(7, 0x2000), found.at(7, 0x3000)) == (MappedFile(FILE, STAMP), None)

    def test_file_system_is_that_of_the_inode(self) -> None:
        """FUSE, mounted by a user in a namespace of its own."""
        file = FILE._replace(file_system=0x65735546, is_in_user_namespace=True)

        assert mapped_files(row(0, 1), row(0x1000, 0x2000, file)).at(7, 0x1000) == MappedFile(file, STAMP)
