"""intervention: a block during which processes are paused, through a freezer of its own session."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from exporter.confirm.eligibility import ProcessFacts, read_facts
from exporter.confirm.intervention import PauseMethod, paused
from exporter.host.processes import Processes


@pytest.fixture
def child() -> Iterator[ProcessFacts]:
    """A process that sleeps."""
    process = subprocess.Popen(["sleep", "60"])
    yield read_facts(Processes(), process.pid)
    process.kill()
    process.wait()


def is_stopped(process: ProcessFacts) -> bool:
    return Processes().stat(process.tgid).state == "T"


class TestPaused:
    def test_processes_are_paused_while_the_block_lasts(self, child: ProcessFacts) -> None:
        with paused([child], PauseMethod.SIGSTOP, 60.0):
            during = is_stopped(child)

        assert (during, is_stopped(child)) == (True, False)

    def test_processes_are_resumed_if_the_block_raises(self, child: ProcessFacts) -> None:
        with pytest.raises(RuntimeError), paused([child], PauseMethod.SIGSTOP, 60.0):
            raise RuntimeError

        assert not is_stopped(child)
