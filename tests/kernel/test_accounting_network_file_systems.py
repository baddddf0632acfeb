"""A wait for a file on a network file system is a network wait.

Most machines that run tests cannot mount one. So the programs are built again with the magic number of this machine's disk among
those of network file systems. tests/contract/test_network_file_systems.py checks the real numbers.
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
from tests.support.accounts import UNASKED
from tests.support.traced import Tracer, tracer

BPF = Path(__file__).parents[2] / "bpf"
WAITS = 50

Asleep = Callable[[Tracer, str], set[ThreadState]]


@pytest.fixture
def asleep(waits_program: Path, tmp_path: Path) -> Asleep:
    """Runs the program in one mode; returns the states of its sleeps."""

    def run(traced: Tracer, way: str) -> set[ThreadState]:
        accounts.probe(traced, waits_program)
        files = {"WAITS_FILE": str(waits_program), "WAITS_SCRATCH": str(waits_program.with_name("scratch"))}
        account = accounts.run(traced, waits_program, "call", way, str(WAITS), environment=files)
        found = account.call_ns("cudaEventRecord").keys() - UNASKED
        if not found:
            pytest.skip("this disk answers fifty times before the thread sleeps")
        return found

    return run


@pytest.fixture
def far_away(waits_program: Path, tmp_path: Path) -> Iterator[Tracer]:
    """Programs that count the disk's file system as a network file system."""
    magic = subprocess.run(["stat", "-f", "-c", "%t", waits_program], check=True, capture_output=True, text=True)
    shutil.copytree(OBJECTS_DIR, tmp_path / "objects")
    make = ["make", "-s", "-C", str(BPF), f"OUT={tmp_path / 'objects'}", "-W", "sched.bpf.c"]
    subprocess.run(
        [*make, f"CLANG=clang -DALSO_OF_NETWORK=0x{magic.stdout.strip()}", str(tmp_path / "objects" / "sched.bpf.o")],
        check=True,
    )
    with tracer(objects_dir=tmp_path / "objects") as found:
        yield found


class TestFarAway:
    """O_DIRECT reads, and fsync."""

    @pytest.mark.parametrize("way", ["reads", "fsync"])
    def test_file_on_a_network_file_system_is_a_network_wait(self, far_away: Tracer, asleep: Asleep, way: str) -> None:
        """Even if the kernel marks the thread as waiting for I/O."""
        states = asleep(far_away, way)

        assert ThreadState.SOCKET in states
        assert ThreadState.IO not in states

    @pytest.mark.parametrize("way", ["reads", "fsync"])
    def test_file_on_a_local_file_system_is_a_disk_wait(self, account_tracer: Tracer, asleep: Asleep, way: str) -> None:
        """The same waits with the unchanged programs."""
        states = asleep(account_tracer, way)

        assert ThreadState.IO in states
        assert ThreadState.SOCKET not in states
