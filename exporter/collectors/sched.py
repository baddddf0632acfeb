"""Where does the time of a job's threads go, how much of it does the GPU lose, and through whose fault?

In: the tables that bpf/sched.bpf.c fills, read at every tick, and the Accountant that they are booked by. Out: Totals of each
process, in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping

from exporter import catalog
from exporter.accounting.accountant import Accountant, ProcessTime
from exporter.accounting.progress import WorkloadProgress
from exporter.accounting.thread_time import Times, switches_by_process
from exporter.kernel.readings import Accounts, Reading
from exporter.kernel.tables import Tables
from exporter.totals import Series, Total, Totals


class Sched:
    """A collector with a memory: what was lost is decided tick by tick."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._accountant = Accountant()
        self._switches: Mapping[int, tuple[int, int]] = {}

    def tick(
        self, owners: Mapping[int, Hashable], now_ns: int, *, is_urgent: bool = False, with_threads: bool = False
    ) -> None:
        """Book what was lost since the last time. owners: process -> whose label values it shares, of those in the tables.

        is_urgent: somebody waits to know who held CPUs. with_threads: or what threads do right now.
        """
        waits = self._tables.read_waits(owners, is_urgent=is_urgent)
        self._accountant.update(waits, owners, now_ns, self._tables.read_threads() if with_threads else ())

    def standing(self, process: int) -> WorkloadProgress:
        """How far it has come, and what it has lost."""
        return self._accountant.standing(process)

    def update(
        self, owners: Mapping[int, Hashable], now_ns: int, reading: Reading | None, *, with_threads: bool = True
    ) -> Accounts:
        """Book everything up to now. Returns what totals() needs; what lies between the two needs no lock.

        with_threads: False when only those that have ended are asked for.
        """
        operations = reading.operations if reading else None
        accounts = self._tables.read_accounts(owners, operations, with_threads=with_threads)
        self._accountant.update(accounts, owners, now_ns)
        return accounts

    @property
    def moved(self) -> frozenset[int]:
        """Processes of which the last tick has booked something."""
        return self._accountant.moved

    @property
    def switches(self) -> Mapping[int, tuple[int, int]]:
        """Process -> voluntary and involuntary switches so far, of what totals() was given last."""
        return self._switches

    def tgids_of(self, process: int, culprit: str) -> tuple[int, ...]:
        """Of the programs of this name that held CPUs which the process waited for."""
        return self._accountant.tgids_of(process, culprit)

    def totals(
        self,
        accounts: Accounts,
        times: Mapping[int, Times],
        ended: Iterable[int] = (),
        of: Container[int] | None = None,
    ) -> Totals:
        """Everything there is of every process, or `of` these.

        times: times_by_process() of the accounts. ended: those of which these are the last totals: nothing stays open.
        """
        self._accountant.update_threads(times, accounts.threads)
        self._switches = switches_by_process(accounts)
        self._accountant.finish(ended)
        return totals_of(self._accountant.times(of))

    def times(self) -> Mapping[int, ProcessTime]:
        """Where the time of each process went so far."""
        return self._accountant.times()

    def forget(self, processes: Iterable[int]) -> None:
        """Their last totals have been collected."""
        self._accountant.forget(processes)

    def errors(self) -> dict[str, float]:
        """Figure -> how far the accounting is off."""
        return self._accountant.errors()


def totals_of(times: Mapping[int, ProcessTime]) -> Totals:
    """One series for each label value that has a time."""
    return {process: _of_process(one) for process, one in times.items()}


def _of_process(times: ProcessTime) -> dict[Series, Total]:
    by_cause: dict[str, int] = {}
    for (cause, _), lost_ns in times.lost.items():
        by_cause[cause.value] = by_cause.get(cause.value, 0) + lost_ns
    of_process: dict[Series, Total] = {Series(catalog.sched.THREAD_TIME, key): ns for key, ns in times.threads.items()}
    of_process |= {Series(catalog.sched.LOST, (cause,)): ns for cause, ns in by_cause.items()}
    of_process |= {
        Series(catalog.sched.CULPRIT, (cause.value, culprit)): lost_ns
        for (cause, culprit), lost_ns in times.lost.items()
    }
    of_process |= {Series(catalog.sched.WAIT_CHAIN, key): ns for key, ns in times.chains.items()}
    if times.interrupted_ns:
        of_process[Series(catalog.sched.INTERRUPTED, ())] = times.interrupted_ns
    if times.steps:
        of_process[Series(catalog.sched.STEP_DURATION, ())] = times.steps
    return of_process
