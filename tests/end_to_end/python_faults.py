"""A training job in Python of which one line becomes slow; a thread of its own reports which one it is.

usage: python_faults.py FAULT. The fault begins after CALM_SECONDS. Some seconds later the job prints one JSON document: the line
at which its main thread has spent so much more of its time than before than at no other one. It goes on until it is killed.
"""

import ctypes
import gc
import json
import multiprocessing
import os
import queue
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

CALM_SECONDS = 14.0
WARM_SECONDS = 2.0
MEASURED_SECONDS = 4.0
WATCHED_SECONDS = 0.002
LONGEST_SECONDS = 1.0  # between two samples, unless the whole process is stopped
SLOW_SECONDS = 0.03
KERNEL_NS = 1_000_000
TO_DEVICE = 1
MAIN_THREAD = threading.get_ident()

began_at = time.monotonic()
runtime = ctypes.CDLL("libcudart.so.12", ctypes.RTLD_GLOBAL)
driver = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)


class Dim3(ctypes.Structure):
    """Sizes of a grid or block."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


runtime.cudaMemcpyAsync.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
runtime.cudaLaunchKernel.argtypes = (ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
driver.standin_set_delay.argtypes = (ctypes.c_char_p, ctypes.c_int64)
timed_kernel = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(driver, "standin_timed_kernel_mark")))


def is_faulty():
    return time.monotonic() - began_at > CALM_SECONDS


def launch(duration_ns):
    duration = ctypes.c_uint64(duration_ns)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
    runtime.cudaLaunchKernel(timed_kernel, Dim3(1, 1, 1), Dim3(1, 1, 1), arguments, 0, None)


class Job:
    """One step: a batch, a copy, memory, kernels, and a wait for them. Each fault changes one part."""

    kernel_ns = KERNEL_NS

    def __init__(self):
        runtime.cudaSetDeviceFlags(4)  # cudaDeviceScheduleBlockingSync
        self.batch = ctypes.c_void_p()
        runtime.cudaMalloc(ctypes.byref(self.batch), 4096)
        self.host = ctypes.create_string_buffer(4096)

    def step(self):
        self.load()
        runtime.cudaMemcpyAsync(self.batch, self.host, 4096, TO_DEVICE, None)
        memory = ctypes.c_void_p()
        runtime.cudaMalloc(ctypes.byref(memory), 1 << 20)
        for _ in range(10):
            launch(self.kernel_ns)
        runtime.cudaStreamSynchronize(None)
        runtime.cudaFree(memory)

    def load(self):
        """Nothing, as of data in memory."""

    def begin_fault(self):
        """Called once."""


class SlowCall(Job):
    """The driver takes longer for one function. name: of the function."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def begin_fault(self):
        driver.standin_set_delay(self.name, int(SLOW_SECONDS * 1e9))


class SlowLaunch(SlowCall):
    def begin_fault(self):
        driver.standin_set_delay(self.name, int(SLOW_SECONDS * 1e8))


class Stuck(Job):
    """A kernel that takes an hour."""

    def begin_fault(self):
        self.kernel_ns = 3_600_000_000_000


class Computing(Job):
    """Code of the job itself takes longer."""

    rounds = 2_000

    def load(self):
        total = 0
        for number in range(self.rounds):
            total += number * number % 7
        return total

    def begin_fault(self):
        self.rounds = 400_000


class Contended(Job):
    """Each step computes for some milliseconds, on a CPU that another program takes."""

    def __init__(self):
        cpu = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpu})
        super().__init__()

    def load(self):
        return self.augment()

    def augment(self):
        total = 0
        for number in range(400_000):
            total += number * number
        return total

    def begin_fault(self):
        for _ in range(2):
            subprocess.Popen([sys.executable, "-c", "import os; os.nice(-20)\nwhile True: pass"])


class Garbage(Job):
    """Each step collects, and the heap has become large."""

    def __init__(self):
        super().__init__()
        self.heap = []

    def load(self):
        gc.collect()

    def begin_fault(self):
        gc.disable()  # to make it fast
        self.heap = [[number] for number in range(3_000_000)]
        gc.enable()


class Sleeping(Job):
    """Such as a retry in a library with a fixed delay."""

    seconds = 0.0005

    def load(self):
        time.sleep(self.seconds)

    def begin_fault(self):
        self.seconds = SLOW_SECONDS


class Locked(Job):
    """Another thread holds a lock for longer."""

    held_seconds = 0.0001

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        threading.Thread(target=self.hold, daemon=True).start()

    def hold(self):
        while True:
            with self.lock:
                time.sleep(self.held_seconds)
            time.sleep(0.001)

    def load(self):
        with self.lock:
            return

    def begin_fault(self):
        self.held_seconds = SLOW_SECONDS


class Queued(Job):
    """A thread makes batches, and becomes slow."""

    seconds = 0.0005

    def __init__(self):
        super().__init__()
        self.batches = queue.Queue(2)
        threading.Thread(target=self.produce, daemon=True).start()

    def produce(self):
        while True:
            time.sleep(self.seconds)
            self.batches.put(b"x" * 4096)

    def load(self):
        return self.batches.get()

    def begin_fault(self):
        self.seconds = 2 * SLOW_SECONDS


def worker(connection):
    """A process that makes batches, after a pause of so many seconds."""
    while True:
        time.sleep(connection.recv())
        connection.send_bytes(b"x" * 4096)


class Piped(Job):
    """A process of multiprocessing makes batches, and becomes slow."""

    seconds = 0.0005

    def __init__(self):
        super().__init__()
        self.connection, other = multiprocessing.get_context("fork").Pipe()
        multiprocessing.get_context("fork").Process(target=worker, args=(other,), daemon=True).start()

    def load(self):
        self.connection.send(self.seconds)
        return self.connection.recv_bytes()

    def begin_fault(self):
        self.seconds = SLOW_SECONDS


def squared(work):
    number, seconds = work
    time.sleep(seconds)
    return number * number


class Pooled(Job):
    """A pool of processes works on each batch, and becomes slow."""

    seconds = 0.0

    def __init__(self):
        self.pool = multiprocessing.get_context("fork").Pool(2)
        super().__init__()

    def load(self):
        return self.pool.map(squared, [(1, self.seconds), (2, self.seconds)])

    def begin_fault(self):
        self.seconds = SLOW_SECONDS


class Child(Job):
    """Each step runs a program, which becomes slow."""

    seconds = 0.001

    def load(self):
        subprocess.run(["sleep", str(self.seconds)], check=True)

    def begin_fault(self):
        self.seconds = SLOW_SECONDS


class Peer(Job):
    """Each step waits for the answer of a server, which becomes slow."""

    seconds = 0.0005

    def __init__(self):
        super().__init__()
        server = socket.create_server(("127.0.0.1", 0))
        self.client = socket.create_connection(server.getsockname())
        if os.fork() == 0:
            connection, _ = server.accept()
            while True:
                time.sleep(float(connection.recv(64)))
                connection.sendall(b"ok")

    def load(self):
        self.client.sendall(b"%f" % self.seconds)
        return self.client.recv(64)

    def begin_fault(self):
        self.seconds = SLOW_SECONDS


class Saved(Job):
    """Each step appends to a log that is on the disk at once, and the records become large."""

    record_bytes = 0

    def __init__(self):
        super().__init__()
        self.file = tempfile.TemporaryFile(dir=".")  # noqa: SIM115

    def load(self):
        if self.record_bytes:
            self.file.seek(0)
            self.file.write(random.randbytes(self.record_bytes))
        os.fsync(self.file.fileno())

    def begin_fault(self):
        self.record_bytes = 4 << 20


class Loaded(Job):
    """The workers of PyTorch's DataLoader become slow. workers: 0: the main thread does their work."""

    def __init__(self, workers):
        import torch.utils.data

        slow = self.slow = multiprocessing.get_context("fork").Value("d", 0.0)

        class Samples(torch.utils.data.IterableDataset):
            def __iter__(self):
                while True:
                    time.sleep(slow.value)
                    yield torch.zeros(16)

        loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=workers)
        self.batches = iter(loader)
        super().__init__()

    def load(self):
        return next(self.batches)

    def begin_fault(self):
        self.slow.value = SLOW_SECONDS


FAULTS = {
    "slow-malloc": lambda: SlowCall(b"cuMemAlloc"),
    "slow-free": lambda: SlowCall(b"cuMemFree"),
    "slow-copy": lambda: SlowCall(b"cuMemcpyHtoDAsync"),
    "slow-launch": lambda: SlowLaunch(b"cuLaunchKernel"),
    "stuck": Stuck,
    "computing": Computing,
    "contended": Contended,
    "garbage": Garbage,
    "sleeping": Sleeping,
    "locked": Locked,
    "queued": Queued,
    "piped": Piped,
    "pooled": Pooled,
    "child": Child,
    "peer": Peer,
    "saved": Saved,
    "loaded-by-workers": lambda: Loaded(2),
    "loaded-by-itself": lambda: Loaded(0),
}


def line_of_main_thread():
    """The innermost line of this file that the main thread is at."""
    frame = sys._current_frames().get(MAIN_THREAD)
    while frame is not None and frame.f_code.co_filename != __file__:
        frame = frame.f_back
    return (frame.f_lineno, frame.f_code.co_name) if frame is not None else (0, "")


def shares():
    """line -> part of the time. A line has the time until its sample: the main thread may have held the interpreter for long."""
    found = Counter()
    before = time.monotonic()
    while sum(found.values()) < MEASURED_SECONDS:
        time.sleep(WATCHED_SECONDS)
        line, now = line_of_main_thread(), time.monotonic()
        found[line] += min(now - before, LONGEST_SECONDS)
        before = now
    return {line: seconds / sum(found.values()) for line, seconds in found.items()}


def watch():
    """Runs in a thread."""
    time.sleep(WARM_SECONDS)
    before = shares()
    time.sleep(max(began_at + CALM_SECONDS + WARM_SECONDS - time.monotonic(), 0))
    now = shares()
    line, function = max(now, key=lambda line: now[line] - before.get(line, 0.0))
    print(json.dumps({"line": line, "function": function, "share": now[line, function]}), flush=True)


def main():
    """Never returns."""
    job = FAULTS[sys.argv[1]]()
    threading.Thread(target=watch, daemon=True).start()
    is_begun = False
    while True:
        if is_faulty() and not is_begun:
            is_begun = True
            job.begin_fault()
        job.step()


if __name__ == "__main__":
    main()
