"""Lost time of a whole job against the job's own log, whatever way its synchronising calls wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.causes import Cause
from tests.faults.books import excess, truth_of
from tests.faults.episode import Episode, Scene
from tests.faults.injectors.cpu import HOG, hogs
from tests.faults.job import Window
from tests.faults.recorder import private_standin, record

pytestmark = pytest.mark.whole_machine

KERNELS_OF_400_US = ("--kernel-us=400", "--backward-kernel-us=400")


@contextmanager
def _crowd() -> Iterator[Scene]:
    yield Scene(injector=lambda _job: hogs(4))


class TestCrowd:
    """Four programs on the CPUs of a job: some of its waits for a CPU are hidden by the GPU's work, others delay a return."""

    @pytest.mark.hardware_speed
    @pytest.mark.parametrize(
        "flags", [("--sync=spin",), ("--sync=yield",), ("--sync=block",), KERNELS_OF_400_US], ids=" ".join
    )
    def test_lost_time_is_what_steps_take_longer(self, flags: tuple[str, ...], tmp_path: Path) -> None:
        """Within 15 %. The steps of the run with the crowd, against those of a run without it."""
        episode = Episode(
            name="crowd",
            says="",
            cause=Cause.CPU_CONTENTION,
            culprit=HOG,
            flags=flags,
            scene=_crowd,
            steps=420,
            window=Window(120, 400),
        )
        recording = record(episode, private_standin(tmp_path))
        lost = excess(episode, recording, 0)
        true_ns = truth_of(episode, recording).lost_ns()

        assert true_ns > 0.1 * lost.wall_ns, "the crowd costs too little to be measured"
        assert lost.sum_ns == pytest.approx(true_ns, rel=0.15)
        assert lost.share(Cause.CPU_CONTENTION) > 0.9
