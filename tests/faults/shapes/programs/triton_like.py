"""An inference server as Triton is one: requests are put together to batches, which two instances of a model take in turns."""

import queue
import threading
import time

import gpu
import numpy as np
from arrivals import Arrivals
from inside import Inside
from steps import Steps

INSTANCES = 2
KERNELS, KERNEL_MICROSECONDS = 24, 400.0
MAX_BATCH, MAX_DELAY_SECONDS, MAX_QUEUED = 8, 0.002, 64
INPUT_BYTES, OUTPUT_BYTES = 600 << 10, 4000


def batch_of(requests: "queue.Queue[int]") -> int:
    """How many requests are in the next batch."""
    requests.get()
    until, count = time.monotonic() + MAX_DELAY_SECONDS, 1
    while count < MAX_BATCH:
        try:
            requests.get(timeout=max(until - time.monotonic(), 0))
        except queue.Empty:
            break
        count += 1
    return count


def serve(steps: Steps, device: gpu.Gpu, requests: "queue.Queue[int]") -> None:
    """One instance, with a stream of its own."""
    inside = Inside(steps, device)
    buffers, stream = gpu.Buffers(device, INPUT_BYTES), device.stream()
    image = np.random.default_rng(steps.seed).random((3, 64, 64), dtype=np.float32)
    while True:
        batch_of(requests)
        start_ns = time.monotonic_ns()
        inside.look()
        np.clip((image - 0.5) / 0.25, -2, 2)
        buffers.copy_in(stream=stream)
        device.launch(KERNEL_MICROSECONDS, stream, count=KERNELS)
        buffers.read_back(OUTPUT_BYTES, stream)
        inside.host()
        steps.add(start_ns)


def main() -> None:
    steps = Steps()
    arrivals = Arrivals("steady")  # the front end is there before the models
    device = gpu.Gpu(gpu.BLOCK)
    requests: queue.Queue[int] = queue.Queue(maxsize=MAX_QUEUED)
    for number in range(INSTANCES):
        threading.Thread(target=serve, args=(steps, device, requests), name=f"model-{number}", daemon=True).start()
    while True:
        for tokens in arrivals.take(waits=True):
            if not requests.full():
                requests.put(tokens)


if __name__ == "__main__":
    main()
