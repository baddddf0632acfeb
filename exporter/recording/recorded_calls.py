"""What a stream of frames holds, for those who show it: calls, and states of threads with who ended them.

In: frames, in their order. Out: SingleCalls and ThreadSpans with times of day, each thread's in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from exporter.errors import NotPossibleHere
from exporter.kernel import abi
from exporter.kernel.abi import Copy, HostMemory, RecordedKind, ThreadState
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.recorded_events import RecordedCall, RecordedChange, events_in
from exporter.recording.call_stream import (
    FrameKind,
    RecordedThread,
    RecordingEnd,
    RecordingHead,
    end_of,
    failure_of,
    head_of,
    threads_of,
)
from exporter.text.printable import printable
from exporter.units import seconds

Value = str | int | float | bool
RUNNING: Final = "running"
RUNNABLE: Final = "runnable"
_RUNNING_STATES = frozenset({ThreadState.ON_CPU, ThreadState.RECLAIM})
_DIRECTIONS: Final = {
    Copy.HOST_TO_HOST: "host to host",
    Copy.HOST_TO_DEVICE: "host to GPU",
    Copy.DEVICE_TO_HOST: "GPU to host",
    Copy.DEVICE_TO_DEVICE: "GPU to GPU",
    Copy.DEFAULT: "decided at run time",
    Copy.PEER: "GPU to another GPU",
}


class JoinedCollective(NamedTuple):
    """What the calls of all ranks have in common. communicator: hash."""

    communicator: int
    sequence: int


class SingleCall(NamedTuple):
    """depth: traced calls that enclose it. arguments: names and values that are known."""

    process: int
    tid: int
    name: str
    depth: int
    began_unix_ns: int
    ended_unix_ns: int
    arguments: Mapping[str, Value]
    collective: JoinedCollective | None


class StateSpan(NamedTuple):
    """A thread was in one state. wake: number of the wake-up that began it, 0: none. waker_tid: 0 if it is not known."""

    process: int
    tid: int
    state: str
    began_unix_ns: int
    ended_unix_ns: int
    arguments: Mapping[str, Value]
    wake: int = 0
    waker_tid: int = 0


def state_name(state: int) -> str:
    """`running`, `runnable`, `throttled`, `blocked: lock`."""
    if state in _RUNNING_STATES:
        return RUNNING
    if state in {ThreadState.RUNNABLE, ThreadState.THROTTLED}:
        return RUNNABLE if state == ThreadState.RUNNABLE else "throttled"
    return f"blocked: {ThreadState(state).name.lower().replace('_', ' ')}"


@dataclass(slots=True)
class _Open:
    """The state that a thread is in."""

    process: int
    state: str
    began_ns: int
    arguments: dict[str, Value] = field(default_factory=dict)
    wake: int = 0
    waker_tid: int = 0


class RecordedCalls:
    """head, end: None before they have come. threads: as of the last frame that had them, by process and tid."""

    def __init__(self) -> None:
        self.head: RecordingHead | None = None
        self.end: RecordingEnd | None = None
        self.threads: dict[tuple[int, int], RecordedThread] = {}
        self.calls = 0
        self._open: dict[int, _Open] = {}
        self._wakes = 0
        self._last: list[RecordedThread] | None = None

    def read(self, stream: Iterable[tuple[FrameKind, bytes]]) -> Iterator[SingleCall | StateSpan]:
        """Raises the error that the other side sent instead; NotPossibleHere if the stream is cut, or holds something else."""
        for kind, content in stream:
            try:
                yield from self._read(kind, content)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise NotPossibleHere("the recording is damaged") from error
        if self.end is None:
            raise NotPossibleHere("the recording ended early: the exporter has stopped")

    def _read(self, kind: FrameKind, content: bytes) -> Iterator[SingleCall | StateSpan]:
        if kind is FrameKind.FAILURE:
            raise failure_of(content)
        if kind is FrameKind.HEAD:
            self.head = head_of(content)
        elif self.head is None:
            raise ValueError("no head")
        elif kind is FrameKind.THREADS:
            self._note_threads(threads_of(content), self.head)
        elif kind is FrameKind.PIECE:
            for event in events_in(content):
                if isinstance(event, RecordedCall):
                    self.calls += 1
                    yield self._call(event)
                else:
                    yield from self._change(event)
        else:
            self.end = end_of(content)
            yield from self._finish(self.end)

    def _note_threads(self, threads: list[RecordedThread], head: RecordingHead) -> None:
        is_first = self._last is None
        self._last = threads
        for thread in threads:
            self.threads[thread.process, thread.tid] = thread
            if is_first:
                self._open.setdefault(thread.tid, _Open(thread.process, state_name(thread.state), head.began_ns))

    def _unix(self, at_ns: int) -> int:
        return at_ns + (self.head.unix_offset_ns if self.head else 0)

    def _call(self, call: RecordedCall) -> SingleCall:
        collective = JoinedCollective(call.communicator_hash, call.sequence) if call.sequence and call.detail else None
        return SingleCall(
            call.process,
            call.tid,
            call.of.name,
            call.depth,
            self._unix(call.began_ns),
            self._unix(call.ended_ns),
            _arguments(call),
            collective,
        )

    def _change(self, change: RecordedChange) -> Iterator[StateSpan]:
        other = printable(change.other_name)
        if change.kind == RecordedKind.ENDED:
            yield from self._close(change.tid, change.at_ns)
            return
        known = self._open.get(change.tid)
        if change.kind == RecordedKind.CAME:
            if known is not None and known.state == RUNNABLE:
                _blame(known, other, change)
            yield from self._close(change.tid, change.at_ns)
            self._open[change.tid] = _Open(change.process, RUNNING, change.at_ns)
        elif change.kind == RecordedKind.LEFT:
            yield from self._close(change.tid, change.at_ns)
            begun = self._open[change.tid] = _Open(change.process, state_name(change.state), change.at_ns)
            if begun.state == RUNNABLE and other:
                begun.arguments |= {"culprit": other, "culprit_pid": change.other_tgid}
        elif known is None or known.state not in {RUNNING, RUNNABLE}:
            waker: dict[str, Value] = {"woken_by": other or "an interrupt"}
            if other:
                waker["woken_by_pid"] = change.other_tgid
            yield from self._close(change.tid, change.at_ns, waker)
            self._wakes += 1
            self._open[change.tid] = _Open(
                change.process, RUNNABLE, change.at_ns, dict(waker), self._wakes, change.other_tid
            )

    def _close(self, tid: int, at_ns: int, more: Mapping[str, Value] | None = None) -> Iterator[StateSpan]:
        """The state that ends now."""
        known = self._open.pop(tid, None)
        if known is not None and at_ns > known.began_ns:
            yield StateSpan(
                known.process,
                tid,
                known.state,
                self._unix(known.began_ns),
                self._unix(at_ns),
                {**known.arguments, **(more or {})},
                known.wake,
                known.waker_tid,
            )

    def _finish(self, end: RecordingEnd) -> Iterator[SingleCall | StateSpan]:
        """Calls that have not returned, and states that go on."""
        for thread in self._last or ():
            if thread.operation != abi.OPERATION_NONE and thread.opened_ns < end.ended_ns:
                yield SingleCall(
                    thread.process,
                    thread.tid,
                    OPERATIONS[thread.operation].name,
                    0,
                    self._unix(thread.opened_ns),
                    self._unix(end.ended_ns),
                    {"is_open": True},
                    None,
                )
        for tid in list(self._open):
            yield from self._close(tid, end.ended_ns)


def _blame(known: _Open, other: str, change: RecordedChange) -> None:
    """Who had the CPU that a runnable thread waited for: who took it, or else who left it last."""
    if other:
        known.arguments.setdefault("culprit", other)
        known.arguments.setdefault("culprit_pid", change.other_tgid)
    if change.throttled_ns:
        known.arguments["throttled_seconds"] = seconds(change.throttled_ns)


def _arguments(call: RecordedCall) -> dict[str, Value]:
    known: dict[str, Value | None] = {
        "code": call.code or None,
        "bytes": call.bytes,
        "direction": _DIRECTIONS[call.copy] if call.copy is not None else None,
        "host_memory": call.memory.name.lower() if call.memory is not HostMemory.UNKNOWN else None,
        "communicator": f"{call.communicator_hash:016x}" if call.communicator_hash else None,
        "sequence": call.sequence or None,
    }
    if call.grid:
        known["blocks"], known["threads_of_a_block"] = call.grid
    return {name: value for name, value in known.items() if value is not None}
