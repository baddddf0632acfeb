"""Explains a recording: runs its rows through the accounting and the detection again."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from exporter.chains.event import ChainEvent
from exporter.chains.remedies import ProcessContext
from exporter.explain.explanation import Explanation, explain
from exporter.files.budget import ReadBudget
from exporter.history.run import RecordedEvent, RecordedWindows
from exporter.history.selection import Selection
from exporter.pipeline.replay import ReplayedRun, replaying
from exporter.pipeline.replayed_windows import ReplayedWindows, recorded_run
from exporter.recording.file import RecordedProcess, Recording
from exporter.units import seconds


class ExplainedRecording(NamedTuple):
    """events: with seconds since the first tick; their times of day are those of the recording."""

    events: tuple[tuple[float, ChainEvent], ...]
    explanation: Explanation


def explain_recording(
    recording: Recording, selection: Selection | None = None, budget: ReadBudget | None = None
) -> ExplainedRecording:
    """budget: time for the replay, by default as the size allows. Raises ValueError for ticks that cannot be replayed."""
    with replaying(recording, budget) as replayed:
        return _explained(recording, selection or Selection(), replayed)


def _explained(recording: Recording, selection: Selection, replayed: ReplayedRun) -> ExplainedRecording:
    at = recording.taken_at
    events = []
    for now_ns, (transition, tgid, culprit_tgids) in replayed.play(until_end=False):
        process = recording.processes.get(transition.chain.process, RecordedProcess(None, tgid))
        context = ProcessContext(tgid, process.cgroup, process.cpus, culprit_tgids)
        now = at._replace(monotonic_ns=now_ns, unix_ns=at.unix_ns_of(now_ns))
        event = ChainEvent.from_transition(transition, process.identity, context, now)
        events.append((seconds(now_ns - replayed.began_ns), event))
    run = recorded_run(recording, replayed.began_ns, replayed.now_ns)
    explanation = explain(
        [run],
        [RecordedEvent(run.id, event) for _, event in events],
        [_with_call_sites(recording, ReplayedWindows(recording, replayed).take())],
        selection=selection,
        since_unix_ns=run.began_unix_ns,
        now_unix_ns=run.seen_unix_ns,
        with_operations=True,
    )
    return ExplainedRecording(tuple(events), explanation)


def _with_call_sites(recording: Recording, recorded: RecordedWindows) -> RecordedWindows:
    """With the slow calls of the recorded minute, which a recording has by line of Python and not by operation."""
    return recorded._replace(
        windows=[
            replace(one, operations=(), call_sites=process.call_sites if process else ())
            for one in recorded.windows
            for process in (recording.processes.get(one.process),)
        ]
    )
