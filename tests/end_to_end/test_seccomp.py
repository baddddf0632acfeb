"""deploy/security/seccomp.json: the exporter needs no other system call, and others are refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter import __version__
from tests.support import held_calls
from tests.support.exporter_process import running
from tests.support.held_calls import fresh_rank
from tests.support.requirements import need_tracing
from tests.support.traced import eventually
from tests.support.under_seccomp import libseccomp

pytestmark = pytest.mark.end_to_end
PROFILE = Path(__file__).parents[2] / "deploy/security/seccomp.json"
UNREACHABLE_URL = "http://127.0.0.1:9"


@pytest.fixture(scope="module", autouse=True)
def _skip_unless_possible() -> None:
    """Skip, naming what is missing."""
    need_tracing()
    if libseccomp() is None:
        pytest.skip("libseccomp.so.2 is missing: apt-get install libseccomp2")


def under_profile() -> Sequence[str]:
    """A command that runs another one, for which any other system call is fatal."""
    return (sys.executable, "-m", "tests.support.under_seccomp", str(PROFILE))


class TestProfile:
    """A system call that the profile does not allow kills the process."""

    def test_exporter_does_its_work(self, tmp_path: Path) -> None:
        """Probes, serves, pushes, writes, reloads its configuration, removes the probes, and ends as it should."""
        history = tmp_path / "state" / "history.sqlite"
        flags = (f"--history.path={history}", f"--otlp.endpoint={UNREACHABLE_URL}", "--web.enable-lifecycle")
        rank = fresh_rank()
        with (
            held_calls.held_calls("cudaMalloc:23", rank=rank) as calls,
            running(*flags, under=under_profile()) as exporter,
        ):
            calls.make()
            counted = ("gpustall_cuda_operations_total", {"rank": rank, "operation": "cudaMalloc"})
            eventually(lambda: exporter.scrape().total(counted[0], **counted[1]) == 23, "23 calls are counted")
            eventually(lambda: exporter.scrape().total("gpustall_exporter_history_success") == 1, "it is written")
            exporter.process.send_signal(signal.SIGHUP)
            eventually(lambda: "configuration reloaded" in exporter.logs, "it is read again")
            exporter.process.send_signal(signal.SIGUSR1)
            eventually(lambda: "all probes removed" in exporter.logs, "the probes are out")

            assert exporter.stop() == 0
            assert "no answer" in exporter.logs  # it has tried to push

    def test_installed_command_starts(self) -> None:
        """It is a script for sh."""
        command = Path(sys.executable).with_name("gpu-stall-exporter")
        done = subprocess.run([*under_profile(), command, "--version"], capture_output=True, text=True, check=False)

        assert (done.returncode, done.stdout) == (0, f"gpu-stall-exporter {__version__}\n")

    def test_other_system_calls_are_refused(self) -> None:
        """A new namespace, for one."""
        done = subprocess.run([*under_profile(), "unshare", "--net", "true"], check=False)

        assert done.returncode == -signal.SIGSYS
