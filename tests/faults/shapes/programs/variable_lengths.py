"""Sequences of different lengths: each batch is padded to a multiple of 64 tokens, and its kernels are as long as that."""

import random

import batches
import gpu
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 10, 400.0
LONGEST_TOKENS, PADDED_TO_TOKENS = 512, 64
TOKEN_BYTES = 4096


def main() -> None:
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, LONGEST_TOKENS * TOKEN_BYTES)
    loader = batches.from_threads(steps, workers=1, milliseconds=2)
    chance = random.Random(steps.seed)
    for _ in steps:
        inside.look()
        batch = next(loader)
        longest = max(chance.betavariate(4, 2) for _ in range(batches.BATCH))
        tokens = -(-int(longest * LONGEST_TOKENS) // PADDED_TO_TOKENS) * PADDED_TO_TOKENS
        device.stretch = tokens / LONGEST_TOKENS
        buffers.copy_in(tokens * TOKEN_BYTES)
        training.backward(training.forward(batch))
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
