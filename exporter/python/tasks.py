"""The tasks of the event loop that a thread runs, since 3.14: which one runs, which wait for it, and where the others wait.

In: the state of a thread that rests, and the memory of its process. Out: ThreadTasks. The process can write anything into its
memory: lists may have no end, and tasks may wait for each other. Before 3.14: registered_tasks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exporter.python.layout import CodeLayout
from exporter.python.memory import BoundedMemory, ReadMemory
from exporter.python.task_layout import TaskLayout
from exporter.python.task_objects import AwaitingTask, Task, TaskObjects, ThreadTasks

READS_MAX: Final = 4_096
"""0.03 ms each. A thousand tasks take 1,100."""
AWAITING_MAX: Final = 8
"""Tasks that wait for the running one, directly or through others: a person reads them."""
VISITED_MAX: Final = 64
"""Tasks and futures on the way to them."""
WAITING_MAX: Final = 64
"""Tasks whose coroutines are read where none runs."""
COUNTED_MAX: Final = 512
SET_ENTRIES_MAX: Final = 512

_ENTRY_BYTES: Final = 16  # of a set: object, hash
_REMOVED: Final = (1 << 64) - 1  # hash of an entry that is none any more


def thread_tasks(read: ReadMemory, layout: TaskLayout, code: CodeLayout, state: int) -> ThreadTasks | None:
    """The tasks of a thread; None if it runs no event loop. state: address of its thread state. Raises NotReadable."""
    return _Reader(BoundedMemory(read, READS_MAX), layout, code).tasks(state)


class _Reader:
    def __init__(self, memory: BoundedMemory, layout: TaskLayout, code: CodeLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._objects = TaskObjects(self._memory, layout.objects, code)

    def tasks(self, state: int) -> ThreadTasks | None:
        if not self._memory.word(state + self._layout.thread_loop):
            return None
        running = self._memory.word(state + self._layout.thread_task)
        if running:
            awaiting, is_cut = self._awaiting(running)
            return ThreadTasks(self._objects.task(running), awaiting, (), 0, is_cut)
        waiting: list[Task] = []
        total, is_cut = 0, False
        for address in self._listed(state + self._layout.thread_tasks):
            if total == COUNTED_MAX:
                is_cut = True
                break
            total += 1
            if len(waiting) < WAITING_MAX:
                waiting.append(self._objects.task(address))
        return ThreadTasks(None, (), tuple(waiting), total, is_cut)

    def _listed(self, head: int) -> Iterator[int]:
        """Addresses of the tasks of a list, which ends where it begins."""
        node = self._memory.word(head + self._layout.node_next)
        while node not in (head, 0):
            yield node - self._layout.node
            node = self._memory.word(node + self._layout.node_next)

    def _awaiting(self, running: int) -> tuple[tuple[AwaitingTask, ...], bool]:
        """Each task once, behind the one that it waits for. Futures that are no tasks, as that of gather(), are passed over."""
        found: list[AwaitingTask] = []
        seen = {running}
        left = [(address, -1) for address in reversed(self._awaited_by(running))]
        while left:
            address, waits_for = left.pop()
            if address in seen:
                continue
            if len(found) == AWAITING_MAX or len(seen) == VISITED_MAX:
                return tuple(found), True
            seen.add(address)
            if self._memory.byte(address + self._layout.is_task):
                found.append(AwaitingTask(self._objects.task(address), waits_for))
                waits_for = len(found) - 1
            left += [(one, waits_for) for one in reversed(self._awaited_by(address))]
        return tuple(found), False

    def _awaited_by(self, future: int) -> list[int]:
        layout = self._layout
        found = self._memory.word(future + layout.awaited_by)
        if not found:
            return []
        if not self._memory.byte(future + layout.awaited_by_is_set):
            return [found]
        mask, table = self._memory.word(found + layout.set_mask), self._memory.word(found + layout.set_table)
        count = min(mask + 1, SET_ENTRIES_MAX)
        words = self._memory.words(table, count * _ENTRY_BYTES // 8)
        entries = zip(words[::2], words[1::2], strict=True)
        return [address for address, hashed in entries if address and hashed != _REMOVED]
