"""A plain PyTorch loop on data in memory. Arguments: layers, kernels of each, their microseconds, percent of drift a minute."""

import sys
import time

import batches
import gpu
import torch
from inside import Inside
from model import Training
from steps import Steps

LARGEST_STRETCH = 1.5


def main() -> None:
    layers, kernels, microseconds, drift_percent = map(int, sys.argv[1:])
    steps = Steps()
    device = gpu.Gpu()
    inside = Inside(steps, device)
    training = Training(device, layers, microseconds, kernels)
    buffers = gpu.Buffers(device, 2 << 20)
    loader = batches.in_memory(steps)
    began_at = time.monotonic()

    def evaluate() -> None:
        buffers.copy_in(1 << 20)
        with torch.no_grad():
            training.forward(next(loader))
        buffers.read_back()

    for _ in steps:
        inside.look()
        inside.evaluate(evaluate)
        device.stretch = min(1 + drift_percent / 100 * (time.monotonic() - began_at) / 60, LARGEST_STRETCH)
        buffers.copy_in()
        training.backward(training.forward(next(loader)))
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
