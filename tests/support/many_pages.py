"""Ten faults in each of three jobs of a node, and the pages of all: a job of Slurm, one in a container, and one in neither.

A round starts the three jobs, each with another fault, and lets them run; in ten rounds each job has had each fault. Prometheus,
Alertmanager and the exporter run all the time, so pages of earlier rounds are being resolved while new ones fire.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from exporter.causes import Cause
from gpustall_standin.job import SPIN
from gpustall_standin.scenarios import HOST_BOUND
from tests.faults.episode import Episode, Scene
from tests.faults.injectors.cpu import HOG, named_shell
from tests.faults.job import Job, Place, run
from tests.faults.registry import EPISODES
from tests.support.alertmanager_server import with_messages
from tests.support.held_calls import held_calls
from tests.support.named_cgroup import named_cgroup
from tests.support.paging import Paged, paging
from tests.support.traced import eventually

LEARN_SECONDS = 15
FAULT_SECONDS, FETCHING_SECONDS = 30, 6
"""The fault makes steps of the second four times as long."""
SCRAPE_SECONDS = 1
LAG_SECONDS = 8
"""From the end of a chain to the last page about it: a scrape, a rule, and the interval of a group."""
HOGS = 3
OWN_CPU, OTHER_CPU = "1", "0"
CONTAINER = "3f1b0a2c" + "5e" * 28
JOBS = {"job_2718": "slurm/uid_1001/job_2718/step_0", CONTAINER[:12]: f"docker/{CONTAINER}", "": ""}
"""Value of the label `container` -> path of the control group of the job."""


@contextmanager
def _crowded_cpu() -> Iterator[Scene]:
    """Programs take the CPU of this job alone."""

    @contextmanager
    def crowded(_: Job) -> Iterator[None]:
        with named_shell(HOG, SPIN, count=HOGS, cpus=OWN_CPU):
            yield

    yield Scene(place=Place(cpus=OWN_CPU), injector=crowded)


FAULTS: tuple[Episode, ...] = (
    Episode("cpu", "", Cause.CPU_CONTENTION, flags=HOST_BOUND, scene=_crowded_cpu),
    *(EPISODES[name] for name in ("own-quota", "loader-sleeps", "lock-holder-sleeps", "slow-copy", "slow-peer")),
    replace(EPISODES["slow-rank"], fault=("--fault=straggler", "--fault-rank=1", "--fault-us=40000")),
    *(EPISODES[name] for name in ("hung-rank", "crash", "out-of-memory")),
)
_BUSY = 3
"""Jobs of the first faults use a whole CPU, which no other job has. The three jobs of a round are three or more faults apart."""
_APART = (0, 3, 6)


class Received(NamedTuple):
    """A page, and what its command prints. fault: of the job that it names. round_at, received_at: Unix times in seconds."""

    summary: str
    container: str
    fault: Episode
    round_at: float
    received_at: float
    text: str
    explained: dict[str, Any]

    @property
    def chain(self) -> dict[str, Any]:
        """The first one that the command prints."""
        (first, *_) = self.explained["chains"]
        return dict(first)

    @property
    def is_of_what_fires(self) -> bool:
        """Its title and the first chain are of one incident of this job, which goes on or has ended just before."""
        chain = self.chain
        return (
            chain["container"] == self.container
            and (chain["chain_id"] in self.summary or "Chain " not in self.summary)
            and self.received_at - chain["known_until_unix_seconds"] < LAG_SECONDS
            and (chain["cause"] in self.text.splitlines()[0] or chain["cause"] == Cause.CRASH)
        )

    @property
    def is_of_the_fault(self) -> bool:
        return self.chain["cause"] in self.fault.causes and self.chain["began_unix_seconds"] >= self.round_at


def rounds() -> Iterator[dict[str, Episode]]:
    """Container -> fault. Each job has each fault once."""
    for number in range(len(FAULTS)):
        yield {name: FAULTS[(number + apart) % len(FAULTS)] for name, apart in zip(JOBS, _APART, strict=True)}


def pages(folder: Path) -> list[Received]:
    """All pages, in order. Takes eight minutes."""
    received: list[Received] = []
    # An idle process has the libraries, so that they are probed before the first job joins its ranks.
    with paging(folder, SCRAPE_SECONDS, with_messages) as node, held_calls():
        eventually(lambda: "libnccl.so.2: " in node.exporter.logs, "the libraries are probed")
        for faults in rounds():
            received += _round(faults, node)
    return received


def _round(faults: dict[str, Episode], node: Paged) -> list[Received]:
    count, round_at = len(_pages(node)), time.time()
    received: list[Received] = []
    with ThreadPoolExecutor(len(faults)) as pool:
        jobs = [pool.submit(_job, name, fault) for name, fault in faults.items()]
        while not all(one.done() for one in jobs):
            time.sleep(SCRAPE_SECONDS)
            for event in _pages(node)[count:]:
                count += 1
                received.append(_received(event, faults, round_at, node))
        for one in jobs:
            one.result()
    return received


def _job(name: str, fault: Episode) -> None:
    # A job that fetches its batches ends with an error if it is terminated, which would be one more page: it makes all its steps.
    seconds = FETCHING_SECONDS if fault.name == "slow-peer" else FAULT_SECONDS
    episode = fault.lasting(LEARN_SECONDS, seconds, 1)
    cpus = OWN_CPU if fault in FAULTS[:_BUSY] else OTHER_CPU
    with ExitStack() as stack:
        scene = stack.enter_context(episode.scene())
        groups = scene.place.groups
        if path := JOBS[name]:
            groups += (stack.enter_context(named_cgroup("freezer", path)),)
        run(
            (*episode.common_flags(), *scene.flags, *episode.fault_flags()),
            episode.windows,
            place=replace(scene.place, groups=groups, cpus=cpus),
            injector=scene.injector,
            patience_seconds=LEARN_SECONDS + FAULT_SECONDS,
        )


def _pages(node: Paged) -> list[dict[str, Any]]:
    """Events of PagerDuty that ask for a person, in order."""
    events = [json.loads(one.content) for one in node.found.requests if one.path == "/pagerduty"]
    return [one for one in events if one["event_action"] == "trigger"]


def _received(event: dict[str, Any], faults: dict[str, Episode], round_at: float, node: Paged) -> Received:
    summary = event["payload"]["summary"]
    container = next((name for name in faults if name and f"container {name} " in summary), "")
    command = event["payload"]["custom_details"]["explain"]
    text, document = node.pasted(command), json.loads(node.pasted(command, "--format=json"))
    return Received(summary, container, faults[container], round_at, time.time(), text, document)
