"""Batches come from real files, read with pread() by an asynchronous loader: requests are under way before they are needed."""

import os
import random
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import gpu
import numpy as np
import torch
from inside import Inside
from model import WIDTH, Training
from steps import Steps
from worker import Disturbance

LAYERS, KERNEL_MICROSECONDS = 12, 300.0
FILES, FILE_BYTES, BATCH_BYTES = 8, 8 << 20, 256 << 10
AHEAD, READERS = 4, 2


class Files:
    """The data set: some files, and reads that are under way."""

    def __init__(self, steps: Steps) -> None:
        self._random = random.Random(steps.seed)
        self._files = [self._made(steps.folder / f"shard-{number}.bin") for number in range(FILES)]
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._disturbance = Disturbance(steps, READERS)
        self._coming: deque[Future[torch.Tensor]] = deque(self._request() for _ in range(AHEAD))

    def _made(self, path: Path) -> int:
        path.write_bytes(np.random.default_rng(1).bytes(FILE_BYTES))
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def _request(self) -> "Future[torch.Tensor]":
        at = self._random.randrange(FILE_BYTES // BATCH_BYTES) * BATCH_BYTES
        return self._readers.submit(self._read, self._random.choice(self._files), at)

    def _read(self, file: int, at: int) -> torch.Tensor:
        started_at = time.monotonic()
        data = np.frombuffer(os.pread(file, BATCH_BYTES, at), dtype=np.uint8)
        batch = torch.from_numpy((data[: 512 * WIDTH] / np.float32(255)).reshape(-1, WIDTH))
        self._disturbance.disturb(started_at)
        return batch

    def next(self) -> torch.Tensor:
        self._coming.append(self._request())
        return self._coming.popleft().result()


def main() -> None:
    steps = Steps()
    device = gpu.Gpu()
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, BATCH_BYTES)
    files = Files(steps)
    for _ in steps:
        inside.look()
        batch = files.next()
        buffers.copy_in()
        training.backward(training.forward(batch))
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
