"""NVIDIA's own libraries, from the package index, with real probes. Without a GPU their calls fail, which is counted."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.kernel.abi import Api
from exporter.kernel.operations import OPERATIONS, wanted_symbols
from exporter.probes.discovery import Discovery
from exporter.probes.proc_walk import ProcWalk
from tests.support.held_calls import without_rank
from tests.support.requirements import ROOT, need_tracing
from tests.support.traced import only, tracer

pytestmark = [pytest.mark.nvidia, pytest.mark.end_to_end, pytest.mark.timeout(1200)]
CACHE = ROOT / "build" / "nvidia"
CALLS = 23

# Loads a library, says where its functions are, waits, makes its calls, and says what they returned.
PROGRAM = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
places = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value
          for name in json.loads(sys.argv[2]) if hasattr(library, name)}
print(json.dumps(places), flush=True)
sys.stdin.readline()
"""
RUNTIME_CALLS = """
memory, size = ctypes.c_void_p(), ctypes.c_size_t(4096)
back = ctypes.create_string_buffer(4096)
made = {name: [] for name in ("cudaMalloc", "cudaMemcpy", "cudaStreamSynchronize", "cudaDeviceSynchronize")}
for _ in range(23):
    made["cudaMalloc"].append(library.cudaMalloc(ctypes.byref(memory), size))
    made["cudaMemcpy"].append(library.cudaMemcpy(memory, back, size, 1))
    made["cudaStreamSynchronize"].append(library.cudaStreamSynchronize(None))
    made["cudaDeviceSynchronize"].append(library.cudaDeviceSynchronize())
count, version = ctypes.c_int(-1), ctypes.c_int()
code = library.cudaGetDeviceCount(ctypes.byref(count))
library.cudaRuntimeGetVersion(ctypes.byref(version))
print(json.dumps({"made": made, "version": version.value, "devices": [code, count.value]}), flush=True)
sys.stdin.readline()
"""
NCCL_CALLS = """
class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]

unique, communicator, version = UniqueId(), ctypes.c_void_p(), ctypes.c_int()
library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
made = {name: [] for name in ("ncclCommInitRank", "ncclCommInitAll", "ncclAllReduce", "ncclGroupStart", "ncclGroupEnd")}
got = library.ncclGetUniqueId(ctypes.byref(unique))
for _ in range(23):
    made["ncclCommInitRank"].append(library.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0))
    made["ncclCommInitAll"].append(library.ncclCommInitAll(ctypes.byref(communicator), 1, None))
    made["ncclAllReduce"].append(library.ncclAllReduce(None, None, ctypes.c_size_t(4), 7, 0, None, None))
    made["ncclGroupStart"].append(library.ncclGroupStart())
    made["ncclGroupEnd"].append(library.ncclGroupEnd())
library.ncclGetVersion(ctypes.byref(version))
print(json.dumps({"made": made, "version": version.value, "unique_id": [got, any(bytes(unique))]}), flush=True)
sys.stdin.readline()
"""


class Outcome(NamedTuple):
    """The outcome of one program. places: wanted function -> address, by the dynamic linker. said: its own counts."""

    places: dict[str, int]
    said: dict[str, Any]
    counted: dict[str, int]
    errors: dict[tuple[str, int], int]
    losses: dict[str, int]
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Wheel:
    """An unpacked package."""

    name: str
    library: Path


def unpacked(package: str, library: str) -> Wheel:
    """A package's library, downloaded unless an earlier run did. library: pattern of its file's name."""
    name = package.replace("-", "_")
    CACHE.mkdir(parents=True, exist_ok=True)
    if not list(CACHE.glob(f"{name}-[0-9]*.whl")):
        command = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(CACHE), package)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"needs the package index: pip download {package}: {done.stderr.strip()[-300:]}")
    wheel = max(CACHE.glob(f"{name}-[0-9]*.whl"))
    folder = CACHE / wheel.name.partition("-py3")[0]
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            file = folder / member.filename
            if file.match(library) and not (file.exists() and file.stat().st_size == member.file_size):
                archive.extract(member, folder)
    return Wheel(folder.name, only(folder.rglob(library)))


@contextmanager
def _program(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", *command],
        env=without_rank(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def outcome(wheel: Wheel, api: Api, calls: str) -> Outcome:
    """Run a program that uses the library, discovered as the exporter discovers it."""
    with (
        tracer() as traced,
        _program(PROGRAM + calls, str(wheel.library), json.dumps(list(wanted_symbols(api)))) as made,
    ):
        assert made.stdin is not None
        assert made.stdout is not None
        discovery = Discovery(traced.kernel, Processes(), frozenset({api}), with_launches=True)
        reader = TenantReader(Processes(), patience_seconds=60.0)
        try:
            places = json.loads(made.stdout.readline())
            ProcWalk(discovery, Processes(), str).whole(reader)
            probed = only(one for one in discovery.probed() if one.path == str(wheel.library))
            assert probed.attachment is not None
            made.stdin.write("\n")
            made.stdin.flush()
            said = json.loads(made.stdout.readline())
            reading = traced.tables.read()
        finally:
            discovery.close()
            reader.close()
        numbers = [number for number, row in reading.processes.items() if row.tgid == made.pid]
        return Outcome(
            places,
            said,
            {OPERATIONS[k.operation].name: row.calls for k, row in reading.operations.items() if k.process in numbers},
            {(OPERATIONS[k.operation].name, k.code): n for k, n in reading.errors.items() if k.process in numbers},
            traced.losses(),
            probed.attachment.functions,
        )


def report(capsys: pytest.CaptureFixture[str], wheel: Wheel, api: Api, found: Outcome) -> None:
    """Print one line, also when the test passes."""
    operations = [operation for operation in OPERATIONS if operation.api is api]
    present = sum(any(symbol in found.places for symbol in operation.symbols()) for operation in operations)
    codes = {name: sorted(set(codes)) for name, codes in found.said["made"].items()}
    with capsys.disabled():
        print(
            f"\n{wheel.name}: {wheel.library.name}, version {found.said['version']}: {present} of {len(operations)} operations,"
            f" {len(found.functions)} functions probed; {CALLS} calls each, codes {codes}"
        )


def errors_of(found: Outcome) -> dict[tuple[str, int], int]:
    """(operation, code) -> errors, by the program's own count."""
    return {
        (name, code): codes.count(code) for name, codes in found.said["made"].items() for code in set(codes) if code
    }


class TestRuntime:
    """libcudart of two generations."""

    @pytest.mark.parametrize(
        ("package", "library"),
        [("nvidia-cuda-runtime-cu12", "libcudart.so.12"), ("nvidia-cuda-runtime", "libcudart.so.1[3-9]")],
    )
    def test_calls_are_counted_with_the_codes_they_returned(
        self, package: str, library: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """23 of each; every wanted function that the dynamic linker finds is probed, once for each address."""
        need_tracing()
        wheel = unpacked(package, library)
        found = outcome(wheel, Api.RUNTIME, RUNTIME_CALLS)
        report(capsys, wheel, Api.RUNTIME, found)

        assert found.counted == dict.fromkeys(found.said["made"], CALLS)
        assert found.errors == errors_of(found)
        assert found.losses == {}
        assert set(found.functions) <= found.places.keys()
        assert {found.places[name] for name in found.functions} == set(found.places.values())
        assert len(found.functions) == len(set(found.places.values()))


class TestNccl:
    """libnccl, 350 MB."""

    def test_calls_are_counted_with_the_codes_they_returned(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A unique id is made without a GPU; a communicator is not."""
        need_tracing()
        wheel = unpacked("nvidia-nccl-cu12", "libnccl.so.2")
        found = outcome(wheel, Api.NCCL, NCCL_CALLS)
        report(capsys, wheel, Api.NCCL, found)

        assert found.said["unique_id"] == [0, True]
        assert {name: found.counted.get(name) for name in found.said["made"]} == dict.fromkeys(
            found.said["made"], CALLS
        )
        assert found.errors == errors_of(found)
        assert found.losses == {}
        assert {found.places[name] for name in found.functions} == set(found.places.values())
