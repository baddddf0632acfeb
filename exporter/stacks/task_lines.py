"""Tasks of asyncio as lines of text for a person: those that wait for the one that runs, or where all wait while none runs.

In: TaskSection. Out: lines, indented as functions are. Names of tasks are chosen by the job: they come printable and cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TaskAt(NamedTuple):
    """place: the line where it waits, as CallStack.place has it; "" if that is not known. waits_for: as in AwaitingTask."""

    name: str
    place: str
    waits_for: int = -1

    @property
    def text(self) -> str:
        """`task fetch-7 at fetch (train.py:12)`."""
        named = f"task {self.name}" if self.name else "a task"
        return f"{named} at {self.place}" if self.place else named


class TasksAt(NamedTuple):
    """number: how many tasks wait at the line of `first`."""

    first: TaskAt
    number: int


class TaskSection(NamedTuple):
    """behind: how many of the thread's frames belong to the task that runs. running: its name; None if none runs.

    waiting: those that wait while none runs, the lines with the most of them first. total: how many they all are.
    is_cut: there are more.
    """

    behind: int
    running: str | None
    awaiting: tuple[TaskAt, ...]
    waiting: tuple[TasksAt, ...]
    total: int
    is_cut: bool


def awaiting_lines(tasks: TaskSection) -> tuple[str, ...]:
    """For behind the functions of the task that runs: which one that is, and each that waits for it or for one before it."""
    if tasks.running is None:
        return ()
    lines = [f"  in task {tasks.running}" if tasks.running else "  in a task"]
    for number, task in enumerate(tasks.awaiting):
        is_about_the_last = task.waits_for == number - 1
        lines.append(f"  {'' if is_about_the_last else _subject(tasks, task) + ' also '}awaited by {task.text}")
    return (*lines, *(("  and more",) if tasks.is_cut else ()))


def waiting_lines(tasks: TaskSection) -> tuple[str, ...]:
    """Where tasks wait, if none runs and there are some."""
    if tasks.running is not None or not tasks.total:
        return ()
    at_least = "at least " if tasks.is_cut else ""
    wait = "1 task waits" if tasks.total == 1 and not tasks.is_cut else f"{at_least}{tasks.total} tasks wait"
    left_out = tasks.total - sum(one.number for one in tasks.waiting)
    more = (f"  and {left_out} more",) if left_out > 0 else ()
    return (f"no task runs; {wait}:", *map(_line, tasks.waiting), *more)


def most_common(tasks: Sequence[TaskAt], lines_max: int) -> tuple[TasksAt, ...]:
    """The lines at which the most tasks wait; of those with equally many, the first."""
    found: dict[str, TasksAt] = {}
    for task in tasks:
        before = found.get(task.place)
        found[task.place] = TasksAt(task, 1) if before is None else before._replace(number=before.number + 1)
    return tuple(sorted(found.values(), key=lambda one: -one.number)[:lines_max])


def _subject(tasks: TaskSection, task: TaskAt) -> str:
    name = tasks.running if task.waits_for < 0 else tasks.awaiting[task.waits_for].name
    return f"task {name}" if name else "a task"


def _line(tasks: TasksAt) -> str:
    if tasks.number == 1:
        return f"  {tasks.first.text}"
    return f"  {tasks.number} tasks, such as {tasks.first.text}"
