"""python.registered_layout: which interpreters have tasks in a set, and where."""

from __future__ import annotations

import pytest

from exporter.python.interpreter import Interpreter, interpreter_of
from exporter.python.layout import ABSENT
from exporter.python.registered_layout import registered_layout
from tests.unit.python.made_interpreter import MadeInterpreter
from tests.unit.python.made_registered import MadeRegistered


def interpreter(version: tuple[int, int], *, free_threaded: bool = False) -> Interpreter:
    made = MadeInterpreter(version, free_threaded=free_threaded)
    made.link([])
    found = interpreter_of(made.memory, made.symbols)
    assert isinstance(found, Interpreter), found
    return found


class TestVersions:
    def test_event_loop_is_in_the_dict_of_a_thread_in_312(self) -> None:
        layout = MadeRegistered((3, 12)).layout()

        assert (layout.thread_loop, layout.thread_dict, layout.modules) == (ABSENT, 112, 944)

    def test_event_loop_is_behind_the_state_of_a_thread_in_313(self) -> None:
        """Offsets come from the interpreter."""
        layout = MadeRegistered((3, 13)).layout()

        assert (layout.thread_loop, layout.thread_dict, layout.modules) == (304, ABSENT, 7656)

    @pytest.mark.parametrize("version", [(3, 9), (3, 14)])
    def test_other_versions_have_none(self, version: tuple[int, int]) -> None:
        assert registered_layout(interpreter(version)) is None

    def test_free_threaded_builds_have_none(self) -> None:
        assert registered_layout(interpreter((3, 13), free_threaded=True)) is None
