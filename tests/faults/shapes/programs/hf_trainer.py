"""A loop as Hugging Face's Trainer runs it.

Its loader is one batch ahead; each step looks whether the loss is a number, clips gradients, and updates two groups of parameters
on a schedule. The loss is logged every 10 steps, and weights are saved every 250.
"""

import json

import batches
import gpu
import torch
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 24, 350.0
LOG_EVERY, SAVE_EVERY = 10, 250
WARM_UP_STEPS, LAST_STEP = 500, 1_000_000
WEIGHT_DECAY, LARGEST_NORM = 0.01, 1.0


class Trainer:
    """What Trainer.train() has at hand."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.loader = batches.from_processes(self.steps, workers=2, milliseconds=14)
        self.device = gpu.Gpu()
        self.inside = Inside(self.steps, self.device)
        self.training = Training(self.device, LAYERS, KERNEL_MICROSECONDS)
        self.buffers = gpu.Buffers(self.device, 1 << 20)
        self.parameters = list(self.training.model.parameters())
        groups = [
            {"params": [one for one in self.parameters if one.ndim > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [one for one in self.parameters if one.ndim == 1], "weight_decay": 0.0},
        ]
        self.training.optimizer = torch.optim.AdamW(groups, lr=5e-5)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.training.optimizer, self.rate)
        self.history: list[dict[str, float]] = []

    @staticmethod
    def rate(step: int) -> float:
        """Linear, after a linear warm-up."""
        return min((step + 1) / WARM_UP_STEPS, (LAST_STEP - step) / (LAST_STEP - WARM_UP_STEPS))

    def evaluate(self) -> None:
        with torch.no_grad():
            self.buffers.copy_in()
            self.training.forward(next(self.loader))
        self.buffers.read_back()

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        self.buffers.copy_in()
        loss = self.training.forward(batch)
        self.training.backward(loss)
        self.device.launch(5, count=2)
        self.buffers.read_back()  # `if torch.isnan(loss) or torch.isinf(loss)`
        return loss.detach()

    def update(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.parameters, LARGEST_NORM)
        self.device.launch(20, count=len(self.parameters) // 2)
        self.training.update()
        self.schedule.step()

    def log(self, number: int, total: torch.Tensor) -> None:
        self.buffers.read_back()
        rate = self.schedule.get_last_lr()[0]
        self.history.append({"loss": round(total.item() / LOG_EVERY, 4), "learning_rate": rate, "step": number})
        print(self.history[-1], flush=True)

    def save(self) -> None:
        torch.save(self.training.model.state_dict(), self.steps.folder / "pytorch_model.bin")
        torch.save(self.training.optimizer.state_dict(), self.steps.folder / "optimizer.pt")
        (self.steps.folder / "trainer_state.json").write_text(json.dumps(self.history[-SAVE_EVERY:]), encoding="ascii")

    def train(self) -> None:
        following, total = next(self.loader), torch.zeros(())
        for number in self.steps:
            self.inside.look()
            self.inside.evaluate(self.evaluate)
            batch, following = following, next(self.loader)
            total += self.training_step(batch)
            self.inside.host()
            self.update()
            if number % LOG_EVERY == LOG_EVERY - 1:
                self.log(number, total)
                total.zero_()
            if number % SAVE_EVERY == SAVE_EVERY - 1:
                self.steps.end()
                self.save()


if __name__ == "__main__":
    Trainer().train()
