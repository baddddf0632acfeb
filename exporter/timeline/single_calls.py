"""The items of a recording of single calls: a track for each thread with its calls, and below it one with its states.

In: calls and states of threads. Out: items. Flows lead from who woke a thread to the thread, and join the calls of one
collective on all ranks of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

from exporter.history.process_names import process_name
from exporter.recording.call_stream import RecordedJob
from exporter.recording.recorded_calls import JoinedCollective, RecordedCalls, SingleCall, StateSpan
from exporter.timeline.item import Argument, Arguments, Instant, Item, Slice, Track
from exporter.units import seconds

CALL, STATE, WAKE, DROPPED = "call", "state", "wake", "dropped"
"""Categories of slices and instants."""
_COLLECTIVE_FLOWS: Final = 1 << 32
"""The first number of a flow of a collective; smaller ones are those of wake-ups."""
_UNKNOWN = RecordedJob(None, 0, "", 0, 0, 0, 0)


class Collectives:
    """When the ranks of the node entered each collective. note() them all first."""

    def __init__(self) -> None:
        self._entered: dict[JoinedCollective, list[tuple[int, int]]] = {}
        self._numbers: dict[JoinedCollective, int] = {}

    def note(self, call: SingleCall) -> None:
        if call.collective is not None:
            self._entered.setdefault(call.collective, []).append((call.began_unix_ns, call.process))

    def of(self, call: SingleCall) -> tuple[Arguments, tuple[int, ...]]:
        """What is known of the collective from all its ranks here, and the number of its flow; nothing with one rank."""
        entered = self._entered.get(call.collective, []) if call.collective else []
        if call.collective is None or len({process for _, process in entered}) < 2:
            return {}, ()
        number = self._numbers.setdefault(call.collective, len(self._numbers))
        first_ns = min(entered)[0]
        arguments: dict[str, Argument] = {
            "ranks_here": len(entered),
            "entered_after_first_seconds": seconds(call.began_unix_ns - first_ns),
        }
        return arguments, (_COLLECTIVE_FLOWS + number,)


class SingleCallTimeline:
    """read: the recording, read to its end before, for the names of processes and threads. slices: of calls so far."""

    def __init__(self, read: RecordedCalls, collectives: Collectives) -> None:
        self._read = read
        self._collectives = collectives
        self._numbers = count(1)
        self._node: Track | None = None
        self._processes: dict[int, Track] = {}
        self._threads: dict[int, tuple[Track, Track]] = {}
        self.slices = 0

    def items(self, found: Iterable[SingleCall | StateSpan]) -> Iterator[Item]:
        for one in found:
            if isinstance(one, SingleCall):
                yield self._call(one)
            else:
                yield from self._span(one)
        yield from self._dropped()

    def _call(self, call: SingleCall) -> Slice:
        self.slices += 1
        more, flows = self._collectives.of(call)
        track, _ = self._thread(call.process, call.tid)
        return Slice(track, CALL, call.name, call.began_unix_ns, call.ended_unix_ns, {**call.arguments, **more}, flows)

    def _span(self, span: StateSpan) -> Iterator[Item]:
        _, track = self._thread(span.process, span.tid)
        flows = (span.wake,) if span.wake and span.waker_tid in self._threads else ()
        if flows:
            waker, _ = self._threads[span.waker_tid]
            name = self._name(span.process, span.tid)
            yield Instant(waker, WAKE, f"wakes {name}", span.began_unix_ns, {}, flows)
        yield Slice(track, STATE, span.state, span.began_unix_ns, span.ended_unix_ns, span.arguments, flows)

    def _dropped(self) -> Iterator[Item]:
        """What is missing, at the end of each process."""
        end, head = self._read.end, self._read.head
        if end is None or head is None:
            return
        at_unix_ns = end.ended_ns + head.unix_offset_ns
        if end.skipped:
            yield Instant(self._node_track(), DROPPED, "events dropped", at_unix_ns, {"skipped": end.skipped})
        for number, job in end.processes.items():
            if job.full or job.left_out:
                missing = {"ring_full": job.full, "over_overhead_limit": job.left_out}
                yield Instant(self._process(number), DROPPED, "events dropped", at_unix_ns, missing)

    def _node_track(self) -> Track:
        if self._node is None:
            node = self._read.head.node if self._read.head else ""
            self._node = self._track(f"node {node}" if node else "node", None, is_process=True)
        return self._node

    def _process(self, number: int) -> Track:
        if number not in self._processes:
            job = self._read.end.processes.get(number, _UNKNOWN) if self._read.end else _UNKNOWN
            name = process_name(job.identity, job.tgid, job.comm)
            self._processes[number] = self._track(name, self._node_track(), is_process=True)
        return self._processes[number]

    def _thread(self, process: int, tid: int) -> tuple[Track, Track]:
        """The track of its calls, and that of its states."""
        if tid not in self._threads:
            calls = self._track(self._name(process, tid), self._process(process))
            self._threads[tid] = calls, self._track("state", calls)
        return self._threads[tid]

    def _name(self, process: int, tid: int) -> str:
        known = self._read.threads.get((process, tid))
        return f"{known.comm} {tid}" if known and known.comm else f"thread {tid}"

    def _track(self, name: str, parent: Track | None, *, is_process: bool = False) -> Track:
        number = next(self._numbers)
        return Track(number, name, parent, None, number, is_process)
