"""A sampled stack as lines of text for a person, innermost function first.

In: a Stack, its Backtrace, names of addresses, frames of Python. Out: lines; those of functions are indented.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, takewhile
from types import MappingProxyType
from typing import NamedTuple

from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.stacks import Frame, Stack
from exporter.python.call_site import CallStack, PythonFrame
from exporter.stacks.call_sites import SlowCalls
from exporter.stacks.evaluations import entries_of
from exporter.stacks.line_samples import LineShare
from exporter.stacks.merging import Line, merged, python_runs
from exporter.stacks.task_lines import TaskSection, awaiting_lines, waiting_lines
from exporter.stacks.unwinding import Backtrace
from exporter.text.printable import printable_bytes
from exporter.units import seconds

FRAMES_MAX = 24
"""Per list. The outermost frames are the interpreter's or libc's and say little."""

MERGED_FRAMES_MAX = 2 * FRAMES_MAX
"""In a list of native and Python functions."""

_COMM_CHARACTERS = 16
_LASTING_SECONDS = 0.05  # shorter ones are passed through at every step, and are no place to be stuck in


class PythonSection(NamedTuple):
    """Frames of Python of a thread. files: base names of the files that have the interpreters; native frames end there.

    is_outer: the innermost ones change. waiting_tid: 0, or of the thread whose frames they are, since this one runs no Python: it
    has woken this one up, or started it, and waits for a signal since then. entries: of PythonStack. tasks: of its event loop.
    objects: of PythonStack. object_words: where they are on the thread's stack, by address. has_gone_on: of Around.
    """

    stack: CallStack
    files: tuple[str, ...]
    is_outer: bool
    waiting_tid: int = 0
    entries: tuple[int, ...] = ()
    tasks: TaskSection | None = None
    objects: tuple[int, ...] = ()
    object_words: Mapping[int, int] = MappingProxyType({})
    has_gone_on: bool = False


def format_stack(
    stack: Stack, backtrace: Backtrace, names: Mapping[int, str], python: PythonSection | None = None
) -> tuple[str, ...]:
    """names: address -> text. Other addresses are shown as numbers."""
    place = "runs on a CPU, and last entered the kernel at" if stack.is_running else "is at"
    innermost = (stack.instruction, *_addresses(backtrace.within))
    waiting = waiting_lines(python.tasks) if python is not None and python.tasks is not None else ()
    if not backtrace.callers:
        return (f"{_thread_and_call(stack)}; it {place}", *_with_python(stack, innermost, names, python), *waiting)
    callers = _callers(stack, backtrace, names, python)
    inside = f"inside {_operation(stack)} it {place}"
    return (f"{_thread_and_call(stack)}, called by", *callers, inside, *_frames(innermost, names), *waiting)


def _callers(
    stack: Stack, backtrace: Backtrace, names: Mapping[int, str], python: PythonSection | None
) -> tuple[str, ...]:
    """Native and Python functions as one stack, where it is known which native function has run which of Python."""
    entries = () if python is None or python.waiting_tid or python.is_outer else _entries(backtrace, names, python)
    if python is None or not any(entries):
        return _with_python(stack, _addresses(backtrace.callers), names, python)
    runs = python_runs(python.stack.frames, entries)
    both = merged(backtrace.callers, runs, lambda frame: _is_in(names.get(frame.address, ""), python.files))
    lines = _functions(python, both[:MERGED_FRAMES_MAX], names)
    left_out = len(both) - MERGED_FRAMES_MAX
    return (*lines, *((f"  and {left_out} more",) if left_out > 0 else ()))


def _entries(backtrace: Backtrace, names: Mapping[int, str], python: PythonSection) -> tuple[int, ...]:
    def name_of(frame: Frame) -> str:
        return names.get(frame.address, "")

    def is_unnamed(frame: Frame) -> bool:
        return any(name_of(frame).startswith(f"{file}+") for file in python.files)

    native = (*backtrace.within, *backtrace.callers)
    return python.entries or entries_of(python.objects, python.object_words, native, name_of, is_unnamed)


def _with_python(
    stack: Stack, addresses: Sequence[int], names: Mapping[int, str], python: PythonSection | None
) -> tuple[str, ...]:
    """Native frames up to the interpreter, then those of Python. Those of another thread come after all native frames."""
    if python is None:
        return _frames(addresses, names)
    frames = python.stack.frames
    shown = _functions(python, frames[:FRAMES_MAX], names)
    lines = (*(("  Python functions that change, called by",) if python.is_outer else ()), *shown)
    left_out = len(frames) - FRAMES_MAX
    more = (f"  and {left_out} more of Python",) if left_out > 0 else ()
    if python.waiting_tid:
        waiting = "the main thread" if python.waiting_tid == stack.tgid else f"thread {python.waiting_tid}"
        line = f"it runs no Python function; {waiting}, which has given it its work and waits since then, is at"
        return (*_frames(addresses, names), line, *lines, *more)
    outside = tuple(takewhile(lambda address: not _is_in(names.get(address, ""), python.files), addresses))
    return (*_frames(outside, names), *lines, *more)


def _functions(python: PythonSection, functions: Sequence[Line], names: Mapping[int, str]) -> tuple[str, ...]:
    """Behind those of the task that runs come the tasks that wait for it."""
    lines: list[str] = []
    tasks = python.tasks
    left = min(tasks.behind, sum(isinstance(one, PythonFrame) for one in functions)) if tasks is not None else 0
    for one in functions:
        if not isinstance(one, PythonFrame):
            lines.append(f"  {_native_frame(one.address, names)}")
            continue
        lines.append(f"  {python.stack.shown(one)}")
        left -= 1
        if tasks is not None and not left:
            lines += awaiting_lines(tasks)
    return tuple(lines)


def _is_in(text: str, files: Iterable[str]) -> bool:
    """Whether a text of a native frame, such as `f+0x41 (libpython3.11.so)` or `libpython3.11.so+0x1234`, names a file."""
    return any(text.endswith(f"({file})") or text.startswith(f"{file}+") for file in files)


def slow_call_line(slow: SlowCalls, stack: CallStack) -> str:
    """stack: where the calls were made."""
    calls = "1 slow call" if slow.calls == 1 else f"{slow.calls} slow calls"
    took = f"{seconds(slow.total_ns):.3g} s in {calls}, {seconds(slow.row.slowest_ns):.3g} s at most"
    return f"  {OPERATIONS[slow.key.operation].name}: {took}, from {stack.place}"


def sampled_line(sample: LineShare) -> str:
    """`  between calls: 14 of 25 samples, at Trainer.step (train.py:142)`."""
    where = "between calls" if sample.operation == OPERATION_NONE else f"in {OPERATIONS[sample.operation].name}"
    return f"  {where}: {sample.found} of {sample.of} samples, at {sample.stack.place}"


def format_without_names(stack: Stack) -> tuple[str, ...]:
    """For a process that ended before its addresses were looked up."""
    return (f"{_thread_and_call(stack)}; its functions are not known: the process has ended",)


def _thread_and_call(stack: Stack) -> str:
    thread = f"thread {stack.tid} ({printable_bytes(stack.comm, _COMM_CHARACTERS)})"
    place = "outside CUDA and NCCL" if stack.operation == OPERATION_NONE else f"in {_operation(stack)}"
    for_seconds = seconds(stack.read_ns - stack.opened_ns)
    return (
        f"{thread} has been {place} for {for_seconds:.1f} s"
        if for_seconds >= _LASTING_SECONDS
        else f"{thread} was {place}"
    )


def _operation(stack: Stack) -> str:
    return OPERATIONS[stack.operation].name


def _frames(addresses: Sequence[int], names: Mapping[int, str]) -> tuple[str, ...]:
    shown = (f"  {_native_frame(address, names)}" for address in islice(addresses, FRAMES_MAX))
    left_out = len(addresses) - FRAMES_MAX
    return tuple(chain(shown, (f"  and {left_out} more",) if left_out > 0 else ()))


def _native_frame(address: int, names: Mapping[int, str]) -> str:
    return names.get(address, f"{address:#x}")


def _addresses(frames: Sequence[Frame]) -> tuple[int, ...]:
    return tuple(frame.address for frame in frames)
