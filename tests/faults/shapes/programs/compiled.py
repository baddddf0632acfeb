"""A compiled model: the first steps compile and run eagerly, later ones launch a CUDA graph."""

import ctypes

import batches
import busy
import gpu
from inside import Inside
from model import Training
from steps import Steps

COMPILED_STEPS = 20
COMPILE_SECONDS = 0.12
LAYERS, KERNEL_MICROSECONDS = 10, 320.0
GRAPH_KERNELS = 60


def main() -> None:
    steps = Steps()
    device = gpu.Gpu()
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers = gpu.Buffers(device, 2 << 20)
    loader = batches.in_memory(steps)
    graph, stream, scale = ctypes.c_void_p(), device.stream(), 0.0
    for number in steps:
        inside.look()
        buffers.copy_in()
        if number < COMPILED_STEPS:
            busy.compute(COMPILE_SECONDS)
            training.backward(training.forward(next(loader)))
            training.update()
        else:
            if device.scale != scale:
                scale = device.scale
                with device.captured(stream, graph):
                    device.launch(KERNEL_MICROSECONDS, stream, count=GRAPH_KERNELS)
            device.launch_graph(graph)
            device.launch(KERNEL_MICROSECONDS, count=LAYERS)
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    main()
