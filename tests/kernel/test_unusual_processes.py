"""Processes that /proc shows otherwise than usual: the main thread has ended, or a title has replaced the environment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.tenant_reads import TenantReads
from exporter.workloads.registry import WorkloadRegistry
from exporter.workloads.workload_process import WorkloadProcess
from tests.support.discovering import Scene, copied, discovering
from tests.support.held_calls import without_rank
from tests.support.named_cgroup import named_cgroup
from tests.support.patience import PATIENCE_SECONDS, line_of
from tests.support.placed import ENTER
from tests.support.traced import eventually

HERE = Path(__file__).parent
IDENTIFIER = f"{os.getpid():08x}" + "ef" * 28
OTHER_USER = 1000
# A worker that sets its rank itself, as those of torch.multiprocessing.spawn() and of Ray do.
SETS_ITS_RANK = """
import ctypes, os, sys
os.environ.update(RANK="5", WORLD_SIZE="8", LOCAL_RANK="1")
runtime = ctypes.CDLL(sys.argv[2])
print("ready", flush=True)
for _ in sys.stdin:
    for _ in range(23):
        runtime.cudaDeviceSynchronize()
    print("called", flush=True)
"""
VARIABLES = {"RANK": "5", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "run-7", "SLURM_JOB_ID": "4711"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled programs; `retitled-fixed` is at a fixed address, and so has its own copy of `environ`."""
    folder = tmp_path_factory.mktemp("programs")
    for name, source, *flags in (
        ("main_thread", "main_thread.c", "-pthread"),
        ("retitled", "retitled.c", "-fPIE", "-pie"),
        ("retitled-fixed", "retitled.c", "-fno-pie", "-no-pie"),
    ):
        command = ["cc", "-O2", "-Wall", "-Werror", *flags, HERE / source, "-o", folder / name, "-ldl"]
        subprocess.run(command, check=True)
    return folder


@dataclass
class Running:
    """A program that makes 23 calls at a time. tgid: of the process that makes them."""

    process: subprocess.Popen[str]
    first_line: str

    @property
    def tgid(self) -> int:
        return int(self.first_line) if self.first_line.isdecimal() else self.process.pid

    def call(self) -> None:
        """Make 23 calls."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert line_of(self.process) == "called\n"


@contextmanager
def running(
    program: Path, *arguments: str | Path, before: tuple[str, ...] = (), user: int | None = None, **variables: str
) -> Iterator[Running]:
    process = subprocess.Popen(
        [*before, program, *arguments],
        env={**without_rank(), "LD_LIBRARY_PATH": str(Path(arguments[0]).parent), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        user=user,
    )
    try:
        yield Running(process, line_of(process).strip())
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        with process:
            process.wait()


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Nothing attached yet."""
    with discovering() as found:
        yield found


def known(scene: Scene, tgid: int) -> WorkloadProcess:
    """What a registry finds out about the process, through a reader of its own."""
    reads = TenantReads(TenantReader(Processes(), PATIENCE_SECONDS), str, lambda: None)
    registry = WorkloadRegistry(Processes(), reads, "gpu7", 256)
    try:
        registry.admit(scene.tables.read_processes())
        registry.update_identities({})
    finally:
        reads.close()
    (number,) = (one for one, of_process in registry.tgids().items() if of_process == tgid)
    return registry._traced[number]


def main_thread_has_ended(program: Running) -> None:
    """A moment after pthread_join(3) has returned for it."""
    eventually(lambda: Processes().stat(program.tgid).state == "Z", "the main thread has ended")


@pytest.mark.parametrize("when", ["before", "after"])
class TestMainThreadEnded:
    """pthread_exit() in main(): /proc/TGID/maps and others are empty; other threads go on."""

    def test_calls_are_counted_as_long_as_it_runs(
        self, scene: Scene, programs: Path, tmp_path: Path, when: str
    ) -> None:
        """The library stays probed after many walks."""
        folder = copied(tmp_path / "lib")
        with running(programs / "main_thread", folder / "libcudart.so.12", when) as one:
            main_thread_has_ended(one)
            scene.walk_all()
            one.call()
            for _ in range(4):
                scene.walk_all()
            one.call()

            assert scene.calls(one.tgid)["cudaDeviceSynchronize"] == 46
            assert scene.probed(folder) == ["libcuda.so.1", "libcudart.so.12"]

    def test_rank_and_container_are_known(self, scene: Scene, programs: Path, tmp_path: Path, when: str) -> None:
        """Version 1 of cgroups shows the main thread in the root by then."""
        folder = copied(tmp_path / "lib")
        with (
            named_cgroup("v1", f"docker/{IDENTIFIER}") as cgroup,
            running(
                programs / "main_thread",
                folder / "libcudart.so.12",
                when,
                before=("sh", "-c", ENTER, str(cgroup)),
                **VARIABLES,
            ) as one,
        ):
            main_thread_has_ended(one)
            scene.walk_all()
            one.call()
            found = known(scene, one.tgid)

            assert (found.rank.rank, found.rank.run_id, found.container.id) == ("5", "run-7", IDENTIFIER)

    def test_its_programs_and_libraries_are_known(
        self, scene: Scene, programs: Path, tmp_path: Path, when: str
    ) -> None:
        """For the engine, and for a search of its Python environment."""
        folder = copied(tmp_path / "lib")
        reader = TenantReader(Processes(), PATIENCE_SECONDS)
        with running(programs / "main_thread", folder / "libcudart.so.12", when) as one:
            main_thread_has_ended(one)
            program = reader.programs(one.tgid)[0]
            libraries = reader.mapped_libraries(one.tgid)
            reader.close()

        assert (program.path, program.arguments[2]) == (str(programs / "main_thread"), when)
        assert str(folder / "libcudart.so") in libraries


class TestRankOfItsOwn:
    """No launcher has set a rank; the process sets it in os.environ."""

    @pytest.mark.parametrize(
        "inherited", [{}, {"SLURM_PROCID": "0", "SLURM_NTASKS": "16"}], ids=["none", "batch script"]
    )
    def test_rank_that_a_python_process_has_set_before_its_first_call_is_known(
        self, scene: Scene, tmp_path: Path, inherited: dict[str, str]
    ) -> None:
        """/proc shows only what it was started with."""
        folder = copied(tmp_path / "lib")
        python = (sys.executable, "-c", SETS_ITS_RANK)
        with running(Path("worker"), folder / "libcudart.so.12", before=python, **inherited) as one:
            assert b"WORLD_SIZE" not in Path(f"/proc/{one.tgid}/environ").read_bytes()
            scene.walk_all()
            one.call()
            rank = known(scene, one.tgid).rank

            assert (rank.rank, rank.local_rank, rank.world_size, rank.source) == ("5", "1", "8", "RANK")
            assert scene.calls(one.tgid)["cudaDeviceSynchronize"] == 23


class TestTitle:
    """The environment in /proc is overwritten before the first call."""

    @pytest.mark.parametrize("name", ["retitled", "retitled-fixed"])
    @pytest.mark.parametrize("who_and_title", [("own", "trainer"), ("own", "x" * 900), ("child", "trainer")])
    def test_variables_are_found_in_the_copy(
        self, scene: Scene, programs: Path, tmp_path: Path, name: str, who_and_title: tuple[str, str]
    ) -> None:
        """Rank, run id and Slurm job; also of a forked process whose parent has kept its environment."""
        folder = copied(tmp_path / "lib")
        with running(programs / name, folder / "libcudart.so.12", *who_and_title, **VARIABLES) as one:
            assert b"RANK=5" not in Path(f"/proc/{one.tgid}/environ").read_bytes()
            scene.walk_all()
            one.call()
            found = known(scene, one.tgid)

            assert (found.rank.rank, found.rank.world_size, found.rank.run_id) == ("5", "8", "run-7")
            assert found.slurm_job.id == "4711"

    def test_variables_of_another_user_s_process_are_found(self, scene: Scene, programs: Path) -> None:
        """The reader has three capabilities; reading memory takes one of them."""
        with tempfile.TemporaryDirectory() as name:  # unlike those of pytest, one that any user may search
            Path(name).chmod(0o755)
            folder = copied(Path(name, "lib"))
            shutil.copy(programs / "retitled", name)
            arguments = (folder / "libcudart.so.12", "own", "trainer")
            with running(Path(name, "retitled"), *arguments, user=OTHER_USER, **VARIABLES) as one:
                scene.walk_all()
                one.call()

                assert known(scene, one.tgid).rank.rank == "5"

    def test_engine_with_a_prefix_of_its_own_is_known(self, scene: Scene, programs: Path, tmp_path: Path) -> None:
        """The prefix is in the environment, which the title has replaced."""
        folder = copied(tmp_path / "lib")
        arguments = (folder / "libcudart.so.12", "own", "LLAMA::EngineCore_DP0")
        with running(programs / "retitled", *arguments, VLLM_PROCESS_NAME_PREFIX="LLAMA") as one:
            scene.walk_all()
            one.call()

            assert known(scene, one.tgid).engine == "vllm"
