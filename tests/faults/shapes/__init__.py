"""Jobs of many shapes, each with a program of its own: real PyTorch, numpy, processes and threads on the stand-in GPU.

Every second one is held out. `python -m tests.faults.shapes` lists them, `--try [NAME]` runs them with what they offer.
programs/ holds the programs; inside.py there says how a fault is switched on, steps.py what is logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.faults.shapes.shape import BUILD, COMPILER, NUMPY, PROGRAMS, PYTHON, TORCH, InsideFault, Shape

__all__ = ["SHAPES", "InsideFault", "Shape"]

_F = InsideFault
_STEP = frozenset(
    {_F.SLEEP, _F.PYTHON, _F.LOCK_HOLDER_SLEEPS, _F.LOCK_HOLDER_COMPUTES, _F.CHECKPOINT, _F.CHURN, _F.PAGEABLE_COPY}
    | {_F.SLOW_GPU, _F.PAUSE, _F.BATCH_SIZE, _F.LONGER_SEQUENCES, _F.MORE_LOGGING}
)
"""What every program can bring about in its step."""
_HOST = _STEP | {_F.GIL, _F.FILE_LOCK, _F.GC, _F.SUBPROCESS, _F.EPOLL, _F.RECOMPILATION, _F.LOG_PIPE}
"""The same of a Python program."""
_THREADS = frozenset({_F.WORKER_SLEEPS, _F.WORKER_COMPUTES})
_WORKERS = _THREADS | {_F.WORKER_READS_DISK, _F.WORKER_FAULTS_PAGES}
_CLIENTS = frozenset({_F.FEWER_REQUESTS, _F.MORE_REQUESTS})
_RANKS = frozenset({_F.STRAGGLER, _F.HANG})


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
    Shape(
        "torch-ddp",
        "PyTorch's DistributedDataParallel on two ranks: buckets reduced beside the backward pass, gloo for control",
        _python("torch_ddp.py", "2"),
        step_seconds=0.026,
        offers=_HOST | _RANKS,
        ranks=2,
        needs=TORCH,
    ),
    Shape(
        "gradient-accumulation",
        "PyTorch that updates its weights after four micro steps",
        _python("accumulation.py"),
        step_seconds=0.066,
        offers=_HOST,
        is_held_out=True,
        needs=TORCH,
    ),
    Shape(
        "compiled",
        "20 slow steps of compilation, then a CUDA graph in each step",
        _python("compiled.py"),
        step_seconds=0.023,
        offers=_HOST,
        needs=TORCH,
    ),
    Shape(
        "lightning",
        "a loop with callbacks: an evaluation every 200 steps, a checkpoint every 300",
        _python("lightning.py"),
        step_seconds=0.0195,
        offers=_HOST | _WORKERS | {_F.EVALUATION},
        is_held_out=True,
        needs=TORCH,
    ),
    Shape(
        "jax",
        "the driver's interface alone, as a compiler's runtime uses it; the host is one step ahead of the GPU",
        _python("jax_like.py"),
        step_seconds=0.031,
        offers=_HOST,
        needs=NUMPY,
    ),
    Shape(
        "cpp-trainer",
        "a program in C++ whose batches are made by two threads",
        (str(BUILD / "cpp-trainer"),),
        step_seconds=0.024,
        offers=_STEP | _THREADS,
        is_held_out=True,
        needs=COMPILER,
        source="trainer.cc",
    ),
    Shape(
        "vllm",
        "a serving engine: bursts of requests, prefill and decode, tokens copied to the host",
        _python("vllm_like.py"),
        step_seconds=0.011,
        has_pauses=True,
        offers=_HOST | _CLIENTS,
        needs=NUMPY,
    ),
    Shape(
        "triton",
        "an inference server: dynamic batches, two instances of a model in threads",
        _python("triton_like.py"),
        step_seconds=0.010,
        has_pauses=True,
        offers=_HOST | _CLIENTS,
        is_held_out=True,
        needs=NUMPY,
    ),
    Shape(
        "notebook",
        "a notebook: cells of 60 to 120 steps with pauses between them",
        _python("notebook.py"),
        step_seconds=0.016,
        has_pauses=True,
        offers=_HOST,
        needs=TORCH,
    ),
    Shape(
        "variable-lengths",
        "sequences of different lengths, padded to a multiple of 64 tokens",
        _python("variable_lengths.py"),
        step_seconds=0.029,
        offers=_HOST | _WORKERS,
        is_held_out=True,
        needs=TORCH,
    ),
    Shape(
        "drifting",
        "steps that become 5 % longer in a minute",
        _python("plain.py", "12", "2", "300", "5"),
        step_seconds=0.026,
        offers=_HOST | {_F.EVALUATION},
        needs=TORCH,
    ),
    Shape(
        "long-steps",
        "steps of half a second, with 500 launches",
        _python("plain.py", "40", "4", "950", "0"),
        step_seconds=0.5,
        offers=_HOST | {_F.EVALUATION},
        is_held_out=True,
        needs=TORCH,
    ),
    Shape(
        "short-steps",
        "steps of about two milliseconds, with 12 launches",
        _python("plain.py", "3", "1", "90", "0"),
        step_seconds=0.0017,
        offers=_HOST | {_F.EVALUATION},
        needs=TORCH,
    ),
    Shape(
        "four-ranks",
        "sharded training on four ranks: weights are gathered and gradients scattered for each block",
        _python("sharded.py", "4"),
        step_seconds=0.0345,
        offers=_HOST | _RANKS,
        ranks=4,
        is_held_out=True,
        needs=TORCH,
    ),
    Shape(
        "files-loader",
        "batches from real files, read ahead with pread() by two threads",
        _python("files_loader.py"),
        step_seconds=0.026,
        offers=_HOST | _WORKERS,
        needs=TORCH,
    ),
    Shape(
        "reinforcement",
        "each step waits for an environment in another process",
        _python("reinforcement.py"),
        step_seconds=0.0215,
        offers=_HOST | _WORKERS,
        is_held_out=True,
        needs=TORCH,
    ),
)

SHAPES: Final[Mapping[str, Shape]] = {shape.name: shape for shape in _ALL}
