"""A diffusion model's trainer: images in buckets of three resolutions, a frozen text encoder, an average of the weights (EMA).

A stream of its own copies the next batch. The host asks from time to time whether the step before is done, and is one step ahead.
"""

import copy
import random
import time

import batches
import gpu
import torch
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 30, 480.0
ENCODER_KERNELS, ENCODER_MICROSECONDS = 24, 120.0
BUCKETS = (0.65, 0.8, 1.0)
"""Pixels of each resolution, as a share of the largest."""
BATCH_BYTES = 6 << 20
DECAY = 0.9999
POLL_SECONDS = 0.0004
SAMPLED_STEPS = 4


class Prefetcher:
    """The next batch, copied to the GPU while the step before it runs."""

    def __init__(self, steps: Steps, device: gpu.Gpu) -> None:
        self._loader = batches.from_threads(steps, workers=1, milliseconds=22)
        self._chance = random.Random(steps.seed)
        self._device, self._stream = device, device.stream()
        self._buffers, self._copied = gpu.Buffers(device, BATCH_BYTES), device.event()
        self._fetch()

    def _fetch(self) -> None:
        self._batch, self._pixels = next(self._loader), self._chance.choice(BUCKETS)
        self._buffers.copy_in(round(BATCH_BYTES * self._pixels), self._stream)
        self._device.record(self._copied, self._stream)

    def next(self) -> tuple[torch.Tensor, float]:
        """A batch, and its pixels."""
        self._device.wait_event(self._copied)
        found = (self._batch, self._pixels)
        self._fetch()
        return found


class Average:
    """Exponential moving average of the weights."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._weights = copy.deepcopy([one.detach() for one in training.model.parameters()])

    def update(self) -> None:
        with torch.no_grad():
            for mine, new in zip(self._weights, self._training.model.parameters(), strict=True):
                mine.lerp_(new, 1 - DECAY)
        self._training.gpu.launch(40, count=LAYERS)


def main() -> None:
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    average = Average(training)
    prefetcher = Prefetcher(steps, device)
    done = [device.event(), device.event()]
    buffers = gpu.Buffers(device, 64 << 10)
    hidden_seconds = 0.0

    def sample() -> None:
        """An image, to look at."""
        buffers.copy_in()
        with torch.no_grad():
            for _ in range(SAMPLED_STEPS):
                training.forward(prefetcher.next()[0])
        buffers.read_back()

    for number in steps:
        inside.look()
        inside.evaluate(sample)
        images, pixels = prefetcher.next()
        device.stretch = pixels
        device.launch(ENCODER_MICROSECONDS, count=ENCODER_KERNELS)
        noise = torch.randn_like(images)
        training.backward(training.forward(images + noise))
        device.stretch = 1.0
        training.update()
        average.update()
        device.record(done[number % 2])
        inside.host(hidden_seconds)
        if number:
            began = time.monotonic()
            while not device.is_done(done[(number - 1) % 2]):
                time.sleep(POLL_SECONDS)
            if not inside.kind:
                hidden_seconds = time.monotonic() - began


if __name__ == "__main__":
    main()
