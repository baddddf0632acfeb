"""Which kernels hurt a probed process: by their version, from a table written by hand, and by experiment, which goes first."""

from __future__ import annotations

import pytest

from exporter.kernel import hazards
from exporter.kernel.hazards import Fate

DIES, SURVIVES, UNKNOWN = Fate.DIES, Fate.SURVIVES, Fate.UNKNOWN


class TestVersion:
    """Where the experiment cannot be made."""

    @pytest.mark.parametrize(
        ("release", "fate"),
        [
            ("5.15.0-91-generic", SURVIVES),
            ("6.1.0-56-amd64", SURVIVES),
            ("6.8.0-1021-aws", SURVIVES),
            ("6.10.14", SURVIVES),
            ("6.11.0-rc1", DIES),
            ("6.11.0-1011-aws", DIES),
            ("6.11.11", DIES),  # the last of its series, which ended in December 2024
            ("6.12.0", DIES),
            ("6.12.0-55.9.1.el10_0.x86_64", DIES),
            ("6.12.9+bpo-amd64", DIES),
            ("6.12.12-amd64", DIES),
            ("6.12.13", DIES),
            ("6.12.14", SURVIVES),
            ("6.12.38+deb13-amd64", SURVIVES),
            ("6.13.0-061300-generic", DIES),
            ("6.13.2-arch1-1", DIES),
            ("6.13.3-arch1-1", SURVIVES),
            ("6.13.12", SURVIVES),
            ("6.14.0-rc1", DIES),
            ("6.14.0-0.rc1.15.fc42.x86_64", DIES),
            ("6.14.0-rc2", SURVIVES),
            ("6.14.0-rc10", SURVIVES),
            ("6.14.0-27-generic", SURVIVES),
            ("6.17.0-14-generic", SURVIVES),
            ("6.18.44", SURVIVES),
            ("7.0", SURVIVES),
            ("custom", UNKNOWN),
            ("", UNKNOWN),
        ],
    )
    def test_on_x86_64(self, release: str, fate: Fate) -> None:
        """6.12.14, 6.13.3 and 6.14-rc2 are the first of their series with the repair."""
        assert hazards.fate_by_version("x86_64", release) is fate

    @pytest.mark.parametrize("release", ["6.11.0-1011-aws", "6.12.1", "6.13.0"])
    def test_on_arm64_a_return_is_no_system_call(self, release: str) -> None:
        """Whatever the version."""
        assert hazards.fate_by_version("aarch64", release) is SURVIVES


class TestJudgement:
    """What is made of both."""

    @pytest.mark.parametrize(
        ("experiment", "release", "fate"),
        [
            (SURVIVES, "6.11.0-29-generic", SURVIVES),  # the distribution has repaired it
            (DIES, "5.14.0-570.12.1.el9_6.x86_64", DIES),  # the distribution has taken the fault over
            (DIES, "6.11.0-17-generic", DIES),
            (UNKNOWN, "6.11.0-29-generic", DIES),
            (UNKNOWN, "6.18.44", SURVIVES),
            (UNKNOWN, "custom", UNKNOWN),
        ],
    )
    def test_the_experiment_decides_and_the_version_where_there_is_none(
        self, experiment: Fate, release: str, fate: Fate
    ) -> None:
        """Only a fate that is known to be survival is safe."""
        judgement = hazards.judge_returns(lambda: experiment, "x86_64", release)

        assert judgement.fate is fate
        assert judgement.is_safe is (fate is SURVIVES)

    def test_on_arm64_nothing_is_tried(self) -> None:
        """The fault is x86-64's."""

        def experiment() -> Fate:
            raise AssertionError("there was an experiment")

        assert hazards.judge_returns(experiment, "aarch64", "6.11.0").is_safe

    def test_why_names_the_kernel_that_kills(self) -> None:
        """For the log and for `check`."""
        judgement = hazards.judge_returns(lambda: DIES, "x86_64", "6.11.0-17-generic")

        assert judgement.why == (
            "kernel 6.11.0-17-generic ends a process under a seccomp filter at one: a child of ours died of it"
        )


class TestArm64:
    """The single step."""

    def test_only_arm64_is_affected(self) -> None:
        """No version is known to be without the fault."""
        assert (hazards.may_single_step_wrongly("aarch64"), hazards.may_single_step_wrongly("x86_64")) == (True, False)
