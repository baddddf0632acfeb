"""kernel.refusals: what to do about a refused call, by the capabilities of this process and by kernel lockdown."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from exporter.kernel.refusals import LOCKDOWN_REMEDY, lockdown_mode, remedy_for

ROOT, BPF_AND_PERFMON, PTRACE = "000001ffffffffff", "000000c000000000", "0000000000080000"
NEEDS_CAPABILITIES = "run as root, or with CAP_BPF and CAP_PERFMON"


class TestRemedy:
    def remedy(self, tmp_path: Path, capabilities: str, code: int, seccomp: str = "0", mode: str = "none") -> str:
        status = tmp_path / "status"
        status.write_text(f"Name:\tpython\nCapPrm:\t{ROOT}\nCapEff:\t{capabilities}\nSeccomp:\t{seccomp}\n")
        return remedy_for("bpf(2)", code, status=status, mode=mode)

    @pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES])
    def test_missing_capability_is_named(self, tmp_path: Path, code: int) -> None:
        assert self.remedy(tmp_path, PTRACE, code) == NEEDS_CAPABILITIES

    @pytest.mark.parametrize("capabilities", [ROOT, BPF_AND_PERFMON, f"{1 << 21:016x}"])
    def test_with_the_capabilities_something_else_refuses_the_call(self, tmp_path: Path, capabilities: str) -> None:
        """CAP_SYS_ADMIN stands for both."""
        remedy = self.remedy(tmp_path, capabilities, errno.EPERM)

        assert remedy.startswith("its capabilities suffice, so SELinux or AppArmor refuses bpf(2): see `dmesg`")

    @pytest.mark.parametrize(("uid_map", "counts"), [("0 0 4294967295\n", True), ("0 100000 65536\n", False)])
    def test_capabilities_of_a_user_namespace_do_not_count(self, tmp_path: Path, uid_map: str, counts: bool) -> None:
        (tmp_path / "uid_map").write_text(uid_map)
        (tmp_path / "status").write_text(f"CapEff:\t{ROOT}\nSeccomp:\t0\n")
        remedy = remedy_for(
            "bpf(2)", errno.EPERM, status=tmp_path / "status", uid_map=tmp_path / "uid_map", mode="none"
        )

        assert remedy.startswith("its capabilities suffice" if counts else "capabilities of a user namespace do not")

    @pytest.mark.parametrize(("capabilities", "counts"), [(BPF_AND_PERFMON, True), (f"{1 << 21:016x}", False)])
    def test_what_only_cap_sys_admin_may_do_has_a_remedy_of_its_own(
        self, tmp_path: Path, capabilities: str, counts: bool
    ) -> None:
        """With it, something else refuses the call."""
        (tmp_path / "status").write_text(f"CapEff:\t{capabilities}\nSeccomp:\t0\n")
        remedy = remedy_for("bpf(2)", errno.EACCES, without_sys_admin="add it", status=tmp_path / "status", mode="none")

        assert (remedy == "add it") is counts

    def test_seccomp_filter_of_the_process_is_named(self, tmp_path: Path) -> None:
        remedy = self.remedy(tmp_path, ROOT, errno.EPERM, seccomp="2")

        assert "so the seccomp filter of this process, SELinux or AppArmor refuses bpf(2)" in remedy

    @pytest.mark.parametrize("code", [errno.EPERM, errno.EINVAL])
    def test_lockdown_is_the_reason_whatever_the_error(self, tmp_path: Path, code: int) -> None:
        """A program that reads kernel memory is invalid then."""
        assert self.remedy(tmp_path, ROOT, code, mode="confidentiality") == LOCKDOWN_REMEDY

    def test_other_errors_and_integrity_have_no_remedy(self, tmp_path: Path) -> None:
        assert self.remedy(tmp_path, ROOT, errno.ENOMEM, mode="integrity") == ""


class TestLockdown:
    @pytest.mark.parametrize(
        ("shown", "booted_with", "mode"),
        [
            ("none integrity [confidentiality]\n", "", "confidentiality"),
            ("none [integrity] confidentiality\n", "quiet lockdown=confidentiality", "integrity"),
            ("[none] integrity confidentiality\n", "", "none"),
            (None, "quiet lockdown=confidentiality splash", "confidentiality"),
            (None, "quiet nolockdown=integrity", "none"),
            (None, None, "none"),
        ],
    )
    def test_mode_is_the_chosen_one_else_that_of_the_command_line(
        self, tmp_path: Path, shown: str | None, booted_with: str | None, mode: str
    ) -> None:
        """Containers seldom have securityfs."""
        for name, content in (("lockdown", shown), ("cmdline", booted_with)):
            if content is not None:
                (tmp_path / name).write_text(content)

        assert lockdown_mode(tmp_path / "lockdown", tmp_path / "cmdline") == mode
