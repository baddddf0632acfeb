"""Training on a graph: the step itself samples neighbours with numpy, then copies their features and launches kernels."""

import gpu
import numpy as np
import torch
from inside import Inside
from model import WIDTH, Training
from steps import Steps

NODES, EDGES_EACH = 150_000, 12
SEEDS, FANOUTS = 256, (10, 8)
LAYERS, KERNEL_MICROSECONDS = 8, 220.0
FEATURES = 64


class Graph:
    """Neighbours of each node, as one array with offsets; features of each node, in memory that is not pinned."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        degrees = self._random.poisson(EDGES_EACH - 1, NODES) + 1
        self._offsets = np.concatenate(([0], np.cumsum(degrees)))
        self._neighbours = self._random.integers(0, NODES, self._offsets[-1], dtype=np.int32)
        self._features = self._random.standard_normal((NODES, FEATURES), dtype=np.float32)

    def sample(self, seeds: int) -> np.ndarray:
        """The features of some nodes, of some of their neighbours, and of some of theirs."""
        nodes = self._random.integers(0, NODES, seeds)
        found = [nodes]
        for fanout in FANOUTS:
            first, last = self._offsets[nodes], self._offsets[nodes + 1]
            picked = first[:, None] + self._random.integers(0, 1 << 30, (len(nodes), fanout)) % (last - first)[:, None]
            nodes = np.unique(self._neighbours[picked])
            found.append(nodes)
        return self._features[np.unique(np.concatenate(found))]


def main() -> None:
    steps = Steps()
    graph = Graph(steps.seed)
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    memory, buffers = device.memory(1 << 30), gpu.Buffers(device, 64 << 10)
    for _ in steps:
        inside.look()
        features = graph.sample(round(SEEDS * min(device.batch, gpu.LARGEST_BATCH)))
        device.copy(memory.value, features.ctypes.data, features.nbytes, gpu.TO_DEVICE)
        training.backward(training.forward(torch.from_numpy(features[:64, :WIDTH].copy())))
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
