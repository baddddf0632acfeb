"""hazards: kernels that kill a probed process, by experiment, else by a table of versions written by hand."""

from __future__ import annotations

import pytest

from exporter.kernel import hazards
from exporter.kernel.hazards import Fate

DIES, SURVIVES, UNKNOWN = Fate.DIES, Fate.SURVIVES, Fate.UNKNOWN


class TestVersion:
    """By the release alone."""

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
        assert hazards.fate_by_version("aarch64", release) is SURVIVES


class TestJudgement:
    """Experiment and version together."""

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
    def test_experiment_decides_and_else_the_version(self, experiment: Fate, release: str, fate: Fate) -> None:
        """Only SURVIVES is safe."""
        judgement = hazards.judge_returns(lambda: experiment, "x86_64", release)

        assert judgement.fate is fate
        assert judgement.is_safe is (fate is SURVIVES)

    def test_on_arm64_there_is_no_experiment(self) -> None:
        """Only x86-64 is affected."""

        def experiment() -> Fate:
            raise AssertionError("there was an experiment")

        assert hazards.judge_returns(experiment, "aarch64", "6.11.0").is_safe

    def test_why_names_the_kernel_that_kills(self) -> None:
        judgement = hazards.judge_returns(lambda: DIES, "x86_64", "6.11.0-17-generic")

        assert judgement.why == (
            "kernel 6.11.0-17-generic kills a process under a seccomp filter at a return probe: a test child died"
        )


class TestArm64:
    def test_only_arm64_is_affected(self) -> None:
        """No release is known to be without the fault."""
        assert (hazards.may_single_step_wrongly("aarch64"), hazards.may_single_step_wrongly("x86_64")) == (True, False)
