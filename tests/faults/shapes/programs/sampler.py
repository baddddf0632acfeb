"""Images from a diffusion model: 50 passes are enqueued without a wait, then the picture is copied out, encoded and written."""

import ctypes
import struct
import zlib
from pathlib import Path

import gpu
import numpy as np
from inside import Inside
from steps import Steps

PASSES, PASS_KERNELS, KERNEL_MICROSECONDS = 50, 14, 720.0
TEXT_KERNELS, TEXT_MICROSECONDS = 24, 90.0
DECODER_KERNELS, DECODER_MICROSECONDS = 10, 2600.0
SIZE = 384
PICTURE_BYTES = 3 * SIZE * SIZE
PROMPT_BYTES = 8192
KEPT = 64


def chunk(name: bytes, data: bytes) -> bytes:
    """A part of a PNG file."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(pixels: np.ndarray) -> bytes:
    """A picture as a file. pixels: bytes, as rows, columns and colours."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


class Scheduler:
    """How much noise is left after each pass, and what goes into the next one."""

    def __init__(self) -> None:
        betas = np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2
        self._kept = np.cumprod(1 - betas)
        self.times = np.linspace(999, 0, PASSES).astype(int)

    def coefficients(self, number: int) -> tuple[float, float]:
        """Factors of the sample and of the noise."""
        kept = self._kept[self.times[number]]
        before = self._kept[self.times[number + 1]] if number + 1 < PASSES else 1.0
        return float(np.sqrt(before / kept)), float(np.sqrt(1 / before - 1) - np.sqrt(1 / kept - 1))


class Sampler:
    """A picture at a time."""

    def __init__(self) -> None:
        self.steps = Steps()
        self._device = gpu.Gpu()
        self._inside = Inside(self.steps, self._device)
        self._scheduler = Scheduler()
        self._prompt = gpu.Buffers(self._device, PROMPT_BYTES)
        self._picture, self._on_device = self._device.pinned(PICTURE_BYTES), self._device.memory(PICTURE_BYTES)
        bytes_there = ctypes.cast(self._picture, ctypes.POINTER(ctypes.c_uint8))
        self._pixels = np.ctypeslib.as_array(bytes_there, (SIZE, SIZE, 3))
        self._pixels[:] = np.random.default_rng(self.steps.seed).integers(0, 16, (SIZE, SIZE, 3), dtype=np.uint8)
        self._folder = self.steps.folder / "pictures"
        self._folder.mkdir()

    def enqueue(self) -> None:
        """All of a picture's work."""
        self._prompt.copy_in()
        self._device.launch(TEXT_MICROSECONDS, count=TEXT_KERNELS)
        for number in range(PASSES):
            self._device.launch(KERNEL_MICROSECONDS, count=PASS_KERNELS)
            self._scheduler.coefficients(number)
            self._device.launch(8, count=2)
        self._device.launch(DECODER_MICROSECONDS, count=DECODER_KERNELS)
        self._device.copy(self._picture.value, self._on_device.value, PICTURE_BYTES, gpu.TO_HOST)

    def write(self, path: Path) -> None:
        path.write_bytes(png(self._pixels))

    def run(self) -> None:
        for number in self.steps:
            self._inside.look()
            self.enqueue()
            self._device.synchronize()
            self._inside.host()
            self.write(self._folder / f"{number % KEPT:04}.png")


if __name__ == "__main__":
    Sampler().run()
