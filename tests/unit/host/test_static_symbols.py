"""host.static_symbols: functions of a library that is linked statically into a file. Files are made byte by byte."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from exporter.errors import MalformedElf
from exporter.host.bounded_file import PIECE_BYTES_MAX
from exporter.host.static_symbols import (
    NAMES_FOUND_MAX,
    STRINGS_BYTES_MAX,
    WORDS_MAX,
    static_functions,
    static_variables,
)
from tests.support.counted import lines_run
from tests.support.requirements import need_command

FUNC, OBJECT = 2, 1
WANTED = ("cudaMalloc", "cudaFree", "ncclAllReduce")
HEADER_BYTES, SECTION_BYTES = 64, 64


@dataclass
class Program:
    """A file with a symbol table: names as they lie in it, and symbols of (place of the name, address, kind, section)."""

    strings: bytes
    symbols: Sequence[tuple[int, int, int, int]]
    strings_bytes: int | None = None
    sections: int = 3
    entry_bytes: int = SECTION_BYTES
    is_cut: bool = False
    content: bytes = field(init=False)

    def __post_init__(self) -> None:
        """Header, names, symbols, sections."""
        table = bytes(24) + b"".join(
            struct.pack("<IBBHQQ", at, 1 << 4 | kind, 0, section, address, 16)
            for at, address, kind, section in self.symbols
        )
        strings_at = HEADER_BYTES
        symbols_at = strings_at + len(self.strings)
        sections_at = symbols_at + len(table)
        head = bytearray(HEADER_BYTES)
        struct.pack_into("<Q", head, 40, sections_at)
        struct.pack_into("<HH", head, 58, self.entry_bytes, self.sections)
        strings_bytes = len(self.strings) if self.strings_bytes is None else self.strings_bytes
        rows = (
            bytes(SECTION_BYTES)
            + struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, symbols_at, len(table), 2, 0, 8, 24)
            + struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, strings_at, strings_bytes, 0, 0, 1, 0)
        )
        self.content = bytes(head) + self.strings + table + rows


@contextmanager
def opened(path: Path, content: bytes) -> Iterator[int]:
    """A descriptor of a file with this content."""
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def found(tmp_path: Path, program: Program) -> dict[str, int]:
    """What is found in a program."""
    with opened(tmp_path / "program", program.content) as fd:
        return static_functions(fd, len(program.content), WANTED)


class TestFunctions:
    """What counts as a function that the file has."""

    def test_wanted_functions_are_found_at_their_addresses(self, tmp_path: Path) -> None:
        """Names at 1, 12 and 18; `other` is not wanted."""
        program = Program(b"\0cudaMalloc\0other\0cudaFree\0", [(1, 64, FUNC, 1), (12, 80, FUNC, 1), (18, 96, FUNC, 1)])

        assert found(tmp_path, program) == {"cudaMalloc": 64, "cudaFree": 96}

    def test_name_may_be_the_end_of_a_longer_one(self, tmp_path: Path) -> None:
        """Linkers share them: `cudaFree` begins at 5 of `my::cudaFree`."""
        assert found(tmp_path, Program(b"\0my::cudaFree\0", [(5, 64, FUNC, 1)])) == {"cudaFree": 64}

    @pytest.mark.parametrize(
        ("kind", "section"), [(FUNC, 0), (FUNC, 0xFFF1), (OBJECT, 1)], ids=["import", "absolute", "data"]
    )
    def test_other_symbols_do_not_count(self, tmp_path: Path, kind: int, section: int) -> None:
        assert found(tmp_path, Program(b"\0cudaMalloc\0", [(1, 64, kind, section)])) == {}

    def test_variables_are_found_as_functions_are(self, tmp_path: Path) -> None:
        """Whatever letter a name begins with; `Py_Version` is a function here."""
        strings, names = b"\0_PyRuntime\0PyCode_Type\0Py_Version\0", ("_PyRuntime", "PyCode_Type", "Py_Version")
        program = Program(strings, [(1, 64, OBJECT, 1), (12, 80, OBJECT, 1), (24, 96, FUNC, 1)])
        with opened(tmp_path / "program", program.content) as fd:
            variables = static_variables(fd, len(program.content), names)

        assert variables == {"_PyRuntime": 64, "PyCode_Type": 80}

    def test_part_of_a_name_is_none(self, tmp_path: Path) -> None:
        """`cudaMalloc` of `cudaMallocAsync`."""
        assert found(tmp_path, Program(b"\0cudaMallocAsync\0", [(1, 64, FUNC, 1)])) == {}

    def test_name_across_two_pieces_is_found(self, tmp_path: Path) -> None:
        """The table is read in pieces."""
        step = PIECE_BYTES_MAX - PIECE_BYTES_MAX % 24
        at = step - 4
        program = Program(b"\0" * at + b"cudaMalloc\0", [(at, 64, FUNC, 1)])

        assert found(tmp_path, program) == {"cudaMalloc": 64}

    def test_symbol_in_a_later_piece_is_found(self, tmp_path: Path) -> None:
        """After 3,000 others, of which a piece holds 2,730."""
        program = Program(b"\0cudaMalloc\0", [*[(0, 0, FUNC, 1)] * 3000, (1, 64, FUNC, 1)])

        assert found(tmp_path, program) == {"cudaMalloc": 64}


class TestTables:
    """Files without such a table, or with a broken one."""

    @pytest.mark.parametrize(
        "program",
        [
            Program(b"\0cudaMalloc\0", [(1, 64, FUNC, 1)], sections=0),
            Program(b"\0cudaMalloc\0", [(1, 64, FUNC, 1)], sections=1),
            Program(b"\0cudaMalloc\0", [(1, 64, FUNC, 1)], sections=2),
            Program(b"\0cudaMalloc\0", [(1, 64, FUNC, 1)], entry_bytes=63),
            Program(b"\0cudaMalloc\0", [(1, 64, FUNC, 1)], strings_bytes=STRINGS_BYTES_MAX + 1),
        ],
        ids=["no sections", "no table", "no names", "other entries", "too large"],
    )
    def test_there_are_no_functions(self, tmp_path: Path, program: Program) -> None:
        assert found(tmp_path, program) == {}

    def test_names_beyond_the_end_of_the_file_are_malformed(self, tmp_path: Path) -> None:
        with pytest.raises(MalformedElf):
            found(tmp_path, Program(b"\0cudaMalloc\0", [(1, 64, FUNC, 1)], strings_bytes=1 << 20))

    def test_name_without_end_is_malformed(self, tmp_path: Path) -> None:
        """A tenant's file, which would take memory for each."""
        with pytest.raises(MalformedElf, match="a name too often"):
            found(tmp_path, Program(b"cudaFree\0" * (NAMES_FOUND_MAX + 1), []))

    @pytest.mark.parametrize(
        "strings",
        [b"cuda" * (8 << 20), b"cudaA" * (6 << 20), b"cudaA." * (5 << 20), b"cudaX\0" * 50_000],
        ids=["no end", "words", "other characters", "many names"],
    )
    def test_hostile_names_cost_few_lines_of_python(self, tmp_path: Path, strings: bytes) -> None:
        """32 MiB, with as many symbols as are read, or 50,000 names: at most sixteen lines for a name."""
        program = Program(strings + b"\0", [(1, 0, FUNC, 1)] * 900_000)

        assert lines_run(lambda: found(tmp_path, program)) < 16 * strings.count(b"\0") + 50_000

    def test_more_names_than_symbols_are_malformed(self, tmp_path: Path) -> None:
        with pytest.raises(MalformedElf, match="more names than symbols"):
            found(tmp_path, Program(b"cudaX\0" * (WORDS_MAX + 1) + b"\0", [(1, 0, FUNC, 1)]))

    def test_real_linker_and_strip(self, tmp_path: Path) -> None:
        """What `cc` writes is found, and what `strip` leaves is not."""
        need_command("cc", "gcc")
        need_command("strip", "binutils")
        source, program = tmp_path / "test.c", tmp_path / "test"
        source.write_text("static int cudaMalloc(void) { return 7; } int main(void) { return cudaMalloc(); }")
        subprocess.run(["cc", "-O0", "-o", program, source], check=True)
        with opened(tmp_path / "copy", program.read_bytes()) as fd:
            before = static_functions(fd, program.stat().st_size, WANTED)
        subprocess.run(["strip", program], check=True)
        with opened(tmp_path / "copy", program.read_bytes()) as fd:
            after = static_functions(fd, program.stat().st_size, WANTED)

        assert (list(before), after) == (["cudaMalloc"], {})
