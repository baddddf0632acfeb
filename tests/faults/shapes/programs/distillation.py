"""A small model that learns from a large one: the teacher runs on a stream of its own, and the student waits for it on the GPU.

The host reads the student's loss back after each step, and evaluates every 40 steps.
"""

import batches
import gpu
import torch
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 10, 8200.0
TEACHER_KERNELS, TEACHER_MICROSECONDS = 60, 2000.0
EVALUATE_EVERY, EVALUATED_BATCHES = 40, 4


def main() -> None:
    steps = Steps()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers, loader = gpu.Buffers(device, 2 << 20), batches.in_memory(steps)
    teaching, taught = device.stream(), device.event()

    def teach() -> None:
        device.launch(TEACHER_MICROSECONDS, count=TEACHER_KERNELS, stream=teaching)
        device.record(taught, teaching)

    def evaluate() -> None:
        buffers.copy_in()
        with torch.no_grad():
            training.forward(next(loader))
        buffers.read_back()

    for number in steps:
        inside.look()
        inside.evaluate(evaluate)
        buffers.copy_in()
        teach()
        loss = training.forward(next(loader))
        device.wait_event(taught)
        training.backward(loss)
        training.update()
        buffers.read_back()
        inside.host()
        if number % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            steps.end()
            for _ in range(EVALUATED_BATCHES):
                evaluate()


if __name__ == "__main__":
    main()
