"""A PyTorch model whose layers launch kernels. Tensors, autograd and optimizer are real, tiny, and on the CPU."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from gpu import Gpu
from torch import nn

WIDTH = 16


class _Launch(torch.autograd.Function):
    """Launches kernels in the forward pass, and twice as many in the backward pass."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, gpu: Gpu, microseconds: float, kernels: int) -> torch.Tensor:
        context.launch = (gpu, microseconds, kernels)
        gpu.launch(microseconds, count=kernels)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        gpu, microseconds, kernels = context.launch
        gpu.launch(microseconds, count=2 * kernels)
        return gradient, None, None, None


class Layer(nn.Module):
    """One layer and its kernels."""

    def __init__(self, gpu: Gpu, microseconds: float, kernels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.gpu, self.microseconds, self.kernels = gpu, microseconds, kernels

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return _Launch.apply(torch.relu(self.linear(tensor)), self.gpu, self.microseconds, self.kernels)


class Training:
    """A model with its optimizer. after_backward: called for each layer's gradient, the last layer first, as DDP's hooks are."""

    def __init__(self, gpu: Gpu, layers: int, microseconds: float, kernels: int = 2) -> None:
        """layers * kernels * 3 launches of this length are a step's, and one for each layer is the optimizer's."""
        torch.manual_seed(int(os.environ.get("SEED", "1")))
        torch.set_num_threads(1)
        self.gpu = gpu
        self.microseconds = microseconds
        self.layers = [Layer(gpu, microseconds, kernels) for _ in range(layers)]
        self.model = nn.Sequential(*self.layers, nn.Linear(WIDTH, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=True)
        self._backward = ThreadPoolExecutor(1, thread_name_prefix="autograd")

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The loss. batch: any shape with WIDTH columns."""
        return self.model(batch).square().mean()

    def backward(self, loss: torch.Tensor) -> None:
        """In a second thread, as for tensors on a GPU."""
        self._backward.submit(loss.backward).result()

    def update(self) -> None:
        """The optimizer's step."""
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.gpu.launch(self.microseconds, count=len(self.layers))

    def after_gradient(self, layer: int, hook: Callable[[], None]) -> None:
        """hook: called in the thread of backward() when the layer's gradient is there."""
        self.layers[layer].linear.weight.register_hook(lambda gradient: (hook(), gradient)[1])
