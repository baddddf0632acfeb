"""Tasks of asyncio in the memory of an interpreter of 3.12 or 3.13, made byte by byte."""

from __future__ import annotations

import struct
from typing import Final

from exporter.python.interpreter import Interpreter, interpreter_of
from exporter.python.layout import CodeLayout
from exporter.python.registered_layout import RegisteredLayout, registered_layout
from exporter.python.registered_tasks import asyncio_module, registered_tasks, running_loop
from exporter.python.task_objects import ThreadTasks
from tests.unit.python.made_interpreter import MadeInterpreter

AWAITS, YIELDS = bytes([151, 3]), bytes([151, 1])
"""The instruction behind the one at which a coroutine is suspended: RESUME after `await` and after `yield`."""
LOOP: Final = 16
"""Offset of the event loop in a task."""
REMOVED: Final = (1 << 64) - 1


class MadeRegistered:
    """A thread that runs an event loop without tasks. state: its thread state."""

    def __init__(self, version: tuple[int, int]) -> None:
        self.made = MadeInterpreter(version)
        self.made.link([])
        self.memory = self.made.memory
        self.version = version
        self.is_312 = version == (3, 12)
        self.state = self.made.thread
        self.task_bytes, self.waiter_at, self.state_at = (176, 128, 88) if self.is_312 else (144, 112, 96)
        self.dict_type, self.module_type, self.set_type = self.type("dict"), self.type("module"), self.type("set")
        self.text_type, self.none_type = self.type("str", flags=1 << 28), self.type("NoneType")
        self.reference_type, self.weak_set_type = self.type("weakref.ReferenceType"), self.type("WeakSet", size=16)
        self.coroutine_type, self.future_type = self.type("coroutine"), self.type("_asyncio.FutureIter")
        self.task_type = self.type("_asyncio.Task", size=self.task_bytes)
        self.none = self.object(self.none_type, bytes(200))
        self.loop = self.object(self.type("_UnixSelectorEventLoop"), bytes(16))
        self.current = self.dict([])
        self.registered = self.object(self.set_type, bytes(64))
        self.weak_set = self._weak_set()
        self.module = self.object(self.module_type, bytes(64))
        self.members = self.dict(
            [
                (self.text("_scheduled_tasks"), self.weak_set),
                (self.text("Task"), self.task_type),
                (self.text("_current_tasks"), self.current),
            ]
        )
        self.memory.set_word(self.module + 16, self.members)
        self.memory.set_word(self.module + 48, self.text("_asyncio"))
        modules = [(self.text("asyncio"), self.none), (self.text("_asyncio"), self.module)]
        self.modules_at = self.made.interpreter + (944 if self.is_312 else 7656)
        self.memory.set_word(self.modules_at, self.dict(modules))
        self.run_loop(self.loop)
        self.register()

    def type(self, name: str, *, flags: int = 0, size: int = 0, base: int = 0) -> int:
        made = self.memory.put(bytes(400))
        for at, value in ((24, self.memory.put(name.encode() + b"\0")), (32, size), (168, flags), (256, base)):
            self.memory.set_word(made + at, value)
        return made

    def object(self, kind: int, content: bytes) -> int:
        """content: behind the head. There are words before an object as well."""
        made = self.memory.put(bytes(48) + content) + 32
        self.memory.set_word(made + 8, kind)
        return made

    def text(self, text: str) -> int:
        made = self.made.text(text)
        self.memory.set_word(made + 8, self.text_type)
        return made

    def dict(self, entries: list[tuple[int, int]], *, has_hashes: bool = False) -> int:
        """has_hashes: its keys are not all texts. One entry was removed."""
        rows = [(0, 0), *entries]
        head = struct.pack("<QBBBBIQQ", 1, 3, 3, not has_hashes, 0, 0, 0, len(rows))
        body = b"".join(struct.pack("<QQQ", 7, *row) if has_hashes else struct.pack("<QQ", *row) for row in rows)
        return self.object(
            self.dict_type, struct.pack("<QQQQ", len(entries), 0, self.memory.put(head + bytes(8) + body), 0)
        )

    def _weak_set(self) -> int:
        values = struct.pack("<BBBBIQ", 27, 4, 1, 1, 0, self.registered)
        made = self.object(self.weak_set_type, values)
        if self.is_312:
            self.memory.set_word(made - 24, self.memory.put(struct.pack("<Q", self.registered)) - 1)
        return made

    def run_loop(self, loop: int) -> None:
        if self.is_312:
            names = self.dict([(self.text("__asyncio_running_event_loop__"), loop)])
            self.memory.set_word(self.state + 112, names)
        else:
            self.memory.set_word(self.state + 304, loop)

    def coroutine(self, code: int, waits_for: int = 0, *, state: int = -1, resume: bytes = AWAITS) -> int:
        """waits_for: the object at the end of its stack, behind two others."""
        instruction = self.memory.put(bytes(2) + resume)
        made = self.object(self.coroutine_type, bytes(300))
        for at, value in ((72, code), (72 + 56, instruction), (72 + 64, 3), (72 + 72 + 16, waits_for)):
            self.memory.set_word(made + at, value)
        self.memory.set_word(made + 64, (state & 0xFF) << 24)
        return made

    def task(
        self, name: str, coroutine: int = 0, *, waits_for: int = 0, state: int = 0, loop: int = 0, kind: int = 0
    ) -> int:
        """waits_for: a future, which may be a task. kind: its type, if that is another one."""
        made = self.object(kind or self.task_type, bytes(self.task_bytes - 16))
        self.memory.set_word(made + LOOP, loop or self.loop)
        self.memory.set_word(made + self.state_at, state)
        self.memory.set_word(made + self.waiter_at, waits_for)
        self.memory.set_word(made + self.waiter_at + 8, coroutine)
        self.memory.set_word(made + self.waiter_at + 16, self.text(name))
        return made

    def reference(self, address: int) -> int:
        return self.object(self.reference_type, struct.pack("<Q", address))

    def register(self, *tasks: int, size: int = 8) -> None:
        """In a set that has an entry which was removed. size: of its table, a power of two."""
        entries = [(self.state, REMOVED), *((self.reference(task), task >> 4) for task in tasks)]
        entries += [(0, 0)] * (size - len(entries))
        table = self.memory.put(b"".join(struct.pack("<QQ", *entry) for entry in entries))
        self.memory.set_word(self.registered + 32, size - 1)
        self.memory.set_word(self.registered + 40, table)

    def run(self, *tasks: int) -> None:
        """Another event loop runs a task as well."""
        others = [(self.none, self.none), *((self.loop, task) for task in tasks)]
        entries = self.dict(others, has_hashes=True)
        for at in (16, 24, 32, 40):
            self.memory.set_word(self.current + at, int.from_bytes(self.memory(entries + at, 8), "little"))

    def interpreter(self) -> Interpreter:
        found = interpreter_of(self.memory, self.made.symbols)
        assert isinstance(found, Interpreter), found
        return found

    def layout(self) -> RegisteredLayout:
        found = registered_layout(self.interpreter())
        assert found is not None
        return found

    def code(self) -> CodeLayout:
        return self.interpreter().code

    def tasks(self) -> ThreadTasks | None:
        """From the thread state on."""
        layout, code = self.layout(), self.code()
        running = running_loop(self.memory, layout, code, self.state)
        if running is None:
            return None
        module = asyncio_module(self.memory, layout, code, running.interpreter)
        return registered_tasks(self.memory, layout, code, running.loop, module) if module else None

    def found(self) -> ThreadTasks:
        found = self.tasks()
        assert found is not None
        return found
