"""What a task of asyncio in memory says of itself: its name, and where its coroutines wait.

In: the memory of a process whose thread rests, addresses of tasks. Out: Task. The process can write anything into its memory:
coroutines may wait for each other without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from exporter.python.layout import ABSENT, CodeLayout
from exporter.python.memory import BoundedMemory
from exporter.python.text_object import text_object

COROUTINES_MAX: Final = 16
"""Coroutines of one task, each of which waits for the next."""
NAME_CHARACTERS_MAX: Final = 64
CUT: Final = "…"
STACK_WORDS_MAX: Final = 4_096
"""Variables of a coroutine and values on its stack."""

_SUSPENDED, _RUNS = -1, 0  # FRAME_SUSPENDED_YIELD_FROM (FRAME_SUSPENDED in 3.12), FRAME_EXECUTING: pycore_frame.h
_AWAITS: Final = 2  # the lowest argument of RESUME behind an instruction that waits for another object, in 3.12
_COROUTINE: Final = b"coroutine\0"
_NUMBER_FLAG, _TEXT_FLAG = 1 << 24, 1 << 28  # Py_TPFLAGS_LONG_SUBCLASS, Py_TPFLAGS_UNICODE_SUBCLASS
_DIGIT_BITS, _DIGITS_MAX, _TAG_BITS = 30, 2, 3


class TaskObjectLayout(NamedTuple):
    """Offsets in bytes.

    not_begun: state of a coroutine's frame that was only made; frames with a state below it, or above 0, have ended.
    coroutine_frame: of the frame itself. frame_stack: in a frame, of a pointer behind the last value of its stack, which is what
    a coroutine waits for; where frame_values is not ABSENT, of the number of the words that begin there, up to that value.
    resume_codes: of the instruction behind the one that waits, where the state does not say whether a coroutine waits for another
    object: 3.12.
    """

    task_bytes: int
    name: int
    coroutine: int
    object_type: int
    type_name: int
    type_flags: int
    number_tag: int
    number_digits: int
    coroutine_frame: int
    coroutine_state: int
    not_begun: int
    frame_code: int
    frame_instruction: int
    frame_stack: int
    frame_values: int
    resume_codes: tuple[int, ...]
    pointer_mask: int


class CodeAt(NamedTuple):
    """code: address of a code object. instruction: as its frame has it."""

    code: int
    instruction: int


class Task(NamedTuple):
    """name: printable and cut; "" if it has none that can be read. frames: of its coroutines, those that it waits in, innermost
    first; of a task that runs, of the outermost one alone."""

    name: str
    frames: tuple[CodeAt, ...]


class AwaitingTask(NamedTuple):
    """waits_for: place of the task, in the list of all that are given, for which this one waits; -1 for the one that runs."""

    task: Task
    waits_for: int


class ThreadTasks(NamedTuple):
    """running: None if no task runs now: then `waiting` has some of the tasks, and `total` says how many there are.

    is_cut: there are more that wait for the running one, or more tasks than are counted.
    """

    running: Task | None
    awaiting: tuple[AwaitingTask, ...]
    waiting: tuple[Task, ...]
    total: int
    is_cut: bool


class TaskObjects:
    """Reads tasks; all methods raise NotReadable."""

    def __init__(self, memory: BoundedMemory, layout: TaskObjectLayout, code: CodeLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._code = code
        self._flags: dict[int, int] = {}  # of types
        self._is_coroutine: dict[int, bool] = {}  # of types as well

    def task(self, address: int) -> Task:
        content = self._memory.content(address, self._layout.task_bytes)
        name = self._name(number(content, self._layout.name))
        return Task(name, tuple(self._coroutines(number(content, self._layout.coroutine)))[::-1])

    def _name(self, address: int) -> str:
        """A task that was made without a name may have a number."""
        if not address:
            return ""
        kind = self._memory.word(address + self._layout.object_type)
        if kind not in self._flags:
            self._flags[kind] = self._memory.word(kind + self._layout.type_flags)
        flags = self._flags[kind]
        if flags & _NUMBER_FLAG:
            return f"Task-{self._small_number(address)}"
        found = text_object(self._memory, self._code, address) if flags & _TEXT_FLAG else None
        if found is None:
            return ""
        cut = len(found.text) > NAME_CHARACTERS_MAX
        return found.text[: NAME_CHARACTERS_MAX - len(CUT)] + CUT if cut else found.text

    def _small_number(self, address: int) -> int:
        count = min(self._memory.word(address + self._layout.number_tag) >> _TAG_BITS, _DIGITS_MAX)
        digits = self._memory.content(address + self._layout.number_digits, 4 * count)
        return sum(int.from_bytes(digits[4 * i : 4 * i + 4], "little") << _DIGIT_BITS * i for i in range(count))

    def _coroutines(self, address: int) -> Iterator[CodeAt]:
        """From the outermost one on, which is the one of the task."""
        layout = self._layout
        begin = layout.coroutine_frame
        size = max(
            layout.coroutine_state + 1, begin + 8 + max(layout.frame_code, layout.frame_instruction, layout.frame_stack)
        )
        for _ in range(COROUTINES_MAX):
            content = self._memory.up_to(address, size) if address else b""
            if len(content) < size or not self._is_type_of_coroutines(number(content, layout.object_type)):
                return
            state = int.from_bytes(content[layout.coroutine_state : layout.coroutine_state + 1], "little", signed=True)
            if not layout.not_begun <= state <= _RUNS:
                return
            instruction = number(content, begin + layout.frame_instruction)
            yield CodeAt(number(content, begin + layout.frame_code) & ~layout.pointer_mask, instruction)
            if state != _SUSPENDED or not self._awaits(instruction):
                return
            address = self._memory.word(self._awaited_at(address + begin, content[begin:])) & ~layout.pointer_mask

    def _awaits(self, instruction: int) -> bool:
        """Whether a coroutine that is suspended at an instruction waits for another object, and did not yield a value itself."""
        if not self._layout.resume_codes:
            return True
        code, argument = self._memory.content(instruction + 2, 2)
        return code in self._layout.resume_codes and argument >= _AWAITS

    def _awaited_at(self, frame: int, content: bytes) -> int:
        """Where the address of the object is that a coroutine waits for. content: of its frame."""
        layout = self._layout
        stack = number(content, layout.frame_stack)
        if layout.frame_values == ABSENT:
            return stack - 8
        count = min(stack & 0xFFFF_FFFF, STACK_WORDS_MAX)
        return frame + layout.frame_values + 8 * (count - 1)

    def _is_type_of_coroutines(self, kind: int) -> bool:
        """Other objects that can be awaited, such as a future or a generator, have no frame, or none that waits in this way."""
        if kind not in self._is_coroutine:
            name = self._memory.word(kind + self._layout.type_name)
            self._is_coroutine[kind] = self._memory.up_to(name, len(_COROUTINE)) == _COROUTINE
        return self._is_coroutine[kind]


def number(content: bytes, offset: int) -> int:
    """An unsigned one of 64 bits."""
    return int.from_bytes(content[offset : offset + 8], "little")
