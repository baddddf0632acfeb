"""A job that is described second by second, as the engine sees it at every tick."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.accounting.culprits import NO_CULPRIT
from exporter.accounting.progress import Standing, WorkloadProgress
from exporter.causes import Cause
from exporter.chains.capture import Captures
from exporter.chains.chain import Change, Effect, Transition
from exporter.chains.engine import Engine, Observation
from exporter.chains.gpu import UNSEEN, DeviceSide
from exporter.chains.memory import Allocations
from exporter.chains.span import Collective
from exporter.chains.spending import Spending

TICKS = 4  # a second
SECOND = 1_000_000_000
TICK_NS = SECOND // TICKS
Loss = Mapping[tuple[Cause, str], float]
HOG = (Cause.CPU_CONTENTION, "stress-ng")
DISK = (Cause.BLOCK_IO, NO_CULPRIT)
OWN_SLEEP = (Cause.OTHER, NO_CULPRIT)
SLEEP = (Cause.OWN_WAIT, NO_CULPRIT)


class Job:
    """A process whose steps take 10 ms, with 50 calls each. lost: by (cause, culprit), shares of the wall time."""

    def __init__(self, process: int = 1, *, has_rhythm: bool = True) -> None:
        self.process = process
        self.steps = 0.0
        self.calls = 0.0
        self.lost_ns: dict[tuple[Cause, str], int] = {}
        self.exposed_ns = 0
        self.undecided_ns = 0
        self.stopped_ns = 0
        self.lag_ns = 0
        self.arrived = 0
        self.allocations = Allocations()
        self.captures = Captures()
        self.unfinished: dict[int, int] = {}
        self.call_times_ns: dict[Effect, int] = {}
        self.pageable_ns = self.capture_ns = self.link_ns = 0
        self.device_side = UNSEEN
        self.computing_ns = 0
        self.copied_bytes = 0
        self.standing: Standing | None = None
        self._has_rhythm = has_rhythm
        self._steps_ns = 0
        self._began_ns = 1

    def tick(
        self,
        now_ns: int,
        *,
        step_ms: float | None = 10.0,
        calls_per_step: int = 50,
        lost: Loss | None = None,
        exposed: float = 0.0,
        late: float = 0.0,
        in_calls: Mapping[Effect, float] | None = None,
        pageable: float = 0.0,
        capture: float = 0.0,
        link: float = 0.0,
        computing: float = 0.0,
        batch_bytes: int = 0,
        standing: Standing | None = None,
    ) -> None:
        """A quarter of a second in which steps take so long; None for no step at all. late: the others wait so long for it.

        batch_bytes: copied to the GPU in each step.

        in_calls, pageable, capture, link, computing: time spent so, as a share of the wall time.
        """
        if step_ms is not None:
            step_ns, made = step_ms * 1e6, TICK_NS / (step_ms * 1e6)
            self._steps_ns += round((int(self.steps + made) - int(self.steps)) * step_ns)
            self.copied_bytes += round((int(self.steps + made) - int(self.steps)) * batch_bytes)
            self.steps += made
            self.calls += made * calls_per_step
            self.arrived += round(made)
            self._began_ns = now_ns - round((self.steps - int(self.steps)) * step_ns)
        for key, share in (lost or {}).items():
            self.lost_ns = {**self.lost_ns, key: self.lost_ns.get(key, 0) + round(share * TICK_NS)}
        self.pageable_ns += round(pageable * TICK_NS)
        self.capture_ns += round(capture * TICK_NS)
        self.link_ns += round(link * TICK_NS)
        self.computing_ns += round(computing * TICK_NS)
        self.standing = standing
        self.exposed_ns += round(exposed * TICK_NS)
        self.lag_ns += round(late * TICK_NS)
        for effect, share in (in_calls or {}).items():
            self.call_times_ns[effect] = self.call_times_ns.get(effect, 0) + round(share * TICK_NS)

    def observation(self, rank: int | None = None) -> Observation:
        """As it is now. rank: in a communicator of two."""
        progress = WorkloadProgress(
            self.lost_ns,
            self.exposed_ns,
            self.undecided_ns,
            int(self.steps) if self._has_rhythm else 0,
            self._steps_ns if self._has_rhythm else 0,
            self._began_ns if self._has_rhythm else 0,
            calls=int(self.calls),
            stopped_ns=self.stopped_ns,
            kernels=int(self.steps),
            standing=self.standing,
        )
        places = {} if rank is None else {77: Collective(rank, self.arrived, self.lag_ns)}
        return Observation(progress, places, self.allocations, self.captures, self.unfinished)


class Scene:
    """Jobs and the engine that watches them. transitions: its transitions, with the second of each."""

    def __init__(self, *jobs: Job, has_ranks: bool = False) -> None:
        self.jobs = jobs or (Job(),)
        self.engine = Engine(new_id=self._new_id, spending=self._spending, device_side=self._device_side)
        self.now_ns = 1_000 * SECOND
        self.transitions: list[Transition] = []
        self._has_ranks = has_ranks
        self._ids = 0

    def _spending(self, process: int) -> Spending:
        job = self.jobs[process - 1]
        return Spending(
            dict(job.call_times_ns),
            job.pageable_ns,
            job.capture_ns,
            job.link_ns,
            job.computing_ns,
            kernels=int(job.steps),
            copied_bytes=job.copied_bytes,
        )

    def _device_side(self, process: int, _then_ns: int, _now_ns: int) -> DeviceSide:
        return self.jobs[process - 1].device_side

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:032x}"

    def go_on(self, seconds: float, *each: Mapping[str, object], **all_jobs: object) -> list[Transition]:
        """Transitions in these seconds. each: how every single job goes on; else all_jobs for all of them."""
        before = len(self.transitions)
        for _ in range(round(seconds * TICKS)):
            self.now_ns += TICK_NS
            for job, how in zip(self.jobs, each or [all_jobs] * len(self.jobs), strict=True):
                job.tick(self.now_ns, **how)  # type: ignore[arg-type]
            observed = {
                job.process: job.observation(rank if self._has_ranks else None) for rank, job in enumerate(self.jobs)
            }
            self.transitions += self.engine.update(observed, self.now_ns)
        return self.transitions[before:]

    def opened(self) -> list[Transition]:
        """Changes and causes of all transitions so far."""
        return [transition for transition in self.transitions if transition.change is Change.OPENED]


def changes(transitions: list[Transition]) -> list[tuple[Change, Cause]]:
    """What happened to which chains."""
    return [(change, chain.cause) for change, chain in transitions]
