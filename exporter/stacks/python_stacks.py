"""Frames of Python threads, with file, function and the line that runs.

In: which interpreters a process has, walks and memory from the kernel. Out: PythonFrames, innermost first. The process can write
anything into its memory: what is read there is checked, bounded and shown, and nothing else is made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from exporter.errors import KernelRefused, NoAnswer, NotReadable
from exporter.host.interpreters import MappedInterpreter
from exporter.kernel import abi
from exporter.kernel.abi import PythonStatus
from exporter.kernel.python_frames import CodeFrame, PythonFrames, WalkedFrames
from exporter.python.call_site import PythonFrame
from exporter.python.code_objects import CodeObjects
from exporter.python.interpreter import Interpreter, InterpreterSymbols, Refusal, interpreter_of
from exporter.python.layout import ABSENT, CodeLayout, PythonLayout
from exporter.python.memory import PAGE_BYTES, ReadMemory
from exporter.units import NANOSECONDS

READABLE: Final = "readable"
RESULTS: Final = (READABLE, *(refusal.value for refusal in Refusal))
"""Whether an interpreter can be read, or why not."""

RETRY_NS: Final = 2 * NANOSECONDS
RETRIES_MAX: Final = 5
"""A process that starts is not complete, and one that runs changes while it is read."""
PASSING: Final = frozenset({Refusal.UNREADABLE, Refusal.NOT_STARTED, Refusal.THREADS, Refusal.FRAMES})

FRAME_BYTES, OLD_FRAME_BYTES = 80, 112
"""To read of a frame, since 3.11 and before: a larger piece may reach beyond the memory that it is in."""

STACK_BYTES: Final = 16 << 10
"""Size of a piece of a thread's stack in which addresses of frames are searched; so much is unwound as well."""

OUTER_WALKS: Final = 8
"""Walks of a thread that runs, whose outer frames are to be equal."""

TABLE_BYTES_MAX: Final = 256 << 10
"""Line tables that are searched for one stack, from their starts: 0.05 s. Further frames have no line; real tables are short."""

NO_INSTRUCTION: Final = (1 << 32) - 3
"""An instruction that no code object has: the frame has no line."""

_WITH_FRAMES: Final = (PythonStatus.WALKED, PythonStatus.TRUNCATED, PythonStatus.RUNNING)

InterpretersOf = Callable[[int], tuple[list[MappedInterpreter], bool]]
"""See TenantReader.interpreters_of()."""


class PythonStack(NamedTuple):
    """Frames of one thread at a moment. opened_ns: when its open call, or the gap, began.

    is_outer: the thread ran during the walk: only its outermost frames, which did not change, are known.
    entries: of each frame, as in CodeFrame. walked: what they were named from. objects: before 3.10, instead of entries: where
    the frames are.
    """

    frames: tuple[PythonFrame, ...]
    opened_ns: int
    is_outer: bool
    entries: tuple[int, ...] = ()
    walked: WalkedFrames | None = None
    objects: tuple[int, ...] = ()


class _Process(NamedTuple):
    """interpreters: by place. files: base names of theirs. looks: how often it was searched without a final result."""

    start_ticks: int
    interpreters: tuple[Interpreter, ...]
    files: tuple[str, ...]
    is_final: bool
    looks: int
    looked_ns: int


class PythonStacks:
    """For one thread. start_ticks_of: when a process started, as in /proc. count: takes one of RESULTS for each interpreter."""

    def __init__(
        self,
        frames: PythonFrames,
        interpreters_of: InterpretersOf,
        start_ticks_of: Callable[[int], int],
        count: Callable[[str], None],
    ) -> None:
        self._frames = frames
        self._interpreters_of = interpreters_of
        self._start_ticks_of = start_ticks_of
        self._count = count
        self._objects = CodeObjects()
        self._processes: dict[int, _Process] = {}

    def prepare(self, tgid: int, now_ns: int) -> bool:
        """Find the interpreters of a process; whether it has one that can be read. Raises ProcessGone."""
        start_ticks = self._start_ticks_of(tgid)
        known = self._processes.get(tgid)
        if known is None or known.start_ticks != start_ticks:
            known = _Process(start_ticks, (), (), is_final=False, looks=0, looked_ns=now_ns - RETRY_NS)
        if not known.is_final and now_ns - known.looked_ns >= RETRY_NS:
            known = self._searched(tgid, known, now_ns)
        self._processes[tgid] = known
        return bool(known.interpreters)

    def is_final(self, tgid: int) -> bool:
        """Whether prepare() will find nothing more."""
        known = self._processes.get(tgid)
        return known is not None and known.is_final

    def forget(self, living: Container[int]) -> None:
        """Processes that are not among `living` have ended."""
        for tgid in [tgid for tgid in self._processes if tgid not in living]:
            del self._processes[tgid]
            self._frames.remove(tgid)

    def of_thread(self, tgid: int, tid: int) -> PythonStack | None:
        """What a thread does; None if it runs no Python function, or if that cannot be read."""
        if not self._interpreters(tgid):
            return None
        walked = self._frames.walk(tid)
        if walked is None or walked.status not in _WITH_FRAMES:
            return None
        is_outer = walked.status is PythonStatus.RUNNING
        shown = self._outer_frames(walked) if is_outer else walked.frames
        frames = self.named(tgid, tid, walked.place, shown)
        if not frames:
            return None
        found = PythonStack(frames, walked.opened_ns, is_outer, walked=walked)
        entries = tuple(frame.entry for frame in shown)
        has_objects = _has_objects(self._interpreters(tgid)[walked.place].layout)
        return found._replace(objects=entries) if has_objects else found._replace(entries=entries)

    def object_words(self, stack: PythonStack, begins: Iterable[int]) -> dict[int, int]:
        """Where the stack of the thread has the addresses of its frames' objects, in pieces that begin at these addresses.

        {} if the thread has executed anything since then.
        """
        walked = stack.walked
        if walked is None or not stack.objects:
            return {}
        found: dict[int, int] = {}
        for begin in begins:
            for page in range(begin - begin % PAGE_BYTES, begin + STACK_BYTES, PAGE_BYTES):
                try:
                    words = struct.unpack(f"<{PAGE_BYTES // 8}Q", self._frames.read(walked.tid, page, PAGE_BYTES))
                except NotReadable:  # the stack begins there
                    break
                found |= {page + 8 * place: word for place, word in enumerate(words) if word in stack.objects}
        now = self._frames.walk(walked.tid)
        return found if now is not None and now.is_same_moment(walked) else {}

    def of_waiting_thread(self, tgid: int, tid: int, opened_ns: int) -> tuple[int, PythonStack] | None:
        """The thread that has given another one its work: it woke it up, or started it, and waits for a signal since then.

        opened_ns: when the open call, or the gap, of the other one began; it runs no Python function. None: not known.
        """
        walked = self._frames.walk(tid)
        if walked is None or walked.status is not PythonStatus.NO_FRAMES or walked.opened_ns != opened_ns:
            return None
        waiting = self._frames.walk(walked.waker_tid) if walked.waker_tid else None
        if waiting is None or waiting.tgid != tgid or waiting.waiting_ns <= walked.woken_ns:
            return None
        stack = self.of_thread(tgid, waiting.tid)
        return (waiting.tid, stack) if stack and not stack.is_outer else None

    def sample(self, tgid: int, tid: int) -> tuple[PythonFrame, ...]:
        """The functions of a thread, for statistics: those of a thread that runs may be of several moments. () for none."""
        if not self._interpreters(tgid):
            return ()
        walked = self._frames.walk(tid)
        if walked is None or walked.status not in _WITH_FRAMES:
            return ()
        return self.named(tgid, tid, walked.place, walked.frames)

    def can_read(self, tgid: int) -> bool:
        """Whether an interpreter of the process is known. From any thread."""
        return bool(self._interpreters(tgid))

    def _outer_frames(self, walked: WalkedFrames) -> tuple[CodeFrame, ...]:
        """The outermost frames that some more walks find as well: each may have met frames of different moments."""
        common = walked.frames
        for _ in range(OUTER_WALKS - 1):
            again = self._frames.walk(walked.tid)
            if again is None or again.status not in _WITH_FRAMES or again.opened_ns != walked.opened_ns:
                return ()
            common = _common_end(common, again.frames)
        return common

    def named(self, tgid: int, tid: int, place: int, frames: Sequence[CodeFrame]) -> tuple[PythonFrame, ...]:
        """Names of frames; () if one of them is none, or is another object by now. tid: of any living thread of the process."""
        interpreters = self._interpreters(tgid)
        if place >= len(interpreters):
            return ()
        process = tgid, self._processes[tgid].start_ticks
        read, table_bytes = partial(self._frames.read, tid), 0
        found = []
        for frame in frames:
            code = self._objects.at(process, read, interpreters[place].code, frame.code)
            if code is None or frame.identity not in (None, code.identity):
                return ()
            table_bytes += code.bytes_to_read(frame.instruction)
            line = code.line_of(frame.instruction) if table_bytes <= TABLE_BYTES_MAX else None
            found.append(PythonFrame(code.file, code.qualified_name, line))
        return tuple(found)

    def interpreter(self, tgid: int, place: int) -> Interpreter | None:
        """The one at a place of the kernel's table."""
        known = self._interpreters(tgid)
        return known[place] if place < len(known) else None

    def files_of(self, tgid: int) -> tuple[str, ...]:
        """Base names of the files that have the interpreters of a process."""
        known = self._processes.get(tgid)
        return known.files if known else ()

    def _interpreters(self, tgid: int) -> tuple[Interpreter, ...]:
        known = self._processes.get(tgid)
        return known.interpreters if known else ()

    def _searched(self, tgid: int, known: _Process, now_ns: int) -> _Process:
        try:
            mapped, is_complete = self._interpreters_of(tgid)
        except NoAnswer:  # one of its files is on a mount that does not answer
            mapped, is_complete = [], False
        read = partial(self._frames.read, tgid)
        found = [_examined(read, one) for one in mapped[: abi.PYTHON_INTERPRETERS]]
        readable = tuple(one for one in found if isinstance(one, Interpreter))
        looks = known.looks + 1
        may_pass = not is_complete or any(isinstance(one, Refusal) and one in PASSING for one in found)
        is_final = not may_pass or looks >= RETRIES_MAX
        if is_final:
            for one in found:
                self._count(READABLE if isinstance(one, Interpreter) else one.value)
        for place, interpreter in enumerate(readable):
            try:
                self._frames.add(tgid, place, packed(interpreter.layout, interpreter.code, known.start_ticks))
            except KernelRefused:
                readable = readable[:place]
                break
        files = tuple(one.path.rpartition("/")[2] for one in mapped)
        return known._replace(interpreters=readable, files=files, is_final=is_final, looks=looks, looked_ns=now_ns)


def _common_end(some: Sequence[CodeFrame], others: Sequence[CodeFrame]) -> tuple[CodeFrame, ...]:
    """The outermost frames of both. The last of them may be at another instruction, and is then at NO_INSTRUCTION."""
    common: list[CodeFrame] = []
    for one, other in zip(reversed(some), reversed(others), strict=False):
        if one.code != other.code:
            break
        if one != other:
            common.append(one._replace(instruction=NO_INSTRUCTION))
            break
        common.append(one)
    return tuple(reversed(common))


def _has_objects(layout: PythonLayout) -> bool:
    """Whether the kernel gives the addresses of frames, since nothing leads to the functions that run them."""
    return layout.frame_owner == ABSENT and layout.thread_cframe == ABSENT


def _examined(read: ReadMemory, mapped: MappedInterpreter) -> Interpreter | Refusal:
    return interpreter_of(read, InterpreterSymbols(mapped.runtime, mapped.code_type, mapped.version))


def packed(layout: PythonLayout, code: CodeLayout, start_ticks: int) -> bytes:
    """As the kernel has it."""
    return abi.PYTHON_LAYOUT.pack(
        layout.runtime,
        start_ticks,
        ~layout.code_pointer_mask & (1 << 64) - 1,
        *(abi.PYTHON_ABSENT if offset == ABSENT else offset for offset in _offsets(layout)),
        *code.identity,
        0,
    )


def _offsets(layout: PythonLayout) -> tuple[int, ...]:
    """In the order of the row."""
    return (
        layout.interpreters_head,
        layout.interpreter_next,
        layout.interpreter_threads_head,
        layout.thread_next,
        layout.thread_native_id,
        layout.thread_id,
        layout.thread_frame,
        layout.cframe_frame,
        layout.frame_code,
        layout.frame_previous,
        layout.frame_instruction,
        layout.frame_instruction_size,
        layout.frame_owner,
        layout.skip_owner_from,
        OLD_FRAME_BYTES if layout.frame_owner == ABSENT else FRAME_BYTES,
        layout.frame_is_entry,
        layout.thread_cframe,
    )
