"""Robots that are simulated and controlled on the GPU, thousands at once: the host replays graphs and hardly ever waits.

A step is 16 moves, each a graph of the physics and one of the policy, then an update of the policy. Only then the host reads the
mean reward, and how long the moves took.
"""

import ctypes

import gpu
import numpy as np
from inside import Inside
from steps import Steps

MOVES = 16
PHYSICS_KERNELS, PHYSICS_MICROSECONDS = 30, 22.0
POLICY_KERNELS, POLICY_MICROSECONDS = 8, 30.0
UPDATES, UPDATE_KERNELS, UPDATE_MICROSECONDS = 4, 18, 95.0


class Graph:
    """Kernels that are captured once for each scale."""

    def __init__(self, device: gpu.Gpu, stream: ctypes.c_void_p, kernels: int, microseconds: float) -> None:
        self._device, self._stream, self._kernels, self._microseconds = device, stream, kernels, microseconds
        self._graph, self._scale = ctypes.c_void_p(), 0.0

    def launch(self) -> None:
        if self._scale != self._device.scale:
            if self._graph:
                self._device.destroy_graph(self._graph)
            self._scale = self._device.scale
            with self._device.captured(self._stream, self._graph):
                self._device.launch(self._microseconds, self._stream, count=self._kernels)
        self._device.launch_graph(self._graph, self._stream)
        self._device.busy_ns += int(self._kernels * self._microseconds * 1000)


def main() -> None:
    steps = Steps()
    device = gpu.Gpu()
    inside = Inside(steps, device)
    stream, rewards = device.stream(), gpu.Buffers(device, 64 << 10)
    began, ended = (device.timing_event() for _ in range(2))
    physics = Graph(device, stream, PHYSICS_KERNELS, PHYSICS_MICROSECONDS)
    policy = Graph(device, stream, POLICY_KERNELS, POLICY_MICROSECONDS)
    curriculum = np.random.default_rng(steps.seed).random(64, dtype=np.float32)
    for _ in steps:
        inside.look()
        rewards.copy_in(stream=stream)
        device.record(began, stream)
        for _ in range(MOVES):
            policy.launch()
            physics.launch()
        device.record(ended, stream)
        for _ in range(UPDATES):
            device.launch(UPDATE_MICROSECONDS, stream, count=UPDATE_KERNELS)
        rewards.read_back(256, stream)
        curriculum += np.tanh(curriculum) * device.elapsed_seconds(began, ended)
        inside.host()


if __name__ == "__main__":
    main()
