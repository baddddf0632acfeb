"""Jobs of other shapes under the kernel's programs: their steps are in their own log, and their calls are traced."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.kernel.operations import OPERATIONS
from tests.faults.injectors import NotPossible
from tests.faults.shapes import SHAPES
from tests.faults.shapes.running import running
from tests.support.traced import STANDIN_LIBRARIES, Tracer

STEPS = 20


WITH_TORCH = pytest.mark.acceptance  # PyTorch or NumPy of the distribution, which make test does not install


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("cpp-trainer", "cudaLaunchKernel"),
        ("halo-exchange", "cudaMemcpyPeerAsync"),
        ("socket-ring", "ncclAllReduce"),
        pytest.param("torch-ddp", "ncclAllReduce", marks=WITH_TORCH),
        pytest.param("jax", "cuLaunchKernel", marks=WITH_TORCH),
        pytest.param("interleaved-pipeline", "ncclSend", marks=WITH_TORCH),
        pytest.param("overlapped-engine", "cudaGraphLaunch", marks=WITH_TORCH),
        pytest.param("donated-buffers", "cuMemAllocAsync", marks=WITH_TORCH),
        pytest.param("tensor-parallel-engine", "ncclAllReduce", marks=WITH_TORCH),
    ],
)
def test_steps_are_logged_and_calls_traced(name: str, operation: str, account_tracer: Tracer, tmp_path: Path) -> None:
    """Ranks in Python and C++, the driver alone, a child of a server: each rank logs its steps one by one, without a gap."""
    for api, library in STANDIN_LIBRARIES.items():
        shutil.copy2(standin.build_dir() / library, tmp_path)
        account_tracer.attach(api, tmp_path / library)
    (tmp_path / "job").mkdir()
    try:
        with running(SHAPES[name], tmp_path / "job", libraries=tmp_path) as run:
            run.wait_for_steps(STEPS)
            run.stop()
    except NotPossible as reason:
        pytest.skip(str(reason))
    steps = run.steps()
    traced = {OPERATIONS[key.operation].name for key in account_tracer.tables.read().operations}

    assert {step.rank for step in steps} == set(range(SHAPES[name].ranks))
    for rank in range(SHAPES[name].ranks):
        numbers = [step.step for step in steps if step.rank == rank]
        assert numbers == list(range(len(numbers)))
    assert operation in traced
