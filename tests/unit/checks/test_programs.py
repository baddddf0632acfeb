"""checks.programs: the kinds of probes that are safe. Whether programs load is tested with a kernel."""

from __future__ import annotations

import pytest

from exporter.checks.check import CheckState
from exporter.checks.programs import arm64_probes, return_probes
from tests.unit.config.command_line import loaded


class TestReturnProbes:
    def test_disabled_ones_are_a_warning_with_the_flag(self) -> None:
        check = return_probes(loaded("--probes.returns=never"))

        assert check.state is CheckState.WARNING
        assert check.found.startswith("disabled by --probes.returns=never: ")
        assert check.remedy == "set --probes.returns=auto"


class TestArm64:
    @pytest.mark.parametrize(
        ("flags", "found"),
        [
            ((), "nothing is probed: on arm64, a kernel fault has been reported to"),
            (("--probes.on-arm64",), "on arm64, a kernel fault has been reported to"),
        ],
    )
    def test_arm64_has_a_warning(self, flags: tuple[str, ...], found: str) -> None:
        """`run` can start."""
        (check,) = arm64_probes(loaded(*flags), "aarch64")

        assert check.state is CheckState.WARNING
        assert check.found.startswith(found)

    def test_x86_64_has_no_such_check(self) -> None:
        assert list(arm64_probes(loaded(), "x86_64")) == []
