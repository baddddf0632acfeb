"""A job of two ranks, one of which does not enter a collective, and what the log of an exporter says of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import gpustall_standin as standin
from tests.support.exporter_process import Exporter
from tests.support.standin_gpu import built

NOTHING: Mapping[str, str] = MappingProxyType({})
HANGS_AT = 600
"""Steps of 14 ms: eight seconds in which the baseline is learned."""


class Job:
    """Two ranks; rank 1 waits for a signal in fault_before_backward(), in step HANGS_AT. step: the last one that was printed."""

    def __init__(self, variables: Mapping[str, str], inherited: Sequence[int]) -> None:
        flags = ("--fault=hang", "--fault-rank=1", f"--fault-from-step={HANGS_AT}")
        command = standin.trainer_command("--ranks=2", "--sync=block", "--seed=1", "--evaluate-every=0", *flags)
        self.process = subprocess.Popen(
            command,
            env=standin.environment() | dict(variables),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=inherited,
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
    def tgids(self) -> list[int]:
        """Process ids of the ranks: the parent starts them in order."""
        tgid = self.process.pid
        return [int(word) for word in Path(f"/proc/{tgid}/task/{tgid}/children").read_text().split()]

    @property
    def hung_tgid(self) -> int:
        """Process id of rank 1."""
        return self.tgids[1]

    def end(self) -> None:
        """Kills the job with its ranks."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._follower.join()


@contextmanager
def hanging_job(variables: Mapping[str, str] = NOTHING, inherited: Sequence[int] = ()) -> Iterator[Job]:
    """The libraries must be probed before it starts: the exporter has to see the communicator being created.

    variables: of its environment. inherited: descriptors that its processes get.
    """
    built()
    job = Job(variables, inherited)
    try:
        yield job
    finally:
        job.end()


def lines_about(exporter: Exporter, tgid: int, what: str) -> list[dict[str, str]]:
    """Log records about chains of a process whose messages begin so."""
    records = [json.loads(line) for line in exporter.logs.splitlines()]
    return [record for record in records if record.get("pid") == str(tgid) and record["msg"].startswith(what)]


def evidence_of_hang(exporter: Exporter, tgid: int) -> list[str]:
    """Evidence of its chains `nccl_hang`, a text for each log record."""
    hangs = [one for one in lines_about(exporter, tgid, "chain ") if one["cause"] == "nccl_hang"]
    chains = {one["chain_id"] for one in hangs}
    evidence = lines_about(exporter, tgid, "chain evidence")
    return [one["evidence"] for one in evidence if one["chain_id"] in chains]
