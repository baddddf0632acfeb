"""`python -m tests.support.short_workers METHOD WORKERS AT_ONCE`: workers of multiprocessing that make three calls each, and end.

METHOD: fork, spawn or forkserver. Each worker sets its rank in os.environ, as those of torch.multiprocessing.spawn() do.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys

CALLS = 3
RANKS = 8


def _work(number: int) -> None:
    os.environ["RANK"] = str(number % RANKS)
    runtime = ctypes.CDLL("libcudart.so.12")
    for _ in range(CALLS):
        runtime.cudaEventRecord(None, None)


def main(method: str, workers: int, at_once: int) -> None:
    """Returns when all of them have ended."""
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([__name__])
    running: list[multiprocessing.process.BaseProcess] = []
    for number in range(workers):
        if len(running) >= at_once:
            running.pop(0).join()
        worker = context.Process(target=_work, args=(number,))  # type: ignore[attr-defined]
        worker.start()
        running.append(worker)
    for worker in running:
        worker.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
