"""python.registered_tasks with hostile memory: tasks or NotReadable, never another exception, with bounded reads and texts."""

from __future__ import annotations

import random

import pytest

from exporter.errors import NotReadable
from exporter.python.registered_tasks import MODULES_MAX, READS_MAX, asyncio_module, registered_tasks, running_loop
from exporter.python.task_objects import COROUTINES_MAX, NAME_CHARACTERS_MAX, Task, ThreadTasks
from exporter.python.tasks import AWAITING_MAX, COUNTED_MAX, WAITING_MAX
from tests.unit.python.changed_memory import ChangedMemory
from tests.unit.python.made_registered import MadeRegistered

MUTANTS = 2_000


class Victim:
    """A thread with tasks, one of which others wait for, whose memory is changed and restored."""

    def __init__(self, version: tuple[int, int]) -> None:
        made = self.made = MadeRegistered(version)
        inner = made.coroutine(0x5000, made.object(made.future_type, bytes(300)))
        worker = made.task("worker", made.coroutine(0x6000, inner))
        waiters = [made.task(name, made.coroutine(0x6000, inner), waits_for=worker) for name in ("first", "second")]
        made.register(worker, *waiters, made.task("outer", waits_for=waiters[0]))
        self.worker = worker
        self.layout, self.code = made.layout(), made.code()
        self.changed = ChangedMemory(made.memory, words=20)

    def change(self, seed: random.Random) -> None:
        """Half of the time beside a task that runs."""
        self.changed.restore()
        if seed.random() < 0.5:
            self.made.run(self.worker)
        self.changed.change(seed)

    def tasks(self) -> ThreadTasks | None:
        memory = self.made.memory
        running = running_loop(memory, self.layout, self.code, self.made.state)
        if running is None:
            return None
        module = asyncio_module(memory, self.layout, self.code, running.interpreter)
        return registered_tasks(memory, self.layout, self.code, running.loop, module)

    def examine(self) -> bool:
        """Whether tasks were found."""
        before = self.made.memory.reads
        try:
            found = self.tasks()
        except NotReadable:
            found = None
        assert self.made.memory.reads - before <= 2 * READS_MAX + 2 * MODULES_MAX
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


@pytest.mark.parametrize("version", [(3, 12), (3, 13)])
def test_changed_memory_is_refused_or_read_within_bounds(version: tuple[int, int]) -> None:
    """The same changes each time; a failure is reproduced by its number. Tasks are found in many all the same."""
    victim, found = Victim(version), 0
    for number in range(MUTANTS):
        victim.change(random.Random(number))
        found += victim.examine()

    assert found > MUTANTS // 4
