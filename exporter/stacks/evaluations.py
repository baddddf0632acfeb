"""Where the functions of the interpreter are on the stack of a thread, before Python 3.10: each runs one Python function.

In: addresses of frame objects, innermost first; where words of the stack have them; native frames. Out: an entry for each, as
merging.py takes it. Nothing leads from a frame object to the function that runs it: that is known by its name, and by the order
of both. It has the address of its frame object in a register, which it or a function that it has called keeps on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from exporter.kernel.stacks import WORD_BYTES, Frame

_FUNCTION: Final = "_PyEval_EvalFrameDefault"
_REGISTERS_BYTES: Final = 6 * WORD_BYTES
"""A function begins with keeping those of its caller, up to six, right below its return address."""


def is_evaluation(text: str) -> bool:
    """Whether a text of a native frame, such as `_PyEval_EvalFrameDefault+0x41 (libpython3.9.so.1.0)`, names such a function.

    A compiler may have split it in two, `.cold` is the other part.
    """
    return text.partition("+")[0] in (_FUNCTION, f"{_FUNCTION}.cold")


def entries_of(
    objects: Sequence[int],
    words: Mapping[int, int],
    native: Sequence[Frame],
    name_of: Callable[[Frame], str],
    is_unnamed: Callable[[Frame], bool],
) -> tuple[int, ...]:
    """() if it is not sure which native frame runs which function; 0 for those beyond the end of unwinding.

    words: by address on the stack, those that are addresses of objects. is_unnamed: of a frame in the interpreter's file without
    the name of its function. There may be no such one if unwinding has not come to the outermost function.
    """
    evaluations = [(frame, caller.slot) for frame, caller in pairwise(native) if is_evaluation(name_of(frame))]
    if not evaluations or len(evaluations) > len(objects):
        return ()
    if len(evaluations) < len(objects) and any(map(is_unnamed, native)):
        return ()
    begin = 0
    for found, (_, end) in zip(objects, evaluations, strict=False):
        if not any(begin <= address < end and word == found for address, word in words.items()):
            return ()
        begin = end - _REGISTERS_BYTES
    known = tuple(frame.slot + WORD_BYTES for frame, _ in evaluations)
    return known + (0,) * (len(objects) - len(known))
