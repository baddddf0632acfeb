"""The unit that we ship, under a systemd of its own: the exporter works with all of the unit's hardening."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import exposition
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_command, need_tracing
from tests.support.systemd_machine import SERVICE, STANDIN, UNIT, Machine, booted
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
SOCKET = UNIT.with_suffix(".socket")
EXPOSURE_MAX = 37  # tenths, of a hundred


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A machine with the unit as it is, except for a watchdog of 30 s."""
    need_tracing()
    for command, package in (("systemctl", "systemd"), ("nsenter", "util-linux"), ("unshare", "util-linux")):
        need_command(command, package)
    with booted("WatchdogSec=30") as found:
        yield found


def total(machine: Machine, name: str, **labels: str) -> float:
    """The sum of a metric's series, scraped now."""
    with urllib.request.urlopen(machine.url, timeout=PATIENCE_SECONDS) as response:  # noqa: S310 - our own address
        return exposition.of_text(response.read().decode()).total(name, **labels)


@contextmanager
def job(machine: Machine) -> Iterator[None]:
    """A training job in the same machine."""
    process = subprocess.Popen(
        [*machine.inside(), STANDIN / "trainer", "--ranks=1", "--quiet"],
        env={**os.environ, "LD_LIBRARY_PATH": str(STANDIN)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.acceptance
class TestService:
    """gpu-stall-exporter.service."""

    def test_active_means_that_it_serves(self, machine: Machine) -> None:
        """The exporter notifies systemd after its first tick."""
        assert machine.show("Type") == "notify"
        assert machine.show("StatusText") == "serving"
        assert total(machine, "gpustall_exporter_ticks_total") >= 1

    def test_job_is_traced_under_all_of_its_hardening(self, machine: Machine) -> None:
        """Its calls and waits are counted, with its rank."""
        with job(machine):
            eventually(
                lambda: total(machine, "gpustall_cuda_operations_total", rank="0") > 100, "its calls are counted"
            )
            eventually(
                lambda: total(machine, "gpustall_thread_time_seconds_total", rank="0") > 0, "its waits are counted"
            )

    def test_reload_reads_the_configuration(self, machine: Machine) -> None:
        """ExecReload=."""
        assert machine.run("systemctl", "reload", SERVICE).returncode == 0
        eventually(lambda: "configuration reloaded" in machine.logs, "it is")
        assert machine.show("ActiveState") == "active"

    def test_history_is_in_its_state_directory(self, machine: Machine) -> None:
        """Readable for the group that may read logs."""
        found = eventually(
            lambda: machine.run("stat", "-c", "%G %a", f"/var/lib/{SERVICE}/history.sqlite").stdout, "the file exists"
        )

        assert found == "adm 640\n"

    def test_it_has_six_capabilities(self, machine: Machine) -> None:
        """And cannot gain more: not even the one that the unit permits for old kernels."""
        status = machine.run("cat", f"/proc/{machine.show('MainPID')}/status").stdout

        assert re.findall(r"^(Cap(?:Prm|Eff|Bnd)):\t0*(\w+)$", status, re.MULTILINE) == [
            ("CapPrm", "1c010080004"),
            ("CapEff", "1c010080004"),
            ("CapBnd", "1c010280004"),
        ]
        assert "NoNewPrivs:\t1" in status

    def test_exporter_that_hangs_is_restarted(self, machine: Machine) -> None:
        """By the watchdog."""
        before = int(machine.show("NRestarts"))
        machine.run("kill", "-STOP", machine.show("MainPID"))

        eventually(lambda: int(machine.show("NRestarts")) > before, "it is restarted")
        eventually(lambda: machine.show("ActiveState") == "active", "it serves")

    def test_stop_is_clean_and_quick(self, machine: Machine) -> None:
        """Exit code 0, within two seconds; it can be started again."""
        began = time.monotonic()
        machine.run("systemctl", "stop", SERVICE)
        took_seconds = time.monotonic() - began

        assert (machine.show("Result"), machine.show("ExecMainStatus")) == ("success", "0")
        assert took_seconds <= 2
        assert machine.run("systemctl", "start", SERVICE).returncode == 0


class TestUnit:
    """The unit file."""

    def test_exposure_is_low(self) -> None:
        """By systemd's own measure, which is 96 without any hardening. What is left is what a tracer needs."""
        need_command("systemd-analyze", "systemd")
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(UNIT)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert done.returncode == 0, done.stdout[-500:] + done.stderr

    def test_systemd_finds_no_fault_in_it(self, tmp_path: Path) -> None:
        """systemd-analyze verify, for the unit as installed and for its socket."""
        need_command("systemd-analyze", "systemd")
        unit, listening = tmp_path / UNIT.name, tmp_path / SOCKET.name
        unit.write_text(UNIT.read_text().replace(f"/usr/local/bin/{SERVICE}", "/bin/true"))
        listening.write_text(SOCKET.read_text())
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(listening), str(unit)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, "")
