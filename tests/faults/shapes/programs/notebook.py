"""A notebook: cells of a few dozen steps, with pauses between them in which a person reads and thinks."""

import random
import time

import batches
import gpu
import numpy as np
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 8, 260.0
CELL_STEPS = (60, 120)
THINK_SECONDS = (0.5, 1.5)


def plot(losses: list[float]) -> None:
    """A cell that only looks at numbers."""
    np.convolve(np.array(losses), np.ones(16) / 16)


def main() -> None:
    steps = Steps()
    device = gpu.Gpu()
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, 2 << 20)
    loader = batches.in_memory(steps)
    chance = random.Random(steps.seed)
    left, losses = chance.randint(*CELL_STEPS), []
    for _ in steps:
        inside.look()
        loss = training.forward(next(loader))
        buffers.copy_in()
        training.backward(loss)
        training.update()
        buffers.read_back()
        losses.append(loss.item())
        inside.host()
        left -= 1
        if not left:
            steps.end()
            plot(losses)
            time.sleep(chance.uniform(*THINK_SECONDS))
            left, losses = chance.randint(*CELL_STEPS), []


if __name__ == "__main__":
    main()
