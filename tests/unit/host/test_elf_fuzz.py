"""elf with hostile files: MalformedElf or a valid answer, and a bounded number of reads."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.errors import MalformedElf
from exporter.host.elf import READS_FOR_HEADERS_MAX, READS_FOR_NAMES_MAX, READS_PER_NAME_MAX, read_elf

from .elf_image import IFUNC, TABLES_OFFSET, Image, Sym, opened

NAMES = ["cudaLaunchKernel", "ncclAllReduce", "f", "absent", "", "x" * 300]
SYMBOLS = [Sym("cudaLaunchKernel"), Sym("ncclAllReduce", 0x401020), Sym("f", version=0x8002), Sym("f", kind=IFUNC)]
IMAGES = [Image(SYMBOLS, hash_style=style, with_versions=True).content() for style in ("gnu", "sysv")]
EDGES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
READS_MAX = READS_FOR_HEADERS_MAX + READS_FOR_NAMES_MAX + READS_PER_NAME_MAX * len(NAMES)

images = st.sampled_from(IMAGES)
flips = st.lists(st.tuples(st.integers(0, len(IMAGES[0]) - 1), st.integers(0, 255)), min_size=1, max_size=8)
fields = st.lists(
    st.tuples(st.integers(0, len(IMAGES[0]) // 4 - 2), st.sampled_from(EDGES), st.sampled_from(["<H", "<I", "<Q"])),
    min_size=1,
    max_size=4,
)


def answer_to(content: bytes) -> dict[str, int] | None:
    """Offsets, each inside of the file; None when the file is refused. Any other exception fails the test."""
    with opened(content) as fd:
        return answer_of(fd, len(content))


def answer_of(fd: int, size_bytes: int) -> dict[str, int] | None:
    """The same for an open file."""
    try:
        elf = read_elf(fd)
        offsets = elf.symbol_offsets(NAMES)
    except MalformedElf:
        return None
    assert all(0 <= offset < size_bytes for offset in offsets.values())
    assert set(offsets) <= set(NAMES)
    assert elf.soname.isprintable() or elf.soname == ""
    assert len(elf.soname) <= 256
    assert len(elf.build_id) <= 128
    return offsets


def reads_so_far() -> int:
    """How often this process has read from anything."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("syscr:"):
            return int(line.split()[1])
    raise AssertionError("no syscr in /proc/self/io")


class TestHostileFiles:
    """Any bytes in place of a library."""

    def test_images_are_valid_before_they_are_broken(self) -> None:
        """Otherwise this file would test only the first line of read_elf()."""
        expected = {"cudaLaunchKernel": 0x100, "ncclAllReduce": 0x120}

        assert [answer_to(image) for image in IMAGES] == [expected, expected]

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=2048))
    def test_random_bytes(self, content: bytes) -> None:
        """With and without the first bytes of an ELF file."""
        assert answer_to(content) is None
        answer_to(IMAGES[0][:64] + content)

    @settings(max_examples=300, deadline=None)
    @given(images, flips)
    def test_flipped_bytes(self, image: bytes, changes: list[tuple[int, int]]) -> None:
        """Up to eight bytes of a valid library are replaced."""
        broken = bytearray(image)
        for position, value in changes:
            broken[position % len(broken)] = value

        answer_to(bytes(broken))

    @settings(max_examples=300, deadline=None)
    @given(images, fields)
    def test_fields_set_to_edges(self, image: bytes, changes: list[tuple[int, int, str]]) -> None:
        """Aligned fields of two, four or eight bytes become zero, one, or the ends of a number's range."""
        broken = bytearray(image)
        for word, value, layout in changes:
            size = struct.calcsize(layout)
            struct.pack_into(layout, broken, min(4 * word, len(broken) - size), value % 2 ** (8 * size))

        answer_to(bytes(broken))

    @pytest.mark.parametrize("image", IMAGES, ids=["gnu", "sysv"])
    def test_every_truncation(self, image: bytes) -> None:
        """Cut at each byte: refused, unless only the build id at the end is missing."""
        with opened(image) as fd:
            for length in range(len(image) - 1, -1, -1):
                os.ftruncate(fd, length)
                answer = answer_of(fd, length)
                assert answer is None or length > TABLES_OFFSET + 16 * 8

    def test_truncations_of_a_real_library(self) -> None:
        """The file Python runs from, cut at 200 places."""
        content = Path(sys.executable).resolve().read_bytes()[: 4 * 2**20]
        with opened(content) as fd:
            for part in range(199, -1, -1):
                os.ftruncate(fd, len(content) * part // 200)
                answer_of(fd, len(content))

    def test_sparse_file_of_2_gib_costs_no_more(self) -> None:
        """A library whose tables are at its beginning, followed by a hole of 2 GiB."""
        with opened(IMAGES[0]) as fd:
            os.ftruncate(fd, 2**31)

            assert answer_of(fd, 2**31)


class TestReads:
    """The number of reads is bounded for any file."""

    @pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel counts no reads (TASK_IO_ACCOUNTING)")
    @settings(max_examples=60, deadline=None)
    @given(images, fields)
    def test_broken_file_stays_within_the_budget(self, image: bytes, changes: list[tuple[int, int, str]]) -> None:
        """Counted by the kernel; reading the counter costs reads as well."""
        broken = bytearray(image)
        for word, value, layout in changes:
            size = struct.calcsize(layout)
            struct.pack_into(layout, broken, min(4 * word, len(broken) - size), value % 2 ** (8 * size))
        with opened(bytes(broken)) as fd:
            before = reads_so_far()
            answer_of(fd, len(broken))

            assert reads_so_far() - before <= READS_MAX + 10
