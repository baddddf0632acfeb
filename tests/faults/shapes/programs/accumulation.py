"""PyTorch with gradient accumulation: four micro steps, one update."""

import batches
import gpu
from inside import Inside
from model import Training
from steps import Steps

MICRO_STEPS = 4
LAYERS, KERNEL_MICROSECONDS = 8, 320.0


def main() -> None:
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, 2 << 20)
    loader = batches.in_memory(steps)
    for _ in steps:
        inside.look()
        for _ in range(MICRO_STEPS):
            buffers.copy_in()
            training.backward(training.forward(next(loader)) / MICRO_STEPS)
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
