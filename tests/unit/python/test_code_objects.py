"""python.code_objects: what is read of a code object, and when it is used again. Memory is made byte by byte."""

from __future__ import annotations

import struct

import pytest

from exporter.python.code_objects import OBJECTS_MAX, READS_MAX, CodeObject, CodeObjects, identity_of
from exporter.python.line_table import TABLE_BYTES_MAX
from tests.unit.python.made_interpreter import MadeInterpreter, interpreter_layout

VERSIONS = [(3, 9), (3, 12), (3, 13), (3, 14)]
every_version = pytest.mark.parametrize("version", VERSIONS)
TABLE = {(3, 9): b"\x06\x01\x08\x02", (3, 12): b"\xd9\x04\x08\xe7\x04\x08"}
"""3.9: line 7 up to byte 5, 8 up to byte 13, 10. Since 3.11: line 8 for two instructions, 10 for eight."""


class Bench:
    """A made interpreter with one function, and what is found of it."""

    def __init__(self, version: tuple[int, int] = (3, 12), *, free_threaded: bool = False) -> None:
        self.made = MadeInterpreter(version, free_threaded=free_threaded)
        self.layout = interpreter_layout(self.made)
        self.codes = CodeObjects()
        self.file, self.name = self.made.text("/opt/train.py"), self.made.text("Trainer.step")
        self.table = TABLE[(3, 9) if version == (3, 9) else (3, 12)]
        self.address = self.made.code(self.file, self.name, 7, self.table)

    def found(self, address: int | None = None, process: object = 1) -> CodeObject | None:
        return self.codes.at(process, self.made.memory, self.layout, address or self.address)

    def code(self, address: int | None = None, process: object = 1) -> CodeObject:
        found = self.found(address, process)
        assert found is not None
        return found

    def begin(self) -> int:
        """Address of the first instruction."""
        return self.address + self.layout.code_begin

    def member(self, name: str) -> int:
        """What the function has there."""
        return int.from_bytes(self.made.memory(self.address + self.made.members[name], 8), "little")

    def set_member(self, name: str, value: int) -> None:
        self.made.memory.set_word(self.address + self.made.members[name], value)


class TestRead:
    @every_version
    def test_names_and_first_line(self, version: tuple[int, int]) -> None:
        code = Bench(version).code()

        assert (code.file, code.qualified_name, code.first_line) == ("/opt/train.py", "Trainer.step", 7)

    def test_line_of_a_number(self) -> None:
        """Before 3.11 a frame has the offset of its instruction; -1 if it has not begun."""
        code = Bench((3, 9)).code()

        assert [code.line_of(at) for at in (0, 6, 14, (1 << 32) - 1)] == [7, 8, 10, 7]

    @pytest.mark.parametrize("at", [1 << 31, (1 << 32) - 2, 1 << 40, 1 << 63])
    def test_number_that_is_no_offset_has_no_line(self, at: int) -> None:
        assert Bench((3, 9)).code().line_of(at) is None

    @pytest.mark.parametrize("version", VERSIONS[1:])
    def test_line_of_an_address(self, version: tuple[int, int]) -> None:
        """Since 3.11. The instruction before the first one: the function has not begun."""
        bench = Bench(version)

        assert [bench.code().line_of(bench.begin() + at) for at in (-2, 0, 4, 19, 20)] == [7, 8, 10, 10, None]

    @pytest.mark.parametrize("at", [-4, 200, 1 << 40])
    def test_address_in_other_code_has_no_line(self, at: int) -> None:
        """The function has 100 instructions of two bytes."""
        bench = Bench()

        assert bench.code().line_of(bench.begin() + at) is None

    def test_copies_of_the_instructions_have_the_same_lines(self) -> None:
        """In a free-threaded 3.14: one for each thread, behind a pointer just before the instructions."""
        bench = Bench((3, 14), free_threaded=True)
        copies = [bench.made.memory.put(bytes(200)) for _ in range(2)]
        array = bench.made.memory.put(struct.pack("<QQQQ", 3, bench.begin(), *copies))
        bench.made.memory.set_word(bench.address + bench.layout.copies, array)
        code = bench.code()

        assert [code.line_of(one + 4) for one in (bench.begin(), *copies)] == [10, 10, 10]
        assert code.line_of(copies[1] + 200) is None

    def test_free_threaded_code_without_copies(self) -> None:
        """3.14 before a thread has made one, and 3.13."""
        for version in ((3, 13), (3, 14)):
            bench = Bench(version, free_threaded=True)

            assert bench.code().line_of(bench.begin()) == 8

    @every_version
    def test_four_reads_for_one_object(self, version: tuple[int, int]) -> None:
        """A walk reads up to 64."""
        bench = Bench(version)
        before = bench.made.memory.reads
        bench.code()

        assert bench.made.memory.reads - before == 4


class TestNone:
    @every_version
    def test_object_of_another_type(self, version: tuple[int, int]) -> None:
        bench = Bench(version)
        bench.made.memory.set_word(bench.address + 8, bench.made.code_type + 8)

        assert bench.found() is None

    @pytest.mark.parametrize("address", [0, 1, 0x5000, 1 << 63, (1 << 64) - 1])
    def test_address_of_nothing(self, address: int) -> None:
        bench = Bench()

        assert bench.codes.at(1, bench.made.memory, bench.layout, address) is None

    @every_version
    @pytest.mark.parametrize("name", ["co_filename", "co_name", "table"])
    def test_member_that_leads_nowhere(self, version: tuple[int, int], name: str) -> None:
        bench = Bench(version)
        member = {"co_name": "co_name" if version == (3, 9) else "co_qualname"}.get(name, name)
        bench.set_member(("co_lnotab" if version == (3, 9) else "co_linetable") if name == "table" else member, 0x5000)

        assert bench.found() is None

    def test_name_that_is_no_text(self) -> None:
        bench = Bench()
        bench.set_member("co_qualname", bench.made.content(b"bytes"))

        assert bench.found() is None


class TestIdentity:
    def test_hash_of_words(self) -> None:
        """The factor times itself, and the next word xor that, times it again: as the kernel makes it."""
        factor, whole = 0x9E37_79B9_7F4A_7C15, 1 << 64

        assert identity_of(struct.pack("<Q", 0)) == factor * factor % whole
        assert identity_of(struct.pack("<QQ", 0, 5)) == (factor * factor % whole ^ 5) * factor % whole

    @every_version
    @pytest.mark.parametrize("member", ["co_firstlineno", "co_filename", "co_name"])
    def test_object_that_differs_in_one_member_has_another_identity(
        self, version: tuple[int, int], member: str
    ) -> None:
        bench = Bench(version)
        before = bench.code().identity
        made = bench.made.code(bench.file, bench.name, 7, bench.table)
        value = bench.made.text("other") if member != "co_firstlineno" else 8
        bench.made.memory.set_word(made + bench.made.members[member], value)

        assert bench.code(made).identity != before

    def test_what_changes_while_a_function_runs_is_not_part_of_it(self) -> None:
        bench = Bench()
        before = bench.code().identity
        bench.made.memory.set_word(bench.address, 4711)

        assert bench.code().identity == before


class TestBounds:
    @pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1])
    def test_table_of_impossible_length(self, length: int) -> None:
        """What is behind it cannot be read."""
        bench = Bench()
        bench.made.memory.set_word(bench.member("co_linetable") + 16, length)

        assert bench.found() is None

    def test_long_table_is_read_in_part(self) -> None:
        """100,000 entries of two bytes: lines of the first 32,768 instructions are known."""
        bench = Bench()
        units = 100_000
        address = bench.made.code(bench.file, bench.name, 7, b"\x80\x00" * units, units)
        before = bench.made.memory.reads
        code = bench.code(address)
        begin = address + bench.layout.code_begin

        assert bench.made.memory.reads - before == 4 + TABLE_BYTES_MAX // 4096 <= READS_MAX
        assert [code.line_of(begin + 2 * unit) for unit in (0, 32_767, 32_768)] == [7, 7, None]

    def test_first_line_that_no_file_has(self) -> None:
        bench = Bench()
        made = bench.made.code(bench.file, bench.name, 0xFFFF_FFFF, b"\x80\x00")

        assert bench.code(made).first_line == (1 << 31) - 1

    def test_copies_without_end(self) -> None:
        """A count of 2^63: what cannot be read is no code object."""
        bench = Bench((3, 14), free_threaded=True)
        bench.made.memory.set_word(
            bench.address + bench.layout.copies, bench.made.memory.put(struct.pack("<Q", 1 << 63))
        )

        assert bench.code().line_of(bench.begin()) == 8


class TestRemembered:
    def test_same_object_is_decoded_once(self) -> None:
        bench = Bench()

        assert bench.code() is bench.code()

    def test_address_that_is_used_again_gets_the_new_name(self) -> None:
        bench = Bench()
        before = bench.code().qualified_name
        bench.set_member("co_qualname", bench.made.text("other"))

        assert (before, bench.code().qualified_name) == ("Trainer.step", "other")

    @pytest.mark.parametrize("part", ["name", "file", "table"])
    def test_same_addresses_with_another_content_are_another_object(self, part: str) -> None:
        """As exec() makes them again and again: all parts lie where those of the older function were."""
        bench = Bench()
        before = bench.code()
        if part == "table":
            bench.made.memory.pieces[bench.member("co_linetable")][32:38] = b"\xd9\x04\x08\xd7\x04\x08"
        else:
            place = bench.file if part == "file" else bench.name
            bench.made.memory.pieces[place][40:43] = b"new"
        after = bench.code()

        assert before is not after
        assert (after.file, after.qualified_name, after.line_of(bench.begin() + 4)) == {
            "name": ("/opt/train.py", "newiner.step", 10),
            "file": ("newt/train.py", "Trainer.step", 10),
            "table": ("/opt/train.py", "Trainer.step", 8),
        }[part]

    def test_reference_count_is_no_difference(self) -> None:
        """Nor is anything that changes while a function runs."""
        bench = Bench()
        before = bench.code()
        bench.made.memory.set_word(bench.address, 4711)

        assert bench.code() is before

    def test_object_that_has_gone_is_forgotten(self) -> None:
        bench = Bench()
        before = bench.code()
        kind = bench.member("co_filename")
        bench.set_member("co_filename", 0x5000)
        gone = bench.found()
        bench.set_member("co_filename", kind)

        assert gone is None
        assert bench.code() == before

    def test_processes_are_apart(self) -> None:
        """The same address in a later process of the same number."""
        bench = Bench()

        assert bench.code(process=(7, 100)) is not bench.code(process=(7, 200))

    def test_oldest_objects_are_forgotten_first(self) -> None:
        """Two are remembered; the first one is used in between."""
        bench = Bench()
        bench.codes = CodeObjects(objects_max=2)
        first, second, third = (bench.made.code(bench.file, bench.name, line, b"") for line in (1, 2, 3))
        found = [bench.code(one) for one in (first, second)]
        bench.code(first)
        bench.code(third)

        assert bench.code(first) is found[0]
        assert bench.code(second) is not found[1]

    def test_memory_is_bounded(self) -> None:
        """Each table has 20,000 bytes, and 50,000 are kept."""
        bench = Bench()
        bench.codes = CodeObjects(OBJECTS_MAX, bytes_max=50_000)
        places = [bench.made.code(bench.file, bench.name, line, b"\x80\x00" * 10_000) for line in (1, 2, 3)]
        found = [bench.code(one) for one in places]

        assert bench.code(places[2]) is found[2]
        assert bench.code(places[1]) is found[1]
        assert bench.code(places[0]) is not found[0]

    def test_object_larger_than_all_that_is_kept(self) -> None:
        bench = Bench()
        bench.codes = CodeObjects(OBJECTS_MAX, bytes_max=10)

        assert bench.code() == bench.code()
