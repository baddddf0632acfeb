"""python.tasks: the tasks of an event loop, in memory that is made."""

from __future__ import annotations

from itertools import pairwise

import pytest

from exporter.errors import NotReadable
from exporter.python.task_objects import AwaitingTask, CodeAt, Task, ThreadTasks
from exporter.python.tasks import READS_MAX, thread_tasks
from tests.unit.python.made_tasks import COROUTINE, LOOP, NODE, TASKS, MadeTasks


def found_in(made: MadeTasks) -> ThreadTasks:
    """The tasks of its thread."""
    found = thread_tasks(made.memory, made.layout(), made.code(), made.state)
    assert found is not None
    return found


def names(made: MadeTasks) -> list[tuple[str, int]]:
    """Those that wait for the one that runs."""
    return [(one.task.name, one.waits_for) for one in found_in(made).awaiting]


class TestThread:
    def test_thread_without_an_event_loop_has_none(self) -> None:
        made = MadeTasks()
        made.memory.set_word(made.state + LOOP, 0)

        assert thread_tasks(made.memory, made.layout(), made.code(), made.state) is None

    def test_event_loop_without_tasks_has_none_that_waits(self) -> None:
        assert found_in(MadeTasks()) == ThreadTasks(None, (), (), 0, is_cut=False)


class TestAwaiting:
    def test_each_task_is_behind_the_one_that_it_waits_for(self) -> None:
        """Two wait for the one that runs, and one for the first of them."""
        made = MadeTasks()
        running, first, second, outer = (made.task(name) for name in ("worker", "first", "second", "outer"))
        made.await_by(running, first, second)
        made.await_by(first, outer)
        made.run(running)

        assert found_in(made).running == Task("worker", ())
        assert names(made) == [("first", -1), ("outer", 0), ("second", -1)]

    def test_future_that_is_no_task_is_passed_over(self) -> None:
        """gather() makes one, which waits for all of its tasks, and the task that called it waits for the future."""
        made = MadeTasks()
        running, future, outer = made.task("worker"), made.future(), made.task("outer")
        made.await_by(running, future)
        made.await_by(future, outer)
        made.run(running)

        assert names(made) == [("outer", -1)]

    def test_tasks_that_wait_for_each_other_are_given_once(self) -> None:
        made = MadeTasks()
        running, other = made.task("worker"), made.task("other")
        made.await_by(running, other, running)
        made.await_by(other, running, other)
        made.run(running)

        assert names(made) == [("other", -1)]

    def test_eight_are_given(self) -> None:
        made = MadeTasks()
        chain = [made.task(number) for number in range(10)]
        for one, other in pairwise(chain):
            made.await_by(one, other)
        made.run(chain[0])

        assert names(made) == [(f"Task-{number + 1}", number - 1) for number in range(8)]
        assert found_in(made).is_cut

    def test_line_of_the_one_that_waits_is_that_of_its_coroutines(self) -> None:
        made = MadeTasks()
        running, outer = made.task("worker", made.coroutine(0x7000, 0x7010, state=0)), made.task("outer")
        made.memory.set_word(outer + COROUTINE, made.coroutine(0x6000, 0x6020))
        made.await_by(running, outer)
        made.run(running)

        assert found_in(made).running == Task("worker", (CodeAt(0x7000, 0x7010),))
        assert found_in(made).awaiting == (AwaitingTask(Task("outer", (CodeAt(0x6000, 0x6020),)), -1),)

    def test_futures_without_end_are_cut(self) -> None:
        """64 are visited."""
        made = MadeTasks()
        running, futures = made.task("worker"), [made.future() for _ in range(80)]
        for one, other in zip([running, *futures], futures, strict=False):
            made.await_by(one, other)
        made.run(running)

        assert (names(made), found_in(made).is_cut) == ([], True)


class TestWaiting:
    def test_all_are_counted_and_64_are_read(self) -> None:
        made = MadeTasks()
        made.list(*(made.task(number) for number in range(100)))
        found = found_in(made)

        assert (found.total, found.is_cut) == (100, False)
        assert [one.name for one in found.waiting] == [f"Task-{number}" for number in range(64)]

    def test_list_without_end_is_counted_to_512(self) -> None:
        made = MadeTasks()
        task = made.task("load")
        made.list(task)
        made.memory.set_word(task + NODE, task + NODE)
        found = found_in(made)

        assert (found.total, found.is_cut) == (512, True)

    def test_list_that_leads_nowhere_cannot_be_read(self) -> None:
        made = MadeTasks()
        made.memory.set_word(made.state + TASKS, 0xDEAD_BEE8)

        with pytest.raises(NotReadable):
            found_in(made)

    def test_tasks_of_any_depth_can_be_read(self) -> None:
        """A list without end: 64 tasks of 16 coroutines each are read, and 448 more counted."""
        made = MadeTasks()
        coroutine = made.coroutine(0x6000, 0x6020)
        made.memory.set_word(list(made.memory.pieces)[-1] + 8, coroutine)
        task = made.task("load", coroutine)
        made.list(task)
        made.memory.set_word(task + NODE, task + NODE)
        layout, code = made.layout(), made.code()
        before = made.memory.reads
        found = thread_tasks(made.memory, layout, code, made.state)
        assert found is not None

        assert [len(one.frames) for one in found.waiting] == [16] * 64
        assert made.memory.reads - before < READS_MAX
