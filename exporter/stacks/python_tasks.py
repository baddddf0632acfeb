"""Tasks of asyncio around the frames of a thread: which task runs, which wait for it, and where all wait while none runs.

In: a PythonStack, memory from the kernel. Out: a TaskSection for task_lines.py. Everything is of the moment of the stack: from
before the reading until after it the thread rests, or is in the same call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from exporter.errors import ExporterError, NotReadable
from exporter.kernel.abi import PythonStatus
from exporter.kernel.python_frames import CodeFrame, PythonFrames, WalkedFrames
from exporter.python.call_site import CallStack, PythonFrame
from exporter.python.debug_offsets import DebugOffsets
from exporter.python.layout import CodeLayout
from exporter.python.memory import BoundedMemory
from exporter.python.paths import short_path
from exporter.python.registered_layout import RegisteredLayout, registered_layout
from exporter.python.registered_tasks import asyncio_module, registered_tasks, running_loop
from exporter.python.task_layout import VERSION, task_layout
from exporter.python.task_objects import Task, ThreadTasks
from exporter.python.tasks import thread_tasks
from exporter.stacks.python_stacks import PythonStack, PythonStacks
from exporter.stacks.task_lines import TaskAt, TaskSection, most_common

READ: Final = "read"
OTHER_VERSION: Final = "version"
NO_OFFSETS: Final = "offsets"
CHANGED: Final = "changed"
UNREADABLE: Final = "unreadable"
RESULTS: Final = (READ, OTHER_VERSION, NO_OFFSETS, CHANGED, UNREADABLE)
"""Tasks around a stack: read; an interpreter before 3.12, or a free-threaded one of 3.13, does not say where they are; neither
does a section of a file, or the module `_asyncio`, or what they say cannot be right; the thread has run while they were read;
memory that must be there is not, or has no end."""

TRIES_MAX: Final = 3
"""An event loop may wake up while it is read."""
PLACES_MAX: Final = 8
"""Lines of waiting tasks that are shown, and different stacks of theirs that are named: a person reads them."""
REMEMBERED_MAX: Final = 1_024
"""Addresses of the module `_asyncio`, and of its offsets, that are remembered: a thread goes on while they are searched."""
_OFFSETS_READS_MAX: Final = 4
_AT_REST: Final = (PythonStatus.WALKED, PythonStatus.TRUNCATED)


class Around(NamedTuple):
    """stack: of the moment of the tasks: a later one of the same call or gap if the thread has run.

    has_gone_on: there are no tasks, because the thread has run each time that they were read.
    """

    stack: PythonStack
    tasks: TaskSection | None
    has_gone_on: bool = False


class PythonTasks:
    """For the thread of PythonStacks. sections_of: see TenantReader.asyncio_sections_of(). shown: see NamedSites.shown().

    count: takes one of RESULTS for each stack of a thread with an event loop.
    """

    def __init__(
        self,
        frames: PythonFrames,
        stacks: PythonStacks,
        sections_of: Callable[[int], Sequence[int]],
        shown: Callable[[int, tuple[PythonFrame, ...]], CallStack],
        count: Callable[[str], None],
    ) -> None:
        self._frames = frames
        self._stacks = stacks
        self._sections_of = sections_of
        self._shown = shown
        self._count = count
        self._modules: dict[tuple[int, int], int] = {}  # by process and address of its interpreter
        self._sections: dict[tuple[int, int], int] = {}  # by process and address of the state of its thread

    def around(self, tgid: int, tid: int, stack: PythonStack) -> Around:
        """The tasks of the call or gap of a stack."""
        last = stack
        for _ in range(TRIES_MAX):
            if last.walked is None or last.walked.status not in _AT_REST:
                return Around(stack, None)
            found = self._read(tgid, last.walked)
            if isinstance(found, TaskSection) or found is None:
                self._count_if(found, last)
                return Around(last, found)
            if found != CHANGED:
                self._count_if(found, last)
                return Around(stack, None)
            again = self._stacks.of_thread(tgid, tid)
            if again is None or again.opened_ns != stack.opened_ns:
                break
            last = again
        self._count_if(CHANGED, stack)
        return Around(stack, None, has_gone_on=True)

    def _count_if(self, found: TaskSection | str | None, stack: PythonStack) -> None:
        """A refusal counts where there is an event loop, as far as that is known."""
        if isinstance(found, TaskSection):
            self._count(READ)
        elif found is not None and any(short_path(frame.file).startswith("asyncio/") for frame in stack.frames):
            self._count(found)

    def _read(self, tgid: int, walked: WalkedFrames) -> TaskSection | str | None:
        """One of RESULTS for a refusal; None where no event loop runs."""
        interpreter = self._stacks.interpreter(tgid, walked.place)
        if interpreter is None:
            return None
        registered = registered_layout(interpreter)
        if registered is not None:
            return self._registered(registered, tgid, walked, interpreter.code)
        offsets = interpreter.offsets
        if interpreter.version != VERSION or offsets is None:
            return OTHER_VERSION
        known = self._sections.get((tgid, walked.state))
        if known is not None:
            result = self._by(known, offsets, tgid, walked, interpreter.code)
            if result not in (NO_OFFSETS, UNREADABLE):
                return result
        return self._by_search(offsets, tgid, walked, interpreter.code)

    def _by_search(
        self, offsets: DebugOffsets, tgid: int, walked: WalkedFrames, code: CodeLayout
    ) -> TaskSection | str | None:
        sections: Sequence[int] = ()
        with contextlib.suppress(ExporterError):  # the process has ended, or one of its files does not answer
            sections = self._sections_of(tgid)
        result: TaskSection | str | None = NO_OFFSETS
        for section in sections:
            result = self._by(section, offsets, tgid, walked, code)
            if result not in (NO_OFFSETS, UNREADABLE):
                _remember(self._sections, (tgid, walked.state), section)
                break
        return result

    def _by(
        self, section: int, offsets: DebugOffsets, tgid: int, walked: WalkedFrames, code: CodeLayout
    ) -> TaskSection | str | None:
        read = partial(self._frames.read, walked.tid)
        try:
            layout = task_layout(BoundedMemory(read, _OFFSETS_READS_MAX), section, offsets)
        except NotReadable:
            return NO_OFFSETS
        try:
            tasks = thread_tasks(read, layout, code, walked.state)
        except NotReadable:
            return UNREADABLE if self._is_unchanged(walked) else CHANGED
        return None if tasks is None else self._at_once(tgid, walked, tasks)

    def _registered(
        self, layout: RegisteredLayout, tgid: int, walked: WalkedFrames, code: CodeLayout
    ) -> TaskSection | str | None:
        """The module is searched once: an interpreter may have thousands. It may be that of an earlier process with this tgid."""
        read = partial(self._frames.read, walked.tid)
        try:
            running = running_loop(read, layout, code, walked.state)
            if running is None:
                return None
            key = tgid, running.interpreter
            module = self._modules.pop(key, 0) or asyncio_module(read, layout, code, running.interpreter)
            tasks = registered_tasks(read, layout, code, running.loop, module) if module else None
        except NotReadable:
            return UNREADABLE if self._is_unchanged(walked) else CHANGED
        if tasks is None:
            return NO_OFFSETS
        _remember(self._modules, key, module)
        return self._at_once(tgid, walked, tasks)

    def _at_once(self, tgid: int, walked: WalkedFrames, tasks: ThreadTasks) -> TaskSection | str:
        """The tasks with their names and lines, if the thread still rests."""
        found = self._named(tgid, walked, tasks)
        return found if self._is_unchanged(walked) else CHANGED

    def _is_unchanged(self, walked: WalkedFrames) -> bool:
        now = self._frames.walk(walked.tid)
        return now is not None and now.status in _AT_REST and now.is_same_moment(walked)

    def _named(self, tgid: int, walked: WalkedFrames, tasks: ThreadTasks) -> TaskSection:
        running = tasks.running
        awaiting = tuple(
            TaskAt(one.task.name, self._place(tgid, walked, one.task), one.waits_for) for one in tasks.awaiting
        )
        waiting = most_common(self._waiting(tgid, walked, tasks.waiting), PLACES_MAX)
        name = None if running is None else running.name
        behind = 0 if running is None else _frames_of(running, walked.frames)
        return TaskSection(behind, name, awaiting, waiting, tasks.total, tasks.is_cut)

    def _waiting(self, tgid: int, walked: WalkedFrames, tasks: Iterable[Task]) -> list[TaskAt]:
        """The tasks with the most common stacks: to name one takes a millisecond."""
        alike: dict[object, list[Task]] = {}
        for task in tasks:
            alike.setdefault(task.frames, []).append(task)
        groups = sorted(alike.values(), key=len, reverse=True)[:PLACES_MAX]
        found = []
        for group in groups:
            place = self._place(tgid, walked, group[0])
            found += [TaskAt(task.name, place) for task in group]
        return found

    def _place(self, tgid: int, walked: WalkedFrames, task: Task) -> str:
        frames = tuple(CodeFrame(one.code, one.instruction, None) for one in task.frames)
        named = self._stacks.named(tgid, walked.tid, walked.place, frames)
        return self._shown(tgid, named).place if named else ""


def _remember(known: dict[tuple[int, int], int], key: tuple[int, int], address: int) -> None:
    if key not in known and len(known) >= REMEMBERED_MAX:
        known.clear()
    known[key] = address


def _frames_of(running: Task, frames: Sequence[CodeFrame]) -> int:
    """How many of a thread's frames are those of its task; all, if its coroutine is not among them."""
    (outermost,) = running.frames or (None,)
    for number in range(len(frames), 0, -1):
        if outermost == (frames[number - 1].code, frames[number - 1].instruction):
            return number
    return len(frames)
