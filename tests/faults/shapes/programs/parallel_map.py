"""A job as JAX's pmap makes it, a process for each GPU: the driver's interface alone, collectives within the step.

Argument: ranks.
"""

import sys

import numpy as np
import ranks
from driver import Driver
from gpu import LARGEST_BATCH
from inside import Inside
from sharded import communicator
from steps import Steps

BLOCKS, KERNELS, KERNEL_MICROSECONDS = 3, 14, 3200.0
PART_FLOATS = 4 << 20
BATCH_BYTES, METRICS_BYTES = 6 << 20, 256
READ_AHEAD_ROWS = 192


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    device = Driver(steps.rank)
    comm = communicator(steps)
    inside = Inside(steps, device)
    stream, gradients = device.stream(), device.memory(4 * PART_FLOATS)
    batch, metrics = device.memory(LARGEST_BATCH * BATCH_BYTES), device.memory(4096)
    from_host, to_host = device.pinned(LARGEST_BATCH * BATCH_BYTES), device.pinned(4096)
    chance = np.random.default_rng(steps.seed + steps.rank)
    tokens = chance.integers(0, 50_000, (READ_AHEAD_ROWS, 1024), dtype=np.int32)
    for _ in steps:
        inside.look()
        inside.before_collective()
        np.take_along_axis(tokens, chance.permuted(np.argsort(tokens[:, :64], axis=1), axis=1), axis=1)
        device.copy_in(batch, from_host, BATCH_BYTES, stream)
        for _ in range(BLOCKS):
            device.launch(KERNEL_MICROSECONDS, stream, KERNELS)
            comm.all_reduce(gradients, PART_FLOATS, stream)
        device.copy_out(to_host, metrics, METRICS_BYTES, stream)
        device.call("cuStreamSynchronize", stream)  # `block_until_ready()` of the metrics
        inside.host()


if __name__ == "__main__":
    main()
