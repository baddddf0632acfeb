"""Pretraining on a mapped file of tokens; a thread writes each checkpoint while the steps go on.

The scaler asks in each step whether a gradient overflowed: the host waits there, and yields its CPU. Every 30 steps the
weights are copied out on a stream of their own; the thread waits for them, writes a file and syncs it.
"""

import ctypes
import math
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import gpu
import numpy as np
import torch
from inside import Inside
from model import WIDTH, Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 18, 900.0
TOKENS, SEQUENCES, LENGTH = 2 << 20, 8, 64 * WIDTH
SAVE_EVERY, PIECES, PIECE_BYTES = 30, 8, 3 << 20
RATE, WARM_UP_STEPS, DECAY_STEPS = 3e-4, 50, 5000


class Tokens:
    """A file of numbers below 50,000, of which a batch has some sequences that begin anywhere."""

    def __init__(self, path: Path, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._random.integers(0, 50_000, TOKENS, dtype=np.uint16).tofile(path)
        self._mapped = np.memmap(path, dtype=np.uint16, mode="r")

    def batch(self) -> torch.Tensor:
        starts = self._random.integers(0, TOKENS - LENGTH, SEQUENCES)
        rows = np.stack([self._mapped[start : start + LENGTH] for start in starts])
        return torch.from_numpy(rows.astype(np.float32).reshape(-1, WIDTH) / 50_000)


class Checkpoints:
    """One is written at a time."""

    def __init__(self, device: gpu.Gpu, folder: Path) -> None:
        self._device, self._folder = device, folder
        self._stream, self._ready, self._copied = device.stream(), device.event(), device.event()
        self._pinned = [device.pinned(PIECE_BYTES) for _ in range(PIECES)]
        self._weights = device.memory(PIECE_BYTES)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def save(self, number: int) -> None:
        """Weights as they are at this place of the stream."""
        if self._writing is not None:
            self._writing.result()
        self._device.record(self._ready)
        self._device.wait_event(self._ready, self._stream)
        for pinned in self._pinned:
            self._device.copy(pinned.value, self._weights.value, PIECE_BYTES, gpu.TO_HOST, self._stream)
        self._device.record(self._copied, self._stream)
        self._writing = self._writer.submit(self._write, number)

    def _write(self, number: int) -> None:
        self._device.call("cudaEventSynchronize", self._copied)
        path = self._folder / "new.ckpt"
        with path.open("wb") as file:
            for pinned in self._pinned:
                file.write((ctypes.c_char * PIECE_BYTES).from_address(pinned.value or 0))
            file.flush()
            os.fsync(file.fileno())
        path.replace(self._folder / f"{number // SAVE_EVERY % 2}.ckpt")


def rate(number: int) -> float:
    """A cosine after a linear beginning."""
    if number < WARM_UP_STEPS:
        return RATE * (number + 1) / WARM_UP_STEPS
    return RATE * 0.55 + RATE * 0.45 * math.cos(math.pi * min(number / DECAY_STEPS, 1))


def main() -> None:
    steps = Steps()
    tokens = Tokens(steps.folder / "tokens.bin", steps.seed)
    device = gpu.Gpu(gpu.YIELD)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    checkpoints = Checkpoints(device, steps.folder)
    buffers = gpu.Buffers(device, 1 << 20)
    for number in steps:
        inside.look()
        training.optimizer.param_groups[0]["lr"] = rate(number)
        batch = tokens.batch()
        buffers.copy_in()
        training.backward(training.forward(batch))
        buffers.read_back()
        inside.host()
        training.update()
        if number % SAVE_EVERY == SAVE_EVERY - 1:
            checkpoints.save(number)


if __name__ == "__main__":
    main()
