"""What a job talks to: servers, names, and the reader of its log."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.injectors import interrupts
from tests.faults.trials.extra import Extra
from tests.faults.trials.fault import OutsideFault
from tests.faults.trials.job import TrialJob
from tests.faults.trials.outside.limits import by_turns
from tests.faults.trials.outside.neighbour import taken_for

NETWORK = frozenset({"network"})
TIMEOUT_SECONDS = 1.0  # of a request to a name server
READER_PERIOD_SECONDS = 1.5
MOST_STORM = 0.75


@contextmanager
def _slow_proxy(job: TrialJob, share: float) -> Iterator[None]:
    assert job.extra.program is not None
    with job.extra.program.order(f"{job.step_seconds() * share:.6f}"):
        yield


@contextmanager
def _unanswered(job: TrialJob, share: float) -> Iterator[None]:
    """One request of so many is lost, and is repeated after a second."""
    assert job.extra.program is not None
    with job.extra.program.order(str(max(round(TIMEOUT_SECONDS / (job.step_seconds() * share)), 2))):
        yield


@contextmanager
def _stopped_reader(job: TrialJob, share: float) -> Iterator[None]:
    reader = job.extra.reader
    assert reader is not None
    with by_turns(
        lambda: reader.send_signal(signal.SIGSTOP),
        lambda: reader.send_signal(signal.SIGCONT),
        share,
        READER_PERIOD_SECONDS,
    ):
        yield


@contextmanager
def _packet_storm(job: TrialJob, share: float) -> Iterator[None]:
    """Soft interrupts on the job's CPU."""
    others = f"1-{(os.cpu_count() or 2) - 1}"
    with interrupts.storm(int(job.cpus), others, min(taken_for(job, share), MOST_STORM)):
        yield


FAULTS = (
    OutsideFault("slow-proxy", "a proxy that holds answers back", NETWORK, _slow_proxy, extra=Extra.SERVER),
    OutsideFault(
        "lost-look-ups", "a name server that does not answer now and then", NETWORK, _unanswered, extra=Extra.NAME
    ),
    OutsideFault(
        "stopped-log-reader",
        "the reader of the job's log stops now and then",
        frozenset({"blocked_output"}),
        _stopped_reader,
        extra=Extra.LOG,
    ),
    OutsideFault(
        "packet-storm", "packets whose reception is dear", frozenset({"irq"}), _packet_storm, is_of_one_cpu=True
    ),
)
