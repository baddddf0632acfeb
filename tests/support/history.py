"""Windows, chain events and runs for tests of the history and of `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, End, Severity
from exporter.chains.event import ChainEvent
from exporter.history.membership import Membership
from exporter.history.run import Run
from exporter.history.window import OperationTime, ProcessLabels, Switches, Window
from exporter.model import Identity
from exporter.python.call_site import CallSite, CallStack, PythonFrame
from exporter.totals import Counts, HistogramTotal

SECOND = 1_000_000_000
NOON = 1_800_000_000 * SECOND
"""2027-01-15 08:00:00 UTC."""

MS = 1_000_000


def times(count: int, each_ns: int, slot: int = 190) -> HistogramTotal:
    """All in one bucket."""
    return HistogramTotal(Counts.of([count], begin=slot), count * each_ns)


def process_labels(rank: str = "3", tgid: int = 100, **labels: str) -> ProcessLabels:
    return ProcessLabels(Identity(node="gpu7", rank=rank, **labels), tgid, "python")


def a_stack(line: int = 142) -> CallStack:
    """step() of a job in /srv/job, which calls a package."""
    package = "/opt/venv/lib/python3.11/site-packages/torch/cuda/streams.py"
    frames = (PythonFrame(package, "Stream.synchronize", 106), PythonFrame("/srv/job/train.py", "step", line))
    return CallStack("/srv/job", frames)


def a_call_site(line: int = 142, calls: int = 23, each_ns: int = 50 * MS, **changes: Any) -> CallSite:
    """Slow calls of cudaStreamSynchronize from a line of step()."""
    known: dict[str, Any] = {
        "api": "runtime",
        "operation": "cudaStreamSynchronize",
        "slow_from_ns": 25 * MS,
        "calls": calls,
        "total_ns": calls * each_ns,
        "stack": a_stack(line),
    }
    return CallSite(**(known | changes))


def a_window(ended_seconds: float = 10.0, **changes: Any) -> Window:
    """Ten seconds of rank 3: 500 steps of 20 ms, one second lost. ended_seconds: after NOON."""
    ended_unix_ns = NOON + int(ended_seconds * SECOND)
    known: dict[str, Any] = {
        "process": 1,
        "labels": process_labels(),
        "began_unix_ns": ended_unix_ns - 10 * SECOND,
        "ended_unix_ns": ended_unix_ns,
        "steps": times(500, 20 * MS),
        "lost_ns": {"cpu_contention": 900 * MS, "lock": 100 * MS},
        "culprits_ns": (("cpu_contention", "stress-ng", 900 * MS),),
        "states_ns": {"on_cpu": 4 * SECOND, "gpu_wait": 5 * SECOND, "runnable": 900 * MS, "lock": 100 * MS},
        "switches": Switches(900, 100),
        "operations": (OperationTime("runtime", "cudaStreamSynchronize", 500, 0, times(500, 10 * MS)),),
    }
    return Window(**(known | changes))


def a_membership(**changes: Any) -> Membership:
    """Rank 3 of 16, which has entered 41 collectives, the last one at NOON."""
    known: dict[str, Any] = {
        "process": 1,
        "communicator": 77,
        "rank": 3,
        "ranks": 16,
        "collectives": 41,
        "entered_unix_ns": NOON,
        "labels": process_labels(),
    }
    return Membership(**(known | changes))


def an_event(began_seconds: float = 0.0, **changes: Any) -> ChainEvent:
    """Rank 3 loses 46 % of its time to stress-ng; opened a second after it began. began_seconds: after NOON."""
    began_unix_ns = NOON + int(began_seconds * SECOND)
    known: dict[str, Any] = {
        "change": Change.OPENED,
        "at_unix_ns": began_unix_ns + SECOND,
        "chain_id": "1" * 32,
        "cause": Cause.CPU_CONTENTION,
        "effect": Effect.GAP,
        "severity": Severity.HIGH,
        "began_unix_ns": began_unix_ns,
        "duration_ns": SECOND,
        "slowdown": 0.9,
        "usual_step_ns": 14 * MS,
        "lost_share": 0.46,
        "contribution": 0.97,
        "shares": (("cpu_contention", 0.97), ("cpu_oversubscribed", 0.02)),
        "culprits": (("stress-ng", 0.94), ("cron", 0.04)),
        "peer": "",
        "is_chronic": False,
        "end": None,
        "identity": Identity(node="gpu7", rank="3", pod="trainer-0"),
        "tgid": 100,
        "cgroup": "/job",
        "culprit_tgids": (777,),
        "start_ticks": 5,
        "culprit_start_ticks": (5,),
        "remedy": "stress-ng is using the job's CPUs. Pin it elsewhere.",
        "commands": ("taskset -acp 0-3 100", "renice -n 19 -p 777"),
    }
    return ChainEvent(**(known | changes))


def resolved(event: ChainEvent, duration_seconds: float, end: End = End.RECOVERED) -> ChainEvent:
    """The event that resolves the same chain."""
    changes: Mapping[str, Any] = {
        "change": Change.RESOLVED,
        "at_unix_ns": event.began_unix_ns + int(duration_seconds * SECOND),
        "duration_ns": int(duration_seconds * SECOND),
        "end": end,
    }
    return ChainEvent(**({name: getattr(event, name) for name in event.__slots__} | changes))


def a_run(began_seconds: float = -600.0, seen_seconds: float = 200.0, **changes: Any) -> Run:
    """A run that goes on. began_seconds, seen_seconds: after NOON."""
    known: dict[str, Any] = {
        "id": 1,
        "began_unix_ns": NOON + int(began_seconds * SECOND),
        "seen_unix_ns": NOON + int(seen_seconds * SECOND),
        "ended_unix_ns": None,
        "version": "1.0",
        "has_chains": True,
        "window_seconds": 10.0,
    }
    return Run(**(known | changes))
