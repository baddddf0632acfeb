"""A graph of tasks as Dask runs it: a scheduler, two workers that parse text, and one with a GPU that fetches what they made.

All are processes of their own and talk over TCP. Argument: what a process is; without one it starts the others.
"""

import os
import queue
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Any

import gpu
import numpy as np
import steps as log
from inside import Inside
from worker import Disturbance

WORKERS, TASKS_EACH, FETCHED_AHEAD = 2, 2, 1
LINES, NUMBERS_EACH = 1500, 12
REPEATED = 8
KERNELS, KERNEL_MICROSECONDS = 64, 580.0
RESULT_BYTES = 8 << 10
PLACE_FILE, POLL_SECONDS = "scheduler", 0.01
Address = tuple[str, int]


def listener() -> Listener:
    """At a port that is free."""
    return Listener(("127.0.0.1", 0))


def schedule(folder: Path) -> None:
    """Knows who has what. Parsing is given to workers in advance, its results to the one with the GPU."""
    with listener() as listening:
        (folder / "place.new").write_text(str(listening.address[1]), encoding="ascii")
        (folder / "place.new").replace(folder / PLACE_FILE)
        members = [listening.accept() for _ in range(WORKERS + 1)]
    introduced = [(member, *member.recv()) for member in members]
    loaders: dict[Connection, Address] = {one: about for one, kind, about in introduced if kind == "worker"}
    gpu_worker, usual_file = next((one, about) for one, kind, about in introduced if kind == "gpu")
    keys, ready, is_waiting = iter(range(1 << 40)), [], False
    for loader in loaders:
        for _ in range(TASKS_EACH):
            loader.send((next(keys), usual_file))
    while True:
        for member in wait(members):
            assert isinstance(member, Connection)
            message = member.recv()
            if member is gpu_worker:
                is_waiting = True
            else:
                ready.append((member, message))
        if is_waiting and ready:
            loader, key = ready.pop(0)
            gpu_worker.send((key, loaders[loader]))
            loader.send((next(keys), usual_file))
            is_waiting = False


def scheduler_at(folder: Path) -> Connection:
    """A connection to the scheduler, once it is there."""
    while not (folder / PLACE_FILE).exists():
        time.sleep(POLL_SECONDS)
    return Client(("127.0.0.1", int((folder / PLACE_FILE).read_text(encoding="ascii"))))


class Parsed:
    """What a worker has made, which a thread sends to the one with the GPU."""

    def __init__(self) -> None:
        self._parts: dict[int, np.ndarray] = {}
        self._listening = listener()
        self.address = self._listening.address
        threading.Thread(target=self._serve, name="comm", daemon=True).start()

    def put(self, key: int, part: np.ndarray) -> None:
        self._parts[key] = part

    def _serve(self) -> None:
        with self._listening.accept() as asking:
            while True:
                asking.send(self._parts.pop(asking.recv()))


def parse(folder: Path) -> None:
    """A worker without a GPU."""
    scheduler, parsed = scheduler_at(folder), Parsed()
    scheduler.send(("worker", parsed.address))
    chance = np.random.default_rng(os.getpid())
    text = "\n".join(",".join(f"{number:.5f}" for number in chance.random(NUMBERS_EACH)) for _ in range(LINES))
    disturbance: Disturbance | None = None
    while True:
        key, usual_file = scheduler.recv()
        started_at = time.monotonic()
        disturbance = disturbance or Disturbance(log.Usual(usual_file), WORKERS)
        rows = np.array([[float(number) for number in line.split(",")] for line in text.split("\n")])
        disturbance.disturb(started_at)
        parsed.put(key, np.tile(rows, (REPEATED, 1)))
        scheduler.send(key)


def fetch(scheduler: Connection, into: "queue.Queue[np.ndarray]") -> None:
    """The worker's event loop: gets the next part while another one is computed."""
    connections: dict[Address, Connection] = {}
    while True:
        scheduler.send("next")
        key, address = scheduler.recv()
        if address not in connections:
            connections[address] = Client(address)
        connections[address].send(key)
        into.put(connections[address].recv())


def compute(folder: Path) -> None:
    """The worker with the GPU."""
    steps = log.Steps()
    device = gpu.Gpu(gpu.BLOCK)
    inside = Inside(steps, device)
    scheduler = scheduler_at(folder)
    scheduler.send(("gpu", steps.usual_file))
    parts: queue.Queue[np.ndarray] = queue.Queue(maxsize=FETCHED_AHEAD)
    threading.Thread(target=fetch, args=(scheduler, parts), name="comm", daemon=True).start()
    memory, result = device.memory(64 << 20), gpu.Buffers(device, RESULT_BYTES)
    for _ in steps:
        inside.look()
        part = parts.get()
        size_bytes = round(part.nbytes * min(device.batch, gpu.LARGEST_BATCH))
        device.copy(memory.value, part.ctypes.data, size_bytes, gpu.TO_DEVICE)
        device.launch(KERNEL_MICROSECONDS, count=KERNELS)
        result.read_back(RESULT_BYTES)
        inside.host()


ROLES: dict[str, Any] = {"scheduler": schedule, "worker": parse, "gpu": compute}


def main() -> None:
    folder = Path(os.environ["STEP_LOG"]).parent
    if len(sys.argv) > 1:
        log.die_with_parent()
        ROLES[sys.argv[1]](folder)
        return
    log.end_at_sigterm()
    for role in ("scheduler", *["worker"] * WORKERS, "gpu"):
        subprocess.Popen([sys.executable, *sys.argv, role])
    _tgid, status = os.wait()
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
