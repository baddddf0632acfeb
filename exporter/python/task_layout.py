"""Where the parts of asyncio's tasks are in memory, of an interpreter whose memory has their offsets: 3.14.

In: the debug offsets of the interpreter, and those of its module `_asyncio`. Out: a TaskLayout.
Source: struct _Py_AsyncioModuleDebugOffsets of Modules/_asynciomodule.c; it has no version and no length of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from exporter.errors import NotReadable
from exporter.python.debug_offsets import DebugOffsets
from exporter.python.layout import ABSENT, POINTER_TAGS
from exporter.python.memory import BoundedMemory
from exporter.python.task_objects import TaskObjectLayout

VERSION: Final = (3, 14)
"""The only one whose numbers are known."""
OBJECT_BYTES_MAX: Final = 1024
"""A task, and a coroutine up to the end of the head of its frame; real ones have a quarter of it."""
THREAD_BYTES_MAX: Final = 64 << 10
_NOT_BEGUN: Final = -3  # FRAME_CREATED: Include/internal/pycore_frame.h
_NUMBERS: Final = 13  # of the structure, the sizes of its three parts among them


class TaskLayout(NamedTuple):
    """Offsets in bytes.

    thread_loop, thread_task, thread_tasks: in a thread state: its event loop that runs, the task of it that runs, and the list of
    the tasks that were made in the thread and are not done. node: of that list, in a task; node_next: in a node.
    awaited_by: of the task or future that waits for this one, or of a set of them where the byte at awaited_by_is_set is not 0.
    """

    objects: TaskObjectLayout
    thread_loop: int
    thread_task: int
    thread_tasks: int
    awaited_by: int
    is_task: int
    awaited_by_is_set: int
    node: int
    node_next: int
    set_table: int
    set_mask: int


def task_layout(memory: BoundedMemory, section: int, offsets: DebugOffsets) -> TaskLayout:
    """section: address of the offsets of `_asyncio`. Raises NotReadable, also for numbers that cannot be offsets."""
    numbers = memory.words(section, _NUMBERS)
    task_bytes, name, awaited_by, is_task, awaited_by_is_set, coroutine, node = numbers[:7]
    thread_bytes, thread_loop, thread_task, thread_tasks = numbers[9:]  # behind two numbers of the interpreter
    objects = TaskObjectLayout(
        task_bytes=task_bytes,
        name=name,
        coroutine=coroutine,
        object_type=offsets["object.ob_type"],
        type_name=offsets["type.tp_name"],
        type_flags=offsets["type.tp_flags"],
        number_tag=offsets["long.lv_tag"],
        number_digits=offsets["long.ob_digit"],
        coroutine_frame=offsets["generator.frame"],
        coroutine_state=offsets["generator.frame_state"],
        not_begun=_NOT_BEGUN,
        frame_code=offsets["frame.executable"],
        frame_instruction=offsets["frame.instr_ptr"],
        frame_stack=offsets["frame.stackpointer"],
        frame_values=ABSENT,
        resume_codes=(),
        pointer_mask=POINTER_TAGS,
    )
    layout = TaskLayout(
        objects=objects,
        thread_loop=thread_loop,
        thread_task=thread_task,
        thread_tasks=thread_tasks,
        awaited_by=awaited_by,
        is_task=is_task,
        awaited_by_is_set=awaited_by_is_set,
        node=node,
        node_next=offsets["list_node.next"],
        set_table=offsets["set.table"],
        set_mask=offsets["set.mask"],
    )
    if not _is_plausible(layout, thread_bytes):
        raise NotReadable("the offsets of asyncio are none")
    return layout


def _is_plausible(layout: TaskLayout, thread_bytes: int) -> bool:
    """Whether pointers lie within their objects, one behind the other."""
    objects = layout.objects
    in_task = layout.awaited_by, objects.coroutine, objects.name, layout.node
    in_thread = layout.thread_loop, layout.thread_task, layout.thread_tasks
    in_frame = objects.frame_code, objects.frame_instruction, objects.frame_stack
    return (
        objects.task_bytes <= OBJECT_BYTES_MAX
        and max(layout.is_task, layout.awaited_by_is_set) < objects.task_bytes
        and _are_pointers(in_task, objects.task_bytes)
        and thread_bytes <= THREAD_BYTES_MAX
        and _are_pointers(in_thread, thread_bytes)
        and _are_pointers(in_frame, OBJECT_BYTES_MAX)
        and max(objects.coroutine_state, objects.coroutine_frame) + max(in_frame) + 8 <= OBJECT_BYTES_MAX
    )


def _are_pointers(offsets: tuple[int, ...], end: int) -> bool:
    return all(offset % 8 == 0 and offset + 8 <= end for offset in offsets) and len(set(offsets)) == len(offsets)
