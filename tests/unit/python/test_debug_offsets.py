"""python.debug_offsets: the numbers at the beginning of _PyRuntime."""

from __future__ import annotations

import pytest

from exporter.errors import NotReadable
from exporter.python.debug_offsets import NAMES, OFFSET_MAX, DebugOffsets, debug_offsets
from exporter.python.memory import BoundedMemory
from tests.unit.python.made_interpreter import MadeInterpreter

versions = pytest.mark.parametrize("version", [(3, 13), (3, 14)])


def found(made: MadeInterpreter) -> DebugOffsets | tuple[int, int] | None:
    return debug_offsets(BoundedMemory(made.memory, 8), made.runtime)


class TestOffsets:
    @pytest.mark.parametrize(
        ("version", "name", "place"),
        [
            *(((3, 13), *one) for one in [("runtime.interpreters_head", 5), ("interpreter.threads_head", 9)]),
            *(((3, 13), *one) for one in [("thread.current_frame", 23), ("frame.owner", 33), ("bytes.ob_sval", 66)]),
            *(((3, 14), *one) for one in [("runtime.interpreters_head", 5), ("interpreter.threads_head", 9)]),
            *(((3, 14), *one) for one in [("thread.current_frame", 26), ("frame.owner", 36), ("code.co_tlbc", 49)]),
        ],
    )
    def test_place_of_each_number(self, version: tuple[int, int], name: str, place: int) -> None:
        """Counted in 8 bytes from the cookie, in the header of each version."""
        assert NAMES[version].index(name) + 3 == place

    @versions
    @pytest.mark.parametrize("free_threaded", [False, True])
    def test_offsets_by_name(self, version: tuple[int, int], free_threaded: bool) -> None:
        offsets = found(MadeInterpreter(version, free_threaded=free_threaded))

        assert isinstance(offsets, DebugOffsets)
        assert (offsets.version, offsets.is_free_threaded) == (version, free_threaded)
        assert (offsets["thread.current_frame"], offsets["object.ob_type"]) == (72, 24 if free_threaded else 8)


class TestNone:
    def test_older_interpreter_has_none(self) -> None:
        assert found(MadeInterpreter((3, 12))) is None

    @pytest.mark.parametrize(("number", "version"), [(0x030F00A1, (3, 15)), (0x04000000, (4, 0)), (0, (0, 0))])
    def test_version_that_is_not_known(self, number: int, version: tuple[int, int]) -> None:
        made = MadeInterpreter((3, 14))
        made.memory.set_word(made.runtime + 8, number)

        assert found(made) == version

    @versions
    def test_numbers_that_are_no_offsets(self, version: tuple[int, int]) -> None:
        made = MadeInterpreter(version)
        made.memory.set_word(made.runtime + made.offset_at["thread.next"], OFFSET_MAX)
        with pytest.raises(NotReadable, match="debug offsets"):
            found(made)
