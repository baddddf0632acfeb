"""A wait for a file that lies on another machine is a wait for the network.

No such file system can be mounted on most machines that tests run on. So the programs are built once more, and told that
the file system of this machine's disk was one: what decides is tested, and tests/contract/test_network_file_systems.py
compares the numbers that it goes by.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.kernel.abi import ThreadState
from exporter.kernel.loader import OBJECTS_DIR
from tests.support import accounts
from tests.support.traced import Tracer, tracer

BPF = Path(__file__).parents[2] / "bpf"
WAITS = 50

Asleep = Callable[[Tracer, str], dict[ThreadState, int]]


@pytest.fixture
def asleep(waits_program: Path, tmp_path: Path) -> Asleep:
    """Runs the program in one way; by state, what is neither running nor waiting for a CPU."""

    def run(traced: Tracer, way: str) -> dict[ThreadState, int]:
        accounts.probe(traced, waits_program)
        files = {"WAITS_FILE": str(waits_program), "WAITS_SCRATCH": str(waits_program.with_name("scratch"))}
        account = accounts.run(traced, waits_program, "call", way, str(WAITS), environment=files)
        states_ns = account.call_ns("cudaEventRecord")
        found = {s: ns for s, ns in states_ns.items() if s not in (ThreadState.ON_CPU, ThreadState.RUNNABLE)}
        if not found:
            pytest.skip("this disk answers fifty times before the thread sleeps")
        return found

    return run


@pytest.fixture
def far_away(waits_program: Path, tmp_path: Path) -> Iterator[Tracer]:
    """Programs that take the disk for another machine's."""
    told = subprocess.run(["stat", "-f", "-c", "%t", waits_program], check=True, capture_output=True, text=True)
    shutil.copytree(OBJECTS_DIR, tmp_path / "objects")
    make = ["make", "-s", "-C", str(BPF), f"OUT={tmp_path / 'objects'}", "-W", "sched.bpf.c"]
    subprocess.run(
        [*make, f"CLANG=clang -DALSO_OF_NETWORK=0x{told.stdout.strip()}", str(tmp_path / "objects" / "sched.bpf.o")],
        check=True,
    )
    with tracer(objects_dir=tmp_path / "objects") as found:
        yield found


class TestFarAway:
    """Reads past the page cache, and pages that must be written before the call returns."""

    @pytest.mark.parametrize("way", ["reads", "fsync"])
    def test_file_of_another_machine_is_the_network(self, far_away: Tracer, asleep: Asleep, way: str) -> None:
        """Also where the kernel itself says that the thread waits for a disk."""
        assert accounts.share(asleep(far_away, way), ThreadState.SOCKET) > 0.9

    @pytest.mark.parametrize("way", ["reads", "fsync"])
    def test_file_of_this_machine_is_not(self, account_tracer: Tracer, asleep: Asleep, way: str) -> None:
        """The very same waits, by the programs as they are."""
        assert accounts.share(asleep(account_tracer, way), ThreadState.IO) > 0.9
