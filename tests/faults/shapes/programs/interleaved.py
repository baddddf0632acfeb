"""A model on two ranks by layers whose forward and backward passes take turns (1F1B), as Megatron's. Argument: ranks, two.

What goes to the other rank and what comes from it is one group of a send and a receive, after which the host waits for the GPU.
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

MICRO_BATCHES = 6
LAYERS, KERNEL_MICROSECONDS = 5, 780.0
ACTIVATION_FLOATS = 4 << 20


class Stage:
    """This rank's half of the layers."""

    def __init__(self, steps: Steps, device: gpu.Gpu, comm: nccl.Communicator) -> None:
        self._training = Training(device, LAYERS, KERNEL_MICROSECONDS)
        self._device, self._comm, self._other = device, comm, 1 - steps.rank
        self._buffers, self._loader = gpu.Buffers(device, 2 << 20), batches.in_memory(steps)
        self._sent, self._received = (device.memory(4 * ACTIVATION_FLOATS) for _ in range(2))
        self._losses: list[torch.Tensor] = []

    def exchange(self, *, sends: bool = True, receives: bool = True) -> None:
        """With the other rank."""
        with self._comm.group():
            if sends:
                self._comm.send(self._sent, ACTIVATION_FLOATS, self._other, None)
            if receives:
                self._comm.receive(self._received, ACTIVATION_FLOATS, self._other, None)
        self._device.call("cudaDeviceSynchronize")

    def forward(self) -> None:
        self._buffers.copy_in()
        self._losses.append(self._training.forward(next(self._loader)))

    def backward(self) -> None:
        """The oldest micro batch."""
        self._training.backward(self._losses.pop(0) / MICRO_BATCHES)

    def first(self) -> None:
        """A step of rank 0, which is one forward pass ahead."""
        self.forward()
        self.exchange(receives=False)
        for _ in range(MICRO_BATCHES - 1):
            self.forward()
            self.exchange()
            self.backward()
        self.exchange(sends=False)
        self.backward()

    def last(self) -> None:
        """A step of rank 1."""
        self.exchange(sends=False)
        for number in range(MICRO_BATCHES):
            self.forward()
            self.backward()
            self.exchange(receives=number < MICRO_BATCHES - 1)

    def update(self) -> None:
        self._training.update()
        self._buffers.read_back()


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK, steps.rank)
    comm = communicator(steps)
    inside = Inside(steps, device)
    stage, shared = Stage(steps, device, comm), device.memory(4 << 20)
    for _ in steps:
        inside.look()
        inside.before_collective()
        if steps.rank == 0:
            stage.first()
        else:
            stage.last()
        comm.all_reduce(shared, 1 << 20, None)  # gradients of what both ranks have: the words' vectors
        stage.update()
        inside.host()


if __name__ == "__main__":
    main()
