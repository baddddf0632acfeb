"""python.task_layout: which offsets of asyncio are believed."""

from __future__ import annotations

import pytest

from exporter.errors import NotReadable
from tests.unit.python.made_tasks import NUMBERS, MadeTasks


class TestOffsets:
    @pytest.mark.parametrize("free_threaded", [False, True])
    def test_those_of_the_module_and_of_the_interpreter_make_a_layout(self, free_threaded: bool) -> None:
        """Objects of a free-threaded build have a head of 32 bytes, others of 16."""
        head = 32 if free_threaded else 16
        layout = MadeTasks(free_threaded=free_threaded).layout()

        assert (layout.thread_loop, layout.thread_task, layout.thread_tasks) == (864, 872, 880)
        assert (layout.objects.name, layout.awaited_by, layout.objects.coroutine, layout.node) == (136, 96, 128, 152)
        assert (layout.is_task, layout.awaited_by_is_set, layout.objects.task_bytes) == (108, 109, 168)
        objects = layout.objects
        assert (objects.object_type, objects.coroutine_frame, objects.frame_stack) == (head - 8, head + 56, 64)

    @pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12])
    @pytest.mark.parametrize("value", [1 << 20, 1 << 63])
    def test_number_that_lies_outside_of_its_object_is_none(self, number: int, value: int) -> None:
        """Numbers 7 and 8 are of the interpreter, and not used."""
        made = MadeTasks()
        made.memory.set_word(made.section + 8 * number, value)

        with pytest.raises(NotReadable):
            made.layout()

    @pytest.mark.parametrize("number", [1, 2, 5, 6, 10, 11, 12])
    def test_pointer_that_is_not_aligned_is_none(self, number: int) -> None:
        made = MadeTasks()
        made.memory.set_word(made.section + 8 * number, NUMBERS[number] + 4)

        with pytest.raises(NotReadable):
            made.layout()

    def test_two_members_at_one_place_are_none(self) -> None:
        made = MadeTasks()
        made.memory.set_word(made.section + 8, NUMBERS[2])

        with pytest.raises(NotReadable):
            made.layout()
