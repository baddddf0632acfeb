"""Training on images as timm does it: workers that are spawned, a thread that pins batches, another stream that copies them.

Bytes become floats on the GPU. Each step ends with a wait for the whole device; the loss is read every 25 steps.
"""

import ctypes
import queue
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import gpu
import numpy as np
import steps as log
import torch
from inside import Inside
from model import WIDTH, Training
from torch.utils.data import DataLoader, Dataset
from worker import Disturbance

LAYERS, KERNEL_MICROSECONDS = 14, 560.0
IMAGES, SHAPE = 64, (3, 112, 112)
BATCH, WORKERS, PINNED_BATCHES = 8, 2, 3
BATCH_BYTES = BATCH * int(np.prod(SHAPE))
LOSS_EVERY = 25
SAMPLES = 1 << 40


class Images(Dataset):
    """Files of a folder, each read, decompressed, cut and mirrored."""

    def __init__(self, folder: Path, usual_file: str) -> None:
        self._folder, self._usual_file = folder, usual_file
        self._disturbance: Disturbance | None = None
        self._started_at = 0.0

    @staticmethod
    def write(folder: Path, seed: int) -> None:
        """The files."""
        folder.mkdir()
        chance = np.random.default_rng(seed)
        for number in range(IMAGES):
            pixels = chance.integers(0, 20, SHAPE, dtype=np.uint8)
            (folder / f"{number:04}").write_bytes(zlib.compress(pixels.tobytes(), 1))

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        if self._disturbance is None:
            self._disturbance = Disturbance(log.Usual(self._usual_file), WORKERS)
        if index % BATCH == 0:
            self._started_at = time.monotonic()
        data = zlib.decompress((self._folder / f"{index % IMAGES:04}").read_bytes())
        pixels = np.frombuffer(data, dtype=np.uint8).reshape(SHAPE)
        mirrored = np.ascontiguousarray(pixels[:, :, ::-1] if index % 2 else pixels)
        if index % BATCH == BATCH - 1:
            self._disturbance.disturb(self._started_at)
        return torch.from_numpy(mirrored)


def begin_worker(_number: int) -> None:
    log.die_with_parent()


class Pinned:
    """Batches in memory that is pinned, which a thread fills."""

    def __init__(self, device: gpu.Gpu, loader: Iterator[torch.Tensor]) -> None:
        self._loader = loader
        self._free: queue.Queue[ctypes.c_void_p] = queue.Queue()
        self._ready: queue.Queue[tuple[ctypes.c_void_p, torch.Tensor]] = queue.Queue()
        for _ in range(PINNED_BATCHES):
            self._free.put(device.pinned(BATCH_BYTES))
        threading.Thread(target=self._pin, name="pin", daemon=True).start()

    def _pin(self) -> None:
        for batch in self._loader:
            memory = self._free.get()
            ctypes.memmove(memory, batch.data_ptr(), BATCH_BYTES)
            self._ready.put((memory, batch.flatten()[: 64 * WIDTH].float().reshape(64, WIDTH) / 20))

    def take(self) -> tuple[ctypes.c_void_p, torch.Tensor]:
        """A batch's place, and what the model gets of it."""
        return self._ready.get()

    def give_back(self, memory: ctypes.c_void_p) -> None:
        self._free.put(memory)


def main() -> None:
    steps = log.Steps()
    folder = steps.folder / "images"
    Images.write(folder, steps.seed)
    loader = DataLoader(
        Images(folder, steps.usual_file), BATCH, num_workers=WORKERS, worker_init_fn=begin_worker,
        multiprocessing_context="spawn", persistent_workers=True,
    )  # fmt: skip
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    pinned = Pinned(device, iter(loader))
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    copies, copied, loss = device.stream(), device.event(), gpu.Buffers(device, 4096)
    on_device = device.memory(gpu.LARGEST_BATCH * BATCH_BYTES)

    def take() -> torch.Tensor:
        memory, batch = pinned.take()
        size_bytes = round(BATCH_BYTES * min(device.batch, gpu.LARGEST_BATCH))
        device.copy(on_device.value, memory.value, size_bytes, gpu.TO_DEVICE, copies)
        device.record(copied, copies)
        device.wait_event(copied)
        pinned.give_back(memory)
        device.launch(40, count=3)  # to floats, minus the mean, over the deviation
        return batch

    def validate() -> None:
        with torch.no_grad():
            training.forward(take())
        loss.read_back()

    for number in steps:
        inside.look()
        inside.evaluate(validate)
        training.backward(training.forward(take()))
        training.update()
        if number % LOSS_EVERY == 0:
            loss.read_back()
        device.call("cudaDeviceSynchronize")
        inside.host()


if __name__ == "__main__":
    main()
