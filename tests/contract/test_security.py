"""Files that name capabilities agree, and no kernel program changes what a job does."""

from __future__ import annotations

import re
import subprocess

from docs.generate import ROOT
from exporter.host.privileges import NEEDS, PLACING
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_command

LABELS = [need.capability.label for need in NEEDS]
PROFILE = ROOT / "deploy/security/apparmor"
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
"""Helpers that act on a process."""


class TestCapabilities:
    """The same in every file."""

    def test_systemd_unit_has_them_as_bound(self) -> None:
        """And the one that old kernels take to place a probe."""
        unit = (ROOT / "deploy/systemd/gpu-stall-exporter.service").read_text(encoding="utf-8")

        assert re.findall(r"^CapabilityBoundingSet=(.+)$", unit, re.MULTILINE) == [" ".join(LABELS), PLACING.label]

    def test_apparmor_profile_has_these_and_two_for_the_start(self) -> None:
        """setgroups(2) and the bounding set, before all others are dropped; and that of old kernels."""
        profile = PROFILE.read_text(encoding="utf-8")
        named = {f"CAP_{name.upper()}" for name in re.findall(r"^ +capability (\w+),$", profile, re.MULTILINE)}

        assert named == {*LABELS, PLACING.label, "CAP_SETGID", "CAP_SETPCAP"}


class TestAppArmor:
    """deploy/security/apparmor."""

    def test_its_parser_accepts_it(self) -> None:
        """The parser compiles it and loads nothing: the kernel need not have AppArmor."""
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
    """Kernel programs."""

    def test_no_program_uses_a_helper_that_changes_what_a_job_does(self) -> None:
        """They only measure."""
        assert not CHANGING & set(re.findall(r"\bbpf_\w+(?=\()", SOURCES))
