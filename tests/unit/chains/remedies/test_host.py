"""remedies.host: what is advised about the node."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.remedies import ProcessContext, remedy_of
from tests.support.chains import a_chain
from tests.unit.chains.remedies.contexts import TRAINER


class TestNames:
    @pytest.mark.parametrize(
        ("culprits", "subject"),
        [
            ((("outside", 0.9),), "A process outside this pod is using"),
            ((("other", 0.9),), "Another program is using"),
            ((), "Another program is using"),
            ((("; rm -rf /", 0.9),), "'; rm -rf /' is using the job's CPUs."),
        ],
    )
    def test_culprit_is_the_subject(self, culprits: tuple[tuple[str, float], ...], subject: str) -> None:
        """One without a name is described; a name that is not plain is quoted."""
        assert remedy_of(a_chain(culprits=culprits), TRAINER).what.startswith(subject)


class TestContention:
    def test_remedy_for_steal_does_not_touch_the_job(self) -> None:
        """Only the hypervisor's host can help."""
        remedy = remedy_of(a_chain(culprits=(("hypervisor", 0.9),)), TRAINER)

        assert "virtual machines (steal)" in remedy.what
        assert remedy.commands == ("vmstat 1 5", "mpstat -P ALL 1 5")

    def test_advice_is_general_where_the_job_is_not_known(self) -> None:
        """As in a recording."""
        assert remedy_of(a_chain(), ProcessContext(4027)).what == (
            "stress-ng is using the job's CPUs. Pin it elsewhere, lower its priority, or give the job dedicated CPUs."
        )


class TestExporter:
    def test_exporter_moves_off_the_jobs_cpus(self) -> None:
        """It is a culprit like others."""
        remedy = remedy_of(a_chain(cause=Cause.EXPORTER, culprits=(("gpu-stall-exporter", 1.0),)), TRAINER)

        assert remedy.what.endswith("or pin it to CPUs that no GPU process uses.")
        assert remedy.commands[1:] == ("taskset -acp 2-3 777",)
