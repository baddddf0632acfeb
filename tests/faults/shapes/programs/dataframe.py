"""A data frame on the GPU, as of RAPIDS: operators of a few short kernels; the host asks for the number of rows after each.

Columns come from a file, and go to the GPU compressed. Intermediate results are allocated and freed in the order of the stream.
"""

import ctypes
import os
import zlib

import gpu
import numpy as np
from inside import Inside
from steps import Steps

COLUMNS, COLUMN_BYTES, PARTITIONS = 6, 256 << 10, 16
OPERATORS = {
    "decompress": (6, 90.0),
    "decode": (6, 60.0),
    "filter": (3, 45.0),
    "project": (4, 30.0),
    "hash": (2, 70.0),
    "join": (5, 110.0),
    "gather": (6, 40.0),
    "sort": (9, 50.0),
    "groupby": (7, 80.0),
}
"""Kernels of each, and their length in microseconds."""
GROUPS = 2048
RESULT_BYTES = 8 * GROUPS


class Table:
    """A file of compressed columns, one partition after the other."""

    def __init__(self, steps: Steps, device: gpu.Gpu) -> None:
        path = steps.folder / "table"
        chance = np.random.default_rng(steps.seed)
        self._places: list[tuple[int, int]] = []
        with path.open("wb") as file:
            for _ in range(PARTITIONS * COLUMNS):
                data = zlib.compress(chance.integers(0, 100, COLUMN_BYTES, dtype=np.uint8).tobytes(), 1)
                self._places.append((file.tell(), len(data)))
                file.write(data)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._device = device
        self._pinned, self._on_device = device.pinned(COLUMN_BYTES), device.memory(gpu.LARGEST_BATCH * COLUMN_BYTES)
        bytes_there = ctypes.cast(self._pinned, ctypes.POINTER(ctypes.c_uint8))
        self._room = np.ctypeslib.as_array(bytes_there, (COLUMN_BYTES,))

    def load(self, partition: int) -> None:
        """All of its columns."""
        first = partition % PARTITIONS * COLUMNS
        for at, size_bytes in self._places[first : first + COLUMNS]:
            os.preadv(self._file, [self._room[:size_bytes]], at)
            copied_bytes = round(size_bytes * min(self._device.batch, gpu.LARGEST_BATCH))
            self._device.copy(self._on_device.value, self._pinned.value, copied_bytes, gpu.TO_DEVICE)
            self._device.synchronize()  # the room is used again


def operate(device: gpu.Gpu, rows: gpu.Buffers, kernels: int, microseconds: float) -> None:
    """One operator: a place for its result, its kernels, and how many rows there are now."""
    result = ctypes.c_void_p()
    device.call("cudaMallocAsync", ctypes.byref(result), ctypes.c_size_t(COLUMN_BYTES), None)
    device.launch(microseconds, count=kernels)
    rows.read_back(8)
    device.call("cudaFreeAsync", result, None)


def main() -> None:
    steps = Steps()
    device = gpu.Gpu()
    inside = Inside(steps, device)
    table, rows = Table(steps, device), gpu.Buffers(device, 4096)
    sums, on_device = np.zeros(GROUPS, dtype=np.int64), device.memory(RESULT_BYTES)
    totals = np.zeros(GROUPS, dtype=np.int64)
    for number in steps:
        inside.look()
        table.load(number)
        for kernels, microseconds in OPERATORS.values():
            operate(device, rows, kernels, microseconds)
        device.copy(sums.ctypes.data, on_device.value, RESULT_BYTES, gpu.TO_HOST)
        np.add.at(totals, np.arange(number, number + GROUPS) % GROUPS, sums)
        inside.host()


if __name__ == "__main__":
    main()
