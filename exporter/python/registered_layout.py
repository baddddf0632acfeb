"""Where asyncio's tasks are in memory, of interpreters whose module `_asyncio` registers them in a set: 3.12 and 3.13.

In: a version, and the debug offsets of 3.13. Out: a RegisteredLayout.
Source: TaskObj in Modules/_asynciomodule.c, PyThreadState in Include/cpython/pystate.h, _PyThreadStateImpl in
Include/internal/pycore_tstate.h, PyInterpreterState in Include/internal/pycore_interp.h, Include/internal/pycore_frame.h.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from exporter.python.interpreter import Interpreter
from exporter.python.layout import ABSENT
from exporter.python.task_objects import TaskObjectLayout

_OBJECT_TYPE: Final = 8
_TYPE_NAME, _TYPE_FLAGS = 24, 168
_NUMBER_TAG, _NUMBER_DIGITS = 16, 24
_RESUME, _INSTRUMENTED_RESUME = 151, 240  # Include/opcode.h of 3.12


class RegisteredLayout(NamedTuple):
    """Offsets in bytes.

    thread_loop: in a thread state: its event loop that runs; ABSENT in 3.12, where thread_dict has it.
    modules: in an interpreter, of sys.modules. task_type_bytes: size of a task, by which its type is checked.
    task_waiter: of the future that it waits for. has_inline_values: attributes of an object follow it; else their address, with
    its lowest bit set, is before the object.
    """

    objects: TaskObjectLayout
    thread_interpreter: int
    thread_loop: int
    thread_dict: int
    modules: int
    task_type_bytes: int
    task_loop: int
    task_state: int
    task_waiter: int
    has_inline_values: bool


def registered_layout(interpreter: Interpreter) -> RegisteredLayout | None:
    """None for another version, and for free-threaded builds, whose sets and dicts look otherwise."""
    offsets = interpreter.offsets
    if interpreter.version == (3, 12):
        return RegisteredLayout(
            objects=_objects(task_bytes=176, coroutine=136, not_begun=-2, resume_codes=(_RESUME, _INSTRUMENTED_RESUME)),
            thread_interpreter=16,
            thread_loop=ABSENT,
            thread_dict=112,
            modules=944,
            task_type_bytes=176,
            task_loop=16,
            task_state=88,
            task_waiter=128,
            has_inline_values=False,
        )
    if interpreter.version != (3, 13) or offsets is None or interpreter.is_free_threaded:
        return None
    return RegisteredLayout(
        objects=_objects(task_bytes=144, coroutine=120, not_begun=-3, resume_codes=()),
        thread_interpreter=offsets["thread.interp"],
        thread_loop=offsets["thread.size"],  # the first member of _PyThreadStateImpl behind a PyThreadState
        thread_dict=ABSENT,
        modules=offsets["interpreter.imports_modules"],
        task_type_bytes=144,
        task_loop=16,
        task_state=96,
        task_waiter=112,
        has_inline_values=True,
    )


def _objects(*, task_bytes: int, coroutine: int, not_begun: int, resume_codes: tuple[int, ...]) -> TaskObjectLayout:
    return TaskObjectLayout(
        task_bytes=task_bytes,
        name=coroutine + 8,
        coroutine=coroutine,
        object_type=_OBJECT_TYPE,
        type_name=_TYPE_NAME,
        type_flags=_TYPE_FLAGS,
        number_tag=_NUMBER_TAG,
        number_digits=_NUMBER_DIGITS,
        coroutine_frame=72,
        coroutine_state=67,
        not_begun=not_begun,
        frame_code=0,
        frame_instruction=56,
        frame_stack=64,
        frame_values=72,
        resume_codes=resume_codes,
        pointer_mask=0,
    )
