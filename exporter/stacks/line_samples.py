"""Where a thread spends its time, by line of Python: some samples of its frames, at equal intervals.

In: what takes one sample of a thread. Out: LineShares, the lines with the most samples. A wait for the GPU is left out: it
is what a step is for, and where it has become longer the slow calls show it. So is a thread that is stopped:
its line takes no time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from exporter.kernel.abi import Role
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.stacks import Stack
from exporter.python.call_site import CallStack

SAMPLES: Final = 25
INTERVAL_SECONDS: Final = 0.03
"""Together 0.75 s: many steps, and more than one of the slowest."""

_GPU_WAITS: Final = frozenset(
    number for number, operation in enumerate(OPERATIONS) if operation.role in (Role.SYNC, Role.EVENT_SYNC)
)


def is_gpu_wait(operation: int) -> bool:
    """Whether a thread in it waits until the GPU is done."""
    return operation in _GPU_WAITS


class LineShare(NamedTuple):
    """A line that a thread was found at, in `found` of `of` samples. operation: abi.OPERATION_NONE between calls."""

    operation: int
    stack: CallStack
    found: int
    of: int

    @property
    def share(self) -> float:
        """Part of the time."""
        return self.found / self.of


def sample_lines(
    take: Callable[[int], Stack | None],
    lines_of: Callable[[Stack], CallStack | None],
    tids: Sequence[int],
    sleep: Callable[[float], None] = time.sleep,
) -> list[LineShare]:
    """The lines that the threads were found at, the most samples first.

    take: the state of a thread. lines_of: its Python functions; None if it runs none, or has left the call or gap since.
    """
    counts: Counter[tuple[int, int, str]] = Counter()
    taken: Counter[int] = Counter()
    stacks: dict[tuple[int, int, str], CallStack] = {}
    for number in range(SAMPLES):
        if number:
            sleep(INTERVAL_SECONDS)
        for tid in tids:
            state = take(tid)
            if state is None:
                continue
            taken[tid] += 1
            stack = None if state.is_stopped or is_gpu_wait(state.operation) else lines_of(state)
            if stack is not None:
                place = tid, state.operation, stack.place
                counts[place] += 1
                stacks[place] = stack
    return [
        LineShare(operation, stacks[tid, operation, place], count, taken[tid])
        for (tid, operation, place), count in counts.most_common()
    ]
