"""A language model that learns from rewards (PPO): it writes answers token by token, other processes judge them, then it learns.

A step is a whole round: 20 passes that each replay a graph and read the tokens, a pass of a frozen model, the rewards, and four
updates. Nothing runs on the GPU while the judges work.
"""

import ctypes
import multiprocessing
from multiprocessing.connection import Connection

import gpu
import numpy as np
import steps as log
import torch
from inside import Inside
from model import WIDTH, Training
from worker import Disturbance

ANSWERS, TOKENS, VOCABULARY = 32, 20, 4096
DECODE_KERNELS, DECODE_MICROSECONDS = 48, 150.0
FROZEN_KERNELS, FROZEN_MICROSECONDS = 24, 700.0
LAYERS, KERNEL_MICROSECONDS = 8, 380.0
UPDATES, JUDGES, JUDGED_PASSES = 4, 2, 6


def judge(connection: Connection, steps: log.Steps) -> None:
    """Rewards for answers, by a small model on the CPU."""
    log.end_as_usual()
    disturbance = Disturbance(steps)
    chance = np.random.default_rng(steps.seed)
    weights = chance.standard_normal((128, 128), dtype=np.float32)
    words = chance.standard_normal((VOCABULARY, 128), dtype=np.float32)
    while True:
        answers = connection.recv()
        state = words[answers]
        for _ in range(JUDGED_PASSES):
            state = np.tanh(state @ weights)
        disturbance.disturb()
        connection.send(state.mean(axis=(1, 2)))


class Judges:
    """Processes, each with a part of the answers."""

    def __init__(self, steps: log.Steps) -> None:
        self._connections = []
        context = multiprocessing.get_context("fork")
        for number in range(JUDGES):
            ours, theirs = multiprocessing.Pipe()
            context.Process(target=judge, args=(theirs, steps), name=f"judge-{number}", daemon=True).start()
            theirs.close()
            self._connections.append(ours)

    def rewards(self, answers: np.ndarray) -> np.ndarray:
        """One for each answer."""
        for connection, part in zip(self._connections, np.array_split(answers, JUDGES), strict=True):
            connection.send(part)
        return np.concatenate([connection.recv() for connection in self._connections])


class Writer:
    """The model while it writes: a graph, captured once for each scale of its kernels."""

    def __init__(self, device: gpu.Gpu, seed: int) -> None:
        self._device, self._stream, self._tokens = device, device.stream(), gpu.Buffers(device, 4096)
        self._graph, self._scale = ctypes.c_void_p(), 0.0
        self._chance = np.random.default_rng(seed)

    def write(self) -> np.ndarray:
        """Answers of the same length, one token for all of them in each pass."""
        if self._scale != self._device.scale:
            self._scale = self._device.scale
            with self._device.captured(self._stream, self._graph):
                self._device.launch(DECODE_MICROSECONDS, self._stream, count=DECODE_KERNELS)
        answers = np.empty((ANSWERS, TOKENS), dtype=np.int64)
        for at in range(TOKENS):
            self._tokens.copy_in(8 * ANSWERS, self._stream)
            self._device.launch_graph(self._graph, self._stream)
            self._tokens.read_back(8 * ANSWERS, self._stream)
            answers[:, at] = self._chance.integers(0, VOCABULARY, ANSWERS)
            self._device.busy_ns += int(DECODE_KERNELS * DECODE_MICROSECONDS * 1000)
        return answers


def main() -> None:
    steps = log.Steps()
    judges = Judges(steps)
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    writer, training = Writer(device, steps.seed), Training(device, LAYERS, KERNEL_MICROSECONDS)
    loss, buffers = torch.zeros(()), gpu.Buffers(device, 1 << 20)
    for _ in steps:
        inside.look()
        answers = writer.write()
        rewards = judges.rewards(answers)
        device.launch(FROZEN_MICROSECONDS, count=FROZEN_KERNELS)
        buffers.read_back(4 * ANSWERS * TOKENS)
        gains = torch.from_numpy(((rewards - rewards.mean()) / (rewards.std() + 1e-6)).astype(np.float32))
        for part in gains.chunk(UPDATES):
            buffers.copy_in()
            loss = training.forward(part[:, None].expand(-1, WIDTH))
            training.backward(loss)
            training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
