"""A mixture of experts on several ranks: tokens go to the ranks that have their experts, and come back. Argument: ranks.

How many tokens go where is computed by the router on the GPU, and read by the host before each exchange: it must know the sizes.
"""

import sys

import batches
import gpu
import nccl
import ranks
import torch
from inside import Inside
from model import WIDTH
from sharded import communicator
from steps import Steps

LAYERS, TOKENS, EXPERTS, CHOSEN = 3, 512, 16, 2
ATTENTION_KERNELS, EXPERT_KERNELS, KERNEL_MICROSECONDS = 4, 6, 1100.0
PART_FLOATS, DENSE_FLOATS = 1 << 20, 2 << 20
SPREAD = 0.05


class Layer:
    """Attention, a router, and the experts of this rank."""

    def __init__(self, steps: Steps, device: gpu.Gpu, comm: nccl.Communicator) -> None:
        self._world, self._device, self._comm = steps.world, device, comm
        self._buffers = gpu.Buffers(device, 4096)
        self._tokens = device.memory(4 * PART_FLOATS * steps.world)
        self._router = torch.nn.Linear(WIDTH, EXPERTS)

    def _busiest(self, tokens: torch.Tensor) -> float:
        """The load of the busiest expert, as a share of what it would be if all had the same."""
        chosen = self._router(tokens).topk(CHOSEN, dim=1).indices
        return float(chosen.flatten().bincount(minlength=EXPERTS).max()) * EXPERTS / (TOKENS * CHOSEN)

    def forward(self, tokens: torch.Tensor) -> None:
        self._device.launch(KERNEL_MICROSECONDS, count=ATTENTION_KERNELS)
        with torch.no_grad():
            busiest = self._busiest(tokens)
        self._buffers.read_back(4 * EXPERTS)  # `splits.tolist()`
        self._comm.all_to_all(self._tokens, PART_FLOATS, None)
        self._device.launch(KERNEL_MICROSECONDS * (1 + SPREAD * (busiest - 1)), count=EXPERT_KERNELS)
        self._comm.all_to_all(self._tokens, PART_FLOATS, None)

    def backward(self) -> None:
        """The sizes are known."""
        self._comm.all_to_all(self._tokens, PART_FLOATS, None)
        self._device.launch(KERNEL_MICROSECONDS, count=2 * EXPERT_KERNELS)
        self._comm.all_to_all(self._tokens, PART_FLOATS, None)
        self._device.launch(KERNEL_MICROSECONDS, count=2 * ATTENTION_KERNELS)


def main() -> None:
    ranks.launch(int(sys.argv[1]))
    steps = Steps()
    torch.set_num_threads(1)
    torch.manual_seed(steps.seed)
    device = gpu.Gpu(gpu.BLOCK, steps.rank)
    comm = communicator(steps)
    inside = Inside(steps, device)
    layers = [Layer(steps, device, comm) for _ in range(LAYERS)]
    buffers, dense = gpu.Buffers(device, 2 << 20), device.memory(4 * DENSE_FLOATS)
    loader = batches.in_memory(steps)
    for _ in steps:
        inside.look()
        inside.before_collective()
        tokens = next(loader).reshape(TOKENS, WIDTH)
        buffers.copy_in()
        for layer in layers:
            layer.forward(tokens)
        for layer in reversed(layers):
            layer.backward()
        comm.all_reduce(dense, DENSE_FLOATS, None)
        device.launch(KERNEL_MICROSECONDS, count=LAYERS)
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
