"""faults.diagnosed: whether the chains of an episode are right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change
from tests.faults.diagnosed import Event, Finding, row
from tests.faults.episode import Episode
from tests.support.chains import SECOND, a_chain

DISK = Episode(name="slow-disk", says="", cause=Cause.BLOCK_IO, also=(Cause.DATALOADER,))


def event(cause: Cause, *, rank: int = 0, after_seconds: float = 1.0) -> Event:
    """A chain that was opened so long after the fault began."""
    now_ns = 10 * SECOND + round(after_seconds * SECOND)
    return Event(now_ns, rank, Change.OPENED, a_chain(cause=cause, culprits=()))


def finding(*opened: Event, episode: Episode = DISK, impact: float | None = 0.5, **others: Any) -> Finding:
    """A fault that began at ten seconds and lasted for six."""
    known: dict[str, Any] = {"began_ns": 10 * SECOND, "ended_ns": 16 * SECOND, "false_alarms": ()}
    return Finding(episode=episode, impact=impact, opened=opened, **(known | others))


class TestComplaints:
    """One for everything that is wrong."""

    @pytest.mark.parametrize("cause", [Cause.BLOCK_IO, Cause.DATALOADER])
    def test_every_true_cause_is_right(self, cause: Cause) -> None:
        """The loader waits for the disk."""
        assert finding(event(cause)).complaints() == []

    def test_another_cause_is_wrong(self) -> None:
        """First counts."""
        assert finding(event(Cause.LOCK)).complaints() == ["cause lock"]

    def test_silence_is_a_miss(self) -> None:
        """A fault with impact."""
        assert finding().complaints() == ["missed"]

    def test_silence_is_right_for_a_fault_without_impact(self) -> None:
        """Whatever was injected; and a chain is then one too many."""
        assert finding(impact=0.01).complaints() == []
        assert finding(event(Cause.BLOCK_IO), impact=0.01).complaints() == ["not silent: block_io"]

    def test_decoy_must_be_silent(self) -> None:
        """However slow the job is."""
        decoy = replace(DISK, cause=None, also=(), is_decoy=True)

        assert finding(event(Cause.GPU), episode=decoy).complaints() == ["not silent: gpu"]

    def test_host_is_not_to_be_blamed_for_the_gpu(self) -> None:
        """Silence is an abstention, too."""
        gpu = replace(DISK, cause=Cause.GPU, also=())

        assert finding(episode=gpu).complaints() == finding(event(Cause.GPU), episode=gpu).complaints() == []
        assert finding(event(Cause.BLOCK_IO), episode=gpu).complaints() == ["cause block_io"]

    def test_second_chain_of_a_rank_is_one_too_many(self) -> None:
        """One episode, one chain."""
        twice = finding(event(Cause.BLOCK_IO), event(Cause.BLOCK_IO, after_seconds=4.0))

        assert twice.complaints() == ["2 chains"]

    def test_chain_of_another_time_is_a_false_alarm(self) -> None:
        """Before the fault, or in the run without it."""
        found = finding(event(Cause.BLOCK_IO), false_alarms=(event(Cause.LOCK, after_seconds=-5.0),))

        assert found.complaints() == ["false alarm: lock"]

    def test_rank_that_waits_for_the_slow_one_is_no_second_chain(self) -> None:
        """And does not count as the first."""
        slow = replace(DISK, cause=Cause.SLOW_RANK, also=(), ranks=2, culprit_rank=1)
        found = finding(event(Cause.PEER_RANK, after_seconds=0.5), event(Cause.SLOW_RANK, rank=1), episode=slow)

        assert (found.complaints(), found.detected_after_ns) == ([], SECOND)


class TestRow:
    """One line of the table."""

    def test_row_has_expected_and_reported_causes(self) -> None:
        """By hand."""
        assert row(finding(event(Cause.BLOCK_IO))) == (
            "| slow-disk | +50 % | block_io+dataloader | 1.00 | block_io of rank 0 | high | 0.97 |  | right |"
        )
