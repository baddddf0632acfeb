"""Explains a recording: runs its rows through the accounting and the detection again."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from exporter.causes import largest_first
from exporter.chains.event import ChainEvent
from exporter.chains.remedies import ProcessContext
from exporter.explain.explanation import Explanation, explain
from exporter.explain.selection import Selection
from exporter.files.budget import ReadBudget, Unfinished
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.window import NO_STEPS, NO_SWITCHES, ProcessLabels, Window
from exporter.model import Identity, label_value
from exporter.pipeline.replay import ReplayedRun
from exporter.recording.codec import Tick
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
    budget = budget or ReadBudget.for_size(sum(map(len, recording.compressed_ticks)))
    try:
        return _explained(recording, selection or Selection(), budget)
    except Unfinished as error:
        raise ValueError(f"gave up: {error}") from None
    except (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, struct.error) as error:
        # The rows of a recording are those of our kernel programs, which the accounting need not check.
        raise ValueError(f"its rows are not those of a node ({type(error).__name__})") from error


def _within(ticks: Iterable[Tick], budget: ReadBudget) -> Iterator[Tick]:
    for tick in ticks:
        budget.check()
        yield tick


def _explained(recording: Recording, selection: Selection, budget: ReadBudget) -> ExplainedRecording:
    replayed, at = ReplayedRun(_within(recording.ticks(), budget)), recording.taken_at
    events = []
    for now_ns, (transition, tgid, culprit_tgids) in replayed.play(until_end=False):
        process = recording.processes.get(transition.chain.process, RecordedProcess(None, tgid))
        context = ProcessContext(tgid, process.cgroup, process.cpus, culprit_tgids)
        now = at._replace(monotonic_ns=now_ns, unix_ns=at.unix_ns_of(now_ns))
        event = ChainEvent.from_transition(transition, process.identity, context, now)
        events.append((seconds(now_ns - replayed.began_ns), event))
    began_unix_ns, ended_unix_ns = at.unix_ns_of(replayed.began_ns), at.unix_ns_of(replayed.now_ns)
    run = Run(1, began_unix_ns, ended_unix_ns, None, recording.version, True, seconds(ended_unix_ns - began_unix_ns))
    windows = [_window(recording, replayed, number, (began_unix_ns, ended_unix_ns)) for number in replayed.processes]
    explanation = explain(
        [run],
        [RecordedEvent(run.id, event) for _, event in events],
        [RecordedWindows(run.id, began_unix_ns, ended_unix_ns, windows)],
        selection=selection,
        since_unix_ns=began_unix_ns,
        now_unix_ns=ended_unix_ns,
    )
    return ExplainedRecording(tuple(events), explanation)


def _window(recording: Recording, replayed: ReplayedRun, number: int, span_unix_ns: tuple[int, int]) -> Window:
    """One window for the whole recording: lost time and steps of a process. A recording has no histograms of calls."""
    process, row, times = recording.processes.get(number), replayed.processes[number], replayed.times.get(number)
    identity = process.identity if process else None
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
        tuple((cause, culprit, ns) for (cause, culprit), ns in largest_first(culprits_ns)),
        {},
        NO_SWITCHES,
        (),
    )
