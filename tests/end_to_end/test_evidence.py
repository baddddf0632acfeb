"""A rank that does not join a collective, with the running exporter: the log names the functions that it is stuck in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import held_calls
from tests.support.standin_gpu import built
from tests.support.traced import eventually

HANGS_AT = 600
"""Steps of 14 ms: eight seconds in which the baseline is learned."""

PATIENCE_SECONDS = 90.0
BCC = Path("/usr/lib/python3/dist-packages/bcc")


class Job:
    """Two ranks; rank 1 waits for a signal in fault_before_backward(), in step HANGS_AT. step: the last one that was printed."""

    def __init__(self) -> None:
        flags = ("--fault=hang", "--fault-rank=1", f"--fault-from-step={HANGS_AT}")
        command = standin.trainer_command("--ranks=2", "--sync=block", "--seed=1", "--evaluate-every=0", *flags)
        self.process = subprocess.Popen(
            command, env=standin.environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.step = 0
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.step = json.loads(line).get("step", self.step)

    @property
    def hung_tgid(self) -> int:
        """Process id of rank 1: the parent starts ranks in order."""
        tgid = self.process.pid
        return int(Path(f"/proc/{tgid}/task/{tgid}/children").read_text().split()[1])

    def end(self) -> None:
        """Kills the job with its ranks."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._follower.join()


@contextmanager
def hanging_job() -> Iterator[Job]:
    """The libraries must be probed before it starts: the exporter has to see the communicator being created."""
    built()
    job = Job()
    try:
        yield job
    finally:
        job.end()


def lines_about(exporter: Exporter, tgid: int, what: str) -> list[dict[str, str]]:
    """Log records about chains of a process whose messages begin so."""
    records = [json.loads(line) for line in exporter.logs.splitlines()]
    return [record for record in records if record.get("pid") == str(tgid) and record["msg"].startswith(what)]


@pytest.mark.end_to_end
class TestEvidence:
    """Stacks of the rank that the other one waits for."""

    @pytest.mark.skipif(os.uname().machine != "x86_64", reason="callers are known on x86-64 only")
    @pytest.mark.skipif(not BCC.exists(), reason="no bcc: apt-get install python3-bpfcc")
    def test_hung_rank_names_its_caller(self) -> None:
        """The backward thread is in fault_before_backward(), called by step_backward(); the step thread in backward_run()."""
        with held_calls(), running("--log.format=json") as exporter, hanging_job() as job:
            eventually(lambda: job.step >= HANGS_AT - 1, "the job hangs", PATIENCE_SECONDS)
            tgid = job.hung_tgid

            def evidence_of_hang() -> list[str]:
                hangs = [one for one in lines_about(exporter, tgid, "chain ") if one["cause"] == "nccl_hang"]
                chains = {one["chain_id"] for one in hangs}
                evidence = lines_about(exporter, tgid, "chain evidence")
                return [one["evidence"] for one in evidence if one["chain_id"] in chains]

            evidence = "; ".join(eventually(evidence_of_hang, "evidence of the hang", PATIENCE_SECONDS))
            named = exporter.scrape().by("result", "gpustall_exporter_stacks_total")["named"]

        threads = {part.split(" (")[1].partition(")")[0]: part for part in evidence.split("; thread ")}
        backward, step = threads["pt_autograd_0"], threads["trainer"]
        assert "fault_before_backward" in backward.partition(" < step_backward")[0]
        assert "backward_run" in step.partition(" < step_run")[0]
        assert named >= 2
