"""Batches as WebDataset streams them: worker processes unpack tar archives from their beginning to their end, and decode."""

import io
import json
import multiprocessing
import random
import tarfile
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
from worker import Disturbance

LAYERS, KERNEL_MICROSECONDS = 16, 290.0
SHARDS, SAMPLES, SAMPLE_SHAPE = 6, 80, (3, 128, 128)
BATCH, WORKERS, AHEAD, SHUFFLED = 8, 3, 6, 12


def write_shard(path: Path, seed: int) -> None:
    """Compressed images and their labels, as members `000001.img` and `000001.json`."""
    chance = np.random.default_rng(seed)
    with tarfile.open(path, "w") as archive:
        for number in range(SAMPLES):
            image = chance.integers(0, 24, SAMPLE_SHAPE, dtype=np.uint8)  # few values, as of an image: they compress
            label = {"class": int(chance.integers(1000))}
            for kind, data in (("img", zlib.compress(image.tobytes(), 1)), ("json", json.dumps(label).encode())):
                member = tarfile.TarInfo(f"{number:06}.{kind}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def samples_of(path: Path) -> Iterator[dict[str, bytes]]:
    """Members with the same number belong together."""
    sample: dict[str, bytes] = {}
    with tarfile.open(path, "r|") as archive:
        for member in archive:
            number, _, kind = member.name.partition(".")
            if sample and sample["number"] != number.encode():
                yield sample
                sample = {}
            file = archive.extractfile(member)
            assert file is not None
            sample |= {"number": number.encode(), kind: file.read()}
    if sample:
        yield sample


def decoded(sample: dict[str, bytes]) -> np.ndarray:
    """Normalised, and cut to what the model takes."""
    image = np.frombuffer(zlib.decompress(sample["img"]), dtype=np.uint8).reshape(SAMPLE_SHAPE)
    json.loads(sample["json"])
    values = (image.astype(np.float32) - 12.0) / 7.0
    return values[:, ::2, ::2].reshape(-1, WIDTH)[:64].copy()


def work(number: int, paths: list[Path], ready: "multiprocessing.Queue[np.ndarray]", steps: log.Steps) -> None:
    """Batches, from all shards of this worker, again and again."""
    log.end_as_usual()
    disturbance = Disturbance(steps, WORKERS)
    chance = random.Random(f"{steps.seed} {number}")
    batch: list[np.ndarray] = []
    started_at = time.monotonic()
    while True:
        for path in chance.sample(paths, len(paths)):
            for sample in samples_of(path):
                batch.append(decoded(sample))
                if len(batch) == BATCH:
                    disturbance.disturb(started_at)
                    ready.put(np.stack(batch))
                    batch, started_at = [], time.monotonic()


def shuffled(ready: "multiprocessing.Queue[np.ndarray]", seed: int) -> Iterator[torch.Tensor]:
    """In another order than they come. The buffer is filled by and by, so that the first step has not to wait for it."""
    chance, held = random.Random(seed), []
    while True:
        held.append(ready.get())
        while len(held) < SHUFFLED and not ready.empty():
            held.append(ready.get())
        yield torch.from_numpy(held.pop(chance.randrange(len(held))))


def main() -> None:
    steps = log.Steps()
    paths = [steps.folder / f"train-{number:04}.tar" for number in range(SHARDS)]
    for number, path in enumerate(paths):
        write_shard(path, number)
    context = multiprocessing.get_context("fork")
    ready = context.Queue(maxsize=AHEAD)
    for number in range(WORKERS):
        arguments = (number, paths[number::WORKERS], ready, steps)
        context.Process(target=work, args=arguments, daemon=True).start()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, 3 << 20)
    batches = shuffled(ready, steps.seed)
    for _ in steps:
        inside.look()
        batch = next(batches)
        buffers.copy_in()
        training.backward(training.forward(batch))
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
