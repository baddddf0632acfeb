"""python.layout: what the kernel and code_objects.py get for a version. Real interpreters are compared in tests/contract."""

from __future__ import annotations

import pytest

from exporter.python.code_type import CodeType
from exporter.python.layout import ABSENT, CodeLayout, code_layout, oldest_layout
from exporter.python.line_table import LineFormat
from tests.unit.python.made_interpreter import MEMBERS_3_9, MEMBERS_3_10, MEMBERS_3_11, MEMBERS_3_12, layout_of

MEMBERS = {(3, 9): MEMBERS_3_9, (3, 10): MEMBERS_3_10, (3, 11): MEMBERS_3_11, (3, 12): MEMBERS_3_12}


def kind(version: tuple[int, int]) -> CodeType:
    members = {name: (offset, 4 if name == "co_firstlineno" else 8) for name, offset in MEMBERS[version].items()}
    return CodeType(0x2000, 184, members)


def code_of(version: tuple[int, int]) -> CodeLayout:
    return code_layout(version, kind(version), None)


class TestPythonLayout:
    @pytest.mark.parametrize(
        ("version", "cframe", "instruction_size", "owned"),
        [
            ((3, 9), ABSENT, 4, (ABSENT, ABSENT, ABSENT, ABSENT)),
            ((3, 10), ABSENT, 4, (ABSENT, ABSENT, ABSENT, 48)),
            ((3, 11), 8, 8, (69, 3, 68, ABSENT)),
            ((3, 12), 0, 8, (70, 3, ABSENT, ABSENT)),
        ],
    )
    def test_versions_without_debug_offsets(
        self, version: tuple[int, int], cframe: int, instruction_size: int, owned: tuple[int, int, int, int]
    ) -> None:
        """owned: where a frame says whose it is, which are of no Python function, which one is the first of its function; and
        where the list of the interpreter's functions is."""
        found = oldest_layout(version, 0x1000, kind(version))

        assert found is not None
        layout, _ = found
        assert (layout.runtime, layout.code_type, layout.object_type) == (0x1000, 0x2000, 8)
        assert (layout.cframe_frame, layout.frame_instruction_size) == (cframe, instruction_size)
        owner = layout.frame_owner, layout.skip_owner_from, layout.frame_is_entry
        assert (*owner, layout.thread_cframe) == owned
        assert layout.code_pointer_mask == 0

    @pytest.mark.parametrize("version", [(3, 8), (3, 13), (2, 7), (0, 0)])
    def test_other_versions_have_none(self, version: tuple[int, int]) -> None:
        assert oldest_layout(version, 0x1000, kind((3, 9))) is None


class TestCodeLayout:
    def test_versions_have_three_forms_of_line_tables(self) -> None:
        """And the names of the member that has it."""
        found = [(one.line_format, one.line_table) for one in map(code_of, MEMBERS)]

        assert found == [
            (LineFormat.INCREMENTS, 120),
            (LineFormat.RANGES, 120),
            (LineFormat.LOCATIONS, 136),
            (LineFormat.LOCATIONS, 136),
        ]

    def test_qualified_name_is_there_since_3_11(self) -> None:
        assert [code_of(version).name for version in MEMBERS] == [112, 112, 128, 128]

    def test_instruction_is_a_number_of_bytes_of_two_bytes_or_an_address(self) -> None:
        found = [(one.instruction_bytes, one.code_begin, one.units) for one in map(code_of, MEMBERS)]

        assert found == [(1, ABSENT, ABSENT), (2, ABSENT, ABSENT), (1, 184, 16), (1, 184, 16)]

    @pytest.mark.parametrize("version", [(3, 13), (3, 14)])
    def test_free_threaded_objects_begin_sixteen_bytes_later(self, version: tuple[int, int]) -> None:
        usual, free = layout_of(version), layout_of(version, free_threaded=True)

        assert {
            getattr(free, name) - getattr(usual, name)
            for name in ("object_type", "file", "line_table", "text_length", "text_state", "text_ascii", "text_other")
        } == {16}
