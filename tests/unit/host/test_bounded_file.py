"""bounded_file: small pieces of a file, a limited number of reads, and a reason for every refusal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.errors import MalformedElf
from exporter.host.bounded_file import PIECE_BYTES_MAX, BoundedFile, file_state

from .elf_image import opened


class TestRead:
    def test_read_returns_exactly_the_wanted_bytes(self) -> None:
        with opened(b"abcdef") as fd:
            assert BoundedFile(fd, 6, reads_left=1).read(1, 3) == b"bcd"

    def test_read_up_to_stops_at_the_end(self) -> None:
        with opened(b"abcdef") as fd:
            file = BoundedFile(fd, 6, reads_left=2)

            assert (file.read_up_to(4, 10), file.read_up_to(6, 1)) == (b"ef", b"")

    def test_third_read_of_a_budget_of_two_is_refused(self) -> None:
        with opened(b"abcdef") as fd:
            file = BoundedFile(fd, 6, reads_left=2)
            file.read(0, 2)
            file.read(2, 2)

            with pytest.raises(MalformedElf, match="more reads"):
                file.read(4, 1)

    @pytest.mark.parametrize(("offset", "length"), [(-1, 1), (6, 1), (5, 2), (2**70, 1), (0, 2**20)])
    def test_offset_outside_of_the_file_is_refused(self, offset: int, length: int) -> None:
        """Before, after, across the end, too large, and too long."""
        with opened(b"abcdef") as fd, pytest.raises(MalformedElf):
            BoundedFile(fd, 6, reads_left=5).read(offset, length)

    def test_piece_longer_than_the_limit_is_refused(self) -> None:
        with opened(b"abcdef") as fd, pytest.raises(MalformedElf, match="longer than any real one"):
            BoundedFile(fd, 6, reads_left=5).read_up_to(0, PIECE_BYTES_MAX + 1)

    def test_file_that_shrinks_between_two_reads_is_refused(self) -> None:
        """The size is the one at opening."""
        with opened(b"abcdef") as fd:
            file = BoundedFile(fd, 6, reads_left=5)
            os.ftruncate(fd, 3)

            with pytest.raises(MalformedElf):
                file.read(0, 6)


class TestFileState:
    def test_state_changes_when_the_file_is_written(self) -> None:
        with opened(b"abcdef") as fd:
            before = file_state(fd)
            os.ftruncate(fd, 3)

            assert before.size_bytes == 6
            assert file_state(fd) != before

    def test_pipes_directories_and_closed_descriptors_are_refused(self, tmp_path: Path) -> None:
        """Reading a pipe would wait for its writer."""
        reader, writer = os.pipe()
        directory = os.open(tmp_path, os.O_RDONLY)
        os.close(writer)
        try:
            for fd in (reader, directory, 2**30):
                with pytest.raises(MalformedElf):
                    file_state(fd)
        finally:
            os.close(reader)
            os.close(directory)
