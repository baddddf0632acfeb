"""A serving engine whose layers are split over ranks: rank 0 schedules, and all ranks run each iteration. Argument: ranks.

What an iteration does goes through shared memory; the other ranks look at it again and again while there is work, then less
often.
"""

import mmap
import os
import struct
import sys
import time
from pathlib import Path

import gpu
import numpy as np
import ranks
from arrivals import Arrivals
from inside import Inside
from sharded import communicator
from steps import Steps

BLOCKS, BLOCK_KERNELS, KERNEL_MICROSECONDS = 10, 7, 145.0
PREFILL_KERNELS, PREFILL_MICROSECONDS = 12, 500.0
MAX_RUNNING, HIDDEN_FLOATS, PROMPT_BYTES = 10, 8192, 32 << 10
VOCABULARY = 32_000
SPIN_SECONDS, POLL_SECONDS = 0.003, 0.0003
_NUMBER, _PLAN = struct.Struct("<q"), struct.Struct("<qq")  # of the iteration; its prompts and requests


class Plans:
    """The iterations that rank 0 has planned, of which a rank runs each."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.truncate(file, mmap.PAGESIZE)
        self._memory = mmap.mmap(file, mmap.PAGESIZE)
        self._number = 0

    def publish(self, prompts: int, requests: int) -> None:
        self._number += 1
        _PLAN.pack_into(self._memory, _NUMBER.size, prompts, requests)
        _NUMBER.pack_into(self._memory, 0, self._number)

    def next(self) -> tuple[int, int]:
        """Prompts and requests of the next iteration, once it is there."""
        spin_until = time.monotonic() + SPIN_SECONDS
        while True:
            (number,) = _NUMBER.unpack_from(self._memory)
            if number > self._number:
                self._number = number
                prompts, requests = _PLAN.unpack_from(self._memory, _NUMBER.size)
                return prompts, requests
            if time.monotonic() < spin_until:
                os.sched_yield()
            else:
                time.sleep(POLL_SECONDS)


class Worker:
    """A rank's part of the model."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._device = gpu.Gpu(gpu.BLOCK, steps.rank)
        self._comm = communicator(steps)
        self._inside = Inside(steps, self._device)
        self._prompts, self._tokens = gpu.Buffers(self._device, PROMPT_BYTES), gpu.Buffers(self._device, 4096)
        self._hidden = self._device.memory(4 * HIDDEN_FLOATS)
        self._chance = np.random.default_rng(steps.seed)

    def iterate(self, prompts: int, requests: int) -> np.ndarray:
        """A token for each request."""
        self._inside.look()
        self._inside.before_collective()
        for _ in range(prompts):
            self._prompts.copy_in()
            self._device.launch(PREFILL_MICROSECONDS, count=PREFILL_KERNELS)
        self._tokens.copy_in(8 * requests)
        for _ in range(BLOCKS):
            self._device.launch(KERNEL_MICROSECONDS, count=BLOCK_KERNELS)
            self._comm.all_reduce(self._hidden, HIDDEN_FLOATS, None)
        self._tokens.read_back(8 * requests)
        self._inside.host()
        return self._chance.integers(0, VOCABULARY, requests)


def serve(steps: Steps, plans: Plans, arrivals: Arrivals) -> None:
    """Rank 0."""
    worker, waiting, running = Worker(steps), [], np.zeros(0, dtype=np.int64)
    while True:
        waiting += arrivals.take(waits=not waiting and not len(running))
        if not waiting and not len(running):
            continue
        start_ns = time.monotonic_ns()
        new = waiting[: MAX_RUNNING - len(running)]
        waiting = waiting[len(new) :]
        running = np.concatenate([running, np.array(new, dtype=np.int64)])
        plans.publish(len(new), len(running))
        worker.iterate(len(new), len(running))
        running = running[running > 1] - 1
        steps.add(start_ns)


def follow(steps: Steps, plans: Plans) -> None:
    """Another rank."""
    worker = Worker(steps)
    while True:
        prompts, requests = plans.next()
        start_ns = time.monotonic_ns()
        worker.iterate(prompts, requests)
        steps.add(start_ns)


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    plans = Plans(Path(os.environ["RENDEZVOUS"]).with_name("plans"))
    if steps.rank == 0:
        serve(steps, plans, Arrivals("bursts"))
    else:
        follow(steps, plans)


if __name__ == "__main__":
    main()
