"""Tasks of asyncio in the memory of an interpreter of 3.14, made byte by byte."""

from __future__ import annotations

import struct
from typing import Final

from exporter.python.interpreter import Interpreter, interpreter_of
from exporter.python.layout import CodeLayout
from exporter.python.memory import BoundedMemory
from exporter.python.task_layout import TaskLayout, task_layout
from tests.unit.python.made_interpreter import MadeInterpreter

NUMBERS: Final = (168, 136, 96, 108, 109, 128, 152, 225_864, 10_880, 936, 864, 872, 880)
"""What `_asyncio` of 3.14.6 has in its section: of a task, of the interpreter, of a thread state."""
SIZE, NAME, AWAITED_BY, IS_TASK, IS_SET, COROUTINE, NODE, _, _, _, LOOP, RUNNING, TASKS = NUMBERS
WAITS, SLEEPS, NOT_BEGUN, ENDED = -1, -2, -3, 4
"""States of a frame: it waits for another object, it is suspended otherwise, it was only made, or it has ended."""


class MadeTasks:
    """A thread that runs an event loop without tasks. state: its address. section: of the offsets."""

    def __init__(self, *, free_threaded: bool = False) -> None:
        self.made = MadeInterpreter((3, 14), free_threaded=free_threaded)
        self.made.link([])
        self.memory = self.made.memory
        self.section = self.memory.put(struct.pack("<13Q", *NUMBERS))
        self.coroutine_type, self.future_type = self.type("coroutine"), self.type("_asyncio.FutureIter")
        self.text_type, self.int_type = self.type("str", 1 << 28), self.type("int", 1 << 24)
        self.state = self.memory.put(bytes(936))
        self.memory.set_word(self.state + LOOP, self.state)
        self.list()

    def type(self, name: str, flags: int = 0) -> int:
        made = self.memory.put(bytes(400))
        self.memory.set_word(made + self.made.head + 8, self.memory.put(name.encode() + b"\0"))
        self.memory.set_word(made + self.made.head + 152, flags)
        return made

    def object(self, kind: int, content: bytes) -> int:
        """content: behind the head."""
        made = self.memory.put(bytes(self.made.head) + content)
        self.memory.set_word(made + self.made.head - 8, kind)
        return made

    def coroutine(self, code: int, instruction: int, waits_for: int = 0, state: int = WAITS) -> int:
        """waits_for: the object at the end of its stack."""
        head = self.made.head
        made = self.object(self.coroutine_type, bytes(300))
        frame = made + head + 56
        stack = self.memory.put(struct.pack("<QQ", 7, waits_for | 1))  # 1: who counts the reference
        self.memory.set_word(frame, code | 1)
        self.memory.set_word(frame + 56, instruction)
        self.memory.set_word(frame + 64, stack + 16)
        word = int.from_bytes(self.memory(made + head + 48, 8), "little")
        self.memory.set_word(made + head + 48, word | (state & 0xFF) << 24)
        return made

    def future(self) -> int:
        """One that is no task, as that of gather()."""
        return self.memory.put(bytes(SIZE))

    def task(self, name: str | int, coroutine: int = 0) -> int:
        made = self.future()
        if isinstance(name, int):
            named = self.object(self.int_type, struct.pack("<QII", 2 << 3, name & (1 << 30) - 1, name >> 30))
        else:
            named = self.made.text(name)
            self.memory.set_word(named + self.made.head - 8, self.text_type)
        self.memory.set_word(made + NAME, named)
        self.memory.set_word(made + COROUTINE, coroutine)
        self.memory.pieces[made][IS_TASK] = 1
        return made

    def await_by(self, future: int, *others: int) -> None:
        """One is there itself, several are in a set; it has an entry without an object, and one that was removed."""
        if len(others) == 1:
            self.memory.set_word(future + AWAITED_BY, others[0])
            return
        entries = [(0, 0), (self.state, (1 << 64) - 1), *((one, one >> 4) for one in others)]
        entries += [(0, 0)] * (8 - len(entries))
        table = self.memory.put(b"".join(struct.pack("<QQ", *entry) for entry in entries))
        made = self.object(self.future_type, struct.pack("<QQQQ", 0, 0, len(entries) - 1, table))
        self.memory.set_word(future + AWAITED_BY, made)
        self.memory.pieces[future][IS_SET] = 1

    def run(self, task: int) -> None:
        self.memory.set_word(self.state + RUNNING, task)

    def list(self, *tasks: int) -> None:
        """The tasks of the thread; the list ends where it begins."""
        nodes = [self.state + TASKS, *(task + NODE for task in tasks)]
        for node, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
            self.memory.set_word(node, following)

    def code(self) -> CodeLayout:
        return self.interpreter().code

    def interpreter(self) -> Interpreter:
        found = interpreter_of(self.memory, self.made.symbols)
        assert isinstance(found, Interpreter), found
        return found

    def layout(self) -> TaskLayout:
        offsets = self.interpreter().offsets
        assert offsets is not None
        return task_layout(BoundedMemory(self.memory, 8), self.section, offsets)
