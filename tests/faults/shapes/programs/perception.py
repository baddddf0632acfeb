"""What a robot sees, 30 times a second: a camera's pictures are looked at as they come, and what is found goes to a planner.

The GPU has nothing to do for half of the time. The camera is another process with shared memory, the planner a child.
"""

import ctypes
import mmap
import multiprocessing
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import camera
import gpu
import numpy as np
import steps as log
from inside import Inside

KERNELS, KERNEL_MICROSECONDS = 46, 300.0
BOXES, BOX_FLOATS, KEPT_BOXES = 120, 6, 20
GRID = 96
_CAMERA = Path(__file__).with_name("camera.py")


class Pictures:
    """The camera's, of which the newest one counts."""

    def __init__(self) -> None:
        file = os.memfd_create("pictures")
        os.truncate(file, camera.PLACES * camera.PICTURE_BYTES)
        self._memory = np.frombuffer(mmap.mmap(file, camera.PLACES * camera.PICTURE_BYTES), dtype=np.uint8)
        self._numbers, cameras = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        files = (file, cameras.fileno())
        # Not a child, which would be a worker of the job.
        line = ["setsid", "--fork", sys.executable, str(_CAMERA), *map(str, files)]
        subprocess.run(line, pass_fds=files, check=True)
        cameras.close()
        self._poll = select.poll()
        self._poll.register(self._numbers, select.POLLIN)

    def next(self) -> np.ndarray:
        """Waits for a picture that has not been looked at."""
        number = self._numbers.recv(camera.NUMBER_BYTES)
        while number and self._poll.poll(0):
            number = self._numbers.recv(camera.NUMBER_BYTES)
        if not number:
            raise SystemExit("the camera has ended")
        at = int.from_bytes(number, "little") % camera.PLACES * camera.PICTURE_BYTES
        return self._memory[at : at + camera.PICTURE_BYTES]


def kept(boxes: np.ndarray) -> np.ndarray:
    """The likeliest boxes of which no two are close. Boxes: two middles, two lengths, a score, a class."""
    left = boxes[np.argsort(-boxes[:, 4])]
    found = []
    while len(left) and len(found) < KEPT_BOXES:
        found.append(left[0])
        left = left[np.abs(left[:, :2] - left[0, :2]).max(axis=1) > left[0, 2:4].max() / 2]
    return np.stack(found)


def plan(seen: socket.socket) -> None:
    """A map of what is in the way, and how far each place is from it."""
    log.end_as_usual()
    occupied = np.zeros((GRID, GRID), dtype=np.float32)
    while True:
        boxes = np.frombuffer(seen.recv(1 << 16), dtype=np.float32).reshape(-1, BOX_FLOATS)
        occupied *= 0.8
        places = np.clip(boxes[:, :2] * GRID, 0, GRID - 1).astype(int)
        occupied[places[:, 1], places[:, 0]] = 1
        for _ in range(4):
            occupied = (occupied + np.roll(occupied, 1, 0) + np.roll(occupied, 1, 1)) / 3


def main() -> None:
    steps = log.Steps()
    seen, planner = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    multiprocessing.get_context("fork").Process(target=plan, args=(planner,), name="planner", daemon=True).start()
    pictures = Pictures()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    pinned, on_device = (
        device.pinned(camera.PICTURE_BYTES),
        device.memory(gpu.LARGEST_BATCH * camera.PICTURE_BYTES),
    )
    found, chance = gpu.Buffers(device, 4096), np.random.default_rng(steps.seed)
    while True:
        picture = pictures.next()
        start_ns = time.monotonic_ns()
        inside.look()
        ctypes.memmove(pinned, picture.ctypes.data, camera.PICTURE_BYTES)
        size_bytes = round(camera.PICTURE_BYTES * min(device.batch, gpu.LARGEST_BATCH))
        device.copy(on_device.value, pinned.value, size_bytes, gpu.TO_DEVICE)
        device.launch(KERNEL_MICROSECONDS, count=KERNELS)
        found.read_back(4 * BOXES * BOX_FLOATS)
        seen.send(kept(chance.random((BOXES, BOX_FLOATS), dtype=np.float32)).astype(np.float32).tobytes())
        inside.host()
        steps.add(start_ns)


if __name__ == "__main__":
    main()
