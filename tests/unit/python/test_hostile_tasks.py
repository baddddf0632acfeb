"""python.tasks with hostile memory: tasks or NotReadable, never another exception, with bounded reads and texts."""

from __future__ import annotations

import random

import pytest

from exporter.errors import NotReadable
from exporter.python.memory import BoundedMemory
from exporter.python.task_layout import TaskLayout, task_layout
from exporter.python.task_objects import COROUTINES_MAX, NAME_CHARACTERS_MAX, Task
from exporter.python.tasks import AWAITING_MAX, COUNTED_MAX, READS_MAX, WAITING_MAX, thread_tasks
from tests.unit.python.changed_memory import ChangedMemory
from tests.unit.python.made_tasks import RUNNING, MadeTasks

MUTANTS = 2_000


class Victim:
    """A thread with tasks in a list, one of which others wait for, whose memory is changed and restored."""

    def __init__(self, *, free_threaded: bool) -> None:
        self.made = MadeTasks(free_threaded=free_threaded)
        made = self.made
        inner = made.coroutine(0x5000, 0x5010, made.object(made.future_type, bytes(300)))
        self.tasks = [made.task(name, made.coroutine(0x6000, 0x6020, inner)) for name in ("worker", "first", 7)]
        outer = made.task("outer")
        gathered = made.future()
        made.await_by(self.tasks[0], *self.tasks[1:], gathered)
        made.await_by(gathered, outer)
        made.list(*self.tasks, outer)
        self.layout, self.code, offsets = made.layout(), made.code(), made.interpreter().offsets
        assert offsets is not None
        self.offsets = offsets
        self.changed = ChangedMemory(made.memory, words=20)

    def change(self, seed: random.Random) -> None:
        """Half of the time beside a task that runs."""
        self.changed.restore()
        if seed.random() < 0.5:
            self.made.memory.set_word(self.made.state + RUNNING, seed.choice(self.tasks))
        self.changed.change(seed)

    def layout_by_memory(self) -> TaskLayout:
        """Offsets come from the process as well."""
        try:
            return task_layout(BoundedMemory(self.made.memory, 8), self.made.section, self.offsets)
        except NotReadable:
            return self.layout

    def examine(self) -> bool:
        """Whether tasks were found."""
        layout = self.layout_by_memory()
        before = self.made.memory.reads
        try:
            found = thread_tasks(self.made.memory, layout, self.code, self.made.state)
        except NotReadable:
            found = None
        assert self.made.memory.reads - before <= READS_MAX
        if found is None:
            return False
        assert len(found.awaiting) <= AWAITING_MAX
        assert len(found.waiting) <= min(WAITING_MAX, found.total)
        assert found.total <= COUNTED_MAX
        assert all(-1 <= one.waits_for < number for number, one in enumerate(found.awaiting))
        for task in (*(one.task for one in found.awaiting), *found.waiting, found.running or Task("", ())):
            assert task.name.isprintable()
            assert len(task.name) <= NAME_CHARACTERS_MAX
            assert len(task.frames) <= COROUTINES_MAX
        return True


@pytest.mark.parametrize("free_threaded", [False, True])
def test_changed_memory_is_refused_or_read_within_bounds(free_threaded: bool) -> None:
    """The same changes each time; a failure is reproduced by its number. Most of the tasks are found all the same."""
    victim, found = Victim(free_threaded=free_threaded), 0
    for number in range(MUTANTS):
        victim.change(random.Random(number))
        found += victim.examine()

    assert found > MUTANTS // 2
