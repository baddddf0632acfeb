"""Objects in a video: frames come by a pipe from a program that decodes it, are found on the GPU and followed by the host."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import frames
import gpu
import numpy as np
from inside import Inside
from steps import Steps

KERNELS, KERNEL_MICROSECONDS = 56, 560.0
BATCH_BYTES = frames.BATCH_FRAMES * frames.FRAME_BYTES
BOXES, BOX_FLOATS = 100, 6
FOLLOWED = 32
_DECODER = Path(__file__).with_name("frames.py")


class Video:
    """What the decoder writes."""

    def __init__(self, steps: Steps) -> None:
        path = steps.folder / "video"
        frames.write_video(path, steps.seed)
        line = [sys.executable, str(_DECODER), str(path), steps.usual_file]
        self._decoder = subprocess.Popen(line, stdout=subprocess.PIPE, bufsize=0)
        assert self._decoder.stdout is not None
        self._pipe = self._decoder.stdout.fileno()

    def read(self, into: memoryview) -> None:
        """Some frames, all of them."""
        at = 0
        while at < len(into):
            count = os.readv(self._pipe, [into[at:]])
            if not count:
                raise SystemExit("the decoder has ended")
            at += count


def overlaps(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """What each box shares with each other one, as a part of what both cover. Boxes: left, top, right, bottom."""
    low = np.maximum(some[:, None, :2], others[None, :, :2])
    high = np.minimum(some[:, None, 2:4], others[None, :, 2:4])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    areas, other_areas = ((boxes[:, 2:4] - boxes[:, :2]).prod(axis=1) for boxes in (some, others))
    return shared / (areas[:, None] + other_areas[None, :] - shared)


class Tracker:
    """Objects that are followed from frame to frame, each by the box that overlaps it most."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        corner = self._chance.random((FOLLOWED, 2))
        self._followed = np.concatenate([corner, corner + 0.1], axis=1)

    def follow(self) -> None:
        drift = self._chance.normal(0, 0.002, self._followed.shape)
        overlapping = overlaps(self._followed, self._followed + drift)
        for one in range(FOLLOWED):
            best = int(overlapping[one].argmax())
            overlapping[:, best] = -1
            self._followed[one] += drift[best] / 2


def main() -> None:
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    video, tracker = Video(steps), Tracker(steps.seed)
    pinned, on_device = device.pinned(BATCH_BYTES), device.memory(gpu.LARGEST_BATCH * BATCH_BYTES)
    room = memoryview(np.ctypeslib.as_array(ctypes.cast(pinned, ctypes.POINTER(ctypes.c_uint8)), (BATCH_BYTES,)))
    found = gpu.Buffers(device, 4096)
    for _ in steps:
        inside.look()
        video.read(room)
        size_bytes = round(BATCH_BYTES * min(device.batch, gpu.LARGEST_BATCH))
        device.copy(on_device.value, pinned.value, size_bytes, gpu.TO_DEVICE)
        device.launch(KERNEL_MICROSECONDS, count=KERNELS)
        found.read_back(4 * BOXES * BOX_FLOATS)
        for _ in range(frames.BATCH_FRAMES):
            tracker.follow()
        inside.host()


if __name__ == "__main__":
    main()
