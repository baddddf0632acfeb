"""A rank that does not join a collective, with the running exporter: the log names the functions that it is stuck in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.exporter_process import Exporter, running
from tests.support.hanging_job import HANGS_AT, evidence_of_hang, hanging_job
from tests.support.held_calls import held_calls
from tests.support.traced import eventually

BCC = Path("/usr/lib/python3/dist-packages/bcc")


def named_stacks(exporter: Exporter) -> float:
    """How many stacks were read and named so far."""
    return exporter.scrape().by("result", "gpustall_exporter_stacks_total").get("named", 0)


@pytest.mark.end_to_end
class TestEvidence:
    """Stacks of the rank that the other one waits for."""

    @pytest.mark.skipif(os.uname().machine != "x86_64", reason="callers are known on x86-64 only")
    @pytest.mark.skipif(not BCC.exists(), reason="no bcc: apt-get install python3-bpfcc")
    def test_hung_rank_names_its_caller(self) -> None:
        """The backward thread is in fault_before_backward(), called by step_backward(); the step thread in backward_run()."""
        with held_calls(), running("--log.format=json") as exporter, hanging_job() as job:
            eventually(lambda: job.step >= HANGS_AT - 1, "the job hangs")
            found = eventually(lambda: evidence_of_hang(exporter, job.hung_tgid), "evidence of the hang")
            evidence = "; ".join(found)
            eventually(lambda: named_stacks(exporter) >= 2, "both stacks are counted")

        threads = {part.split(" (")[1].partition(")")[0]: part for part in evidence.split("; thread ")}
        backward, step = threads["pt_autograd_0"], threads["trainer"]
        assert "fault_before_backward" in backward.partition(" < step_backward")[0]
        assert "backward_run" in step.partition(" < step_run")[0]
