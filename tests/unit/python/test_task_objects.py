"""python.task_objects: the name of a task, and the coroutines that it waits in, in memory that is made."""

from __future__ import annotations

import pytest

from exporter.python.task_objects import CodeAt, Task
from exporter.python.tasks import thread_tasks
from tests.unit.python.made_registered import AWAITS, YIELDS, MadeRegistered
from tests.unit.python.made_tasks import ENDED, NAME, NOT_BEGUN, SLEEPS, MadeTasks


def waiting_in(made: MadeTasks) -> tuple[Task, ...]:
    """The tasks of its thread."""
    found = thread_tasks(made.memory, made.layout(), made.code(), made.state)
    assert found is not None
    return found.waiting


@pytest.mark.parametrize("free_threaded", [False, True])
class TestCoroutines:
    def test_coroutine_waits_in_the_one_that_it_awaits(self, free_threaded: bool) -> None:
        """The innermost one awaits a future, which has no frame."""
        made = MadeTasks(free_threaded=free_threaded)
        inner = made.coroutine(0x5000, 0x5010, made.object(made.future_type, bytes(300)))
        made.list(made.task("fetch", made.coroutine(0x6000, 0x6020, inner)))

        assert waiting_in(made) == (Task("fetch", (CodeAt(0x5000, 0x5010), CodeAt(0x6000, 0x6020))),)

    @pytest.mark.parametrize("state", [SLEEPS, NOT_BEGUN])
    def test_what_lies_on_the_stack_of_one_that_awaits_nothing_is_not_awaited(
        self, free_threaded: bool, state: int
    ) -> None:
        made = MadeTasks(free_threaded=free_threaded)
        inner = made.coroutine(0x5000, 0x5010)
        made.list(made.task("fetch", made.coroutine(0x6000, 0x6020, inner, state)))

        assert waiting_in(made) == (Task("fetch", (CodeAt(0x6000, 0x6020),)),)

    def test_one_that_has_ended_has_no_frame(self, free_threaded: bool) -> None:
        made = MadeTasks(free_threaded=free_threaded)
        made.list(made.task("fetch", made.coroutine(0x6000, 0x6020, state=ENDED)))

        assert waiting_in(made) == (Task("fetch", ()),)

    def test_coroutines_that_await_each_other_end(self, free_threaded: bool) -> None:
        """16 of them are read."""
        made = MadeTasks(free_threaded=free_threaded)
        own = made.coroutine(0x6000, 0x6020)
        made.memory.set_word(list(made.memory.pieces)[-1] + 8, own)
        made.list(made.task("fetch", own))

        assert waiting_in(made) == (Task("fetch", (CodeAt(0x6000, 0x6020),) * 16),)


class TestNames:
    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("load", "load"),
            (7, "Task-7"),
            ((1 << 30) + 5, "Task-1073741829"),
            ("a\x1b[31m\nb", "a\ufffd[31m\ufffdb"),
            ("x" * 64, "x" * 64),
            ("x" * 65, "x" * 63 + "…"),
            ("", ""),
        ],
    )
    def test_name_is_printable_and_cut(self, name: str | int, shown: str) -> None:
        """A number stands for a name that was not asked for yet."""
        made = MadeTasks()
        made.list(made.task(name))

        assert [one.name for one in waiting_in(made)] == [shown]

    def test_name_that_is_another_object_is_none(self) -> None:
        made = MadeTasks()
        task = made.task("load")
        made.memory.set_word(task + NAME, made.object(made.future_type, bytes(100)))
        made.list(task)

        assert [one.name for one in waiting_in(made)] == [""]


@pytest.mark.parametrize("version", [(3, 12), (3, 13)])
class TestOlderCoroutines:
    def test_coroutine_waits_in_the_one_that_it_awaits(self, version: tuple[int, int]) -> None:
        """The innermost one awaits a future, which has no frame."""
        made = MadeRegistered(version)
        inner = made.coroutine(0x5000, made.object(made.future_type, bytes(300)))
        made.register(made.task("fetch", made.coroutine(0x6000, inner)))
        ((name, frames),) = made.found().waiting

        assert name == "fetch"
        assert [frame.code for frame in frames] == [0x5000, 0x6000]

    def test_what_lies_on_the_stack_of_one_that_has_not_begun_is_not_awaited(self, version: tuple[int, int]) -> None:
        made = MadeRegistered(version)
        inner = made.coroutine(0x5000)
        made.register(made.task("fetch", made.coroutine(0x6000, inner, state=-2 if version == (3, 12) else -3)))

        assert [frame.code for frame in made.found().waiting[0].frames] == [0x6000]

    @pytest.mark.parametrize("state", [-4, 1, 4])
    def test_one_that_has_ended_has_no_frame(self, version: tuple[int, int], state: int) -> None:
        made = MadeRegistered(version)
        made.register(made.task("fetch", made.coroutine(0x6000, state=state)))

        assert made.found().waiting[0].frames == ()


class TestSuspendedIn312:
    """Its state is the same where it waits for another object, and where it has yielded a value itself."""

    @pytest.mark.parametrize(("resume", "codes"), [(YIELDS, [0x6000]), (AWAITS, [0x5000, 0x6000])])
    def test_next_instruction_says_whether_it_waits(self, resume: bytes, codes: list[int]) -> None:
        made = MadeRegistered((3, 12))
        inner = made.coroutine(0x5000)
        made.register(made.task("fetch", made.coroutine(0x6000, inner, resume=resume)))

        assert [frame.code for frame in made.found().waiting[0].frames] == codes
