"""Fixtures of the tests that load programs into the running kernel. Nothing here is mocked."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import standin
from exporter.kernel.loader import BTF, OBJECTS_DIR, AttachKind
from tests.support.accounts import compiled
from tests.support.traced import Tracer, tracer

ROOT = Path(__file__).parent.parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the kernel."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="session", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to load BPF programs: sudo make test")
    if not BTF.exists():
        pytest.skip(f"needs a kernel with BTF ({BTF})")
    if not standin.is_built():
        subprocess.run(["make", "-s", "-C", str(ROOT / "exporter" / "standin")], check=True)
    if not (OBJECTS_DIR / "nccl.bpf.o").exists():
        subprocess.run(["make", "-s", "-C", str(ROOT / "bpf")], check=True)


# This kernel takes 0.1 s to remove a perf event, two of which make a single probe: only what these tests call is probed so.
FEW = ("cudaEventRecord", "cudaStreamSynchronize", "cudaLaunchKernel", "cudaMalloc", "cudaFree", "cuLaunchKernel",
       "cuStreamQuery", "ncclCommInitRank", "ncclAllReduce")  # fmt: skip


@pytest.fixture(params=list(AttachKind))
def traced(request: pytest.FixtureRequest) -> Iterator[Tracer]:
    """Probes on the stand-in's libraries, by each attachment kind in turn; at least on the functions in FEW."""
    with tracer(request.param) as found:
        found.attach_standin(FEW if request.param is AttachKind.SINGLE else None)
        yield found


@pytest.fixture(scope="session")
def waits_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Waits in known ways; exports the functions it is probed on."""
    return compiled(Path(__file__).with_name("waits.c"), tmp_path_factory.mktemp("waits"))


@pytest.fixture(scope="session")
def chains_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step thread that waits for others; exports the functions it is probed on."""
    return compiled(Path(__file__).with_name("chains.c"), tmp_path_factory.mktemp("chains"))


@pytest.fixture
def account_tracer() -> Iterator[Tracer]:
    """All programs, attached to nothing yet."""
    with tracer() as found:
        yield found


@pytest.fixture
def best_traced() -> Iterator[Tracer]:
    """Probes on the stand-in's libraries, by the best kind this kernel has."""
    with tracer() as found:
        found.attach_standin()
        yield found
