"""Where batches come from: a PyTorch data set that computes its samples, read by worker processes or by threads."""

import queue
import threading
import time
from collections.abc import Iterator

import numpy as np
import steps as log
import torch
from model import WIDTH
from torch.utils.data import DataLoader, Dataset
from worker import Disturbance

BATCH = 8
SAMPLES = 1 << 40


class Samples(Dataset):
    """Each sample is augmented with numpy. milliseconds: how long a batch takes, about."""

    def __init__(self, steps: log.Steps, workers: int, milliseconds: float) -> None:
        self._disturbance = Disturbance(steps, workers)
        self._seconds = milliseconds / 1000 / BATCH
        self._random = np.random.default_rng(steps.seed)
        self._started_at = 0.0

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        started_at = time.monotonic()
        if index % BATCH == 0:
            self._started_at = started_at
        sample = self._random.standard_normal((64, WIDTH), dtype=np.float32)
        while time.monotonic() < started_at + self._seconds:
            sample = np.tanh(sample * 1.1)
        if index % BATCH == BATCH - 1:
            self._disturbance.disturb(self._started_at)
        return torch.from_numpy(sample)


def _begin_worker(_number: int) -> None:
    log.end_as_usual()


def from_processes(steps: log.Steps, workers: int = 2, milliseconds: float = 8) -> Iterator[torch.Tensor]:
    """PyTorch's own workers."""
    data = Samples(steps, workers, milliseconds)
    return iter(DataLoader(data, BATCH, num_workers=workers, worker_init_fn=_begin_worker, prefetch_factor=2))


def from_threads(steps: log.Steps, workers: int = 2, milliseconds: float = 4) -> Iterator[torch.Tensor]:
    """A loader without workers in each thread, and a queue."""
    ready: queue.Queue[torch.Tensor] = queue.Queue(maxsize=2 * workers)

    def load() -> None:
        for batch in DataLoader(Samples(steps, workers, milliseconds), BATCH):
            ready.put(batch)

    for number in range(workers):
        threading.Thread(target=load, name=f"loader-{number}", daemon=True).start()
    while True:
        yield ready.get()


def in_memory(steps: log.Steps) -> Iterator[torch.Tensor]:
    """The data set fits into memory: the same few batches."""
    generator = torch.Generator().manual_seed(steps.seed)
    made = [torch.randn(BATCH, 64, WIDTH, generator=generator) for _ in range(8)]
    while True:
        yield from made
