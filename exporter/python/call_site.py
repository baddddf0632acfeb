"""Slow calls by line of Python: which operation, from which stack of functions, how many, and how long.

In: named frames and sums. Out: records for the history, for recordings and for tables. What is read from a file is checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

from exporter.python.paths import is_installed, short_path
from exporter.text import untrusted

FRAMES_MAX: Final = 32
"""Frames of a stack: the kernel takes no more."""
STACK_BYTES_MAX: Final = 64 << 10
"""Size of a stack as JSON. One with longer names is not kept."""
STACK_NUMBER_MAX: Final = (1 << 63) - 1
"""An integer of SQLite has a sign."""

LINES: Final = "lines of Python with the most time since the chain began:"
"""The first line of evidence of a chain that is about lines of Python."""

_NUMBER_BYTES: Final = 8
_FUNCTION_CHARACTERS: Final = 256


def stack_number(encoded: bytes) -> int:
    """63 bits of a hash, positive. encoded: as CallStack.encoded()."""
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=_NUMBER_BYTES).digest(), "big") >> 1 or 1


class PythonFrame(NamedTuple):
    """file: whole. line: None where the instruction has none."""

    file: str
    function: str
    line: int | None


class CallStack(NamedTuple):
    """The functions of a thread at a call. frames: innermost first. directory: the working directory, "" if it is not known."""

    directory: str
    frames: tuple[PythonFrame, ...]

    @property
    def number(self) -> int:
        """The same for equal stacks."""
        return stack_number(self.encoded())

    def encoded(self) -> bytes:
        """As JSON."""
        return json.dumps(self.to_document(), separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decoded(cls, raw: bytes) -> Self:
        """The inverse of encoded(). Raises ValueError for other content."""
        return cls.from_document(untrusted.json_value(raw, STACK_BYTES_MAX))

    def to_document(self) -> list[Any]:
        """A small JSON value."""
        return [self.directory, [list(frame) for frame in self.frames]]

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """The inverse of to_document(): text is printable and bounded. Raises ValueError for other documents."""
        directory, frames = untrusted.sequence(document, length=len(cls._fields))
        return cls(
            untrusted.text(directory, untrusted.LINE_CHARACTERS),
            tuple(map(_frame_of, untrusted.sequence(frames, FRAMES_MAX))),
        )

    @property
    def has_own_code(self) -> bool:
        """Whether any of it belongs to the job, and not to a package or to Python itself."""
        return any(not is_installed(frame.file) for frame in self.frames)

    @property
    def place(self) -> str:
        """`step (train.py:142) through allocate (torch/cuda/memory.py:33)`.

        First the innermost line of the job's own code; then the innermost one of all, where that belongs to a package.
        """
        if not self.frames:
            return "other stacks"
        inner = self.frames[0]
        own = next((frame for frame in self.frames if not is_installed(frame.file)), inner)
        return self.shown(own) if own is inner else f"{self.shown(own)} through {self.shown(inner)}"

    def shown(self, frame: PythonFrame) -> str:
        """`Trainer.step (train.py:142)`, with the path below site-packages or the working directory."""
        file = short_path(frame.file, self.directory)
        return f"{frame.function} ({file if frame.line is None else f'{file}:{frame.line}'})"


OTHER_STACKS: Final = CallStack("", ())
"""Stands for stacks that are not recorded one by one, and for those whose functions could not be read."""


class CallSite(NamedTuple):
    """Slow calls of one operation of a process from one stack. api: "nccl" for NCCL's.

    slow_from_ns: calls were slow that took longer, twice as long as nine of ten of that operation; as of the last slow one.
    calls, total_ns: of the slow ones only.
    """

    api: str
    operation: str
    slow_from_ns: int
    calls: int
    total_ns: int
    stack: CallStack

    @property
    def place(self) -> tuple[str, str, CallStack]:
        """What sums of it are kept by."""
        return self.api, self.operation, self.stack

    def plus(self, more: CallSite) -> CallSite:
        """Both, of the same place; the bound is that of `more`, which is later."""
        return more._replace(calls=self.calls + more.calls, total_ns=self.total_ns + more.total_ns)

    def to_document(self, stack: Any) -> list[Any]:
        """A small JSON value. stack: what stands for the stack in it."""
        return [*self[:-1], stack]

    @classmethod
    def from_document(cls, document: Any, stack_of: Callable[[Any], CallStack]) -> Self:
        """The inverse of to_document(): text is printable and bounded. Raises ValueError for other documents."""
        api, operation, slow_from_ns, calls, total_ns, stack = untrusted.sequence(document, length=len(cls._fields))
        return cls(
            untrusted.text(api),
            untrusted.text(operation),
            untrusted.count(slow_from_ns),
            untrusted.count(calls),
            untrusted.count(total_ns),
            stack_of(stack),
        )


def _frame_of(document: Any) -> PythonFrame:
    file, function, line = untrusted.sequence(document, length=len(PythonFrame._fields))
    return PythonFrame(
        untrusted.text(file, untrusted.LINE_CHARACTERS),
        untrusted.text(function, _FUNCTION_CHARACTERS),
        None if line is None else untrusted.count(line),
    )
