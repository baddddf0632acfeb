"""Keeps the accounts of every process: where its threads' time went, what of it the GPU lost, through whose fault.

In: Waits at every tick, Accounts at a publication. Out: what is known of each process, cumulative and never going back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from exporter.accounting.cadence import Cadence
from exporter.accounting.exposed import ExposedLoss
from exporter.accounting.feeding import FeedingLoss
from exporter.accounting.loss import Chains, Loss
from exporter.accounting.naming import STATE_LABEL, UNRESOLVED, Cause, Culprits
from exporter.accounting.oracle import Oracle
from exporter.accounting.sharing import Growth
from exporter.accounting.thread_time import ThreadTime, times_by_process
from exporter.kernel.abi import ThreadState, Victim, Waker
from exporter.kernel.rows import Accounts, OperationKey, OperationRow, Waits
from exporter.kernel.thread_rows import BlameKey, ChainRow
from exporter.totals import HistogramTotal


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """Nanoseconds of one process since it was first seen.

    threads: by (operation, state). lost: by (cause, culprit). chains: by (state of the sleeper, state of the waker). steps: how
    long they took, None while there is no rhythm.
    """

    threads: Mapping[tuple[str, str], int]
    lost: Mapping[tuple[Cause, str], int]
    chains: Mapping[tuple[str, str], int]
    steps: HistogramTotal | None = None


class _Process:
    """The books of one process."""

    def __init__(self, number: int, culprits: Culprits) -> None:
        self.owner: Hashable = number
        self.exposed = ExposedLoss()
        self.feeding = FeedingLoss()
        self.loss = Loss(lambda name, charged_ns: culprits.label(self.owner, name, charged_ns))
        self.threads = ThreadTime()
        self.cadence = Cadence()
        self.chains: Chains = {}


class Accountant:
    """Owns the books. They are made when a process is first accounted for, and thrown away by forget()."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._culprits = Culprits()
        self._oracle = Oracle()
        self._charged: Growth[BlameKey] = Growth()
        self._operations: Mapping[OperationKey, OperationRow] = {}
        self._blame: Mapping[BlameKey, int] = {}

    def update(self, waits: Waits, owners: Mapping[int, Hashable], now_ns: int) -> None:
        """Book what was lost since the last time. owners: process -> whose label values it shares, of those alive."""
        operations: dict[int, list[tuple[OperationKey, OperationRow]]] = {}
        if waits.operations is not self._operations:  # else they were not read again
            self._operations = waits.operations
            for item in waits.operations.items():
                operations.setdefault(item[0].process, []).append(item)
        chains: dict[int, Chains] = {}
        for key, row in waits.chains.items():
            # What a step thread did was feeding the GPU: a sleep that it ended delayed nothing, and explains no stall.
            if key.victim is Victim.STEP and key.waker is not Waker.STEP:
                chains.setdefault(key.process, {}).setdefault(key.state, {})[key.waker] = row
        is_blame_read = isinstance(waits, Accounts) or waits.blame is not self._blame
        self._blame = waits.blame
        charges: dict[int, dict[BlameKey, int]] = {}
        for blamed, charged_ns in self._charged.since(waits.blame).items():
            charges.setdefault(blamed.process, {})[blamed] = charged_ns
        for number, owner in owners.items():
            if number not in self._processes:
                self._processes[number] = _Process(number, self._culprits)
            process = self._processes[number]
            process.owner = owner
            process.chains = chains.get(number, {})
            if number in waits.cadence:
                process.cadence.update(waits.cadence[number])
            feeding = waits.feeding.get(number)
            process.loss.update(
                process.exposed.update(operations.get(number, ())),
                process.feeding.update(feeding) if feeding else {},
                process.chains,
                charges.get(number, {}),
                now_ns,
                is_blame_read=is_blame_read,
            )

    def update_threads(self, accounts: Accounts) -> None:
        """Book where all the time went. Before a publication, since only that asks for it."""
        for number, times in times_by_process(accounts).items():
            if number in self._processes:
                self._processes[number].threads.update(times)
        self._oracle.update(accounts.threads)

    def finish(self, processes: Iterable[int]) -> None:
        """They have ended, and what was read last was their last: nothing is left open."""
        for number in processes:
            if number in self._processes:
                self._processes[number].loss.finish()

    def forget(self, processes: Iterable[int]) -> None:
        """Throw the books of these processes away."""
        for number in processes:
            self._processes.pop(number, None)

    def times(self) -> dict[int, ProcessTime]:
        """Process -> all that is known of it."""
        return {
            number: ProcessTime(
                process.threads.given(), process.loss.lost(), _chain_times(process.chains), process.cadence.steps()
            )
            for number, process in self._processes.items()
        }

    def errors(self) -> dict[str, float]:
        """Figure -> how far the accounting is off."""
        return self._oracle.errors()


def _chain_times(chains: Chains) -> dict[tuple[str, str], int]:
    times = {}
    for slept, by_waker in chains.items():
        row = reduce(ChainRow.plus, by_waker.values())
        for state in ThreadState:
            if row.states_ns[state]:
                times[STATE_LABEL[slept], STATE_LABEL[state]] = row.states_ns[state]
        if row.abstained_ns:
            times[STATE_LABEL[slept], UNRESOLVED] = row.abstained_ns
    return times
