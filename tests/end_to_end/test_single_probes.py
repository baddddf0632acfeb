"""Single probes with the rights that are shipped: the kernel may take CAP_SYS_ADMIN to open each, and a child process has it.

On a kernel that does not take it (before 6.16, 6.1.146 and so on) there is no such child, and the same calls are counted.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.host.capabilities import Capability
from exporter.host.privileges import NEEDS, PLACING
from tests.support import held_calls
from tests.support.exporter_process import COMMAND, running
from tests.support.few_capabilities import event_openers, only_with
from tests.support.held_calls import fresh_rank
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import ROOT, need_command, need_tracing
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
NEEDED = tuple(need.capability for need in NEEDS)
UNIT = ROOT / "deploy/systemd/gpu-stall-exporter.service"
BY_ITSELF = ("--web.listen-address=127.0.0.1:0", "--history.path=none", "--recording.directory=none")
OPENS_ONE = "from exporter.kernel import uprobe_events; uprobe_events.open_one()"


@pytest.fixture(scope="module", autouse=True)
def _skip_unless_possible() -> None:
    need_tracing()
    need_command("setpriv", "util-linux")


def of_unit() -> list[Capability]:
    """Those that the systemd unit permits."""
    lines = re.findall(r"^CapabilityBoundingSet=(.+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return [Capability[label.removeprefix("CAP_")] for label in " ".join(lines).split()]


@pytest.fixture(scope="module")
def takes_more() -> bool:
    """Whether this kernel opens a single probe for CAP_SYS_ADMIN alone."""
    done = subprocess.run(
        [*only_with(*NEEDED), sys.executable, "-c", OPENS_ONE], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0 or b"KernelRefused" in done.stderr
    return done.returncode != 0


def permitted(tgid: int) -> int:
    """One bit for each."""
    (mask,) = re.findall(r"^CapPrm:\t(\w+)$", Path(f"/proc/{tgid}/status").read_text(encoding="ascii"), re.MULTILINE)
    return int(mask, 16)


def mask_of(*wanted: Capability) -> int:
    return sum(1 << one for one in wanted)


class TestRightsOfTheUnit:
    def test_every_call_is_counted(self, takes_more: bool) -> None:
        """20 of 20. The exporter has dropped what its child keeps, and that has nothing else."""
        rank = fresh_rank()
        with (
            held_calls.held_calls("cudaMalloc:20", rank=rank) as calls,
            running("--probes.attach=single", under=only_with(*of_unit())) as exporter,
        ):
            eventually(lambda: re.search("attached to .*/libcudart", exporter.logs), "its runtime is probed")
            calls.make()
            eventually(
                lambda: (
                    exporter.scrape().total("gpustall_cuda_operations_total", rank=rank, operation="cudaMalloc") == 20
                ),
                "its calls are counted",
            )
            tgid = exporter.process.pid
            found = [permitted(one) for one in event_openers(tgid)]
            own = permitted(tgid)

        assert own == mask_of(*NEEDED)
        assert found == ([mask_of(PLACING)] if takes_more else [])

    def test_frozen_exporter_has_no_such_child(self) -> None:
        """Nothing is attached any more."""
        with (
            held_calls.held_calls("cudaMalloc:20", rank=fresh_rank()),
            running("--probes.attach=single", "--probes.attach-once", under=only_with(*of_unit())) as exporter,
        ):
            assert event_openers(exporter.process.pid) == []
            assert "attached to " in exporter.logs


class Outcome:
    """Whether `run` comes to serve, and what it says if not."""

    def __init__(self, under: Sequence[str], *flags: str) -> None:
        command = [*under, *COMMAND, "run", *BY_ITSELF, "--recording.socket=none", *flags]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            lines: list[str] = []
            for line in process.stderr:
                lines.append(line)
                if "serving http" in line:
                    process.terminate()
                    process.stderr.read()
                    break
            process.wait(PATIENCE_SECONDS)
        self.serves = any("serving http" in line for line in lines)
        self.last_line = lines[-1] if lines else ""


def checked(under: Sequence[str], *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*under, *COMMAND, "check", *BY_ITSELF, *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


RIGHTS = {
    "root": (),
    "unit": only_with(*NEEDED, PLACING),
    "six": only_with(*NEEDED),
    "without PERFMON": only_with(*(one for one in NEEDED if one is not Capability.PERFMON)),
}
IN_THE_GATE = (("six", AttachKind.SINGLE), ("unit", AttachKind.SINGLE))
COMBINATIONS = [
    pytest.param(rights, kind, marks=() if (rights, kind) in IN_THE_GATE else pytest.mark.acceptance)
    for rights in RIGHTS
    for kind in ("auto", AttachKind.MULTI, AttachKind.SINGLE)
]


class TestCheck:
    """It places a probe with the rights that `run` will have."""

    @pytest.mark.parametrize(("rights", "kind"), COMBINATIONS)
    def test_it_agrees_with_run(self, rights: str, kind: str, takes_more: bool) -> None:
        flag = f"--probes.attach={kind}"
        done, run = checked(RIGHTS[rights], flag), Outcome(RIGHTS[rights], flag)

        assert (done.returncode == 0) == run.serves, (done.stdout, run.last_line)
        if (rights, kind) == ("six", AttachKind.SINGLE):
            assert run.serves != takes_more

    def test_both_name_what_is_missing(self, takes_more: bool) -> None:
        if not takes_more:
            pytest.skip("this kernel opens a single probe without CAP_SYS_ADMIN")
        done = checked(RIGHTS["six"], "--probes.attach=single")
        run = Outcome(RIGHTS["six"], "--probes.attach=single")

        assert "add CAP_SYS_ADMIN, without which this kernel opens no single uprobe" in " ".join(done.stdout.split())
        assert run.last_line.startswith(
            "gpu-stall-exporter: cannot open a uprobe: Permission denied; add CAP_SYS_ADMIN"
        )
