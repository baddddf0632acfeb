"""A language model that is fine-tuned with six micro batches; activations go to the host, and come back for the backward pass.

PyTorch's hooks on saved tensors copy them, on a stream for each direction. The host waits once in a step, for the norm of the
gradients. Every 25 steps it evaluates.
"""

import ctypes

import batches
import gpu
import torch
from inside import Inside
from model import Training
from steps import Steps

MICRO_BATCHES, LAYERS, KERNEL_MICROSECONDS = 6, 8, 1750.0
ACTIVATION_BYTES, PLACES = 12 << 20, 4
EVALUATE_EVERY, EVALUATED_BATCHES = 25, 8


class Offload:
    """Room on the host, used again and again: of copies that long the stand-in takes only the time."""

    def __init__(self, device: gpu.Gpu) -> None:
        self._device = device
        self._out, self._back = device.stream(), device.stream()
        self._there, self._done = device.event(), device.event()
        self._pinned = [device.pinned(ACTIVATION_BYTES) for _ in range(PLACES)]
        self._on_device = device.memory(gpu.LARGEST_BATCH * ACTIVATION_BYTES)
        self._number = 0

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Out, when what is enqueued has made it; weights stay."""
        if not tensor.is_leaf:
            self._number += 1
            self._device.record(self._there)
            self._device.wait_event(self._there, self._out)
            pinned = self._pinned[self._number % PLACES]
            self._copy(pinned, self._on_device, gpu.TO_HOST, self._out)
        return tensor

    def unpack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Back, before what is enqueued next."""
        if not tensor.is_leaf:
            self._number -= 1
            self._copy(self._on_device, self._pinned[self._number % PLACES], gpu.TO_DEVICE, self._back)
            self._device.record(self._done, self._back)
            self._device.wait_event(self._done)
        return tensor

    def _copy(self, to: ctypes.c_void_p, source: ctypes.c_void_p, kind: int, stream: ctypes.c_void_p) -> None:
        size_bytes = round(ACTIVATION_BYTES * min(self._device.batch, gpu.LARGEST_BATCH))
        self._device.copy(to.value, source.value, size_bytes, kind, stream)


def main() -> None:
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training, offload = Training(device, LAYERS, KERNEL_MICROSECONDS), Offload(device)
    buffers, loader = gpu.Buffers(device, 256 << 10), batches.in_memory(steps)

    def evaluate() -> None:
        buffers.copy_in()
        with torch.no_grad():
            training.forward(next(loader))
        buffers.read_back()

    for number in steps:
        inside.look()
        inside.evaluate(evaluate)
        for _ in range(MICRO_BATCHES):
            buffers.copy_in()
            with torch.autograd.graph.saved_tensors_hooks(offload.pack, offload.unpack):
                loss = training.forward(next(loader)) / MICRO_BATCHES
            training.backward(loss)
        torch.nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        buffers.read_back()
        inside.host()
        training.update()
        if number % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            steps.end()
            for _ in range(EVALUATED_BATCHES):
                evaluate()


if __name__ == "__main__":
    main()
