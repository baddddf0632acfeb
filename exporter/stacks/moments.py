"""A moment at which a stack shows the cause of its chain: the job goes on, and most moments of its steps may show something else.

In: what takes the stack of a thread. Out: one that shows the cause, or the last one of some.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from exporter.causes import Cause
from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.stacks import Stack
from exporter.stacks.line_samples import INTERVAL_SECONDS, SAMPLES, is_gpu_wait


def _waits_outside_calls(stack: Stack) -> bool:
    return stack.operation == OPERATION_NONE and not stack.is_running


def _waits_for_the_host(stack: Stack) -> bool:
    return not stack.is_running and not is_gpu_wait(stack.operation)


def _runs_outside_calls(stack: Stack) -> bool:
    return stack.operation == OPERATION_NONE and stack.is_running


_SHOWS: Final = MappingProxyType(
    {
        Cause.OWN_WAIT: _waits_outside_calls,
        Cause.OWN_CODE: _runs_outside_calls,
        Cause.LOCK: _waits_for_the_host,
        Cause.BLOCKED_OUTPUT: _waits_for_the_host,
    }
)
"""Whether a stack of the thread that feeds the GPU shows this cause. That of another cause does not come and go."""


def take_showing(
    cause: Cause, tid: int, take: Callable[[int], Stack | None], sleep: Callable[[float], None] = time.sleep
) -> Stack | None:
    """The stack of a thread that feeds the GPU, as take() has it. Takes 0.75 s where none shows the cause."""
    stack = take(tid)
    shows = _SHOWS.get(cause)
    if shows is None:
        return stack
    for _ in range(SAMPLES - 1):
        if stack is None or shows(stack):
            break
        sleep(INTERVAL_SECONDS)
        stack = take(tid) or stack
    return stack
