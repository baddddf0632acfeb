"""A loop as PyTorch Lightning runs it: callbacks, an evaluation every 200 steps, a checkpoint every 300."""

from collections.abc import Callable

import batches
import gpu
import torch
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 10, 250.0
EVALUATE_EVERY, EVALUATED_BATCHES = 200, 12
SAVE_EVERY = 300


class Trainer:
    """Runs the loop; what is done once in a while is a callback."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.device = gpu.Gpu(gpu.BLOCK)
        self.inside = Inside(self.steps, self.device)
        self.training = Training(self.device, LAYERS, KERNEL_MICROSECONDS)
        self.buffers = gpu.Buffers(self.device, 2 << 20)
        self.loader = batches.from_processes(self.steps, workers=1, milliseconds=4)
        self.callbacks: list[tuple[int, Callable[[], None]]] = [
            (EVALUATE_EVERY, self.evaluate),
            (SAVE_EVERY, self.save),
        ]

    def evaluate(self, count: int = EVALUATED_BATCHES) -> None:
        with torch.no_grad():
            for _ in range(count):
                batch = next(self.loader)
                self.buffers.copy_in()
                self.training.forward(batch)
                self.buffers.read_back()

    def save(self) -> None:
        torch.save(self.training.model.state_dict(), self.steps.folder / "last.ckpt")

    def fit(self) -> None:
        for number in self.steps:
            self.inside.look()
            self.inside.evaluate(lambda: self.evaluate(1))
            batch = next(self.loader)
            self.buffers.copy_in()
            self.training.backward(self.training.forward(batch))
            self.training.update()
            self.buffers.read_back()
            self.inside.host()
            for every, callback in self.callbacks:
                if number % every == every - 1:
                    self.steps.end()
                    callback()


if __name__ == "__main__":
    Trainer().fit()
