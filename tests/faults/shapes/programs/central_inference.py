"""Reinforcement learning with inference in one place, as SEED: actors play in processes, and ask for each of their moves.

A thread takes what the actors see, runs the policy on a stream of its own and answers; the main thread learns at the same time.
"""

import multiprocessing
import queue
import threading
import time
from multiprocessing.connection import Connection, wait

import gpu
import numpy as np
import steps as log
import torch
from actors import shared
from inside import Inside
from model import WIDTH, Training
from worker import Disturbance

ACTORS, MOVES, GAMES = 2, 10, 4
MOVE_SECONDS = 0.0007
POLICY_KERNELS, POLICY_MICROSECONDS = 8, 70.0
LAYERS, KERNEL_MICROSECONDS = 8, 700.0
UNROLLS = 2


def act(connection: Connection, seen: np.ndarray, moves: np.ndarray, steps: log.Steps) -> None:
    """An actor with some games. Each message stands for what is in the shared memory."""
    log.end_as_usual()
    disturbance = Disturbance(steps, ACTORS)
    rules = np.random.default_rng(steps.seed).standard_normal((WIDTH, WIDTH), dtype=np.float32)
    while True:
        started_at = time.monotonic()
        for move in range(MOVES):
            until = time.monotonic() + MOVE_SECONDS
            state = seen[0]
            while time.monotonic() < until:
                state = np.tanh(state @ rules + moves[:, None])
            seen[move] = state
            if move == MOVES - 1:
                disturbance.disturb(started_at)
            connection.send_bytes(bytes([move]))
            connection.recv_bytes()


class Policy:
    """The newest one, in its thread. unrolls: what has been played, in parts of MOVES."""

    def __init__(self, steps: log.Steps) -> None:
        self.unrolls: queue.Queue[np.ndarray] = queue.Queue(UNROLLS)
        self._actors: dict[Connection, tuple[np.ndarray, np.ndarray]] = {}
        self._chance = np.random.default_rng(steps.seed)
        context = multiprocessing.get_context("fork")
        for _ in range(ACTORS):
            ours, theirs = multiprocessing.Pipe()
            self._actors[ours] = shared(MOVES, GAMES, WIDTH), shared(GAMES)
            context.Process(target=act, args=(theirs, *self._actors[ours], steps), daemon=True).start()
            theirs.close()

    def run(self, device: gpu.Gpu) -> None:
        """Answers all actors that have asked, at once."""
        device.call("cudaSetDevice", 0)
        stream, buffers = device.stream(), gpu.Buffers(device, 16 << 10)
        while True:
            asking = [one for one in wait(list(self._actors)) if isinstance(one, Connection)]
            played = {one: one.recv_bytes()[0] for one in asking}
            buffers.copy_in(stream=stream)
            device.launch(POLICY_MICROSECONDS, stream, count=POLICY_KERNELS)
            buffers.read_back(4 * GAMES * ACTORS, stream)
            for one, move in played.items():
                seen, moves = self._actors[one]
                moves[:] = self._chance.integers(0, 4, GAMES)
                if move == MOVES - 1:
                    self.unrolls.put(seen.reshape(-1, WIDTH).copy())
                one.send_bytes(b".")


def main() -> None:
    steps = log.Steps()
    policy = Policy(steps)
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training, buffers = Training(device, LAYERS, KERNEL_MICROSECONDS), gpu.Buffers(device, 1 << 20)
    threading.Thread(target=policy.run, args=(device,), name="inference", daemon=True).start()
    for _ in steps:
        inside.look()
        unroll = policy.unrolls.get()
        buffers.copy_in()
        training.backward(training.forward(torch.from_numpy(unroll)))
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
