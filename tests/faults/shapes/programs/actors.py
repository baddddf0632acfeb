"""Reinforcement learning with actors: processes that play and write what they have seen into shared memory, and a learner.

An actor has two places in the shared memory. It sends the number of the one that it has filled through a
pipe, and gets the number of one that is free again.
"""

import mmap
import multiprocessing
import time
from multiprocessing.connection import Connection, wait

import gpu
import numpy as np
import steps as log
import torch
from inside import Inside
from model import WIDTH, Training
from worker import Disturbance

ACTORS, PLACES = 2, 2
PLAYED_STEPS, PLAY_SECONDS = 20, 0.0004
OBSERVED = (64, WIDTH)
LAYERS, KERNEL_MICROSECONDS = 7, 340.0


def played(memory: np.ndarray, weights: np.ndarray, state: np.ndarray) -> np.ndarray:
    """A part of a game with the newest weights: each of its moves computes for a while."""
    for move in range(PLAYED_STEPS):
        until = time.monotonic() + PLAY_SECONDS
        while time.monotonic() < until:
            state = np.tanh(state @ weights + move)
        memory[...] = state
    return state


def act(connection: Connection, memory: np.ndarray, weights: np.ndarray, steps: log.Steps) -> None:
    """An actor."""
    log.end_as_usual()
    disturbance = Disturbance(steps, ACTORS)
    state = np.zeros(OBSERVED, dtype=np.float32)
    while True:
        place = connection.recv()
        started_at = time.monotonic()
        state = played(memory[place], weights, state)
        disturbance.disturb(started_at)
        connection.send(place)


def shared(*shape: int) -> np.ndarray:
    """An array that processes forked from this one have as well."""
    return np.frombuffer(mmap.mmap(-1, 4 * int(np.prod(shape))), dtype=np.float32).reshape(shape)


def main() -> None:
    steps = log.Steps()
    weights = shared(WIDTH, WIDTH)
    memories: dict[Connection, np.ndarray] = {}
    context = multiprocessing.get_context("fork")
    for _ in range(ACTORS):
        ours, theirs = multiprocessing.Pipe()
        memories[ours] = shared(PLACES, *OBSERVED)
        context.Process(target=act, args=(theirs, memories[ours], weights, steps), daemon=True).start()
        theirs.close()
        for place in range(PLACES):
            ours.send(place)
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, 256 << 10)
    filled: list[Connection] = []
    for _ in steps:
        inside.look()
        filled = filled or wait(list(memories))  # type: ignore[assignment]
        actor = filled.pop(0)
        place = actor.recv()
        seen = torch.from_numpy(memories[actor][place].copy())
        actor.send(place)
        buffers.copy_in()
        training.backward(training.forward(seen))
        training.update()
        buffers.read_back()
        weights[...] = training.layers[0].linear.weight.detach().numpy()
        inside.host()


if __name__ == "__main__":
    main()
