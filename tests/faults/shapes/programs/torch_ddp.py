"""PyTorch's DistributedDataParallel: gradients are reduced in buckets during the backward pass. gloo is for control."""

import os
import sys

import batches
import gpu
import nccl
import ranks
import torch.distributed as control
from inside import Inside
from model import Training
from steps import Steps

LAYERS, BUCKETS = 12, 3
KERNEL_MICROSECONDS = 300.0
BUCKET_FLOATS = 2 << 20
BARRIER_EVERY = 100


def communicator(steps: Steps, method: str = "") -> nccl.Communicator:
    """Rank 0 makes the name, gloo spreads it. method: how ranks find each other, by a file as ranks.py makes it."""
    method = method or f"file://{os.environ['RENDEZVOUS']}"
    control.init_process_group("gloo", method, rank=steps.rank, world_size=steps.world)
    name = [nccl.unique_id() if steps.rank == 0 else b""]
    control.broadcast_object_list(name)
    return nccl.Communicator(name[0], steps.world, steps.rank)


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK, steps.rank)
    comm = communicator(steps)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers, gradients = gpu.Buffers(device, 4 << 20), device.memory(4 * BUCKET_FLOATS)
    stream, ready, reduced = device.stream(), device.event(), device.event()

    def reduce() -> None:
        device.record(ready)
        device.wait_event(ready, stream)
        comm.all_reduce(gradients, BUCKET_FLOATS, stream)

    for layer in range(0, LAYERS, LAYERS // BUCKETS):
        training.after_gradient(layer, reduce)
    loader = batches.in_memory(steps)
    for number in steps:
        inside.look()
        inside.before_collective()
        batch = next(loader)
        buffers.copy_in()
        loss = training.forward(batch)
        training.backward(loss)
        device.record(reduced, stream)
        device.wait_event(reduced)
        training.update()
        buffers.read_back()
        if number % BARRIER_EVERY == 0:
            control.barrier()
        inside.host()


if __name__ == "__main__":
    main()
