"""A serving engine as vLLM is one: bursts of requests, prefill and decode, tokens copied to the host after each iteration."""

import ctypes

import gpu
import numpy as np
from arrivals import Arrivals
from inside import Inside
from steps import Steps

PREFILL_KERNELS, PREFILL_MICROSECONDS = 60, 500.0
DECODE_KERNELS, DECODE_MICROSECONDS = 80, 130.0
MAX_RUNNING = 16
VOCABULARY = 2048


class Engine:
    """Requests that run. Decoding is a CUDA graph, captured once for each scale of its kernels."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.arrivals = Arrivals("bursts")  # the API server is there before the engine
        self.device = gpu.Gpu()
        self.inside = Inside(self.steps, self.device)
        self.buffers = gpu.Buffers(self.device, 1 << 20)
        self.waiting: list[int] = []
        self.running: list[int] = []
        self._stream = self.device.stream()
        self._graph, self._scale = ctypes.c_void_p(), 0.0
        self._logits = np.random.default_rng(self.steps.seed).standard_normal((MAX_RUNNING, VOCABULARY))

    def serve(self) -> None:
        for _ in self.steps:
            if not self.waiting and not self.running:
                self.waiting += self.arrivals.take(waits=True)
                self.steps.begin_again()
            self.waiting += self.arrivals.take(waits=False)
            self.inside.look()
            if self.waiting and len(self.running) < MAX_RUNNING:
                self._prefill()
            else:
                self._decode()
            self._sample()
            self.inside.host()

    def _prefill(self) -> None:
        room = MAX_RUNNING - len(self.running)
        started, self.waiting = self.waiting[:room], self.waiting[room:]
        self.buffers.copy_in(64 << 10)
        self.device.launch(PREFILL_MICROSECONDS, count=PREFILL_KERNELS)
        self.running += started

    def _decode(self) -> None:
        if self._scale != self.device.scale:
            self._scale = self.device.scale
            with self.device.captured(self._stream, self._graph):
                self.device.launch(DECODE_MICROSECONDS, self._stream, count=DECODE_KERNELS)
        self.buffers.copy_in(4096)
        self.device.launch_graph(self._graph)
        self.device.busy_ns += int(DECODE_KERNELS * DECODE_MICROSECONDS * 1000)

    def _sample(self) -> None:
        self.buffers.read_back(4 * MAX_RUNNING)
        np.argmax(self._logits[: len(self.running)], axis=1)
        self.running = [left - 1 for left in self.running if left > 1]


if __name__ == "__main__":
    Engine().serve()
