"""merging: native and Python functions in one list."""

from __future__ import annotations

from exporter.kernel.stacks import Frame
from exporter.python.call_site import PythonFrame
from exporter.stacks.merging import Line, merged, python_runs

LIBFFI, EVALUATION, CTYPES, MAIN = Frame(0x100, 0xF), Frame(0x200, 0xE), Frame(0x300, 0xC), Frame(0x900, 0xA)
INNER_EVALUATION = Frame(0x150, 0xE)


def function(name: str, entry: int = 0) -> tuple[PythonFrame, int]:
    return PythonFrame("train.py", name, 1), entry


def names(lines: list[Line]) -> str:
    """Names of Python functions, numbers of native ones."""
    return " ".join(line.function if isinstance(line, PythonFrame) else f"{line.address:x}" for line in lines)


def merge(native: tuple[Frame, ...], *python: tuple[PythonFrame, int]) -> str:
    """Addresses 0xe and 0xa are in the file of the interpreter."""
    runs = python_runs([frame for frame, _ in python], [entry for _, entry in python])
    return names(merged(native, runs, lambda frame: frame.address in (0xE, 0xA)))


class TestMerged:
    def test_native_function_stands_between_the_python_functions_that_it_calls_and_that_call_it(self) -> None:
        """`hook` runs in a function of the interpreter whose return address is at 0x200, `step` in one below 0x900."""
        native = (LIBFFI, INNER_EVALUATION, CTYPES, MAIN)
        python = function("hook", 0x180), function("step"), function("main", 0x380)

        assert merge(native, *python) == "f hook c step main"

    def test_functions_that_one_function_of_the_interpreter_runs_stand_together(self) -> None:
        native = (LIBFFI, EVALUATION, MAIN)

        assert merge(native, function("inner"), function("outer", 0x280)) == "f inner outer"

    def test_native_functions_outside_of_all_python_functions_are_left_out(self) -> None:
        """They started the interpreter."""
        assert merge((EVALUATION, CTYPES), function("main", 0x280)) == "main"

    def test_python_functions_follow_where_unwinding_has_ended(self) -> None:
        native = (LIBFFI, INNER_EVALUATION)
        python = function("hook", 0x180), function("step", 0x480), function("main", 0x880)

        assert merge(native, *python) == "f hook step main"

    def test_without_native_frames_the_python_functions_are_all(self) -> None:
        assert merge((), function("step"), function("main", 0x280)) == "step main"

    def test_functions_whose_place_lies_behind_a_walk_that_was_cut_come_last(self) -> None:
        """The walk ends after 64 frames."""
        assert (
            merge((LIBFFI, INNER_EVALUATION, CTYPES, MAIN), function("hook", 0x180), function("step"))
            == "f hook c step"
        )

    def test_python_functions_inside_the_call_come_first(self) -> None:
        """The library has called back into Python."""
        assert merge((LIBFFI, EVALUATION), function("hook", 0x40), function("step", 0x280)) == "hook f step"
