"""new_processes: what is read of thousands of processes that start at once."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.share_rows import ProcessShare
from exporter.workloads import refusals
from exporter.workloads.new_processes import READ_SECONDS, NewProcesses
from exporter.workloads.process_reader import ProcessReader
from exporter.workloads.refusals import Refusals
from exporter.workloads.workload_process import WorkloadProcess, unread_process
from tests.unit.workloads.registries import registry_of, row

FEW = 4
"""So many are read at a time."""


class SlowReader:
    """Reading one process takes a quarter of the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.read_numbers: list[int] = []

    def read(self, number: int, row: ProcessRow, uid: int) -> WorkloadProcess:
        self.now += READ_SECONDS / FEW
        self.read_numbers.append(number)
        return unread_process(row, uid)


class Machine:
    """Process numbers below 100 are of user 1001, the others of user 1002."""

    def __init__(self) -> None:
        self.reader = SlowReader()
        self.refused = Refusals()
        reader = cast(ProcessReader, self.reader)
        self.new = NewProcesses(reader, self.share_of, self.refused, clock=lambda: self.reader.now)

    def share_of(self, number: int) -> ProcessShare:
        uid = 1001 if number < 100 else 1002
        return ProcessShare(uid, uid, 1, uid, ())

    def read(self, *numbers: int, ended: tuple[int, ...] = ()) -> list[int]:
        """Which of these processes are known afterwards."""
        rows = {number: row(tgid=1000 + number) for number in numbers}
        return [number for number, _, _ in self.new.read(rows, numbers, ended)]


@pytest.fixture
def machine() -> Machine:
    """Nothing has been read."""
    return Machine()


class TestRead:
    def test_as_many_are_read_as_time_allows(self, machine: Machine) -> None:
        assert machine.read(*range(1, 11)) == [1, 2, 3, 4]

    def test_owners_take_turns(self, machine: Machine) -> None:
        """One that has started last does not wait for the many of another user."""
        assert machine.read(*range(1, 11), 100) == [1, 100, 2, 3]

    def test_one_that_has_ended_before_its_turn_stays_unread(self, machine: Machine) -> None:
        """It is known all the same, so that its totals are kept, and it is counted."""
        known = machine.read(*range(1, 7), ended=(1, 2))

        assert known == [3, 4, 5, 6, 1, 2]
        assert machine.reader.read_numbers == [3, 4, 5, 6]
        assert machine.refused.sums() == {(refusals.READS, "uid 1001"): 2}

    def test_one_that_has_ended_is_read_while_there_is_time(self, machine: Machine) -> None:
        """Its parent has not waited for it yet: its cgroup is still there."""
        machine.read(1, ended=(1,))

        assert machine.reader.read_numbers == [1]
        assert machine.refused.sums() == {}

    def test_process_with_a_reused_id_is_not_read(self, machine: Machine) -> None:
        """/proc shows the one that has the id now."""
        rows = {number: row(tgid=7) for number in (1, 2)}

        assert [number for number, _, _ in machine.new.read(rows, (1, 2), ())] == [1, 2]
        assert machine.reader.read_numbers == [2]


def test_registry_admits_the_rest_in_the_next_call(tmp_path: Path) -> None:
    """All of them, in the end: each call admits one or more."""
    registry = registry_of(tmp_path)
    rows = {number: row(tgid=100 + number) for number in range(1, 2_000)}
    for _ in rows:
        registry.admit(rows)

    assert len(registry) == len(rows)
