"""Training whose optimizer is offloaded to the host, as DeepSpeed does: gradients go there, threads compute, weights return.

Gradients leave on a stream of their own during the backward pass; the optimizer takes each part when its event has passed.
"""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import batches
import gpu
import numpy as np
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 16, 1900.0
PARTS, THREADS = 8, 2
PART_FLOATS = 640 << 10
RATE, FIRST_DECAY, SECOND_DECAY, EPSILON = 1e-4, 0.9, 0.999, 1e-8


class Part:
    """A part of the weights, with its moments and room for intermediate results: in memory of the host, all of it."""

    def __init__(self, device: gpu.Gpu, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.pinned, self.on_device, self.arrived = (
            device.pinned(4 * PART_FLOATS),
            device.memory(4 * PART_FLOATS),
            device.event(),
        )
        self.gradient = np.ctypeslib.as_array(ctypes.cast(self.pinned, ctypes.POINTER(ctypes.c_float)), (PART_FLOATS,))
        self.gradient[:] = chance.standard_normal(PART_FLOATS, dtype=np.float32)
        self.weights, self.first, self.second, self.room = (np.zeros(PART_FLOATS, dtype=np.float32) for _ in range(4))

    def update(self) -> None:
        """Adam; numpy computes without the interpreter's lock."""
        np.multiply(self.gradient, 1 - FIRST_DECAY, out=self.room)
        self.first *= FIRST_DECAY
        self.first += self.room
        np.square(self.gradient, out=self.room)
        self.room *= 1 - SECOND_DECAY
        self.second *= SECOND_DECAY
        self.second += self.room
        np.sqrt(self.second, out=self.room)
        self.room += EPSILON
        np.divide(self.first, self.room, out=self.room)
        self.room *= RATE
        self.weights -= self.room


class Offloaded:
    """The optimizer on the host."""

    def __init__(self, device: gpu.Gpu, seed: int) -> None:
        self._device, self._stream, self._ready = device, device.stream(), device.event()
        self._parts = [Part(device, seed + number) for number in range(PARTS)]
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cpu-adam")

    def take(self, number: int) -> None:
        """The gradients of a part leave the GPU as soon as they are there."""
        part = self._parts[number]
        self._device.record(self._ready)
        self._device.wait_event(self._ready, self._stream)
        self._device.copy(part.pinned.value, part.on_device.value, 4 * PART_FLOATS, gpu.TO_HOST, self._stream)
        self._device.record(part.arrived, self._stream)

    def step(self) -> None:
        """The last gradients come first."""
        updates = []
        for part in reversed(self._parts):
            self._device.call("cudaEventSynchronize", part.arrived)
            updates.append(self._threads.submit(part.update))
        for update, part in zip(updates, reversed(self._parts), strict=True):
            update.result()
            self._device.copy(part.on_device.value, part.pinned.value, 4 * PART_FLOATS, gpu.TO_DEVICE, self._stream)
        self._device.synchronize(self._stream)


def main() -> None:
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    optimizer = Offloaded(device, steps.seed)
    buffers = gpu.Buffers(device, 4 << 20)
    for number in range(PARTS):
        training.after_gradient(number * LAYERS // PARTS, lambda number=number: optimizer.take(number))  # type: ignore[misc]
    loader = batches.in_memory(steps)
    for _ in steps:
        inside.look()
        batch = next(loader)
        buffers.copy_in()
        training.backward(training.forward(batch))
        training.model.zero_grad()
        optimizer.step()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
