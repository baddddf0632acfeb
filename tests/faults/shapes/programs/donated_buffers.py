"""A job as JAX makes it with donated buffers: the driver's interface alone; a thread of the runtime polls events.

Each step's outputs are allocated in the order of the stream, and its inputs freed there. The host enqueues a step, then waits
for the metrics of the one before: for a lock that the thread releases when the event has passed. It looks every 0.1 ms.
"""

import ctypes
import queue
import threading
import time
from concurrent.futures import Future

import numpy as np
from driver import Driver
from gpu import LARGEST_BATCH, NOT_READY, CudaError
from inside import Inside
from steps import Steps

KERNELS, KERNEL_MICROSECONDS = 96, 760.0
BUFFERS, BUFFER_BYTES = 6, 64 << 20
BATCH_BYTES, METRICS_BYTES = 3 << 20, 1024
ASK_EVERY_SECONDS = 0.0001
Asked = tuple[ctypes.c_void_p, "Future[None]"]


class Results:
    """Futures of what the GPU copies to the host."""

    def __init__(self, device: Driver, context: ctypes.c_void_p) -> None:
        self._device, self._context = device, context
        self._asked: queue.Queue[Asked] = queue.Queue()
        threading.Thread(target=self._run, name="pjrt-events", daemon=True).start()

    def after(self, event: ctypes.c_void_p) -> "Future[None]":
        """Done when the event has passed."""
        done: Future[None] = Future()
        self._asked.put((event, done))
        return done

    def _run(self) -> None:
        self._device.call("cuCtxSetCurrent", self._context)
        while True:
            event, done = self._asked.get()
            while (code := self._device.library.cuEventQuery(event)) == NOT_READY:
                time.sleep(ASK_EVERY_SECONDS)
            if code:
                done.set_exception(CudaError(f"cuEventQuery: {code}"))
            else:
                done.set_result(None)


class State:
    """Weights and moments, which a step replaces."""

    def __init__(self, device: Driver, stream: ctypes.c_void_p) -> None:
        self._device, self._stream = device, stream
        self._buffers = self._made()

    def _made(self) -> list[ctypes.c_uint64]:
        made = [ctypes.c_uint64() for _ in range(BUFFERS)]
        for one in made:
            self._device.call("cuMemAllocAsync", ctypes.byref(one), ctypes.c_size_t(BUFFER_BYTES), self._stream)
        return made

    def step(self) -> None:
        """New buffers, the kernels that fill them, and an end for the old ones."""
        made = self._made()
        self._device.launch(KERNEL_MICROSECONDS, self._stream, KERNELS)
        for old in self._buffers:
            self._device.call("cuMemFreeAsync", old, self._stream)
        self._buffers = made


def main() -> None:
    steps = Steps()
    device, context = Driver(), ctypes.c_void_p()
    device.call("cuCtxGetCurrent", ctypes.byref(context))
    inside = Inside(steps, device)
    stream, events, results = device.stream(), [device.event(), device.event()], Results(device, context)
    state, batch, metrics = State(device, stream), device.memory(LARGEST_BATCH * BATCH_BYTES), device.memory(4096)
    from_host, to_host = device.pinned(LARGEST_BATCH * BATCH_BYTES), device.pinned(4096)
    chance = np.random.default_rng(steps.seed)
    before: Future[None] | None = None
    hidden_seconds = 0.0
    for number in steps:
        inside.look()
        np.sort(chance.integers(0, 50_000, (64, 512), dtype=np.int32), axis=1)  # documents, packed into rows
        device.copy_in(batch, from_host, BATCH_BYTES, stream)
        state.step()
        device.copy_out(to_host, metrics, METRICS_BYTES, stream)
        device.call("cuEventRecord", events[number % 2], stream)
        coming = results.after(events[number % 2])
        inside.host(hidden_seconds)
        if before is not None:
            began = time.monotonic()
            before.result()
            if not inside.kind:
                hidden_seconds = time.monotonic() - began
        before = coming


if __name__ == "__main__":
    main()
