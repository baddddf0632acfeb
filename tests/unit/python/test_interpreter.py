"""python.interpreter: what memory must hold before an interpreter is believed to be one. Memory is made byte by byte."""

from __future__ import annotations

import pytest

from exporter.python.interpreter import (
    INTERPRETERS_MAX,
    READS_MAX,
    THREADS_MAX,
    Interpreter,
    InterpreterSymbols,
    Refusal,
    interpreter_of,
)
from exporter.python.layout import ABSENT
from tests.unit.python.made_interpreter import MadeInterpreter

VERSIONS = [(3, 9), (3, 12), (3, 13), (3, 14)]
every_version = pytest.mark.parametrize("version", VERSIONS)


def running(version: tuple[int, int], *, free_threaded: bool = False) -> MadeInterpreter:
    """One with a thread in a function."""
    made = MadeInterpreter(version, free_threaded=free_threaded)
    made.link([made.code(made.text("/a.py"), made.text("f"), 7, b"")])
    return made


def result(made: MadeInterpreter) -> Interpreter | Refusal:
    return interpreter_of(made.memory, made.symbols)


def rename(made: MadeInterpreter, name: str) -> None:
    """The type has a member of another name there."""
    rows = int.from_bytes(made.memory(made.code_type + made.head + 8 + 216, 8), "little")
    made.memory.set_word(rows + 40 * list(made.members).index(name), made.memory.put(b"co_other\0"))


class TestFound:
    @every_version
    def test_interpreter_is_found(self, version: tuple[int, int]) -> None:
        found = result(running(version))

        assert isinstance(found, Interpreter)
        assert (found.version, found.is_free_threaded) == (version, False)

    @every_version
    def test_threads_outside_of_python_are_no_reason_to_refuse(self, version: tuple[int, int]) -> None:
        """A program in C that has started an interpreter and runs no function of it now."""
        made = MadeInterpreter(version)
        made.link([])

        assert isinstance(result(made), Interpreter)

    def test_free_threaded_builds_have_longer_objects(self) -> None:
        """A head of 32 bytes, with the type at 24; since 3.14 each thread has a copy of the instructions."""
        older, newer = (result(running(version, free_threaded=True)) for version in ((3, 13), (3, 14)))

        assert isinstance(older, Interpreter)
        assert isinstance(newer, Interpreter)
        assert older.is_free_threaded
        assert older.layout.object_type == older.code.object_type == 24
        assert (older.code.copies, newer.code.copies) == (ABSENT, 224)

    @every_version
    def test_version_is_seen_without_its_symbol(self, version: tuple[int, int]) -> None:
        """By the debug offsets, else by what code objects have."""
        made = running(version)
        found = interpreter_of(made.memory, made.symbols._replace(version=0))

        assert isinstance(found, Interpreter)
        assert found.version == version

    @pytest.mark.parametrize(("version", "first_line"), [((3, 11), 72), ((3, 12), 68)])
    def test_two_versions_differ_in_the_place_of_the_first_line(
        self, version: tuple[int, int], first_line: int
    ) -> None:
        """Neither the symbol nor debug offsets; the list of interpreters is empty."""
        made = MadeInterpreter(version)

        assert made.members["co_firstlineno"] == first_line
        assert interpreter_of(made.memory, made.symbols._replace(version=0)) is Refusal.NOT_STARTED

    @every_version
    def test_program_has_a_copy_of_the_type(self, version: tuple[int, int]) -> None:
        """The linker makes one in a program that is not position-independent. The symbol of libpython has the other one."""
        made = running(version)
        copy = made.memory.put(bytes(made.memory.pieces[made.code_type]))
        made.memory.set_word(made.first_code + 8, copy)
        found = result(made)

        assert isinstance(found, Interpreter)
        assert found.layout.code_type == found.code.code_type == copy

    def test_frames_that_are_none_of_python_are_skipped(self) -> None:
        """Since 3.12 the innermost one may belong to C: its code is None."""
        made = MadeInterpreter((3, 12))
        none = made.memory.put(bytes(16))
        made.link([none, made.code(made.text("/a.py"), made.text("f"), 7, b"")])

        assert isinstance(result(made), Interpreter)


class TestRefused:
    @pytest.mark.parametrize("name", ["runtime", "code_type"])
    def test_symbol_is_missing(self, name: str) -> None:
        made = running((3, 12))

        assert interpreter_of(made.memory, made.symbols._replace(**{name: 0})) is Refusal.SYMBOLS

    @pytest.mark.parametrize("name", ["runtime", "code_type", "version"])
    def test_symbol_leads_nowhere(self, name: str) -> None:
        made = running((3, 12))

        assert interpreter_of(made.memory, made.symbols._replace(**{name: 0x5000})) is Refusal.UNREADABLE

    @pytest.mark.parametrize("number", [0x03080000, 0x030D0000, 0x03FF0000, 0])
    def test_version_of_another_time(self, number: int) -> None:
        """3.8, 3.13 without debug offsets, one that does not exist, none."""
        made = running((3, 12))
        made.memory.set_word(made.hexversion, number)

        assert result(made) is Refusal.VERSION

    def test_debug_offsets_of_a_version_to_come(self) -> None:
        made = running((3, 14))
        made.memory.set_word(made.runtime + 8, 0x030F00F0)

        assert result(made) is Refusal.VERSION

    @pytest.mark.parametrize("name", ["object.ob_type", "type.tp_name", "bytes.ob_sval", "text.state", "frame.owner"])
    def test_debug_offsets_in_another_order(self, name: str) -> None:
        """A version whose structure has one number more."""
        made = running((3, 14))
        made.memory.set_word(made.runtime + made.offset_at[name], 0x28_0000)

        assert result(made) is Refusal.UNREADABLE

    def test_offset_that_does_not_fit_into_the_kernel_s_layout(self) -> None:
        """It has 16 bits for each, of which the highest number stands for none."""
        made = running((3, 14))
        made.memory.set_word(made.runtime + made.offset_at["thread.thread_id"], 0xFFFF)

        assert result(made) is Refusal.UNREADABLE

    def test_debug_offsets_and_the_type_disagree(self) -> None:
        made = running((3, 13))
        made.memory.set_word(made.runtime + made.offset_at["code.filename"], 104)

        assert result(made) is Refusal.CODE_TYPE

    @every_version
    def test_type_of_another_name(self, version: tuple[int, int]) -> None:
        made = running(version)
        other = made.memory.put(b"cell\0")
        made.memory.set_word(made.code_type + made.head + 8, other)

        assert result(made) is Refusal.CODE_TYPE

    @pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
    @pytest.mark.parametrize("name", ["co_filename", "co_name", "co_qualname", "co_firstlineno", "co_linetable"])
    def test_type_without_a_member(self, version: tuple[int, int], name: str) -> None:
        """It has another name."""
        made = MadeInterpreter(version)
        rename(made, name)

        assert result(made) is Refusal.CODE_TYPE

    @pytest.mark.parametrize("version", [(3, 9), (3, 10), (3, 11), (3, 12)])
    @pytest.mark.parametrize("name", ["co_filename", "co_name", "co_firstlineno"])
    def test_type_without_a_member_in_an_unknown_version(self, version: tuple[int, int], name: str) -> None:
        """The symbol of the version is missing as well, so that members say which it is."""
        made = MadeInterpreter(version)
        rename(made, name)

        assert interpreter_of(made.memory, made.symbols._replace(version=0)) is Refusal.CODE_TYPE

    def test_type_without_members(self) -> None:
        """The first of them ends the list."""
        made = running((3, 12))
        members = int.from_bytes(made.memory(made.code_type + 24 + 216, 8), "little")
        made.memory.set_word(members, 0)

        assert result(made) is Refusal.CODE_TYPE

    @every_version
    def test_no_interpreter_has_started(self, version: tuple[int, int]) -> None:
        assert result(MadeInterpreter(version)) is Refusal.NOT_STARTED

    @every_version
    def test_thread_of_another_interpreter(self, version: tuple[int, int]) -> None:
        made = running(version)
        made.memory.set_word(made.thread + 16, made.interpreter + 8)

        assert result(made) is Refusal.THREADS

    def test_thread_id_that_no_kernel_gives(self) -> None:
        made = running((3, 12))
        made.memory.set_word(made.thread + 144, 0x7F00_0000_0000)

        assert result(made) is Refusal.THREADS

    @every_version
    def test_frames_without_code_objects(self, version: tuple[int, int]) -> None:
        made = MadeInterpreter(version)
        made.link([made.memory.put(bytes(64))] * 2)

        assert result(made) is Refusal.FRAMES


class TestBounds:
    def test_lists_without_an_end(self) -> None:
        """The list of threads and that of interpreters each lead back to their first one; the frame leads nowhere."""
        made = running((3, 12))
        made.memory.set_word(made.interpreter, made.interpreter)
        made.memory.set_word(made.thread + 8, made.thread)
        made.memory.set_word(made.frame, 0)

        assert result(made) is Refusal.FRAMES
        assert made.memory.reads <= INTERPRETERS_MAX * THREADS_MAX * 9 + 100 < READS_MAX

    def test_symbols_of_the_kernel_are_not_read(self) -> None:
        made = running((3, 12))
        reads = made.memory.reads
        high = InterpreterSymbols(1 << 63, made.symbols.code_type, made.symbols.version)

        assert interpreter_of(made.memory, high) is Refusal.UNREADABLE
        assert made.memory.reads == reads
