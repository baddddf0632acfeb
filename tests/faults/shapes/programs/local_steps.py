"""Ranks that train apart and average their weights after each fourth step, as DiLoCo. Argument: ranks.

The loss is read in each step. Batches are cut from a long array of the rank's own; the outer optimizer computes on the host.
"""

import ctypes
import sys

import gpu
import numpy as np
import ranks
from inside import Inside
from sharded import communicator
from steps import Steps

INNER_STEPS = 4
KERNELS, KERNEL_MICROSECONDS = 70, 900.0
WEIGHT_FLOATS, SLICE_FLOATS = 4 << 20, 128 << 10
BATCH_BYTES, TOKENS, LENGTH = 1 << 20, 1 << 20, 2048
RATE, MOMENTUM = 0.7, 0.9


class Outer:
    """The outer optimizer: its momentum is kept on the host."""

    def __init__(self, device: gpu.Gpu) -> None:
        self._device = device
        self._pinned, self._on_device = device.pinned(4 * SLICE_FLOATS), device.memory(4 * SLICE_FLOATS)
        self._change = np.ctypeslib.as_array(ctypes.cast(self._pinned, ctypes.POINTER(ctypes.c_float)), (SLICE_FLOATS,))
        self._change[:] = np.random.default_rng(0).standard_normal(SLICE_FLOATS, dtype=np.float32)
        self._momentum, self._room = (np.zeros(SLICE_FLOATS, dtype=np.float32) for _ in range(2))

    def update(self) -> None:
        """Nesterov's."""
        self._device.copy(self._pinned.value, self._on_device.value, 4 * SLICE_FLOATS, gpu.TO_HOST)
        self._device.synchronize()
        self._momentum *= MOMENTUM
        self._momentum += self._change
        np.multiply(self._momentum, MOMENTUM, out=self._room)
        self._room += self._change
        self._room *= RATE
        self._device.copy(self._on_device.value, self._pinned.value, 4 * SLICE_FLOATS, gpu.TO_DEVICE)


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK, steps.rank)
    comm = communicator(steps)
    inside = Inside(steps, device)
    outer, buffers, weights = Outer(device), gpu.Buffers(device, BATCH_BYTES), device.memory(4 * WEIGHT_FLOATS)
    chance = np.random.default_rng(steps.seed + steps.rank)
    tokens = chance.integers(0, 50_000, TOKENS, dtype=np.int32)
    for number in steps:
        inside.look()
        starts = chance.integers(0, TOKENS - LENGTH, 16)
        np.bincount(np.concatenate([tokens[start : start + LENGTH] for start in starts]), minlength=50_000)
        buffers.copy_in()
        device.launch(KERNEL_MICROSECONDS, count=KERNELS)
        buffers.read_back()
        inside.before_collective()
        if number % INNER_STEPS == INNER_STEPS - 1:
            comm.all_reduce(weights, WEIGHT_FLOATS, None)
            outer.update()
        inside.host()


if __name__ == "__main__":
    main()
