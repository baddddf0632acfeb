"""Two ranks that torchrun's agent starts and watches, with a loader each. Gradients are reduced in one piece, and clipped.

Without RANK this is the agent, with this file as its script. Argument: ranks.
"""

import os
import sys

import batches
import gpu
import torch
from inside import Inside
from model import Training
from steps import Steps
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch_ddp import communicator

LAYERS, KERNEL_MICROSECONDS = 14, 380.0
GRADIENTS_FLOATS = 8 << 20


def launch(world: int) -> None:
    """Ends at SIGTERM, or with a rank."""
    os.environ["LAUNCHER"] = str(os.getpid())
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    # What torchrun's command line makes of its flags: in torch 1.13 it cannot read its own defaults with Python 3.11.
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=world, run_id="job", rdzv_backend="c10d", rdzv_endpoint="localhost:0"
    )
    try:
        elastic_launch(config, sys.executable)(__file__, str(world))
    except SignalException:
        sys.exit(0)


def train() -> None:
    """A rank."""
    steps = Steps()
    loader = batches.from_processes(steps, workers=1, milliseconds=6)
    device = gpu.Gpu(gpu.BLOCK, steps.rank)
    comm = communicator(steps, "env://")
    inside = Inside(steps, device)
    training = Training(device, LAYERS, KERNEL_MICROSECONDS)
    buffers, gradients = gpu.Buffers(device, 2 << 20), device.memory(4 * GRADIENTS_FLOATS)
    parameters = list(training.model.parameters())
    for _ in steps:
        inside.look()
        inside.before_collective()
        batch = next(loader)
        buffers.copy_in()
        training.backward(training.forward(batch))
        comm.all_reduce(gradients, GRADIENTS_FLOATS, None)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        training.update()
        buffers.read_back()
        inside.host()


if __name__ == "__main__":
    if "RANK" in os.environ:
        train()
    else:
        launch(int(sys.argv[1]))
