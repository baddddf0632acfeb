"""Decodes a video to its standard output, as `ffmpeg -f rawvideo pipe:1` does: a thread decodes, another one writes.

Arguments: the video, the job's Steps.usual_file.
"""

import os
import queue
import sys
import threading
import time
import zlib
from pathlib import Path

import numpy as np
from steps import Usual, die_with_parent
from worker import Disturbance

HEIGHT, WIDTH = 270, 480
FRAME_BYTES = 3 * HEIGHT * WIDTH
BATCH_FRAMES, AHEAD_FRAMES = 4, 8
VIDEO_FRAMES = 48


def write_video(path: Path, seed: int) -> None:
    """A few frames, each compressed on its own, with its length before it."""
    chance = np.random.default_rng(seed)
    with path.open("wb") as file:
        for _ in range(VIDEO_FRAMES):
            data = zlib.compress(chance.integers(0, 12, FRAME_BYTES, dtype=np.uint8).tobytes(), 1)
            file.write(len(data).to_bytes(4, "little") + data)


def decode(path: Path, usual: Usual, ready: "queue.Queue[bytes]") -> None:
    """Frames of the video, which begins again at its end."""
    disturbance = Disturbance(usual, 1)
    number, started_at = 0, time.monotonic()
    while True:
        with path.open("rb") as file:
            while head := file.read(4):
                frame = zlib.decompress(file.read(int.from_bytes(head, "little")))
                number += 1
                if number % BATCH_FRAMES == 0:
                    disturbance.disturb(started_at)
                ready.put(frame)
                if number % BATCH_FRAMES == 0:
                    started_at = time.monotonic()


def main() -> None:
    die_with_parent()
    path, usual = Path(sys.argv[1]), Usual(sys.argv[2])
    ready: queue.Queue[bytes] = queue.Queue(maxsize=AHEAD_FRAMES)
    threading.Thread(target=decode, args=(path, usual, ready), name="decoder", daemon=True).start()
    while True:
        left = memoryview(ready.get())
        while left:
            left = left[os.write(1, left) :]


if __name__ == "__main__":
    main()
