"""Training on what a pool of processes prepares: multiprocessing's imap(), whose results come pickled through one pipe.

The pool's threads share the interpreter with the step. The host spins for the loss.
"""

import multiprocessing
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import gpu
import numpy as np
import steps as log
import torch
from inside import Inside
from model import WIDTH, Training
from worker import Disturbance

PROCESSES, AHEAD = 2, 5
LAYERS, KERNEL_MICROSECONDS = 9, 520.0
BATCH, SIDE, CUT = 6, 96, 80
PACKED = 16


class Worker:
    """A process of the pool."""

    def __init__(self, steps: log.Steps) -> None:
        self._disturbance = Disturbance(steps, PROCESSES)
        self._random = np.random.default_rng(steps.seed)
        pixels = self._random.integers(0, 24, (PACKED, SIDE, SIDE, 3), dtype=np.uint8)
        self._packed = [zlib.compress(one.tobytes(), 1) for one in pixels]

    def prepare(self, number: int) -> dict[str, Any]:
        """A batch: unpacked, cut, mirrored, its colours changed."""
        started_at = time.monotonic()
        images = np.empty((BATCH, CUT, CUT, 3), dtype=np.uint8)
        for place in range(BATCH):
            pixels = np.frombuffer(zlib.decompress(self._packed[(number + place) % PACKED]), np.uint8)
            top, left = self._random.integers(0, SIDE - CUT, 2)
            cut = pixels.reshape(SIDE, SIDE, 3)[top : top + CUT, left : left + CUT]
            brighter = cut[:, :: 1 - 2 * (place % 2)] * self._random.uniform(0.7, 1.3)
            images[place] = np.clip(brighter, 0, 255)
        self._disturbance.disturb(started_at)
        return {"images": images, "labels": list(range(BATCH)), "number": number}


_worker: Worker | None = None


def begin(steps: log.Steps) -> None:
    """In a new process of the pool."""
    global _worker  # noqa: PLW0603 - how a pool's functions find what is theirs
    log.end_as_usual()
    _worker = Worker(steps)


def prepare(number: int) -> dict[str, Any]:
    assert _worker is not None
    return _worker.prepare(number)


def prepared(pool: Any) -> Iterator[dict[str, Any]]:
    """Batches in their order, some of them requested in advance."""
    free = threading.Semaphore(AHEAD)

    def numbers() -> Iterator[int]:
        number = 0
        while True:
            free.acquire()
            yield number
            number += 1

    for batch in pool.imap(prepare, numbers()):
        free.release()
        yield batch


def main() -> None:
    steps = log.Steps()
    pool = multiprocessing.get_context("fork").Pool(PROCESSES, begin, (steps,))
    loader = prepared(pool)
    device = gpu.Gpu(gpu.SPIN)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    images_bytes, loss = BATCH * CUT * CUT * 3, gpu.Buffers(device, 4096)
    memory = device.memory(gpu.LARGEST_BATCH * images_bytes)
    for _ in steps:
        inside.look()
        images = next(loader)["images"]
        size_bytes = round(images_bytes * min(device.batch, gpu.LARGEST_BATCH))
        device.copy(memory.value, images.ctypes.data, size_bytes, gpu.TO_DEVICE)
        device.launch(30, count=2)  # to floats, and their order
        pixels = torch.from_numpy(images.reshape(-1)[: 64 * WIDTH].astype(np.float32).reshape(64, WIDTH) / 255)
        training.backward(training.forward(pixels))
        training.update()
        loss.read_back()
        inside.host()


if __name__ == "__main__":
    main()
