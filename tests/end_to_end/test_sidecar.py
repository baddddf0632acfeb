"""In the pid namespace of a pod: processes outside are not traced, not counted and not named."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support import accounts, exporter_process
from tests.support.exporter_process import Exporter
from tests.support.exposition import Scrape
from tests.support.traced import eventually

pytestmark = pytest.mark.kernel

POD = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
JOB = ("--ranks=1", "--quiet", "--rank-from=env")


def _inside(exporter: Exporter) -> tuple[str, ...]:
    """A command that enters the pod."""
    tgid = exporter.process.pid
    (child,) = Path(f"/proc/{tgid}/task/{tgid}/children").read_text(encoding="ascii").split()
    return ("nsenter", f"--target={child}", "--pid", "--mount")


@contextmanager
def _job(trainer: Path, cpu: int, *around: str) -> Iterator[int]:
    """A trainer of one rank on that CPU, named after its file; its tgid in the test's namespace."""
    command = [*around, "taskset", "-c", str(cpu), trainer, *JOB]
    process = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Exporter, Scrape]]:
    """A sidecar beside its job, another tenant's job with the same libraries, and a program of the node on the same CPU.

    It is one of this test's: tests beside it have others.
    """
    cpu = max(os.sched_getaffinity(0))
    with ExitStack() as stack:
        exporter = stack.enter_context(exporter_process.running(under=POD))
        trainer = Path(standin.trainer_command()[0])
        tenant = tmp_path_factory.mktemp("tenant") / "tenant"
        tenant.symlink_to(trainer)
        stack.enter_context(_job(tenant, cpu))
        stack.enter_context(accounts.hogs(2, cpu=cpu))
        stack.enter_context(_job(trainer, cpu, *_inside(exporter)))

        def waited() -> Scrape | None:
            scrape = exporter.scrape()
            return scrape if scrape.total("gpustall_culprit_seconds_total", cause="cpu_contention") > 0.05 else None

        yield exporter, eventually(waited, "the job has waited for the CPU")


class TestSidecar:
    """One test scene for all: starting a pod takes seconds."""

    def test_only_processes_of_the_pod_are_tracked(self, pod: tuple[Exporter, Scrape]) -> None:
        """One rank; the other tenant's job makes the same calls."""
        _, scrape = pod

        assert scrape.total("gpustall_exporter_tracked_processes") == 1
        assert scrape.total("gpustall_exporter_map_entries", map="processes") == 1

    def test_pid_label_is_that_of_the_pod(self, pod: tuple[Exporter, Scrape]) -> None:
        """On the node the process has a larger number."""
        exporter, scrape = pod
        (pid,) = scrape.by("pid", "gpustall_workload_info")
        comm = subprocess.run(
            [*_inside(exporter), "cat", f"/proc/{pid}/comm"], check=True, capture_output=True, text=True
        )

        assert comm.stdout == "trainer\n"
        assert int(pid) < exporter.process.pid

    def test_culprits_outside_are_not_named(self, pod: tuple[Exporter, Scrape]) -> None:
        """Neither the other tenant's trainer nor the node's shell."""
        _, scrape = pod
        named = scrape.by("culprit", "gpustall_culprit_seconds_total").keys()

        assert "outside" in named
        assert not {"tenant", "sh"} & named

    def test_no_record_is_dropped(self, pod: tuple[Exporter, Scrape]) -> None:
        """Calls of the other tenant are not dropped records."""
        _, scrape = pod

        assert scrape.losses() == {}
