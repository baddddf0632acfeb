"""What docs/security.md promises, the other files that name capabilities, and the sources of the programs agree."""

from __future__ import annotations

import re
import subprocess

from exporter.host.privileges import NEEDS
from tests.support.documents import ROOT
from tests.support.requirements import need_command

LABELS = [need.capability.label for need in NEEDS]
PROFILE = ROOT / "deploy/security/apparmor"
PATIENCE_SECONDS = 60
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
SOURCES = "".join(
    path.read_text(encoding="utf-8") for pattern in ("*.bpf.c", "lib/*.h") for path in (ROOT / "bpf").glob(pattern)
)
CHANGING = {
    "bpf_probe_write_user",
    "bpf_copy_to_user",
    "bpf_send_signal",
    "bpf_send_signal_thread",
    "bpf_send_signal_task",
    "bpf_override_return",
    "bpf_set_retval",
    "bpf_sys_bpf",
}
"""Helpers that reach into a process."""


class TestCapabilities:
    """Five, wherever they are named."""

    def test_page_has_them_with_reason_and_cost(self) -> None:
        """In the program's own words."""
        rows = re.findall(r"^\| `(CAP_\w+)` \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)

        plain = [(label, reason.replace("`", ""), cost.replace("`", "")) for label, reason, cost in rows]
        assert plain == [(need.capability.label, _plain(need.reason), _plain(need.cost)) for need in NEEDS]

    def test_systemd_unit_bounds_them(self) -> None:
        """To these."""
        unit = (ROOT / "deploy/systemd/gpu-stall-exporter.service").read_text(encoding="utf-8")

        assert re.findall(r"^CapabilityBoundingSet=(.+)$", unit, re.MULTILINE) == [" ".join(LABELS)]

    def test_apparmor_profile_has_these_and_two_to_let_go_with(self) -> None:
        """setgroups(2) and the bounding set, before anything else is done."""
        profile = PROFILE.read_text(encoding="utf-8")
        named = {f"CAP_{name.upper()}" for name in re.findall(r"^ +capability (\w+),$", profile, re.MULTILINE)}

        assert named == {*LABELS, "CAP_SETGID", "CAP_SETPCAP"}


class TestAppArmor:
    """deploy/security/apparmor."""

    def test_its_parser_takes_it(self) -> None:
        """It compiles it and loads nothing: the kernel here need not have AppArmor."""
        parser = need_command("apparmor_parser", "apparmor")
        done = subprocess.run(
            [parser, "--skip-kernel-load", "--skip-cache", "--quiet", PROFILE],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert done.returncode == 0, done.stderr


class TestPrograms:
    """What runs in the kernel."""

    def test_no_program_uses_a_helper_that_changes_what_a_job_does(self) -> None:
        """They measure."""
        assert not CHANGING & set(re.findall(r"\bbpf_\w+(?=\()", SOURCES))


def _plain(text: str) -> str:
    return text.replace("`", "")
