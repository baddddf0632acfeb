"""Where the time of a job's threads goes, how much GPU time is lost, and to which cause and culprit.

In: the tables that bpf/sched.bpf.c fills, read at every tick and attributed by the Accountant. Out: Totals of each process, in
nanoseconds.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping

from exporter import catalog
from exporter.accounting.accountant import Accountant, ProcessTime
from exporter.accounting.culprits import NO_GROUP_NAMES, GroupNames
from exporter.accounting.progress import WorkloadProgress
from exporter.accounting.thread_time import Times, switches_by_process
from exporter.kernel.readings import Accounts, Reading
from exporter.kernel.tables import Tables
from exporter.totals import Series, Total, Totals


class Sched:
    """Keeps state: lost time is attributed tick by tick."""

    def __init__(self, tables: Tables, group_names: GroupNames = NO_GROUP_NAMES) -> None:
        self._tables = tables
        self._accountant = Accountant(group_names)
        self._switches: Mapping[int, tuple[int, int]] = {}

    def tick(
        self, owners: Mapping[int, Hashable], now_ns: int, *, is_urgent: bool = False, with_threads: bool = False
    ) -> None:
        """Attribute the time lost since the last tick. owners: process in the tables -> key of the label values that it shares.

        is_urgent: which programs held CPUs is needed now. with_threads: what each thread is doing is needed now.
        """
        waits = self._tables.read_waits(owners, is_urgent=is_urgent)
        self._accountant.update(waits, owners, now_ns, self._tables.read_threads() if with_threads else ())

    def progress(self, process: int) -> WorkloadProgress:
        """Progress and lost time of a process."""
        return self._accountant.progress(process)

    def update(
        self, owners: Mapping[int, Hashable], now_ns: int, reading: Reading | None, *, with_threads: bool = True
    ) -> Accounts:
        """Attribute everything up to now. Returns what totals() needs; no lock is needed between the two.

        with_threads: False when only totals of ended processes are needed.
        """
        operations = reading.operations if reading else None
        accounts = self._tables.read_accounts(owners, operations, with_threads=with_threads)
        self._accountant.update(accounts, owners, now_ns)
        return accounts

    @property
    def moved(self) -> frozenset[int]:
        """Processes whose totals changed in the last tick."""
        return self._accountant.moved

    @property
    def switches(self) -> Mapping[int, tuple[int, int]]:
        """Process -> voluntary and involuntary context switches so far, as of the last totals()."""
        return self._switches

    def tgids_of(self, process: int, culprit: str) -> tuple[int, ...]:
        """Tgids of the programs of this name that held CPUs while the process waited."""
        return self._accountant.tgids_of(process, culprit)

    def charged_since_ns(self, tgid: int) -> int:
        """Since when time is charged to this process id; 0 if it is not known."""
        return self._accountant.charged_since_ns(tgid)

    def totals(
        self,
        accounts: Accounts,
        times: Mapping[int, Times],
        ended: Iterable[int] = (),
        of: Container[int] | None = None,
    ) -> Totals:
        """Totals of every process, or only `of` these.

        times: times_by_process() of the accounts. ended: processes with their last totals, whose open waits are closed.
        """
        self._accountant.update_threads(times, accounts.threads)
        self._switches = switches_by_process(accounts)
        self._accountant.finish(ended)
        return totals_of(self._accountant.times(of))

    def times(self) -> Mapping[int, ProcessTime]:
        """Time of each process so far."""
        return self._accountant.times()

    def forget(self, processes: Iterable[int]) -> None:
        """Drop processes that have ended, after their last totals."""
        self._accountant.forget(processes)

    def errors(self) -> dict[str, float]:
        """Figure -> error of the accounting."""
        return self._accountant.errors()


def totals_of(times: Mapping[int, ProcessTime]) -> Totals:
    """One series for each label value with a time."""
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
    of_process |= {Series(catalog.sched.WAIT_CHAIN, key): ns for key, ns in times.wakeup_paths.items()}
    if times.interrupted_ns:
        of_process[Series(catalog.sched.INTERRUPTED, ())] = times.interrupted_ns
    if times.steps:
        of_process[Series(catalog.sched.STEP_DURATION, ())] = times.steps
    return of_process
