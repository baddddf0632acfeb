"""Inference over a folder of files: each is claimed, decoded by threads, run on one of two streams, and its result is written.

Another process keeps the folder filled. A step enqueues a batch and reads the results of the one before.
"""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import gpu
import numpy as np
import steps as log
from inside import Inside
from worker import Disturbance

KERNELS, KERNEL_MICROSECONDS = 90, 640.0
BATCH, INPUT_BYTES, OUTPUT_BYTES = 4, 3 << 20, 16 << 10
DECODERS, AHEAD = 2, 4
STREAMS = 2
FILE_BYTES = 64 << 10
LOOK_AGAIN_SECONDS = 0.002
_FILLER = Path(__file__).with_name("filler.py")


def claimed(folder: Path) -> Iterator[Path]:
    """Files of the queue, the oldest first, each renamed so that no other program takes it."""
    mine = folder / "claimed"
    mine.mkdir()
    while True:
        names = sorted(entry.name for entry in os.scandir(folder / "new") if entry.name.endswith(".bin"))
        for name in names:
            (folder / "new" / name).rename(mine / name)
            yield mine / name
        if not names:
            time.sleep(LOOK_AGAIN_SECONDS)


class Decoder:
    """Batches that are under way, in their order."""

    def __init__(self, steps: log.Steps, folder: Path) -> None:
        self._paths = claimed(folder)
        self._disturbance = Disturbance(steps, DECODERS)
        self._threads = ThreadPoolExecutor(DECODERS, thread_name_prefix="decoder")
        self._coming: deque[Future[np.ndarray]] = deque(self._request() for _ in range(AHEAD))

    def _request(self) -> "Future[np.ndarray]":
        return self._threads.submit(self._decoded, [next(self._paths) for _ in range(BATCH)])

    def _decoded(self, paths: list[Path]) -> np.ndarray:
        started_at = time.monotonic()
        images = []
        for path in paths:
            pixels = np.fromfile(path, dtype=np.uint8).astype(np.float32) / 255
            images.append(np.fft.irfft(np.fft.rfft(pixels.reshape(256, -1), axis=1)[:, :64], axis=1))
            path.unlink()
        self._disturbance.disturb(started_at)
        return np.stack(images)

    def next(self) -> np.ndarray:
        """A batch."""
        self._coming.append(self._request())
        return self._coming.popleft().result()


def main() -> None:
    steps = log.Steps()
    folder, data = steps.folder / "queue", steps.folder / "image"
    (folder / "new").mkdir(parents=True)
    data.write_bytes(np.random.default_rng(steps.seed).bytes(FILE_BYTES))
    # Not a child, which would be a worker of the job.
    line = [sys.executable, str(_FILLER), str(folder / "new"), str(data), str(os.getpid())]
    subprocess.run(["setsid", "--fork", *line], check=True)
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    decoder = Decoder(steps, folder)
    streams, computed = [device.stream() for _ in range(STREAMS)], device.event()
    buffers = [gpu.Buffers(device, INPUT_BYTES) for _ in range(STREAMS)]
    hidden_seconds = 0.0
    with (folder / "results.bin").open("wb", buffering=0) as results:
        for number in steps:
            inside.look()
            batch = decoder.next()
            this, other = number % STREAMS, (number + 1) % STREAMS
            buffers[this].copy_in(stream=streams[this])
            device.wait_event(computed, streams[this])  # kernels of one batch fill the GPU
            device.launch(KERNEL_MICROSECONDS, streams[this], count=KERNELS)
            device.record(computed, streams[this])
            inside.host(hidden_seconds)
            began = time.monotonic()
            buffers[other].read_back(OUTPUT_BYTES, streams[other])
            if not inside.kind:
                hidden_seconds = time.monotonic() - began
            results.seek(0 if results.tell() > 1 << 22 else results.tell())
            results.write(batch.mean(axis=2).astype(np.float32).tobytes())


if __name__ == "__main__":
    main()
