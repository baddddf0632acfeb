"""A job that becomes slower under the running exporter: what is said of it, and that it is over when it is."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import standin
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.standin_gpu import built
from tests.support.traced import eventually

FAULT_FROM, FAULT_TO = 700, 1_100
"""Steps of 14 ms without the fault: ten seconds in which the usual is learned, then as long again with 20 ms for a lock."""

PATIENCE_SECONDS = 60.0


class Job:
    """One rank, whose step thread waits for a lock in steps FAULT_FROM to FAULT_TO. step: the last one it has told of."""

    def __init__(self) -> None:
        flags = (f"--fault-from-step={FAULT_FROM}", f"--fault-to-step={FAULT_TO}", "--fault=lock", "--fault-us=20000")
        command = standin.trainer_command("--ranks=1", "--sync=block", "--seed=1", "--evaluate-every=0", *flags)
        self.process = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.PIPE, text=True)
        self.step = 0
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.step = json.loads(line).get("step", self.step)

    def end(self) -> None:
        """At once."""
        self.process.kill()
        self.process.wait()
        self._follower.join()

    def wait_for_step(self, number: int) -> None:
        """Until it has made that step."""
        eventually(lambda: self.step >= number, f"step {number}", PATIENCE_SECONDS)


@pytest.fixture
def job() -> Iterator[Job]:
    """It begins at once."""
    built()
    job = Job()
    yield job
    job.end()


def severity(exporter: Exporter, cause: str) -> float | None:
    """Of the chain of this cause; None while there was none."""
    found = exporter.scrape().by("cause", "gpustall_chain_severity")
    return found.get(cause)


def explained(history: Path, opened: str) -> list[str]:
    """What `explain` says of the process of a line of the log."""
    pid = re.search(r" pid=(\d+)", opened)
    assert pid is not None
    command = [*COMMAND, "explain", f"--history.path={history}", f"--workload=pid={pid[1]}"]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    ).stdout.splitlines()


@pytest.mark.end_to_end
class TestChain:
    """Of a lock that another thread of the job holds."""

    def test_it_opens_with_its_cause_and_is_resolved(self, job: Job, tmp_path: Path) -> None:
        """One chain, high or critical, told in the log and by `explain` with what to do; nothing else is blamed."""
        history = tmp_path / "state" / "history.sqlite"
        with running(f"--history.path={history}") as exporter:
            job.wait_for_step(FAULT_FROM)
            eventually(lambda: severity(exporter, "lock"), "a chain is open", PATIENCE_SECONDS)
            job.wait_for_step(FAULT_TO)
            assert severity(exporter, "lock") in (3, 4)
            opened = [line for line in exporter.logs.splitlines() if 'msg="chain opened: lock' in line]
            while_open = explained(history, opened[0])
            eventually(lambda: severity(exporter, "lock") == 0, "it is resolved", PATIENCE_SECONDS)
            resolved = [line for line in exporter.logs.splitlines() if 'msg="chain resolved: lock' in line]

        afterwards = explained(history, opened[0])

        assert re.match(
            r"rank 0 \(pid \d+\) loses .* lock, since .*, (high|critical)\. Still going on\.$", while_open[0]
        )
        assert any("steps take" in line and "times as long" in line for line in while_open)
        assert any("py-spy dump --pid" in line for line in while_open)
        assert afterwards[0].startswith("The exporter stopped at ")
        assert re.match(r"Nothing is wrong now\. .* lost .* lock, from .* It recovered\.$", afterwards[1])
        assert (len(opened), len(resolved)) == (1, 1)
        assert 'remedy="The thread that feeds the GPU waits for a lock' in opened[0]
