"""A GAN: two models with an optimizer each, which learn by turns in each step; both losses are read."""

import batches
import gpu
import torch
from inside import Inside
from model import WIDTH, Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 3, 170.0


def main() -> None:
    steps = Steps()
    device = gpu.Gpu()
    inside = Inside(steps, device)
    generator = Training(device, LAYERS, KERNEL_MICROSECONDS, kernels=1)
    critic = Training(device, LAYERS, KERNEL_MICROSECONDS, kernels=1)
    to_image = torch.nn.Linear(1, WIDTH)
    buffers, losses = gpu.Buffers(device, 1 << 20), gpu.Buffers(device, 4096)
    loader = batches.in_memory(steps)
    for _ in steps:
        inside.look()
        real = next(loader)
        buffers.copy_in()
        fake = to_image(generator.model(torch.randn_like(real)))
        critic.optimizer.zero_grad(set_to_none=False)
        critic.backward(critic.forward(real) - critic.forward(fake.detach()))
        critic.update()
        losses.read_back()
        generator.backward(critic.forward(fake))
        generator.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
