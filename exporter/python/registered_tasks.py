"""The tasks of the event loop that a thread runs, in 3.12 and 3.13: which one runs, which wait for it, where the others wait.

In: the state of a thread that rests, the memory of its process, the module `_asyncio`. Out: ThreadTasks. Tasks of all threads are
in one set, of weak references; the task that runs is in a dict by its event loop. Nothing says which tasks wait for a task: those
that do so themselves are found by the future that they wait for, those that call gather() are not.
The process can write anything into its memory. What is read there has the type that it must have, or is refused.
Source: Modules/_asynciomodule.c, Lib/_weakrefset.py, Include/cpython/setobject.h, weakrefobject.h, moduleobject.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from exporter.errors import NotReadable
from exporter.python.dict_object import entries, value_of
from exporter.python.layout import ABSENT, CodeLayout
from exporter.python.memory import READ_BYTES_MAX, BoundedMemory, ReadMemory
from exporter.python.registered_layout import RegisteredLayout
from exporter.python.task_objects import AwaitingTask, TaskObjects, ThreadTasks, number
from exporter.python.tasks import AWAITING_MAX, COUNTED_MAX, WAITING_MAX

READS_MAX: Final = 8_192
"""0.03 ms each. A thousand tasks take 1,300, of which 512 are counted."""
MODULES_MAX: Final = 8_192
"""Modules of an interpreter among which `_asyncio` is searched, once: 0.05 s for a thousand."""
SET_ENTRIES_MAX: Final = 1 << 15
ENTRIES_MAX: Final = 1_024
"""Entries of the dict of a thread, of that of the module, and of that of the tasks that run, one for each event loop."""
BASES_MAX: Final = 16

MODULE: Final = "_asyncio"
_LOOP: Final = "__asyncio_running_event_loop__"
_TYPE_BYTES_AT, _TYPE_BASE_AT = 32, 256  # tp_basicsize, tp_base
_MODULE_DICT, _MODULE_NAME = 16, 48  # md_dict, md_name
_SET_MASK, _SET_TABLE = 32, 40  # mask, table
_REFERENCED: Final = 16  # wr_object
_ATTRIBUTES_BEFORE: Final = 24  # of the address of an object's attributes, before the object
_VALUES_VALID, _VALUES_BEGIN = 3, 8  # in inline values
_ENTRY_BYTES: Final = 16  # of a set: object, hash
_REMOVED: Final = (1 << 64) - 1  # hash of an entry that is none any more
_TYPE_NAME_BYTES_MAX: Final = 64
_PENDING: Final = 0


class RunningLoop(NamedTuple):
    """Addresses of an event loop, and of the interpreter of its thread."""

    loop: int
    interpreter: int


def running_loop(read: ReadMemory, layout: RegisteredLayout, code: CodeLayout, state: int) -> RunningLoop | None:
    """What a thread runs; None if that is no event loop. state: address of its thread state. Raises NotReadable."""
    return _Types(BoundedMemory(read, READS_MAX), layout, code).running_loop(state)


def asyncio_module(read: ReadMemory, layout: RegisteredLayout, code: CodeLayout, interpreter: int) -> int:
    """The address of the module `_asyncio`; 0 if it is not among those of an interpreter. Raises NotReadable."""
    return _Types(BoundedMemory(read, 2 * MODULES_MAX), layout, code).module(interpreter)


def registered_tasks(
    read: ReadMemory, layout: RegisteredLayout, code: CodeLayout, loop: int, module: int
) -> ThreadTasks | None:
    """The tasks of an event loop; None if the module or its types are not what they are in this version. Raises NotReadable."""
    return _Reader(BoundedMemory(read, READS_MAX), layout, code).tasks(loop, module)


class _Types:
    """What is known of the types of objects."""

    def __init__(self, memory: BoundedMemory, layout: RegisteredLayout, code: CodeLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._code = code
        self._names: dict[int, bytes] = {}

    def running_loop(self, state: int) -> RunningLoop | None:
        layout = self._layout
        loop: int | None
        if layout.thread_loop != ABSENT:
            loop = self._memory.word(state + layout.thread_loop)
        else:
            found = self._memory.word(state + layout.thread_dict)
            loop = value_of(self._memory, self._code, self._known(found, b"dict"), _LOOP, ENTRIES_MAX) if found else 0
        if not loop or self._type_name(loop) == b"NoneType":
            return None
        return RunningLoop(loop, self._memory.word(state + layout.thread_interpreter))

    def module(self, interpreter: int) -> int:
        modules = self._known(self._memory.word(interpreter + self._layout.modules), b"dict")
        found = value_of(self._memory, self._code, modules, MODULE, MODULES_MAX)
        return found if found and self._type_name(found) == b"module" else 0

    def _known(self, address: int, name: bytes) -> int:
        """The address, if an object of a type with this name is there."""
        if self._type_name(address) != name:
            raise NotReadable(f"no {name.decode()} at {address:#x}")
        return address

    def _type_name(self, address: int) -> bytes:
        return self._name_of(self._memory.word(address + self._layout.objects.object_type))

    def _name_of(self, kind: int) -> bytes:
        if kind not in self._names:
            at = self._memory.word(kind + self._layout.objects.type_name)
            self._names[kind] = self._memory.c_string(at, _TYPE_NAME_BYTES_MAX)
        return self._names[kind]


class _Reader(_Types):
    """One event loop."""

    def __init__(self, memory: BoundedMemory, layout: RegisteredLayout, code: CodeLayout) -> None:
        super().__init__(memory, layout, code)
        self._objects = TaskObjects(memory, layout.objects, code)
        self._is_task: dict[int, bool] = {}  # of types
        self._task_type = 0

    def tasks(self, loop: int, module: int) -> ThreadTasks | None:
        members = self._members(module)
        if members is None:
            return None
        self._task_type, current, registered = members
        running = next((task for key, task in entries(self._memory, current, ENTRIES_MAX) if key == loop), 0)
        waiters, is_cut = self._pending(registered, loop)
        if running:
            if not self._is_type_of_tasks(self._memory.word(running + self._layout.objects.object_type)):
                raise NotReadable(f"no task at {running:#x}")
            awaiting, has_more = self._awaiting(running, waiters)
            return ThreadTasks(self._objects.task(running), awaiting, (), 0, is_cut or has_more)
        waiting = tuple(self._objects.task(address) for address in list(waiters)[:WAITING_MAX])
        return ThreadTasks(None, (), waiting, len(waiters), is_cut)

    def _members(self, module: int) -> tuple[int, int, int] | None:
        """The type of tasks, the dict of those that run, and the set of all."""
        if self._type_name(module) != b"module":
            return None
        name = self._memory.word(module + _MODULE_NAME)
        content = self._memory.up_to(name, self._code.text_ascii + len(MODULE))
        if content[self._code.text_ascii :] != MODULE.encode("ascii"):
            return None
        members = self._known(self._memory.word(module + _MODULE_DICT), b"dict")
        task, current, scheduled = (
            value_of(self._memory, self._code, members, name, ENTRIES_MAX)
            for name in ("Task", "_current_tasks", "_scheduled_tasks")
        )
        if not task or not current or not scheduled:
            return None
        if self._memory.word(task + _TYPE_BYTES_AT) != self._layout.task_type_bytes:
            return None
        return task, self._known(current, b"dict"), self._known(self._set_of(scheduled), b"set")

    def _set_of(self, weak_set: int) -> int:
        """The first attribute of a WeakSet, which is a set of references."""
        self._known(weak_set, b"WeakSet")
        if self._layout.has_inline_values:
            kind = self._memory.word(weak_set + self._layout.objects.object_type)
            values = weak_set + self._memory.word(kind + _TYPE_BYTES_AT)
            if not self._memory.byte(values + _VALUES_VALID):
                raise NotReadable("the attributes of the set of tasks are in a dict")
            return self._memory.word(values + _VALUES_BEGIN)
        values = self._memory.word(weak_set - _ATTRIBUTES_BEFORE)
        if not values & 1:
            raise NotReadable("the attributes of the set of tasks are in a dict")
        return self._memory.word(values + 1)

    def _pending(self, registered: int, loop: int) -> tuple[dict[int, int], bool]:
        """What the tasks of an event loop that are not done wait for, by task; whether there are more."""
        found: dict[int, int] = {}
        size = self._layout.objects.task_bytes
        for address in self._referenced(registered):
            content = self._memory.up_to(address, size)
            if len(content) < size or not self._is_type_of_tasks(number(content, self._layout.objects.object_type)):
                continue  # a reference to nothing leads to None
            state = number(content, self._layout.task_state) & 0xFFFF_FFFF
            if number(content, self._layout.task_loop) != loop or state != _PENDING:
                continue
            if len(found) == COUNTED_MAX:
                return found, True
            found[address] = number(content, self._layout.task_waiter)
        return found, False

    def _referenced(self, registered: int) -> Iterator[int]:
        mask, table = self._set_head(registered)
        if mask >= SET_ENTRIES_MAX:
            raise NotReadable("more tasks than are read")
        at_once = READ_BYTES_MAX // _ENTRY_BYTES
        for first in range(0, mask + 1, at_once):
            words = self._memory.words(table + first * _ENTRY_BYTES, 2 * min(at_once, mask + 1 - first))
            for reference, hashed in zip(words[::2], words[1::2], strict=True):
                if reference and hashed != _REMOVED:
                    content = self._memory.content(reference, _REFERENCED + 8)
                    if self._name_of(number(content, self._layout.objects.object_type)) != b"weakref.ReferenceType":
                        raise NotReadable(f"no reference to a task at {reference:#x}")
                    yield number(content, _REFERENCED)
        if self._set_head(registered) != (mask, table):  # tasks of other threads are in it as well
            raise NotReadable("the set of tasks has changed")

    def _set_head(self, registered: int) -> tuple[int, int]:
        mask, table = self._memory.words(registered + _SET_MASK, (_SET_TABLE - _SET_MASK) // 8 + 1)
        return mask, table

    def _is_type_of_tasks(self, kind: int) -> bool:
        """Whether it is the one of tasks, or derived from it."""
        if kind not in self._is_task:
            self._is_task[kind] = self._is_derived(kind)
        return self._is_task[kind]

    def _is_derived(self, kind: int) -> bool:
        for _ in range(BASES_MAX):
            if kind == self._task_type:
                return True
            if not kind:
                return False
            kind = self._memory.word(kind + _TYPE_BASE_AT)
        return False

    def _awaiting(self, running: int, waiters: dict[int, int]) -> tuple[tuple[AwaitingTask, ...], bool]:
        """Each task once, behind the one that it waits for."""
        awaited_by: dict[int, list[int]] = {}
        for task, waits_for in waiters.items():
            awaited_by.setdefault(waits_for, []).append(task)
        found: list[AwaitingTask] = []
        seen = {running}
        left = [(task, -1) for task in reversed(awaited_by.get(running, []))]
        while left:
            task, waits_for = left.pop()
            if task in seen:
                continue
            if len(found) == AWAITING_MAX:
                return tuple(found), True
            seen.add(task)
            found.append(AwaitingTask(self._objects.task(task), waits_for))
            left += [(one, len(found) - 1) for one in reversed(awaited_by.get(task, []))]
        return tuple(found), False
