"""Reinforcement learning: each step asks an environment, which is another process, and learns from its answer."""

import multiprocessing
import time
from multiprocessing.connection import Connection

import gpu
import numpy as np
import steps as log
import torch
from inside import Inside
from model import WIDTH, Training
from worker import Disturbance

LAYERS, KERNEL_MICROSECONDS = 6, 350.0
ENVIRONMENT_SECONDS = 0.006


def environment(connection: Connection, steps: log.Steps) -> None:
    """Answers each action with an observation."""
    log.end_as_usual()
    disturbance = Disturbance(steps)
    state = np.zeros((64, WIDTH), dtype=np.float32)
    while True:
        action = connection.recv()
        until = time.monotonic() + ENVIRONMENT_SECONDS
        while time.monotonic() < until:
            state = np.tanh(state + action)
        disturbance.disturb()
        connection.send(state)


def main() -> None:
    steps = log.Steps()
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("fork").Process(target=environment, args=(theirs, steps), daemon=True).start()
    theirs.close()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, 64 << 10)
    action = 0.0
    for _ in steps:
        inside.look()
        ours.send(action)
        observation = torch.from_numpy(ours.recv())
        buffers.copy_in()
        loss = training.forward(observation)
        training.backward(loss)
        training.update()
        buffers.read_back()
        action = float(loss)
        inside.host()


if __name__ == "__main__":
    main()
