"""Jobs of many shapes, each with a program of its own: real PyTorch, numpy, processes and threads on the stand-in GPU.

Every second one is held out. `python -m tests.faults.shapes` lists them, `--try [NAME]` runs them with what they offer.
programs/ holds the programs; inside.py there says how a fault is switched on, steps.py what is logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.faults.shapes.shape import PROGRAMS, PYTHON, TORCH, InsideFault, Shape

__all__ = ["SHAPES", "InsideFault", "Shape"]

_F = InsideFault
_HOST = frozenset(
    {_F.GIL, _F.LOCK_HOLDER_SLEEPS, _F.LOCK_HOLDER_COMPUTES, _F.FILE_LOCK, _F.GC, _F.SLEEP, _F.PYTHON, _F.SUBPROCESS}
    | {_F.CHECKPOINT, _F.EPOLL, _F.RECOMPILATION, _F.CHURN, _F.PAGEABLE_COPY, _F.SLOW_GPU, _F.LOG_PIPE, _F.PAUSE}
    | {_F.BATCH_SIZE, _F.LONGER_SEQUENCES, _F.MORE_LOGGING}
)
"""What every Python program can bring about in its step."""
_WORKERS = frozenset({_F.WORKER_SLEEPS, _F.WORKER_COMPUTES, _F.WORKER_READS_DISK, _F.WORKER_FAULTS_PAGES})


def _python(program: str, *arguments: str) -> tuple[str, ...]:
    return (PYTHON, str(PROGRAMS / program), *arguments)


_ALL = (
    Shape(
        "torch-loader-processes",
        "PyTorch with DataLoader workers: 130 launches, backward in a second thread, the loss read in each step",
        _python("torch_loader.py", "processes"),
        step_seconds=0.042,
        offers=_HOST | _WORKERS,
        needs=TORCH,
    ),
    Shape(
        "torch-loader-threads",
        "PyTorch whose batches are made by threads of the same process",
        _python("torch_loader.py", "threads"),
        step_seconds=0.042,
        offers=_HOST | _WORKERS,
        is_held_out=True,
        needs=TORCH,
    ),
)

SHAPES: Final[Mapping[str, Shape]] = {shape.name: shape for shape in _ALL}
