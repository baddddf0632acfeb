"""Fixtures of the tests that load programs into the running kernel. Nothing here is mocked."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.app import open_files
from exporter.config.probes import AttachKind
from exporter.kernel.abi import Api
from exporter.kernel.loader import BTF, OBJECTS_DIR
from exporter.kernel.operations import wanted_symbols
from tests.faults.injectors import NotPossible, cgroups
from tests.support import hotplug, scripted_process
from tests.support.accounts import compiled
from tests.support.traced import STANDIN_LIBRARIES, Tracer, tracer

ROOT = Path(__file__).parent.parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="session", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to load BPF programs: sudo make test")
    if not BTF.exists():
        pytest.skip(f"needs a kernel with BTF ({BTF})")
    open_files.raise_limit()  # as `run` does: single probes take a descriptor each
    if not standin.is_built():
        subprocess.run(["make", "-s", "-C", str(standin.source_dir())], check=True)
    if not (OBJECTS_DIR / "nccl.bpf.o").exists():
        subprocess.run(["make", "-s", "-C", str(ROOT / "bpf")], check=True)


@pytest.fixture(scope="session")
def cpu(worker_id: str) -> int:
    """A CPU that this process may use. Workers of tests.side_by_side have different ones, as far as there are enough."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[int(worker_id.removeprefix("gw")) % len(cpus)] if worker_id != "master" else cpus[-1]


@pytest.fixture(scope="session")
def two_cpus() -> tuple[int, int]:
    """Two CPUs that this process may use."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    return cpus[0], cpus[1]


@pytest.fixture(scope="module")
def second_cpu() -> Iterator[None]:
    """A CPU that can go offline; it is online again at the end."""
    with hotplug.switchable():
        yield


# A kernel takes 0.1 s to remove a perf event, two of which make a single probe: only what these tests call is probed so.
FEW = ("cudaEventRecord", "cudaStreamSynchronize", "cudaLaunchKernel", "cudaMalloc", "cudaFree", "cuLaunchKernel",
       "cuStreamQuery", "ncclCommInitRank", "ncclAllReduce")  # fmt: skip

SINCE = {AttachKind.SESSION: (6, 13), AttachKind.MULTI: (6, 6), AttachKind.SINGLE: (0, 0)}
"""The first kernel with an attachment kind."""


@pytest.fixture(params=list(AttachKind))
def attach_kind(request: pytest.FixtureRequest) -> AttachKind:
    """Each attachment kind that this kernel version must support."""
    kind: AttachKind = request.param
    major, minor = platform.release().split(".")[:2]
    if (int(major), int(minor)) < SINCE[kind]:
        pytest.skip("needs kernel {}.{}, which has this kind of probe first".format(*SINCE[kind]))
    return kind


@pytest.fixture
def traced(attach_kind: AttachKind, request: pytest.FixtureRequest) -> Iterator[Tracer]:
    """Probes on the stand-in's libraries, for each attachment kind; single ones on those of FEW that the test's file names."""
    with tracer(attach_kind) as found:
        found.attach_standin(set(FEW) & _named(request.path) if attach_kind is AttachKind.SINGLE else None)
        yield found


@pytest.fixture(scope="session")
def waits_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with known waits, which exports the functions it is probed on."""
    return compiled(Path(__file__).with_name("waits.c"), tmp_path_factory.mktemp("waits"))


@pytest.fixture(scope="session")
def wakeups_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose step thread waits for others, which exports the functions it is probed on."""
    return compiled(Path(__file__).with_name("wakeups.c"), tmp_path_factory.mktemp("wakeups"))


@pytest.fixture
def cpu_group() -> Iterator[cgroups.Group]:
    """A cgroup of the cpu controller, in the hierarchy that has it."""
    try:
        with cgroups.group("cpu", "accounting") as found:
            yield found
    except NotPossible as reason:
        pytest.skip(str(reason))


@pytest.fixture
def account_tracer() -> Iterator[Tracer]:
    """All programs, attached to nothing yet."""
    with tracer() as found:
        yield found


@pytest.fixture
def best_traced(request: pytest.FixtureRequest) -> Iterator[Tracer]:
    """Probes on the stand-in's libraries, of the best kind of this kernel; single ones on what the test's file names."""
    with tracer() as found:
        found.attach_standin(_named(request.path) if found.kernel.attach_kind is AttachKind.SINGLE else None)
        yield found


def _named(file: Path) -> set[str]:
    """Symbols named in a file, and all that create communicators."""
    text = file.read_text(encoding="utf-8")
    symbols = {symbol for api in Api for symbol in wanted_symbols(api)}
    return {symbol for symbol in symbols if symbol in text or symbol.startswith("ncclComm")}


@pytest.fixture(scope="session")
def own_standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in's libraries and `calls`, as files that no other process maps."""
    folder = tmp_path_factory.mktemp("standin")
    for name in (*STANDIN_LIBRARIES.values(), "calls"):
        subprocess.run(["cp", standin.build_dir() / name, folder], check=True)
    return folder


@pytest.fixture
def own_traced(account_tracer: Tracer, own_standin: Path) -> Tracer:
    """Probes on these libraries, of the best kind of this kernel."""
    scripted_process.attach(account_tracer, own_standin)
    return account_tracer
