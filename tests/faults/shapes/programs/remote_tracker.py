"""Training whose metrics go to a collector over HTTP, in each step and before the next one."""

import http.client
import json
import socket
import subprocess
import sys
from pathlib import Path

import batches
import gpu
from inside import Inside
from model import Training
from steps import Steps

LAYERS, KERNEL_MICROSECONDS = 7, 460.0
PATIENCE_SECONDS = 60
_COLLECTOR = Path(__file__).with_name("collector.py")


class Tracker:
    """A connection that is kept. The collector is no child, which would be a worker of the job."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            line = ["setsid", "--fork", sys.executable, str(_COLLECTOR), str(listener.fileno())]
            subprocess.run(line, pass_fds=[listener.fileno()], check=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Returns when the collector has them."""
        body = json.dumps({"run": "r7", "step": step, "metrics": metrics}).encode()
        self._connection.request("POST", "/api/metrics", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        if answer.status != http.client.OK:
            raise SystemExit(f"the collector says {answer.status}")
        answer.read()


def norms(training: Training) -> dict[str, float]:
    """The norm of the gradients of each layer."""
    return {f"grad_norm/{name}": float(one.grad.norm()) for name, one in training.model.named_parameters()}


def main() -> None:
    steps = Steps()
    tracker = Tracker()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    training, loader = Training(device, LAYERS, KERNEL_MICROSECONDS), batches.in_memory(steps)
    buffers = gpu.Buffers(device, 1 << 20)
    for number in steps:
        inside.look()
        buffers.copy_in()
        loss = training.forward(next(loader))
        training.backward(loss)
        rate = float(training.optimizer.param_groups[0]["lr"])
        metrics = {"loss": loss.item(), "learning_rate": rate, **norms(training)}
        training.update()
        buffers.read_back(256)
        inside.host()
        tracker.log(number, metrics)


if __name__ == "__main__":
    main()
