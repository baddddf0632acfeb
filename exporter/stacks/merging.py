"""One stack of native functions and Python functions, innermost first.

In: native frames with their places on the stack; frames of Python with those of the functions of the interpreter that run them.
Out: both in one list, in which the functions of the interpreter are replaced by the Python functions that they ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from exporter.kernel.stacks import Frame
from exporter.python.call_site import PythonFrame

Line = Frame | PythonFrame


class PythonRun(NamedTuple):
    """Frames that one function of the interpreter runs. entry: an address in its own frame; 0: the walk ended before."""

    frames: tuple[PythonFrame, ...]
    entry: int


def python_runs(frames: Sequence[PythonFrame], entries: Iterable[int]) -> list[PythonRun]:
    """entries: of each frame, as in CodeFrame."""
    runs, begin = [], 0
    for end, entry in enumerate(entries, 1):
        if entry:
            runs.append(PythonRun(tuple(frames[begin:end]), entry))
            begin = end
    return [*runs, PythonRun(tuple(frames[begin:]), 0)] if begin < len(frames) else runs


def merged(
    native: Iterable[Frame], python: Iterable[PythonRun], is_of_interpreter: Callable[[Frame], bool]
) -> list[Line]:
    """The frames of Python, and between them the native functions that do not belong to the interpreter.

    Callers lie at higher addresses, and a function of the interpreter above the return address of the one that it has called.
    Where unwinding has ended early, frames of Python follow alone.
    """
    lines: list[Line] = []
    runs = list(python)
    for frame in native:
        while runs and 0 < runs[0].entry < frame.slot:
            lines.extend(runs.pop(0).frames)
        if not runs:
            break
        if not is_of_interpreter(frame):
            lines.append(frame)
    lines.extend(chain.from_iterable(run.frames for run in runs))
    return lines
