"""Attributes every lost nanosecond to one cause and one culprit.

In: time lost since the last update by state, and what explains it: programs that held CPUs, what wakers did and who they
were. Out: cumulative nanoseconds by (cause, culprit). They add up to the lost time, and none of them ever goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exporter.accounting.awaited import AwaitedShares, Sleeps, awaited_name
from exporter.accounting.culprits import (
    CAUSE_OF_CULPRIT,
    CAUSE_OF_STATE,
    CAUSE_OF_WAKER_STATE,
    NO_CULPRIT,
    OTHER,
    culprit_name,
)
from exporter.accounting.exposed import Exposed
from exporter.accounting.sharing import MEMORY_NS, Weights, shared
from exporter.accounting.wakers import Wakers
from exporter.accounting.workers import NO_WORK, WorkDone, Workers
from exporter.causes import Cause
from exporter.kernel.abi import Awaited, ThreadState, Victim, Waker
from exporter.kernel.thread_rows import BlameKey, WakeupRow
from exporter.units import NANOSECONDS

Labels = Callable[[Mapping[str, int], int], Mapping[str, str]]
"""(names of programs with nanoseconds charged since the last update, now) -> values of the label `culprit`."""

NameOf = Callable[[BlameKey], str]
"""Name of the program that a key blames, "" for none."""

OF_DISKS = (ThreadState.IO, ThreadState.FAULT)
"""Waits for a disk, which other programs may use as well."""

OF_WAKERS = (ThreadState.LOCK, ThreadState.PIPE, ThreadState.SOCKET, ThreadState.POLL, ThreadState.OTHER)
"""Sleeps that another thread ends; source: wakeup_open_window() in bpf/lib/wakeup.bpf.h."""

WORKERS = (Waker.PROCESS, Waker.LOADER)
"""Wakers that make data for the job."""

OF_INPUT = (ThreadState.POLL, ThreadState.PIPE)
"""States of a thread that passes on what comes from outside of the job, such as requests. Where it waits for a worker of the job,
the kernel's programs put what the worker did in place of the wait."""

PATIENCE_NS = 2 * NANOSECONDS
"""How long lost CPU waits stay undecided until charges are read: charges that did not change look as if they were not read."""

_NOTHING: Mapping[str, int] = {}
_NO_SLEEPS: Sleeps = {}
_UNKNOWN = (Cause.UNKNOWN, NO_CULPRIT)
_NOT_AWAITED = (Awaited.UNKNOWN, NO_CULPRIT)


class _Blame:
    """Lost CPU waits that are still undecided.

    They are attributed when charges have been read again, which happens less often than lost time is read. Without a recent
    charge they stay undecided for MEMORY_NS, and become cause `unknown` then.
    """

    def __init__(self) -> None:
        self._weights: Weights[tuple[Cause, str]] = Weights()
        self._older: Mapping[tuple[Cause, str], int] = {}
        self._is_read = False
        self._waiting_ns = 0
        self._since_ns = 0

    def update(self, charges: Mapping[tuple[Cause, str], int], now_ns: int, *, is_read: bool) -> None:
        self._is_read = is_read
        if charges:
            self._older = self._weights.current()
        self._weights.update(charges, now_ns)
        if not self._weights.current():
            self._older = {}

    @property
    def waiting_ns(self) -> int:
        """Lost time that has no culprit yet."""
        return self._waiting_ns

    @property
    def is_at_rest(self) -> bool:
        """Nothing is undecided, and no charge is remembered."""
        return not self._waiting_ns and not self._weights.current()

    def share(self, lost_ns: int, now_ns: int, *, others: _Blame | None = None) -> dict[tuple[Cause, str], int]:
        """Attribute to the programs that held CPUs in that time; if none is known, to those known to `others`."""
        if not self._waiting_ns:
            self._since_ns = now_ns
        amount_ns, self._waiting_ns = self._waiting_ns + lost_ns, 0
        if not amount_ns:
            return {}
        known = self if self._weights.current() or others is None else others
        waited_ns = now_ns - self._since_ns
        if known._weights.current() and (self._is_read or waited_ns > PATIENCE_NS):
            return shared(amount_ns, known._explaining(amount_ns))
        if waited_ns > MEMORY_NS:
            return {_UNKNOWN: amount_ns}
        self._waiting_ns = amount_ns
        return {}

    def finish(self) -> dict[tuple[Cause, str], int]:
        """Attribute to the programs that held CPUs last: there will be no more charges."""
        amount_ns, self._waiting_ns = self._waiting_ns, 0
        if not amount_ns:
            return {}
        return shared(amount_ns, self._explaining(amount_ns)) if self._weights.current() else {_UNKNOWN: amount_ns}

    def _explaining(self, amount_ns: int) -> Mapping[tuple[Cause, str], int]:
        """The last charges, and the ones before where the last are smaller than the amount."""
        latest = self._weights.current()
        if sum(latest.values()) >= amount_ns:
            return latest
        return {key: latest.get(key, 0) + self._older.get(key, 0) for key in latest.keys() | self._older.keys()}


WakeupPaths = dict[ThreadState, dict[Waker, WakeupRow]]
"""Wake-up paths, cumulative: state of the sleeping step threads -> kind of waker -> what the waker had been doing."""


class LostTime:
    """Lost time of one process. labels: makes label values of culprits' names."""

    def __init__(self, labels: Labels, name_of: NameOf = culprit_name) -> None:
        self._labels = labels
        self._name_of = name_of
        self._lost: dict[tuple[Cause, str], int] = {}
        self._given: Mapping[tuple[Cause, str], int] | None = None  # a copy, until something is charged
        self._blame = {victim: _Blame() for victim in Victim}
        self._holders = _Blame()  # waits of those who hold locks
        self._awaited = AwaitedShares()
        self._wakers: dict[ThreadState, Wakers] = {}  # by OF_WAKERS state, once another thread has ended such a sleep
        self._workers = Workers()
        self._disk_users: Weights[str] = Weights()

    def update(
        self,
        exposed: Exposed,
        stalled_ns: Mapping[ThreadState, int],
        wakeup_paths: WakeupPaths,
        charges: Mapping[BlameKey, int],
        now_ns: int,
        *,
        disks: Mapping[str, int] = _NOTHING,
        awaited: Sleeps = _NO_SLEEPS,
        work: WorkDone = NO_WORK,
        is_blame_read: bool = True,
    ) -> None:
        """Attribute what was lost since the last update.

        charges: nanoseconds added per blame key; empty unless is_blame_read. disks: nanoseconds that the process waited for
        disks, by the program that used them, "" for the process itself. awaited: its sleeps by who ended them. work: so far.
        """
        names = {key: self._name_of(key) for key in charges}
        labels = self._labels_of(names, charges, disks, awaited, now_ns)
        self._see_disks(disks, labels, now_ns)
        self._see_awaited(awaited, labels, now_ns)
        self._see_charges({key: labels[name] for key, name in names.items()}, charges, now_ns, is_read=is_blame_read)
        self._see_wakers(wakeup_paths, stalled_ns, now_ns)
        self._workers.update(work, sum(stalled_ns.get(state, 0) for state in OF_WAKERS), now_ns)
        runnable_ns, wakers_runnable_ns, holders_runnable_ns = exposed.runnable_ns, 0, 0
        self._book(Cause.CPU_QUOTA, exposed.throttled_ns)
        self._book(Cause.PAUSED, exposed.stopped_ns)
        for state, lost_ns in stalled_ns.items():
            if state is ThreadState.RUNNABLE:
                runnable_ns += lost_ns
            elif state in OF_WAKERS:
                of_wakers_ns, of_holders_ns = self._book_of_wakers(state, lost_ns)
                wakers_runnable_ns += of_wakers_ns
                holders_runnable_ns += of_holders_ns
            elif state in OF_DISKS:
                self._book_of_disks(CAUSE_OF_STATE[state], lost_ns)
            else:
                self._book_of_awaited(state, lost_ns)
        step, others, workers = (self._blame[victim] for victim in Victim)
        for (cause, culprit), part_ns in step.share(runnable_ns, now_ns).items():
            self._book(cause, part_ns, culprit)
        for (cause, culprit), part_ns in workers.share(wakers_runnable_ns, now_ns, others=others).items():
            self._book(cause, part_ns, culprit)
        self._book_of_holders(self._holders.share(holders_runnable_ns, now_ns, others=workers))

    def finish(self) -> None:
        """The process has ended: nothing stays undecided."""
        for blame in self._blame.values():
            for (cause, culprit), part_ns in blame.finish().items():
                self._book(cause, part_ns, culprit)
        self._book_of_holders(self._holders.finish())

    @property
    def is_at_rest(self) -> bool:
        """Whether an update() without changes would change nothing."""
        blames, wakers = (*self._blame.values(), self._holders), self._wakers.values()
        is_at_rest = all(one.is_at_rest for one in blames) and all(one.is_at_rest for one in wakers)
        return is_at_rest and self._awaited.is_at_rest and not self._disk_users.current()

    def lost(self) -> Mapping[tuple[Cause, str], int]:
        """Nanoseconds so far by (cause, culprit); the same object as last time when nothing was charged."""
        if self._given is None:
            self._given = dict(self._lost)
        return self._given

    def undecided_ns(self) -> int:
        """Lost while waiting for CPUs, with no culprit yet."""
        return sum(blame.waiting_ns for blame in (*self._blame.values(), self._holders))

    def end_name(self, culprit: str) -> None:
        """The series of a culprit ends: what was lost to it is lost to `other` from now on."""
        for cause, name in [key for key in self._lost if key[1] == culprit]:
            self._book(cause, self._lost.pop((cause, name)), OTHER)

    def _labels_of(
        self,
        names: Mapping[BlameKey, str],
        charges: Mapping[BlameKey, int],
        disks: Mapping[str, int],
        awaited: Sleeps,
        now_ns: int,
    ) -> Mapping[str, str]:
        charged = {name: slept_ns for name, slept_ns in disks.items() if name}
        for (_, by), slept_ns in awaited.items():
            charged[awaited_name(by)] = charged.get(awaited_name(by), 0) + slept_ns
        for key, name in names.items():
            if name:
                charged[name] = charged.get(name, 0) + charges[key]
        return {NO_CULPRIT: NO_CULPRIT, **self._labels(charged, now_ns)}

    def _see_charges(
        self, labels: Mapping[BlameKey, str], charges: Mapping[BlameKey, int], now_ns: int, *, is_read: bool
    ) -> None:
        by_victim: dict[Victim, dict[tuple[Cause, str], int]] = {victim: {} for victim in Victim}
        for key, charged_ns in charges.items():
            of_victim, charged = by_victim[key.victim], (CAUSE_OF_CULPRIT[key.culprit], labels[key])
            of_victim[charged] = of_victim.get(charged, 0) + charged_ns
        for victim, known in self._blame.items():
            known.update(by_victim[victim], now_ns, is_read=is_read)
        self._holders.update(by_victim[Victim.OTHER], now_ns, is_read=is_read)

    def _see_wakers(self, wakeup_paths: WakeupPaths, stalled_ns: Mapping[ThreadState, int], now_ns: int) -> None:
        for state in wakeup_paths.keys() & set(OF_WAKERS) - self._wakers.keys():
            self._wakers[state] = Wakers()
        for state, wakers in self._wakers.items():
            wakers.update(wakeup_paths.get(state, {}), stalled_ns.get(state, 0), now_ns)

    def _see_disks(self, disks: Mapping[str, int], labels: Mapping[str, str], now_ns: int) -> None:
        labelled: dict[str, int] = {}
        for name, slept_ns in disks.items():
            labelled[labels[name]] = labelled.get(labels[name], 0) + slept_ns
        self._disk_users.update(labelled, now_ns)

    def _book_of_disks(self, cause: Cause, lost_ns: int) -> None:
        """Attribute to the programs that used the disks which threads of the job waited for in that time."""
        for culprit, part_ns in shared(lost_ns, self._disk_users.current() or {NO_CULPRIT: 1}).items():
            self._book(cause, part_ns, culprit)

    def _see_awaited(self, sleeps: Sleeps, labels: Mapping[str, str], now_ns: int) -> None:
        labelled: dict[ThreadState, dict[tuple[Awaited, str], int]] = {}
        for (state, by), slept_ns in sleeps.items():
            of_state, who = labelled.setdefault(state, {}), (by.kind, labels[awaited_name(by)])
            of_state[who] = of_state.get(who, 0) + slept_ns
        self._awaited.update(labelled, now_ns)

    def _book_of_awaited(self, state: ThreadState, lost_ns: int) -> None:
        """Attribute to those who were waited for in a state. A worker of the job that writes to a pipe is its data loader."""
        for (kind, culprit), part_ns in shared(lost_ns, self._awaited.of(state) or {_NOT_AWAITED: 1}).items():
            if state is ThreadState.PIPE and kind is Awaited.WORKER:
                self._book(Cause.DATALOADER, part_ns)
            else:
                self._book(CAUSE_OF_STATE[state], part_ns, culprit)

    def _book_of_holders(self, parts: Mapping[tuple[Cause, str], int]) -> None:
        """Holders of locks waited for CPUs: if the job itself held those, the lock is the cause, and its holder the culprit."""
        for (cause, culprit), part_ns in parts.items():
            if cause is Cause.CPU_OVERSUBSCRIBED:
                self._book_of_awaited(ThreadState.LOCK, part_ns)
            else:
                self._book(cause, part_ns, culprit)

    def _book_of_wakers(self, state: ThreadState, lost_ns: int) -> tuple[int, int]:
        """Attribute a stall by what wakers did; returns the parts in which a waker, or a lock's holder, waited for a CPU."""
        runnable_ns = of_holders_ns = 0
        parts = self._wakers[state].share(lost_ns) if state in self._wakers else {None: lost_ns}
        of_workers = self._workers.share({did: ns for did, ns in parts.items() if did and did[0] in WORKERS})
        of_others = {did: ns for did, ns in parts.items() if not did or did[0] not in WORKERS}
        for did, part_ns in (*of_others.items(), *of_workers.items()):
            waker, waker_state = did or (Waker.OTHER, ThreadState.OTHER)
            if waker_state is ThreadState.RUNNABLE and state is ThreadState.LOCK and waker not in WORKERS:
                of_holders_ns += part_ns
            elif waker_state is ThreadState.RUNNABLE:
                runnable_ns += part_ns
            elif waker_state in OF_DISKS:
                self._book_of_disks(CAUSE_OF_WAKER_STATE[waker_state], part_ns)
            elif waker_state is ThreadState.OUTPUT and self._awaited.of(waker_state):
                self._book_of_awaited(waker_state, part_ns)
            elif waker_state in CAUSE_OF_WAKER_STATE:
                self._book(CAUSE_OF_WAKER_STATE[waker_state], part_ns)
            elif waker in (Waker.THREAD, Waker.LOADER) and waker_state in OF_INPUT:
                self._book(Cause.OWN_WAIT, part_ns)
            elif waker in WORKERS:
                self._book(Cause.DATALOADER, part_ns)
            else:
                self._book_of_awaited(state, part_ns)
        return runnable_ns, of_holders_ns

    def _book(self, cause: Cause, lost_ns: int, culprit: str = NO_CULPRIT) -> None:
        if lost_ns:
            self._lost[cause, culprit] = self._lost.get((cause, culprit), 0) + lost_ns
            self._given = None
