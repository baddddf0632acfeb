"""Lost time of a whole job against the job's own log, for calls that wait for the GPU without a sleep."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.causes import Cause
from tests.faults.books import excess, truth_of
from tests.faults.crowd import crowd
from tests.faults.recorder import private_standin, record

pytestmark = pytest.mark.whole_machine

JOBS = [("--sync=spin",), ("--sync=yield",), ("--kernel-us=400", "--backward-kernel-us=400")]


class TestCrowd:
    """Busy programs on the CPUs of a job: some of its waits for a CPU are hidden by the GPU's work, others delay a return."""

    @pytest.mark.hardware_speed
    @pytest.mark.parametrize("flags", JOBS, ids=" ".join)
    def test_lost_time_is_what_steps_take_longer(self, flags: tuple[str, ...], tmp_path: Path) -> None:
        """Within 15 %, or 4 % of the time. The steps of a run beside them, against those of a run without."""
        episode = crowd(*flags)
        recording = record(episode, private_standin(tmp_path))
        lost, true_ns = excess(episode, recording, 0), truth_of(episode, recording).lost_ns()

        assert true_ns > 0.05 * lost.wall_ns, "too little to be measured"
        assert lost.sum_ns == pytest.approx(true_ns, rel=0.15, abs=0.04 * lost.wall_ns)
        # Where the whole machine switches often, some of the waits are too old for the record of who ran.
        assert lost.share(Cause.CPU_CONTENTION, Cause.UNKNOWN) > 0.9
