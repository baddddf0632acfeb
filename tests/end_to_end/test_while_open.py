"""While a chain is open and changes, every surface has the same figures, and they are those of the job's own log.

One program takes what the job needs, then several copies of a second one, then the first one again: one chain, whose share and
culprit change. At five moments the metrics, `explain` and `top` are read, and compared with the steps that the job has printed.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gpustall_standin as standin
from gpustall_standin.job import SPIN
from gpustall_standin.scenarios import HOST_BOUND
from tests.faults.episode import LOADER_BOUND
from tests.faults.injectors import disk
from tests.faults.injectors.cpu import named_shell
from tests.faults.registry import WORKER
from tests.faults.scenes import DISK_BYTES, FLOODED_BYTES, READ_BYTES
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually

JOB_CPU, WORKER_CPU = "1", "0"
LEARN_SECONDS = 15
WINDOW_SECONDS = 10.0
"""What holds now is the mean of so long."""
FIRST, SECOND = "first-hog", "second-hog"
SECONDS = ((13,), (6, 13), (6, 13))
"""After the start of each program, at which everything is read."""
TICK = 0.04
"""By how much a mean of ten seconds changes in a tick and a half, where two thirds of the time are lost in it."""

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]


class Step(NamedTuple):
    """Both on the clock of the kernel."""

    end_ns: int
    length_ns: int


class Fault(NamedTuple):
    """flags: of the job. cpus: of its ranks and of its worker, as taskset takes them, "" for all.

    copies: of the first program and of the second. taken(program, copies): what takes from the job what it needs.
    """

    flags: tuple[str, ...]
    cpus: tuple[str, str]
    copies: tuple[int, int]
    taken: Callable[[str, int], AbstractContextManager[object]]


def spinning(cpus: str) -> Callable[[str, int], AbstractContextManager[object]]:
    return lambda program, copies: named_shell(program, SPIN, count=copies, cpus=cpus)


@contextmanager
def crowded_cpu() -> Iterator[Fault]:
    """Programs take the CPU of the job itself."""
    yield Fault(HOST_BOUND, (JOB_CPU, JOB_CPU), (1, 3), spinning(JOB_CPU))


@contextmanager
def crowded_cpu_of_worker() -> Iterator[Fault]:
    """The rank has a CPU without other programs."""
    yield Fault(LOADER_BOUND, (JOB_CPU, WORKER_CPU), (1, 3), spinning(WORKER_CPU))


@contextmanager
def flooded_disk() -> Iterator[Fault]:
    """Programs read the disk from which the job's worker reads each batch."""
    with disk.file_of(DISK_BYTES) as own, disk.file_of(FLOODED_BYTES) as others:
        flags = ("--loader-direct", f"--loader-file={own}", f"--loader-read-bytes={READ_BYTES}")
        yield Fault(
            (*LOADER_BOUND, *flags), ("", ""), (8, 24), lambda program, copies: disk.flood(others, copies, program)
        )


class Job:
    """Steps, as the job has printed them."""

    def __init__(self, fault: Fault) -> None:
        command = standin.trainer_command("--ranks=1", "--seed=1", *fault.flags)
        self.process = subprocess.Popen(
            command, env=standin.environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.steps: list[Step] = []
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()
        eventually(lambda: self.steps, "the first step")
        for of_worker, cpus in enumerate(fault.cpus):
            if cpus:
                self._pin(cpus, is_worker=bool(of_worker))

    def _pin(self, cpus: str, *, is_worker: bool) -> None:
        listed = subprocess.run(
            ["ps", "-o", "pid=,comm=", "-s", str(self.process.pid)], capture_output=True, text=True, check=True
        )
        for pid, comm in map(str.split, listed.stdout.splitlines()):
            if (comm == WORKER) == is_worker:
                subprocess.run(["taskset", "-acp", cpus, pid], stdout=subprocess.DEVNULL, check=True)

    def _follow(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                one = json.loads(line)
                if one.get("type") == "step":
                    self.steps.append(Step(one["end_ns"], one["end_ns"] - one["start_ns"]))

    def mean_ns(self, since_ns: int, until_ns: int) -> float:
        """Length of the steps that ended in between."""
        lengths = [one.length_ns for one in list(self.steps) if since_ns <= one.end_ns <= until_ns]
        return sum(lengths) / len(lengths)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._follower.join()


class Moment(NamedTuple):
    """What was read: of metrics before and after the others. truth: share by which steps of the last ten seconds are longer.

    is_steady: whether the same program has run for all of them.
    """

    culprit: str
    is_steady: bool
    truth: float
    metrics: tuple[dict[str, Any], dict[str, Any]]
    explained: dict[str, Any]
    top: dict[str, Any]


@contextmanager
def a_job(fault: Fault) -> Iterator[Job]:
    built()
    job = Job(fault)
    try:
        yield job
    finally:
        job.end()


def of_metrics(exporter: Exporter) -> dict[str, Any]:
    """The chain with the largest share now: its id, both shares and its culprit."""
    scraped = exporter.scrape()
    now = scraped.by("chain_id", "gpustall_chain_lost_ratio")
    chain_id = max(now, key=lambda one: now[one])
    culprits = scraped.by("culprit", "gpustall_chain_info", chain_id=chain_id)
    return {
        "chain_id": chain_id,
        "now": now[chain_id],
        "worst": scraped.by("chain_id", "gpustall_chain_worst_lost_ratio")[chain_id],
        "culprits": sorted(culprits),
    }


def output(*words: str) -> Any:
    done = subprocess.run(
        [*COMMAND, *words, "--format=json"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    return json.loads(done.stdout)


def moment(exporter: Exporter, history: Path, job: Job, usual_ns: float, culprit: str, *, is_steady: bool) -> Moment:
    now_ns = time.monotonic_ns()
    truth = 1 - usual_ns / job.mean_ns(now_ns - round(WINDOW_SECONDS * 1e9), now_ns)
    before = of_metrics(exporter)
    chain_id = before["chain_id"]
    (explained,) = output("explain", f"--chain={chain_id}", f"--history.path={history}")["chains"]
    top = output("top", "--once", "--interval=500ms", f"--url={exporter.url}")
    after = of_metrics(exporter)
    (shown,) = (one for one in top["chains"] if chain_id in one["ids"])
    return Moment(culprit, is_steady, truth, (before, after), explained, shown)


@pytest.fixture(scope="module", params=[crowded_cpu, crowded_cpu_of_worker, flooded_disk], ids=lambda one: one.__name__)
def moments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Moment]:
    need_tracing()
    history = tmp_path_factory.mktemp("while_open") / "state" / "history.sqlite"
    found = []
    with request.param() as fault, running(f"--history.path={history}") as exporter, a_job(fault) as job:
        time.sleep(LEARN_SECONDS)
        now_ns = time.monotonic_ns()
        usual_ns = job.mean_ns(now_ns - round(WINDOW_SECONDS * 1e9), now_ns)
        for program, copies, seconds in zip(
            (FIRST, SECOND, FIRST), (*fault.copies, fault.copies[0]), SECONDS, strict=True
        ):
            with fault.taken(program, copies):
                began_seconds = time.monotonic()
                for second in seconds:
                    time.sleep(max(began_seconds + second - time.monotonic(), 0))
                    is_steady = second > WINDOW_SECONDS
                    found.append(moment(exporter, history, job, usual_ns, program, is_steady=is_steady))
    print("".join(f"\n{one.culprit:>12} {one.truth:.3f} {one.metrics[0]} {one.top}" for one in found))
    return found


class TestWhileOpen:
    def test_it_is_one_chain(self, moments: list[Moment]) -> None:
        assert len({one.explained["chain_id"] for one in moments}) == 1

    def test_share_of_now_is_that_of_the_jobs_own_log(self, moments: list[Moment]) -> None:
        """Within five percentage points, ten seconds after each change."""
        steady = [one for one in moments if one.is_steady]

        assert [one.explained["now"]["lost_ratio"] for one in steady] == pytest.approx(
            [one.truth for one in steady], abs=0.05
        )

    def test_shares_are_the_same_everywhere(self, moments: list[Moment]) -> None:
        """Now and at the worst; a tick lies between two readings."""
        for one in moments:
            for name, of_explain, of_top in (
                ("now", one.explained["now"]["lost_ratio"], one.top["lost_share"]),
                ("worst", one.explained["lost_ratio"], one.top["worst_lost_share"]),
            ):
                low, high = sorted(of[name] for of in one.metrics)
                assert low - TICK <= of_explain <= high + TICK
                assert low - TICK <= of_top <= high + TICK

    def test_culprit_of_now_is_the_same_everywhere(self, moments: list[Moment]) -> None:
        """The program that runs, as soon as most of the last ten seconds are its own. A tick lies between two readings."""
        for one in moments:
            (culprit, *_) = one.explained["now"]["culprits"]
            known = [of["culprits"] for of in one.metrics]
            assert [culprit["name"]] in known
            assert one.top["culprits"] in known
        assert [one.explained["now"]["culprits"][0]["name"] for one in moments if one.is_steady] == [
            one.culprit for one in moments if one.is_steady
        ]

    def test_worst_never_becomes_less(self, moments: list[Moment]) -> None:
        worst = [one.explained["lost_ratio"] for one in moments]

        assert worst == sorted(worst)
        assert all(one.explained["now"]["lost_ratio"] <= one.explained["lost_ratio"] for one in moments)

    def test_commands_are_against_the_culprit_of_now(self, moments: list[Moment]) -> None:
        """Their pids are of programs that run, and not of those at the onset."""
        pids = [tuple(one.explained["culprit_pids"]) for one in moments if one.is_steady]

        assert len(set(pids)) == len(pids)
        assert all(pids)
