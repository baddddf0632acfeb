"""Two ranks that agree before each step whether to go on, as elastic training does: by gloo, on the CPU. Argument: ranks.

A rank that is late is waited for there, not by a collective on the GPU. NCCL reduces gradients in four pieces. Every 150
steps rank 0 saves the weights while the other waits.
"""

import sys

import batches
import gpu
import ranks
import torch
import torch.distributed as control
from inside import Inside
from model import Training
from steps import Steps
from torch_ddp import communicator

LAYERS, KERNEL_MICROSECONDS = 13, 420.0
PIECES, PIECE_FLOATS = 4, 2 << 20
SAVE_EVERY = 150


class Agreement:
    """The number of ranks, and whether one wants to stop."""

    def __init__(self) -> None:
        self._said = torch.zeros(2, dtype=torch.int64)

    def is_reached(self, *, wants_to_stop: bool) -> bool:
        """All ranks are there and go on."""
        self._said[0], self._said[1] = 1, int(wants_to_stop)
        control.all_reduce(self._said)
        return bool(self._said[0] == control.get_world_size() and self._said[1] == 0)


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    loader = batches.from_threads(steps, workers=1, milliseconds=5)
    device = gpu.Gpu(gpu.BLOCK, steps.rank)
    comm = communicator(steps)
    inside = Inside(steps, device)
    training, agreement = Training(device, LAYERS, KERNEL_MICROSECONDS), Agreement()
    buffers, gradients = gpu.Buffers(device, 2 << 20), device.memory(4 * PIECE_FLOATS)
    stream, ready, reduced = device.stream(), device.event(), device.event()
    for number in steps:
        inside.look()
        inside.before_collective()
        if not agreement.is_reached(wants_to_stop=False):
            sys.exit(1)
        batch = next(loader)
        buffers.copy_in()
        training.backward(training.forward(batch))
        device.record(ready)
        device.wait_event(ready, stream)
        with comm.group():
            for _ in range(PIECES):
                comm.all_reduce(gradients, PIECE_FLOATS, stream)
        device.record(reduced, stream)
        device.wait_event(reduced)
        training.update()
        buffers.read_back()
        inside.host()
        if number % SAVE_EVERY == SAVE_EVERY - 1:
            steps.end()
            if steps.rank == 0:
                torch.save(training.model.state_dict(), steps.folder / "weights.pt")
            control.barrier()


if __name__ == "__main__":
    main()
