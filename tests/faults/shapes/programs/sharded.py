"""Sharded training on several ranks: weights are gathered before each block, gradients scattered after it. Argument: ranks."""

import os
import sys
import time
from pathlib import Path

import batches
import gpu
import nccl
import ranks
from inside import Inside
from model import Training
from steps import Steps

BLOCKS, KERNEL_MICROSECONDS = 4, 1200.0
PART_FLOATS = 1 << 20
_POLL_SECONDS = 0.01


def communicator(steps: Steps) -> nccl.Communicator:
    """Rank 0 writes the name into a file."""
    path = Path(os.environ["RENDEZVOUS"])
    if steps.rank == 0:
        path.with_suffix(".new").write_bytes(nccl.unique_id())
        path.with_suffix(".new").replace(path)
    while not path.exists():
        time.sleep(_POLL_SECONDS)
    return nccl.Communicator(path.read_bytes(), steps.world, steps.rank)


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK, steps.rank)
    comm = communicator(steps)
    inside = Inside(steps, device)
    training = Training(device, BLOCKS, KERNEL_MICROSECONDS)
    buffers, weights = gpu.Buffers(device, 2 << 20), device.memory(4 * PART_FLOATS * steps.world)
    loader = batches.in_memory(steps)
    for layer in range(BLOCKS):
        training.after_gradient(layer, lambda: comm.reduce_scatter(weights, PART_FLOATS, None))
    for _ in steps:
        inside.look()
        inside.before_collective()
        batch = next(loader)
        buffers.copy_in()
        for _ in range(BLOCKS):
            comm.all_gather(weights, PART_FLOATS, None)
        loss = training.forward(batch)
        training.backward(loss)
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
