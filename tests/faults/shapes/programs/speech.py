"""Speech: recordings of very different lengths, sorted within a dozen batches; features are computed by threads of the loader."""

import random
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import gpu
import numpy as np
import steps as log
import torch
from inside import Inside
from model import WIDTH, Training
from worker import Disturbance

LAYERS, KERNEL_MICROSECONDS = 12, 2800.0
LONGEST_SECONDS, SHORTEST_SECONDS, MEDIAN_SECONDS, SPREAD = 16.0, 1.5, 5.0, 0.6
SAMPLES_PER_SECOND, FRAME, HOP = 4000, 256, 160
BATCH, SORTED_BATCHES = 8, 12
READERS, AHEAD = 2, 4
LETTERS, LETTERS_PER_SECOND = 32, 25


def lengths(seed: int) -> Iterator[float]:
    """Seconds of the longest recording of each batch."""
    chance = random.Random(seed)
    while True:
        drawn = (chance.lognormvariate(0, SPREAD) * MEDIAN_SECONDS for _ in range(BATCH * SORTED_BATCHES))
        in_order = sorted(min(max(one, SHORTEST_SECONDS), LONGEST_SECONDS) for one in drawn)
        yield from in_order[BATCH - 1 :: BATCH]


class Loader:
    """Batches that are under way, in their order."""

    def __init__(self, steps: log.Steps) -> None:
        self._lengths = lengths(steps.seed)
        self._sound = np.random.default_rng(steps.seed).standard_normal(int(LONGEST_SECONDS * SAMPLES_PER_SECOND))
        self._window = np.hanning(FRAME)
        self._disturbance = Disturbance(steps, READERS)
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="features")
        self._coming: deque[Future[tuple[torch.Tensor, float]]] = deque(self._request() for _ in range(AHEAD))

    def _request(self) -> "Future[tuple[torch.Tensor, float]]":
        return self._threads.submit(self._features, next(self._lengths))

    def _features(self, seconds: float) -> tuple[torch.Tensor, float]:
        """Logarithms of the energy in bands of frequencies, of each recording."""
        started_at = time.monotonic()
        frames = np.lib.stride_tricks.sliding_window_view(self._sound[: int(seconds * SAMPLES_PER_SECOND)], FRAME)[
            ::HOP
        ]
        for _ in range(BATCH):
            energy = np.abs(np.fft.rfft(frames * self._window)) ** 2
            bands = np.log(energy[:, : FRAME // 2].reshape(len(frames), WIDTH, -1).sum(axis=2) + 1e-6)
        batch = torch.from_numpy(bands[:64].astype(np.float32))
        self._disturbance.disturb(started_at)
        return batch, seconds

    def next(self) -> tuple[torch.Tensor, float]:
        """A batch, and the seconds of its longest recording."""
        self._coming.append(self._request())
        return self._coming.popleft().result()


def main() -> None:
    steps = log.Steps()
    loader = Loader(steps)
    device = gpu.Gpu()
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS, kernels=1)
    buffers = gpu.Buffers(device, 4 << 20)
    letters, on_device = (
        np.zeros((BATCH, int(LONGEST_SECONDS * LETTERS_PER_SECOND), LETTERS), np.float32),
        device.memory(1 << 20),
    )
    for _ in steps:
        inside.look()
        batch, seconds = loader.next()
        device.stretch = seconds / LONGEST_SECONDS
        buffers.copy_in(round((4 << 20) * device.stretch))
        training.backward(training.forward(batch))
        training.update()
        # The likeliest letters, for the rate of errors: to memory that is not pinned, which waits.
        device.copy(letters.ctypes.data, on_device.value, round(letters.nbytes * device.stretch), gpu.TO_HOST)
        letters[:, : int(seconds * LETTERS_PER_SECOND)].argmax(axis=2)
        inside.host()


if __name__ == "__main__":
    main()
