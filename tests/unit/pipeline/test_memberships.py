"""Memberships: which ranks of which communicators the history gets, and how far they have come."""

from __future__ import annotations

from exporter.clock import Moment
from exporter.history.communicator_windows import LagKey
from exporter.history.membership import Membership
from exporter.kernel import abi
from exporter.kernel.process_rows import CommunicatorRow
from exporter.kernel.progress_rows import ProgressKey, ProgressRow
from exporter.pipeline.memberships import lags_ns, memberships
from tests.support.history import process_labels

NOW = Moment(5000, 1_000_005_000)
"""The clocks are 1,000,000,000 ns apart."""
LABELS = process_labels()


def communicator(hash_: int = 77, *, rank: int = 3, ranks: int = 16, ordinal: int = 1) -> CommunicatorRow:
    return CommunicatorRow(hash_, 1000, rank, ranks, ordinal)


def test_rank_and_its_last_operation() -> None:
    """41 collectives and a send; the last of them was entered at 4000."""
    progress = {ProgressKey(7, 1): ProgressRow(42, 0, 4000, 0, 41, 0, 0)}

    assert memberships({7: [communicator()]}, progress, {7: LABELS}, NOW) == [
        Membership(7, 77, 3, 16, 41, 1_000_004_000, LABELS)
    ]


def test_rank_that_has_entered_nothing() -> None:
    """Since its communicator was created, at 1000."""
    found = memberships({7: [communicator()]}, {}, {7: LABELS}, NOW)

    assert [(one.collectives, one.entered_unix_ns) for one in found] == [(0, 1_000_001_000)]


def test_communicators_that_say_nothing_of_a_job_are_left_out() -> None:
    """Without other ranks, created before the probes were there, or not counted apart."""
    rows = [
        communicator(ranks=1, rank=0),
        communicator(0, rank=-1, ranks=0, ordinal=2),
        communicator(78, ordinal=abi.COMMUNICATOR_OTHER),
    ]

    assert memberships({7: rows}, {}, {7: LABELS}, NOW) == []


def test_process_without_labels_is_left_out() -> None:
    assert memberships({7: [communicator()]}, {}, {}, NOW) == []


def test_process_with_many_leaves_the_others_room() -> None:
    """They take turns: the only one of the second process is among the first."""
    rows = {1: [communicator(number) for number in (1, 2, 3)], 2: [communicator(5)]}
    found = memberships(rows, {}, dict.fromkeys(rows, LABELS), NOW)

    assert [(one.process, one.communicator) for one in found] == [(1, 1), (2, 5), (1, 2), (1, 3)]


def test_lags_are_those_of_the_same_communicators() -> None:
    """By hash instead of number: 50 ms, and of the second communicator nothing is known."""
    rows = {7: [communicator(), communicator(78, ordinal=2), communicator(79, ordinal=3, ranks=1, rank=0)]}
    row = ProgressRow(42, 0, 4000, 0, 41, 50_000_000, 3)

    assert lags_ns(rows, {ProgressKey(7, 1): row, ProgressKey(7, 3): row}) == {LagKey(7, 77): 50_000_000}
