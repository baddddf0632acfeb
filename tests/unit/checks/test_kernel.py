"""checks.kernel: version, architecture, BTF, lockdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.checks import kernel
from exporter.checks.check import Check, CheckState


class TestVersion:
    @pytest.mark.parametrize(
        ("release", "machine", "state", "found"),
        [
            ("6.12.12-amd64", "x86_64", CheckState.OK, "6.12.12-amd64 on x86_64"),
            ("6.1.0", "aarch64", CheckState.OK, "6.1.0 on aarch64"),
            (
                "5.15.0-91-generic",
                "x86_64",
                CheckState.OK,
                "5.15.0-91-generic on x86_64; older than 6.1, the oldest tested kernel",
            ),
            ("5.10.0", "x86_64", CheckState.FAILED, "5.10.0 on x86_64"),
            ("6.12.12", "riscv64", CheckState.FAILED, "6.12.12 on riscv64"),
        ],
    )
    def test_needs_kernel_5_15_on_x86_64_or_arm64(
        self, release: str, machine: str, state: CheckState, found: str
    ) -> None:
        check = kernel.version(release, machine)

        assert (check.state, check.found) == (state, found)


class TestBtf:
    def test_file_is_shown_with_its_size(self, tmp_path: Path) -> None:
        path = tmp_path / "vmlinux"
        path.write_bytes(bytes(5_516))

        assert kernel.btf(path) == Check("BTF", CheckState.OK, f"{path}, 5,516 bytes")

    def test_missing_file_fails(self, tmp_path: Path) -> None:
        check = kernel.btf(tmp_path / "vmlinux")

        assert (check.state, check.remedy) == (
            CheckState.FAILED,
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        )


class TestLockdown:
    @pytest.mark.parametrize(
        ("mode", "states"),
        [("none", []), ("integrity", [CheckState.OK]), ("confidentiality", [CheckState.FAILED])],
    )
    def test_confidentiality_alone_keeps_run_from_starting(self, mode: str, states: list[CheckState]) -> None:
        assert [check.state for check in kernel.lockdown(mode)] == states
