"""A recommender: rows of a table come from a parameter server over TCP and go back to it; features are copied unpinned."""

import multiprocessing
import socket
import struct

import gpu
import numpy as np
import steps as log
import torch
from inside import Inside
from model import WIDTH, Training

ROWS, COLUMNS = 400_000, 32
LOOKED_UP = 3000
FEATURES_BYTES = 48 << 20
LAYERS, KERNEL_MICROSECONDS = 6, 320.0
RATE = 0.01
_HEAD = struct.Struct("<cI")


def receive(connection: socket.socket, into: np.ndarray) -> None:
    """Fill the array."""
    view, at = memoryview(into).cast("B"), 0
    while at < len(view):
        count = connection.recv_into(view[at:])
        if not count:
            raise SystemExit(0)
        at += count


def serve(listener: socket.socket, seed: int) -> None:
    """The parameter server: `g` asks for rows, `p` brings their gradients and has an answer."""
    log.end_as_usual()
    table = np.random.default_rng(seed).standard_normal((ROWS, COLUMNS), dtype=np.float32)
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = np.empty(_HEAD.size, dtype=np.uint8)
    while True:
        receive(connection, head)
        kind, count = _HEAD.unpack(head.tobytes())
        rows = np.empty(count, dtype=np.int64)
        receive(connection, rows)
        if kind == b"g":
            connection.sendall(table[rows])
        else:
            gradients = np.empty((count, COLUMNS), dtype=np.float32)
            receive(connection, gradients)
            np.subtract.at(table, rows, RATE * gradients)
            connection.sendall(b"k")


class Table:
    """The rows, as a worker of the job has them."""

    def __init__(self, steps: log.Steps) -> None:
        self._random = np.random.default_rng(steps.seed)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            context = multiprocessing.get_context("fork")
            context.Process(target=serve, args=(listener, steps.seed), name="parameters", daemon=True).start()
            self._connection = socket.create_connection(listener.getsockname())
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._found = np.empty((LOOKED_UP, COLUMNS), dtype=np.float32)
        self._answer = np.empty(1, dtype=np.uint8)

    def pull(self) -> np.ndarray:
        """Some rows: a few of them often, most of them hardly ever."""
        self._rows = (self._random.pareto(1.2, LOOKED_UP) * 100).astype(np.int64) % ROWS
        self._connection.sendall(_HEAD.pack(b"g", LOOKED_UP) + self._rows.tobytes())
        receive(self._connection, self._found)
        return self._found

    def push(self, gradients: np.ndarray) -> None:
        """Sends gradients of the rows that were pulled last."""
        self._connection.sendall(_HEAD.pack(b"p", LOOKED_UP) + self._rows.tobytes() + gradients.tobytes())
        receive(self._connection, self._answer)


def main() -> None:
    steps = log.Steps()
    table = Table(steps)
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    features, memory = np.zeros(FEATURES_BYTES, dtype=np.uint8), device.memory(gpu.LARGEST_BATCH * FEATURES_BYTES)
    gradients = np.zeros((LOOKED_UP, COLUMNS), dtype=np.float32)
    for _ in steps:
        inside.look()
        rows = table.pull()
        size_bytes = round(FEATURES_BYTES * min(device.batch, gpu.LARGEST_BATCH))
        # Of copies above 64 KiB the stand-in takes only the time: a larger batch needs no larger array.
        device.copy(memory.value, features.ctypes.data, size_bytes, gpu.TO_DEVICE)
        device.copy(memory.value, rows.ctypes.data, rows.nbytes, gpu.TO_DEVICE)
        training.backward(training.forward(torch.from_numpy(rows[:512, :WIDTH].copy())))
        training.update()
        device.copy(gradients.ctypes.data, memory.value, gradients.nbytes, gpu.TO_HOST)
        inside.host()
        table.push(gradients)


if __name__ == "__main__":
    main()
