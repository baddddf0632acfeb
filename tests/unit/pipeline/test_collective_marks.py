"""Marks of collectives: which communicators have one, and of when."""

from __future__ import annotations

from exporter.clock import Moment
from exporter.history.collective_mark import MARKS_MAX, CollectiveMark
from exporter.kernel.process_rows import CommunicatorRow
from exporter.kernel.progress_rows import ProgressKey, ProgressRow
from exporter.pipeline.collective_marks import collective_marks

NOW = Moment(5000, 1_000_005_000)
"""The clocks are 1,000,000,000 ns apart."""


def communicator(hash_: int = 77, *, ranks: int = 16, ordinal: int = 1) -> CommunicatorRow:
    return CommunicatorRow(hash_, 1, 0, ranks, ordinal)


def progress(collectives: int, at_ns: int, *, sends: int = 0) -> ProgressRow:
    return ProgressRow(collectives + sends, 0, at_ns, 0, collectives, 0, 0)


def test_last_collective_of_a_communicator_of_several_nodes_is_a_mark() -> None:
    """That of process 3, which was there before process 4; both are ranks of the same 16."""
    marks = collective_marks(
        {4: [communicator()], 3: [communicator()]},
        {ProgressKey(3, 1): progress(41, 4000), ProgressKey(4, 1): progress(42, 4500)},
        NOW,
    )

    assert marks == [CollectiveMark(77, 41, 1_000_004_000)]


def test_communicator_whose_ranks_are_all_here_has_none() -> None:
    """Two ranks, two processes."""
    rows = {3: [communicator(ranks=2)], 4: [communicator(ranks=2)]}

    assert collective_marks(rows, {ProgressKey(3, 1): progress(41, 4000)}, NOW) == []


def test_communicator_with_sends_has_none() -> None:
    assert collective_marks({3: [communicator()]}, {ProgressKey(3, 1): progress(41, 4000, sends=1)}, NOW) == []


def test_communicator_that_was_there_before_the_probes_has_none() -> None:
    """Its hash is not known."""
    rows = {3: [communicator(0, ranks=0)]}

    assert collective_marks(rows, {ProgressKey(3, 1): progress(41, 4000)}, NOW) == []


def test_latest_communicators_have_one() -> None:
    """Sixteen of twenty."""
    rows = {3: [communicator(100 + n, ordinal=n) for n in range(1, 21)]}
    known = {ProgressKey(3, n): progress(9, 4000 + n) for n in range(1, 21)}

    assert [mark.communicator for mark in collective_marks(rows, known, NOW)] == list(range(120, 120 - MARKS_MAX, -1))
