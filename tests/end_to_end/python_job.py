"""A job of one rank with steps of some milliseconds. From 15 s on its allocations are slow, or a call of it never returns.

usage: python_job.py slow|stuck|stuck_task|slow_requests

The last two make steps in tasks of asyncio; in the last one each waits for a request, which takes a second from 15 s on.
"""

import asyncio
import ctypes
import sys
import time

CALM_SECONDS = 15.0
SLOW_NS = 20_000_000
KERNEL_NS = 1_000_000
TO_DEVICE = 1

runtime = ctypes.CDLL("libcudart.so.12", ctypes.RTLD_GLOBAL)
driver = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)


class Dim3(ctypes.Structure):
    """Sizes of a grid or block."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


runtime.cudaMemcpyAsync.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
runtime.cudaLaunchKernel.argtypes = (ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
driver.standin_set_delay.argtypes = (ctypes.c_char_p, ctypes.c_int64)
timed_kernel = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(driver, "standin_timed_kernel_mark")))


def launch(duration_ns: int) -> None:
    """Enqueues a kernel."""
    duration = ctypes.c_uint64(duration_ns)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
    runtime.cudaLaunchKernel(timed_kernel, Dim3(1, 1, 1), Dim3(1, 1, 1), arguments, 0, None)


def allocate() -> None:
    """Takes memory and gives it back."""
    memory = ctypes.c_void_p()
    runtime.cudaMalloc(ctypes.byref(memory), 1 << 20)  # allocates
    runtime.cudaFree(memory)


def train_step(batch: ctypes.c_void_p, kernel_ns: int) -> None:
    """A batch, some kernels, and a wait for them."""
    allocate()
    runtime.cudaMemcpyAsync(batch, ctypes.create_string_buffer(4096), 4096, TO_DEVICE, None)
    for _ in range(10):
        launch(kernel_ns)
    runtime.cudaStreamSynchronize(None)  # waits


async def answer(batch: ctypes.c_void_p, kernel_ns: int) -> None:
    """A step, for one request."""
    train_step(batch, kernel_ns)  # answers


async def request(seconds: float) -> None:
    """Waits for one."""
    await asyncio.sleep(seconds)  # a request


async def serve(batch: ctypes.c_void_p, fault: str) -> None:
    """Never returns."""
    began_at = time.monotonic()
    while True:
        is_calm = time.monotonic() - began_at < CALM_SECONDS
        await request(1.0 if not is_calm and fault == "slow_requests" else 0.0)
        kernel_ns = 3_600_000_000_000 if not is_calm and fault == "stuck_task" else KERNEL_NS
        await asyncio.create_task(answer(batch, kernel_ns), name="answer 7")  # serves


def main() -> None:
    """Never returns."""
    runtime.cudaSetDeviceFlags(4)  # cudaDeviceScheduleBlockingSync
    batch = ctypes.c_void_p()
    runtime.cudaMalloc(ctypes.byref(batch), 4096)
    if sys.argv[1] in ("stuck_task", "slow_requests"):
        asyncio.run(serve(batch, sys.argv[1]))
    began_at = time.monotonic()
    while True:
        is_calm = time.monotonic() - began_at < CALM_SECONDS
        if not is_calm and sys.argv[1] == "slow":
            driver.standin_set_delay(b"cuMemAlloc", SLOW_NS)
        kernel_ns = 3_600_000_000_000 if not is_calm and sys.argv[1] == "stuck" else KERNEL_NS
        train_step(batch, kernel_ns)  # steps


main()
