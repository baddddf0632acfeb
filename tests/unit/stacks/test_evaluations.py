"""evaluations: which native frame runs which Python function before Python 3.10."""

from __future__ import annotations

import pytest

from exporter.kernel.stacks import Frame
from exporter.stacks.evaluations import entries_of, is_evaluation

EVALUATION, CALL, LIBFFI, UNNAMED = 0xE, 0xC, 0xF, 0xA
NAMES = {
    EVALUATION: "_PyEval_EvalFrameDefault+0x41 (libpython3.9.so.1.0)",
    CALL: "function_code_fastcall+0x41 (libpython3.9.so.1.0)",
    LIBFFI: "ffi_call+0x41 (libffi.so.8)",
    UNNAMED: "libpython3.9.so.1.0+0x41",
}
HOOK, STEP, MAIN = 0x5000, 0x6000, 0x7000
"""Addresses of frame objects, innermost first."""


def native(*addresses: int) -> tuple[Frame, ...]:
    """Return addresses at 0x100, 0x200, …: a function of the first one has its variables above 0x108, up to 0x200."""
    return tuple(Frame(0x100 * number, address) for number, address in enumerate(addresses, 1))


def entries(objects: tuple[int, ...], words: dict[int, int], *addresses: int) -> tuple[int, ...]:
    return entries_of(
        objects,
        words,
        native(*addresses),
        lambda frame: NAMES[frame.address],
        lambda frame: frame.address == UNNAMED,
    )


class TestFunctions:
    @pytest.mark.parametrize(
        ("text", "is_one"),
        [
            (NAMES[EVALUATION], True),
            ("_PyEval_EvalFrameDefault.cold+0x3 (python3.9)", True),
            ("_PyEval_EvalFrame+0x3 (python3.9)", False),
            (NAMES[CALL], False),
            (NAMES[UNNAMED], False),
            ("", False),
        ],
    )
    def test_name_says_whether_one_runs_python(self, text: str, is_one: bool) -> None:
        assert is_evaluation(text) == is_one


class TestEntries:
    def test_each_function_of_the_interpreter_runs_one_of_python(self) -> None:
        """The address of each frame object is in its variables, or in those of what it has called."""
        words = {0x180: HOOK, 0x2F0: STEP, 0x380: STEP, 0x580: MAIN}

        found = entries((HOOK, STEP, MAIN), words, EVALUATION, LIBFFI, EVALUATION, CALL, EVALUATION, CALL)

        assert found == (0x108, 0x308, 0x508)

    def test_register_that_the_next_function_inwards_has_kept_is_enough(self) -> None:
        """It is right below the return address of that function."""
        assert entries((HOOK, STEP), {0x180: HOOK, 0x1F8: STEP}, EVALUATION, EVALUATION, CALL) == (0x108, 0x208)

    def test_frame_object_that_is_nowhere_near_its_function_is_refused(self) -> None:
        """A native frame is missing, or one of Python: nothing is known then."""
        assert entries((HOOK, STEP), {0x180: HOOK, 0x580: STEP}, EVALUATION, EVALUATION, CALL) == ()

    def test_more_functions_of_the_interpreter_than_of_python_are_refused(self) -> None:
        assert entries((HOOK,), {0x180: HOOK}, EVALUATION, EVALUATION, CALL) == ()

    def test_functions_beyond_the_end_of_unwinding_have_no_place(self) -> None:
        """Where the last frame ends is not known."""
        assert entries((HOOK, STEP, MAIN), {0x180: HOOK, 0x280: STEP}, EVALUATION, EVALUATION, EVALUATION) == (
            0x108,
            0x208,
            0,
        )

    def test_unnamed_function_may_be_one_that_runs_python(self) -> None:
        """So that all have to be there."""
        words = {0x180: HOOK, 0x280: STEP}

        assert entries((HOOK, STEP), words, EVALUATION, EVALUATION, UNNAMED) == (0x108, 0x208)
        assert entries((HOOK, STEP, MAIN), words, EVALUATION, EVALUATION, UNNAMED) == ()

    def test_without_functions_of_the_interpreter_nothing_is_known(self) -> None:
        assert entries((HOOK,), {0x180: HOOK}, LIBFFI, CALL) == ()
