"""Vectors for the rows of a database: texts come by SQL and are cut into words, their vectors are written to a file."""

import ctypes
import re
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

import gpu
import numpy as np
from inside import Inside
from steps import Steps

KERNELS, KERNEL_MICROSECONDS = 72, 1150.0
ROWS, BATCH, WORDS, COLUMNS = 4096, 128, 64, 768
VOCABULARY = 30_000
VECTORS_BYTES = 4 * BATCH * COLUMNS
LARGEST_FILE_BYTES = 64 << 20
_WORD = re.compile(r"\w+")


def make_database(path: Path, seed: int) -> None:
    """A table of texts."""
    chance = np.random.default_rng(seed)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        words = [f"word{number}" for number in range(2000)]
        rows = ((number, " ".join(words[i] for i in chance.integers(0, 2000, WORDS))) for number in range(ROWS))
        database.executemany("INSERT INTO texts VALUES (?, ?)", rows)
    database.close()


def batches(path: Path) -> Iterator[list[str]]:
    """Texts of the table, again and again, by their key."""
    database = sqlite3.connect(path)
    last = -1
    while True:
        found = database.execute(
            "SELECT id, body FROM texts WHERE id > ? ORDER BY id LIMIT ?", (last, BATCH)
        ).fetchall()
        last = found[-1][0] if len(found) == BATCH and found[-1][0] < ROWS - 1 else -1
        yield [body for _, body in found]


def tokens(texts: list[str]) -> np.ndarray:
    """A row of numbers for each text."""
    made = np.zeros((len(texts), WORDS), dtype=np.int32)
    for row, text in enumerate(texts):
        numbers = [zlib.crc32(word.encode()) % VOCABULARY for word in _WORD.findall(text)[:WORDS]]
        made[row, : len(numbers)] = numbers
    return made


def main() -> None:
    steps = Steps()
    path = steps.folder / "texts.db"
    make_database(path, steps.seed)
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    stream, words = device.stream(), gpu.Buffers(device, 4 * BATCH * WORDS)
    pinned, on_device = device.pinned(VECTORS_BYTES), device.memory(VECTORS_BYTES)
    vectors = np.ctypeslib.as_array(ctypes.cast(pinned, ctypes.POINTER(ctypes.c_float)), (BATCH, COLUMNS))
    vectors[:] = np.random.default_rng(steps.seed).standard_normal((BATCH, COLUMNS), dtype=np.float32)
    texts = batches(path)
    with (steps.folder / "vectors.bin").open("wb", buffering=0) as file:
        for _ in steps:
            inside.look()
            numbers = tokens(next(texts))
            words.copy_in(stream=stream)
            device.launch(KERNEL_MICROSECONDS, stream, count=KERNELS)
            device.copy(pinned.value, on_device.value, VECTORS_BYTES, gpu.TO_HOST, stream)
            device.synchronize(stream)
            inside.host()
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            if file.tell() > LARGEST_FILE_BYTES:
                file.seek(0)
            file.write((vectors / lengths * (1 + numbers[:, :1] / VOCABULARY)).astype(np.float16).tobytes())


if __name__ == "__main__":
    main()
