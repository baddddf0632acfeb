"""The explanation of a recording: what the engine says now of a capsule's rows."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from exporter.chains.event import ChainEvent
from exporter.chains.remedies import ProcessContext
from exporter.explain.explanation import Explanation, explain
from exporter.explain.selection import Selection
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.window import NO_STEPS, NO_SWITCHES, ProcessLabels, Window
from exporter.model import Identity, label_value
from exporter.pipeline.replay import ReplayedRun
from exporter.recording.file import RecordedProcess, Recording
from exporter.units import seconds


class ExplainedRecording(NamedTuple):
    """What the engine says now of a capsule, in the time of day of then. told: with seconds since its first tick."""

    told: tuple[tuple[float, ChainEvent], ...]
    explanation: Explanation


def recall(capsule: Recording, selection: Selection | None = None) -> ExplainedRecording:
    """Raises ValueError for ticks that are none."""
    replayed, at = ReplayedRun(capsule.ticks()), capsule.taken_at
    told = []
    for now_ns, (transition, tgid, culprit_tgids) in replayed.play(until_end=False):
        subject = capsule.processes.get(transition.chain.process, RecordedProcess(None, tgid))
        place = ProcessContext(tgid, subject.cgroup, subject.cpus, culprit_tgids)
        now = at._replace(monotonic_ns=now_ns, unix_ns=at.unix_ns_of(now_ns))
        report = ChainEvent.from_transition(transition, subject.identity, place, now)
        told.append((seconds(now_ns - replayed.began_ns), report))
    began_unix_ns, ended_unix_ns = at.unix_ns_of(replayed.began_ns), at.unix_ns_of(replayed.now_ns)
    run = Run(1, began_unix_ns, ended_unix_ns, None, capsule.version, True, seconds(ended_unix_ns - began_unix_ns))
    windows = [_window(capsule, replayed, number, (began_unix_ns, ended_unix_ns)) for number in replayed.processes]
    explanation = explain(
        [run],
        [RecordedEvent(run.id, report) for _, report in told],
        [RecordedWindows(run.id, began_unix_ns, ended_unix_ns, windows)],
        selection=selection or Selection(),
        since_unix_ns=began_unix_ns,
        now_unix_ns=ended_unix_ns,
    )
    return ExplainedRecording(tuple(told), explanation)


def _window(capsule: Recording, replayed: ReplayedRun, number: int, span_unix_ns: tuple[int, int]) -> Window:
    """The whole capsule of one process: what was lost, and its steps. Histograms of calls are not in it."""
    subject, row, times = capsule.processes.get(number), replayed.processes[number], replayed.times.get(number)
    identity = subject.identity if subject else None
    lost_ns: Counter[str] = Counter()
    culprits_ns: Counter[tuple[str, str]] = Counter()
    for (cause, culprit), ns in times.lost.items() if times else ():
        lost_ns[cause.value] += ns
        culprits_ns[cause.value, culprit] += ns
    return Window(
        number,
        ProcessLabels(
            identity or Identity(), row.tgid, label_value(row.comm.split(b"\0", 1)[0].decode(errors="replace"))
        ),
        *span_unix_ns,
        times.steps if times and times.steps else NO_STEPS,
        lost_ns,
        tuple((cause, culprit, ns) for (cause, culprit), ns in culprits_ns.most_common()),
        {},
        NO_SWITCHES,
        (),
    )
