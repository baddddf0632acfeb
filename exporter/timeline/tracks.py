"""The tracks of a timeline, made when first used: node, workload, and what belongs to a workload."""

from __future__ import annotations

import enum
from collections.abc import Callable
from itertools import count
from typing import Final

from exporter.errors import NotPossibleHere
from exporter.history.process_names import process_name
from exporter.history.window import ProcessLabels
from exporter.model import Identity
from exporter.timeline.item import Track

TRACKS_MAX: Final = 1 << 16
"""A workload has about a dozen, so that 32 MiB hold the tracks of five thousand."""

LINES_MAX: Final = 32
"""Lines of code of one workload that have a track each."""


class _Order(enum.IntEnum):
    """From the top down."""

    CHAINS = enum.auto()
    LOST_TIME = enum.auto()
    LOST_SHARE = enum.auto()
    STEP_DURATION = enum.auto()
    STEPS = enum.auto()
    CALLS = enum.auto()
    SLOW_CALLS = enum.auto()
    THREADS = enum.auto()
    WORKLOADS = enum.auto()


class TooManyTracks(NotPossibleHere):
    """The source holds more processes than a viewer could show."""


class Lane:
    """A track of slices that lie behind each other. until_unix_ns: end of the last one."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self.until_unix_ns = 0

    def placed(self, began_unix_ns: int, ended_unix_ns: int) -> tuple[int, int]:
        """The span of the next slice, without what the last one covers: the time of day may have been set back."""
        began_unix_ns = max(began_unix_ns, self.until_unix_ns)
        self.until_unix_ns = max(ended_unix_ns, began_unix_ns)
        return began_unix_ns, self.until_unix_ns


class WorkloadTracks:
    """The tracks of one workload. make: makes a track. covered_until_unix_ns: end of its last window, 0 before the first."""

    def __init__(self, make: MakeTrack, group: Track) -> None:
        self._make = make
        self._group = group
        self.lost_share = make("lost share", group, unit="%", order=_Order.LOST_SHARE)
        self.step_duration = make("step duration", group, unit="ms", order=_Order.STEP_DURATION)
        self.steps = make("steps", group, unit="1/s", order=_Order.STEPS)
        self.calls = make("calls", group, unit="1/s", order=_Order.CALLS)
        self._lost_time: Track | None = None
        self._threads: Track | None = None
        self._slow_calls: Track | None = None
        self._causes: dict[str, Lane] = {}
        self._lines: dict[str, Lane] = {}
        self._other_lines: list[Lane] = []
        self._chains: list[Lane] = []
        self._of_thread: dict[int, Lane] = {}
        self.covered_until_unix_ns = 0

    def cause(self, name: str) -> Lane:
        """Where time that is lost to a cause is shown."""
        if name not in self._causes:
            self._lost_time = self._lost_time or self._make("lost time", self._group, order=_Order.LOST_TIME)
            self._causes[name] = Lane(self._make(name, self._lost_time))
        return self._causes[name]

    def chain(self, began_unix_ns: int) -> Lane:
        """The first track of chains that is free then. Chains come in the order of their begins."""
        return _free(
            self._chains, began_unix_ns, lambda name: self._make(f"chains{name}", self._group, order=_Order.CHAINS)
        )

    def line(self, name: str, began_unix_ns: int) -> Lane:
        """Where slow calls of a line of code are shown. Lines beyond LINES_MAX share tracks."""
        group = self._slow_calls = self._slow_calls or self._make("slow calls", self._group, order=_Order.SLOW_CALLS)
        if name not in self._lines and len(self._lines) >= LINES_MAX:
            return _free(self._other_lines, began_unix_ns, lambda number: self._make(f"other lines{number}", group))
        if name not in self._lines:
            self._lines[name] = Lane(self._make(name, group))
        return self._lines[name]

    def thread(self, tid: int, comm: str) -> Lane:
        if tid not in self._of_thread:
            self._threads = self._threads or self._make("threads", self._group, order=_Order.THREADS)
            self._of_thread[tid] = Lane(self._make(f"{comm} {tid}", self._threads))
        return self._of_thread[tid]


def _free(lanes: list[Lane], began_unix_ns: int, make: Callable[[str], Track]) -> Lane:
    """The first one that is free then, or another one. make: gets its number, "" for the first."""
    for lane in lanes:
        if lane.until_unix_ns <= began_unix_ns:
            return lane
    lanes.append(Lane(make(f" {len(lanes) + 1}" if lanes else "")))
    return lanes[-1]


class Tracks:
    """All tracks of a timeline. Raises TooManyTracks."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._nodes: dict[str, Track] = {}
        self._workloads: dict[tuple[Identity, int, int], WorkloadTracks] = {}
        self._open_chains: dict[tuple[str, str], Track] = {}
        self._exporters: list[Lane] = []

    @property
    def workloads(self) -> list[WorkloadTracks]:
        return list(self._workloads.values())

    def exporter(self, began_unix_ns: int) -> Lane:
        """When an exporter was running. In a merged history those of several nodes ran at the same time."""
        return _free(self._exporters, began_unix_ns, lambda name: self._make(f"exporter{name}", None, is_process=True))

    def workload(self, labels: ProcessLabels, number: int = 0) -> WorkloadTracks:
        """number: of the process, which identifies it where its process id is not known."""
        key = (labels.identity, labels.tgid, 0 if labels.tgid else number)
        if key not in self._workloads:
            name = process_name(labels.identity, labels.tgid, labels.comm)
            node = self._node(labels.identity.node)
            group = self._make(name, node, is_process=True, order=_Order.WORKLOADS)
            self._workloads[key] = WorkloadTracks(self._make, group)
        return self._workloads[key]

    def open_chains(self, node: str, severity: str) -> Track:
        """How many chains of a severity are open on a node."""
        if (node, severity) not in self._open_chains:
            track = self._make(f"open chains: {severity}", self._node(node), unit="chains", order=_Order.CHAINS)
            self._open_chains[node, severity] = track
        return self._open_chains[node, severity]

    def _node(self, name: str) -> Track:
        if name not in self._nodes:
            self._nodes[name] = self._make(f"node {name}" if name else "node", None, is_process=True, order=1)
        return self._nodes[name]

    def _make(
        self, name: str, parent: Track | None, *, unit: str | None = None, order: int = 0, is_process: bool = False
    ) -> Track:
        number = next(self._numbers)
        if number > TRACKS_MAX:
            raise TooManyTracks(
                f"a timeline of more than {TRACKS_MAX:,} tracks cannot be shown",
                remedy="use --workload, or a smaller --since",
            )
        return Track(number, name, parent, unit, order, is_process)


MakeTrack = Callable[..., Track]
