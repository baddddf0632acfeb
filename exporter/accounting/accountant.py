"""Accounts the time of every process: where its threads spent it, what of it the GPU lost, and to which cause and culprit.

In: Waits at every tick, Accounts for a snapshot. Out: totals of each process, cumulative; none ever goes back.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from exporter.accounting.attribution import LostTime, WakeupPaths
from exporter.accounting.awaited import AwaitedSleeps, Sleeps, awaited_name
from exporter.accounting.cadence import Cadence
from exporter.accounting.charged_since import ChargedSince
from exporter.accounting.culprit_names import CulpritNames
from exporter.accounting.culprits import NO_GROUP_NAMES, STATE_LABEL, UNRESOLVED, GroupNames
from exporter.accounting.disks import DiskBlame
from exporter.accounting.exposed import ExposedLoss
from exporter.accounting.feeding import FeedingLoss, LateStalls, OpenStall
from exporter.accounting.progress import NO_PROGRESS, Standing, WorkloadProgress
from exporter.accounting.self_check import SelfCheck
from exporter.accounting.sharing import Growth
from exporter.accounting.short_lived import ShortLived
from exporter.accounting.thread_time import ThreadTime, Times
from exporter.accounting.workers import WorkDone
from exporter.causes import Cause
from exporter.kernel.abi import OPERATION_NONE, Culprit, ThreadState, Victim, Waker
from exporter.kernel.awaited_rows import AwaitedKey
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.readings import Accounts, Waits
from exporter.kernel.thread_rows import (
    IDLE_NS,
    BlameKey,
    Exposure,
    ExposureKey,
    FeedingRow,
    ThreadRow,
    WakeupKey,
    WakeupRow,
)
from exporter.totals import HistogramTotal

_MAX_TGIDS = 5


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """Nanoseconds of one process since it was first seen.

    threads: by (operation, state). lost: by (cause, culprit). wakeup_paths: by (state of the sleeper, state of the waker).
    steps: their durations, None while no rhythm is known. interrupted_ns: spent in interrupts, whether or not anything was lost.
    """

    threads: Mapping[tuple[str, str], int]
    lost: Mapping[tuple[Cause, str], int]
    wakeup_paths: Mapping[tuple[str, str], int]
    steps: HistogramTotal | None = None
    interrupted_ns: int = 0


class _Changes(NamedTuple):
    """Changes of one process since the last update. exposures: those that changed. charges: nanoseconds added per blame key.

    stopped_ns: in the open synchronising call of a stopped step thread.

    disks: nanoseconds that its threads waited for disks, by the program that used them. awaited: its sleeps by who ended them.
    """

    exposures: list[tuple[ExposureKey, Exposure]]
    stopped_ns: int
    feeding: FeedingRow | None
    stall: OpenStall | None
    wakeup_paths: WakeupPaths
    work: Mapping[Waker, WakeupRow]
    charges: dict[BlameKey, int]
    disks: Mapping[str, int]
    awaited: Sleeps


class _Process:
    """Accounts of one process."""

    def __init__(self, number: int, culprits: CulpritNames, short_lived: ShortLived) -> None:
        self.owner: Hashable = number
        self.exposed = ExposedLoss()
        self.feeding = FeedingLoss()
        self.loss = LostTime(lambda charged, now_ns: culprits.labels(self.owner, charged, now_ns), short_lived.name_of)
        self.threads = ThreadTime()
        self.cadence = Cadence()
        self.wakeup_paths: WakeupPaths = {}
        self.exposed_ns = 0
        self.interrupted_ns = 0

    def update(self, changes: _Changes, now_ns: int, *, is_blame_read: bool) -> None:
        self.wakeup_paths = changes.wakeup_paths
        self.interrupted_ns += sum(ns for key, ns in changes.charges.items() if key.culprit is Culprit.IRQ)
        exposed = self.exposed.update(changes.exposures, changes.stopped_ns)
        self.exposed_ns += exposed.in_calls_ns
        late = LateStalls(exposed.late_ns, self.exposed.undecided_late_ns, self.exposed.longest_wait_ns)
        self.loss.update(
            exposed,
            self.feeding.update(changes.feeding, late, changes.stall) if changes.feeding else {},
            changes.wakeup_paths,
            changes.charges,
            now_ns,
            disks=changes.disks,
            awaited=changes.awaited,
            work=WorkDone(changes.work, _progress(changes.feeding)),
            is_blame_read=is_blame_read,
        )


class Accountant:
    """Accounts of all processes: made at the first update that has a process, dropped by forget()."""

    def __init__(self, group_names: GroupNames = NO_GROUP_NAMES) -> None:
        self._processes: dict[int, _Process] = {}
        self._culprits = CulpritNames()
        self._short_lived = ShortLived(group_names.cpu)
        self._self_check = SelfCheck()
        self._charged: Growth[BlameKey] = Growth()
        self._disks = DiskBlame(group_names.io)
        self._awaited_sleeps = AwaitedSleeps()
        self._awaited: Mapping[AwaitedKey, int] = {}
        self._waits: Waits | None = None
        self._exposures: Mapping[ExposureKey, Exposure] = {}
        self._wakeup_rows: Mapping[WakeupKey, WakeupRow] = {}
        self._wakeup_paths: dict[int, WakeupPaths] = {}
        self._work: dict[int, dict[Waker, WakeupRow]] = {}
        self._feeding: Mapping[int, FeedingRow] = {}
        self._blame: Mapping[BlameKey, int] = {}
        self._charged_since = ChargedSince()
        self._pending: set[int] = set()  # processes whose accounts change with time alone
        self._stopped: Mapping[int, int] = {}
        self._standing: Mapping[int, Standing] = {}
        self.moved: frozenset[int] = frozenset()  # by the last update

    def update(
        self, waits: Waits, owners: Mapping[int, Hashable], now_ns: int, threads: Sequence[ThreadRow] = ()
    ) -> None:
        """Account what was lost since the last update. owners: process -> whose label values it shares, of living processes.

        threads: the living ones, when open calls and gaps are wanted.
        """
        self.moved = frozenset()
        self._stopped = _stopped_ns(threads)
        self._standing = _standing(threads)
        if waits is self._waits and not threads:  # nothing has changed
            return
        self._waits = waits
        exposures: dict[int, list[tuple[ExposureKey, Exposure]]] = {}
        if waits.exposures is not self._exposures:
            for key, exposure in waits.exposures.items():
                if exposure is not self._exposures.get(key):
                    exposures.setdefault(key.process, []).append((key, exposure))
            self._exposures = waits.exposures
        before = self._wakeup_paths
        self._see_wakeups(waits.wakeups)
        wakeup_paths = self._wakeup_paths
        is_blame_read = isinstance(waits, Accounts) or waits.blame is not self._blame
        self._blame = waits.blame
        charges: dict[int, dict[BlameKey, int]] = {}
        for blamed, charged_ns in self._charged.since(waits.blame).items():
            charges.setdefault(blamed.process, {})[blamed] = charged_ns
        self._short_lived.observe((key for of_process in charges.values() for key in of_process), now_ns)
        disks = self._disks.update(waits.disk_waits, waits.disk_users)
        living = waits.threads if isinstance(waits, Accounts) else threads
        stalls, stops = _open_stalls(living), _stopped_in_waits_ns(living)
        self._awaited = waits.awaited
        self._charged_since.update(waits.blame, waits.awaited, now_ns)
        awaited = self._awaited_sleeps.update(waits.awaited, living)
        for number, owner in owners.items():
            if number not in self._processes:
                self._processes[number] = _Process(number, self._culprits, self._short_lived)
            self._processes[number].owner = owner
        for number in waits.cadence.keys() & owners.keys():
            self._processes[number].cadence.update(waits.cadence[number])
        # Most processes of a full node are idle.
        moved = _moved(waits.feeding, self._feeding)
        busy = self._pending.union(exposures, stalls, stops, charges, disks, awaited, moved)
        if wakeup_paths is not before:
            busy.update(number for number, of in wakeup_paths.items() if of != before.get(number))
        self._feeding = waits.feeding
        for number in busy & owners.keys():
            changes = _Changes(
                exposures.get(number, []),
                stops.get(number, 0),
                waits.feeding.get(number),
                stalls.get(number),
                wakeup_paths.get(number, {}),
                self._work.get(number, {}),
                charges.get(number, {}),
                disks.get(number, {}),
                awaited.get(number, {}),
            )
            self._processes[number].update(changes, now_ns, is_blame_read=is_blame_read)
        self._end_names()
        self.moved = frozenset(busy.union(waits.cadence))
        self._pending = {number for number in busy & owners.keys() if not self._processes[number].loss.is_at_rest}

    def _end_names(self) -> None:
        for owner, culprit in self._culprits.take_ended():
            for process in self._processes.values():
                if process.owner == owner:
                    process.loss.end_name(culprit)

    def _see_wakeups(self, rows: Mapping[WakeupKey, WakeupRow]) -> None:
        """By process; the same objects as last time when nothing has changed."""
        if rows is self._wakeup_rows:
            return
        self._wakeup_rows, self._wakeup_paths, self._work = rows, {}, {}
        for key, row in rows.items():
            if key.victim is Victim.WORKER:
                self._work.setdefault(key.process, {})[key.waker] = row
            # A step thread was feeding the GPU: a sleep that it ended delayed nothing, and explains no stall.
            elif key.victim is Victim.STEP and key.waker is not Waker.STEP:
                self._wakeup_paths.setdefault(key.process, {}).setdefault(key.state, {})[key.waker] = row

    def update_threads(self, times: Mapping[int, Times], threads: Sequence[ThreadRow]) -> None:
        """Account all thread time. Only a snapshot needs it."""
        for number, of_process in times.items():
            if number in self._processes:
                self._processes[number].threads.update(of_process)
        if threads:
            self._self_check.update(threads)

    def finish(self, processes: Iterable[int]) -> None:
        """These have ended and were read for the last time: nothing stays undecided."""
        for number in processes:
            if number in self._processes:
                self._processes[number].loss.finish()

    def forget(self, processes: Iterable[int]) -> None:
        """Drop the accounts of these processes."""
        for number in processes:
            self._processes.pop(number, None)

    def times(self, of: Container[int] | None = None) -> dict[int, ProcessTime]:
        """Process -> its totals. of: only these; None for all."""
        return {
            number: ProcessTime(
                process.threads.reported(),
                process.loss.lost(),
                _wakeup_path_times(process.wakeup_paths),
                process.cadence.steps(),
                process.interrupted_ns,
            )
            for number, process in self._processes.items()
            if of is None or number in of
        }

    def progress(self, number: int) -> WorkloadProgress:
        """How far a process has come, at the last update()."""
        process, feeding = self._processes.get(number), self._feeding.get(number)
        if process is None:
            return NO_PROGRESS
        calls = feeding.timed_calls + feeding.counted_calls if feeding else 0
        return WorkloadProgress(
            process.loss.lost(),
            process.exposed_ns,
            process.loss.undecided_ns(),
            *process.cadence.rhythm(),
            calls,
            self._stopped.get(number, 0),
            feeding.kernels if feeding else 0,
            self._standing.get(number),
        )

    def tgids_of(self, number: int, culprit: str) -> tuple[int, ...]:
        """Processes with a culprit's name that this process waited for, or for whose CPUs: at most five, largest share first."""
        charged: dict[int, int] = {}
        for key, ns in self._blame.items():
            tgid = self._short_lived.tgid_of(key) if key.process == number else 0
            if tgid and self._short_lived.name_of(key) == culprit:
                charged[tgid] = charged.get(tgid, 0) + ns
        for awaited, ns in self._awaited.items():
            if awaited.process == number and awaited.by.tgid and awaited_name(awaited.by) == culprit:
                charged[awaited.by.tgid] = charged.get(awaited.by.tgid, 0) + ns
        return tuple(sorted(charged, key=lambda tgid: -charged[tgid])[:_MAX_TGIDS])

    def charged_since_ns(self, tgid: int) -> int:
        """CLOCK_MONOTONIC of the update in which time was first charged to a process with this id; 0 if it is not known."""
        return self._charged_since.of(tgid)

    def errors(self) -> dict[str, float]:
        """Figure -> how far the accounting is off."""
        return self._self_check.errors()


def _progress(feeding: FeedingRow | None) -> int:
    """In kernels; in waits for the GPU where they are launched in graphs only."""
    return (feeding.kernels or feeding.waits) if feeding else 0


def _moved(rows: Mapping[int, FeedingRow], before: Mapping[int, FeedingRow]) -> Iterator[int]:
    """A row that has not changed is the same object as last time."""
    return (number for number, row in rows.items() if row is not before.get(number))


def _open_stalls(threads: Iterable[ThreadRow]) -> dict[int, OpenStall]:
    """Process -> what the step thread with the latest last call is doing: the GPU waits for it if the process is stalled."""
    latest: dict[int, ThreadRow] = {}
    for thread in threads:
        if thread.victim is Victim.STEP and thread.operation == OPERATION_NONE:
            known = latest.get(thread.process)
            if known is None or thread.opened_ns > known.opened_ns:
                latest[thread.process] = thread
    return {
        process: OpenStall(
            ThreadState(thread.state), thread.open_ns[thread.state], min(thread.read_ns, thread.opened_ns + IDLE_NS)
        )
        for process, thread in latest.items()
    }


def _stopped_in_waits_ns(threads: Iterable[ThreadRow]) -> dict[int, int]:
    """Process -> how long its stopped step thread has been stopped while it waits for the GPU."""
    return {
        thread.process: thread.open_ns[ThreadState.STOPPED]
        for thread in threads
        if thread.victim is Victim.STEP
        and thread.state == ThreadState.STOPPED
        and thread.operation != OPERATION_NONE
        and OPERATIONS[thread.operation].may_wait
    }


def _standing(threads: Iterable[ThreadRow]) -> dict[int, Standing]:
    """Process -> what its step thread with the latest call does."""
    latest: dict[int, ThreadRow] = {}
    for thread in threads:
        known = latest.get(thread.process)
        if thread.victim is Victim.STEP and (known is None or thread.opened_ns > known.opened_ns):
            latest[thread.process] = thread
    return {
        process: Standing(
            thread.tid,
            "" if thread.operation == OPERATION_NONE else OPERATIONS[thread.operation].name,
            ThreadState(thread.state),
            thread.read_ns - thread.opened_ns,
        )
        for process, thread in latest.items()
    }


def _stopped_ns(threads: Iterable[ThreadRow]) -> dict[int, int]:
    """Process -> how long a thread that feeds the GPU has been stopped; only processes with a stopped one."""
    stopped: dict[int, int] = {}
    for thread in threads:
        if thread.victim is Victim.STEP and thread.state == ThreadState.STOPPED:
            stopped[thread.process] = max(stopped.get(thread.process, 0), thread.open_ns[ThreadState.STOPPED])
    return stopped


def _wakeup_path_times(wakeup_paths: WakeupPaths) -> dict[tuple[str, str], int]:
    times = {}
    for slept, by_waker in wakeup_paths.items():
        row = reduce(WakeupRow.plus, by_waker.values())
        for state in ThreadState:
            if row.states_ns[state]:
                times[STATE_LABEL[slept], STATE_LABEL[state]] = row.states_ns[state]
        if row.abstained_ns:
            times[STATE_LABEL[slept], UNRESOLVED] = row.abstained_ns
    return times
