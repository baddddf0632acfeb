"""A job as JAX makes it: the driver's interface alone, batches of numpy, a step enqueued while the one before still runs."""

import time

import numpy as np
from driver import Driver
from gpu import LARGEST_BATCH
from inside import Inside
from steps import Steps

KERNELS, KERNEL_MICROSECONDS = 64, 480.0
BATCH_BYTES, METRICS_BYTES = 1 << 20, 64


def main() -> None:
    steps = Steps()
    device = Driver()
    inside = Inside(steps, device)
    stream, done = device.stream(), [device.event(), device.event()]
    batch, metrics = device.memory(LARGEST_BATCH * BATCH_BYTES), device.memory(4096)
    from_host, to_host = device.pinned(LARGEST_BATCH * BATCH_BYTES), device.pinned(4096)
    made = np.random.default_rng(steps.seed).standard_normal((256, 256), dtype=np.float32)
    hidden_seconds = 0.0
    for number in steps:
        inside.look()
        made = np.tanh(made)
        device.copy_in(batch, from_host, BATCH_BYTES, stream)
        device.launch(KERNEL_MICROSECONDS, stream, KERNELS)
        device.copy_out(to_host, metrics, METRICS_BYTES, stream)
        device.call("cuEventRecord", done[number % 2], stream)
        inside.host(hidden_seconds)
        if number:
            began = time.monotonic()
            device.call("cuEventSynchronize", done[(number - 1) % 2])
            if not inside.kind:
                hidden_seconds = time.monotonic() - began


if __name__ == "__main__":
    main()
