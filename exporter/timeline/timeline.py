"""The items of a timeline: what each workload did, its chains, and when the exporter was running.

In: a TimelineSource. Out: items, streamed: windows first, in the order of time, then chains. A viewer sorts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from exporter.causes import Cause, largest_first
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.history.process_names import process_name
from exporter.history.recorded_chains import RecordedChain
from exporter.history.run import RecordedWindows, Run
from exporter.history.selection import Selection
from exporter.history.window import ProcessLabels, Window
from exporter.model import Identity
from exporter.pipeline.replayed_windows import SlowCallSpan, ThreadSpan
from exporter.python.call_site import CallStack
from exporter.text import figures
from exporter.timeline.chain_arguments import chain_arguments
from exporter.timeline.item import Argument, Arguments, Instant, Item, Slice, Track, Value
from exporter.timeline.slow_lines import slow_lines
from exporter.timeline.source import TimelineSource
from exporter.timeline.tracks import Lane, Tracks, WorkloadTracks
from exporter.units import NANOSECONDS, seconds

LOST, SLOW_CALLS, THREAD, CHAIN, SEVERITY, STACK, EXPERIMENT, EXPORTER = (
    "lost_time",
    "slow_calls",
    "thread",
    "chain",
    "severity",
    "stack",
    "experiment",
    "exporter",
)
"""Categories of slices and instants."""

NAMES_MAX: Final = 1000
"""Processes that are remembered for the message that --workload selects none of them."""

_STACKS_MAX: Final = 1 << 16
"""Remembered at a time: 8 MiB."""

_CAUSES: Final = frozenset(Cause)
_OTHER_CAUSES: Final = "others"  # of a newer version
_GAP_NS: Final = NANOSECONDS


class Timeline:
    """names: of the processes that were left out. is_empty: nothing was selected. Both as of the last item."""

    def __init__(self, source: TimelineSource, selection: Selection) -> None:
        self._source = source
        self._selection = selection
        self._tracks = Tracks()
        self._stacks: set[tuple[int, int]] = set()
        self.names: set[str] = set()
        self.is_empty = True

    def items(self) -> Iterator[Item]:
        for run in sorted(self._source.runs, key=lambda one: one.began_unix_ns):
            yield self._run(run)
        for done in self._source.done:
            if isinstance(done, RecordedWindows):
                yield from self._windows(done)
            elif self._selects(done.labels):
                yield from self._slow_calls(done) if isinstance(done, SlowCallSpan) else (self._thread(done),)
        for tracks in self._tracks.workloads:
            yield from _silence(tracks)
        chains = [chain for chain in self._source.chains if self._selects(_labels(chain.last))]
        for chain in sorted(chains, key=lambda one: one.last.began_unix_ns):
            yield from self._chain(chain)
        yield from self._open_chains(chains)

    def _selects(self, labels: ProcessLabels) -> bool:
        if self._selection.matches(labels.identity, labels.tgid):
            self.is_empty = False
            return True
        if len(self.names) < NAMES_MAX:
            self.names.add(process_name(labels.identity, labels.tgid, labels.comm))
        return False

    def _run(self, run: Run) -> Slice:
        ended_unix_ns = run.ended_unix_ns or run.seen_unix_ns
        lane = self._tracks.exporter(self._clipped(run.began_unix_ns))
        span = lane.placed(self._clipped(run.began_unix_ns), ended_unix_ns)
        return Slice(lane.track, EXPORTER, f"version {run.version}", *span, {})

    def _clipped(self, unix_ns: int) -> int:
        """The begin of what may have begun long before the time span."""
        return max(unix_ns, self._source.since_unix_ns)

    # ---- windows and threads

    def _windows(self, recorded: RecordedWindows) -> Iterator[Item]:
        for window in recorded.windows:
            if self._selects(window.labels):
                tracks = self._tracks.workload(window.labels, window.process)
                if window.began_unix_ns > tracks.covered_until_unix_ns + _GAP_NS:
                    yield from _silence(tracks)
                yield from _lost_time(tracks, window)
                yield from self._slow_calls(window)
                yield from _values(tracks, window)
                tracks.covered_until_unix_ns = window.ended_unix_ns

    def _slow_calls(self, span: Window | SlowCallSpan) -> Iterator[Slice | Instant]:
        """One slice for each slow line over the whole span, and on it an instant for each stack that is new there."""
        tracks = self._tracks.workload(span.labels, span.process)
        for line in slow_lines(span.call_sites, span.ended_unix_ns - span.began_unix_ns):
            lane = tracks.line(line.name, span.began_unix_ns)
            placed = lane.placed(span.began_unix_ns, span.ended_unix_ns)
            yield Slice(lane.track, SLOW_CALLS, line.name, *placed, line.arguments)
            for stack in line.stacks:
                if self._is_new(lane.track, stack):
                    frames = tuple(map(stack.shown, stack.frames))
                    yield Instant(lane.track, STACK, line.name, placed[0], {"stack": frames})

    def _is_new(self, track: Track, stack: CallStack) -> bool:
        key = track.number, hash(stack)
        if key in self._stacks:
            return False
        if len(self._stacks) >= _STACKS_MAX:
            self._stacks.clear()
        self._stacks.add(key)
        return True

    def _thread(self, span: ThreadSpan) -> Slice:
        lane = self._tracks.workload(span.labels).thread(span.tid, span.comm)
        states = largest_first(span.states_ns)
        arguments: dict[str, Argument] = {f"{state}_seconds": seconds(ns) for state, ns in states}
        if span.operation:
            arguments["open_call"] = span.operation
        name = states[0][0] if states else "unknown"
        return Slice(lane.track, THREAD, name, *lane.placed(span.began_unix_ns, span.ended_unix_ns), arguments)

    # ---- chains

    def _chain(self, chain: RecordedChain) -> Iterator[Item]:
        """One slice for the chain, and within it one for each severity that it had."""
        event = chain.last
        began_unix_ns = self._clipped(event.began_unix_ns)
        lane = self._tracks.workload(_labels(event)).chain(began_unix_ns)
        began_unix_ns, ended_unix_ns = lane.placed(began_unix_ns, chain.known_until_unix_ns)
        yield Slice(lane.track, CHAIN, event.cause.value, began_unix_ns, ended_unix_ns, chain_arguments(chain))
        within = Lane(lane.track)
        within.until_unix_ns = began_unix_ns
        for at_unix_ns, until_unix_ns, severity in _severities(chain):
            span = within.placed(min(at_unix_ns, ended_unix_ns), min(until_unix_ns, ended_unix_ns))
            yield Slice(lane.track, SEVERITY, severity, *span, {})
        for one in chain.events:
            if one.evidence:
                at_unix_ns = min(max(one.at_unix_ns, began_unix_ns), ended_unix_ns)
                yield Instant(lane.track, STACK, one.evidence[0], at_unix_ns, {"stack": one.evidence})
        for one in chain.confirmations:
            yield Instant(lane.track, EXPERIMENT, one.change.value, one.at_unix_ns, {"measured": one.evidence})

    def _open_chains(self, chains: Iterable[RecordedChain]) -> Iterator[Value]:
        """How many chains of each severity were open, whenever that changed."""
        changes: dict[tuple[str, str], Counter[int]] = {}
        for chain in chains:
            node = _labels(chain.last).identity.node
            for began_unix_ns, ended_unix_ns, severity in _severities(chain):
                of_severity = changes.setdefault((node, severity), Counter())
                of_severity[self._clipped(began_unix_ns)] += 1
                of_severity[max(ended_unix_ns, self._clipped(began_unix_ns))] -= 1
        for (node, severity), of_severity in sorted(changes.items()):
            track, open_chains = self._tracks.open_chains(node, severity), 0
            for at_unix_ns, change in sorted(of_severity.items()):
                open_chains += change
                yield Value(track, at_unix_ns, open_chains)


def _labels(event: ChainEvent) -> ProcessLabels:
    return ProcessLabels(event.identity or Identity(), event.tgid, "")


def _severities(chain: RecordedChain) -> Iterator[tuple[int, int, str]]:
    """Since when, until when, and which; the last one until the chain is known to have been open."""
    changes = [one for one in chain.events if one.change in (Change.OPENED, Change.ESCALATED)] or list(chain.events[:1])
    begins = [changes[0].began_unix_ns, *(one.at_unix_ns for one in changes[1:]), chain.known_until_unix_ns]
    for change, began_unix_ns, ended_unix_ns in zip(changes, begins, begins[1:], strict=False):
        yield began_unix_ns, max(began_unix_ns, ended_unix_ns), change.severity.name.lower()


def _lost_time(tracks: WorkloadTracks, window: Window) -> Iterator[Slice]:
    """One slice for each cause, over the whole window: when in it the time was lost is not known."""
    culprits: dict[str, list[str]] = {}
    for cause, culprit, ns in window.culprits_ns:
        if culprit:
            culprits.setdefault(cause, []).append(f"{culprit} {figures.duration(ns)}")
    for cause, ns in largest_first(window.lost_ns):
        if ns <= 0:
            continue
        lane = tracks.cause(cause if cause in _CAUSES else _OTHER_CAUSES)
        span = lane.placed(window.began_unix_ns, window.ended_unix_ns)
        share = _share(ns, window)
        arguments: Arguments = {
            "cause": cause,
            "lost_seconds": seconds(ns),
            "lost_ratio": share,
            **({"culprits": tuple(culprits[cause])} if cause in culprits else {}),
        }
        yield Slice(lane.track, LOST, f"{cause} {figures.percent(share)}", *span, arguments)


def _values(tracks: WorkloadTracks, window: Window) -> Iterator[Value]:
    at_unix_ns, steps = window.began_unix_ns, window.steps.counts.total
    per_second: Callable[[int], float] = lambda number: number * NANOSECONDS / max(window.duration_ns, 1)  # noqa: E731
    yield Value(tracks.lost_share, at_unix_ns, 100 * _share(sum(window.lost_ns.values()), window))
    yield Value(tracks.step_duration, at_unix_ns, window.steps.sum_ns / steps / 1e6 if steps else 0.0)
    yield Value(tracks.steps, at_unix_ns, per_second(steps))
    yield Value(tracks.calls, at_unix_ns, per_second(sum(one.calls for one in window.operations)))


def _silence(tracks: WorkloadTracks) -> Iterator[Value]:
    """After its last window a workload did nothing."""
    if tracks.covered_until_unix_ns:
        for track in (tracks.lost_share, tracks.step_duration, tracks.steps, tracks.calls):
            yield Value(track, tracks.covered_until_unix_ns, 0.0)


def _share(ns: int, window: Window) -> float:
    """At most 1: what was lost before a window may be decided in it."""
    return min(max(ns, 0) / max(window.duration_ns, 1), 1.0)
