"""A PyTorch training loop that reads its loss after each step. Argument: how its batches are loaded, processes or threads."""

import sys

import batches
import gpu
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 18, 300.0


def main() -> None:
    steps = Steps()
    device = gpu.Gpu(gpu.SPIN if sys.argv[1] == "processes" else gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, 4 << 20)
    loader = batches.from_processes(steps) if sys.argv[1] == "processes" else batches.from_threads(steps)
    for _ in steps:
        inside.look()
        batch = next(loader)
        buffers.copy_in()
        loss = training.forward(batch)
        training.backward(loss)
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
