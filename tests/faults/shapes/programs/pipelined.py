"""A model of which each rank has some layers: micro batches pass from rank to rank and back. Argument: ranks.

All micro batches go forward first, then all of them backward. The norm of the gradients, over all ranks, is read at the end.
"""

import sys

import batches
import gpu
import nccl
import ranks
import torch
from inside import Inside
from model import Training
from sharded import communicator
from steps import Steps

MICRO_BATCHES = 8
LAYERS, KERNEL_MICROSECONDS = 6, 2400.0
ACTIVATION_FLOATS = 4 << 20


class Stage:
    """The layers of this rank, between those of its neighbours."""

    def __init__(self, steps: Steps, device: gpu.Gpu, comm: nccl.Communicator) -> None:
        self.training = Training(device, LAYERS, KERNEL_MICROSECONDS)
        self._comm, self._activations = comm, device.memory(4 * ACTIVATION_FLOATS)
        self._before = steps.rank - 1 if steps.rank > 0 else None
        self._after = steps.rank + 1 if steps.rank + 1 < steps.world else None

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Activations come from the rank before, and go to the one after."""
        if self._before is not None:
            self._comm.receive(self._activations, ACTIVATION_FLOATS, self._before, None)
        loss = self.training.forward(batch)
        if self._after is not None:
            self._comm.send(self._activations, ACTIVATION_FLOATS, self._after, None)
        return loss

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients come from the rank after, and go to the one before."""
        if self._after is not None:
            self._comm.receive(self._activations, ACTIVATION_FLOATS, self._after, None)
        self.training.backward(loss / MICRO_BATCHES)
        if self._before is not None:
            self._comm.send(self._activations, ACTIVATION_FLOATS, self._before, None)


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK, steps.rank)
    comm = communicator(steps)
    inside = Inside(steps, device)
    stage = Stage(steps, device, comm)
    buffers, norm = gpu.Buffers(device, 2 << 20), device.memory(4096)
    loader = batches.in_memory(steps)
    for _ in steps:
        inside.look()
        inside.before_collective()
        losses = []
        for _ in range(MICRO_BATCHES):
            buffers.copy_in()
            losses.append(stage.forward(next(loader)))
        for loss in losses:
            stage.backward(loss)
        comm.all_reduce(norm, 1, None)
        stage.training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
