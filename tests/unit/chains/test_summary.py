"""summary: figures of a chain over a span."""

from __future__ import annotations

import pytest

from exporter.accounting.culprits import NO_CULPRIT
from exporter.causes import Cause
from exporter.chains import summary
from exporter.chains.chain import Effect, Severity
from exporter.chains.verdict import Verdict
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, a_span, found

HOG, CRON, NO_ONE = ((Cause.CPU_CONTENTION, name) for name in ("stress-ng", "cron", NO_CULPRIT))
DISK = (Cause.BLOCK_IO, NO_CULPRIT)


class TestLostShare:
    def test_host_lost_what_it_lost(self) -> None:
        """Also where the queued work has hidden a part of it from the steps."""
        assert summary.lost_share(found(slower=0.2, lost={Cause.BLOCK_IO: 0.3}), Cause.BLOCK_IO, 1.0) == 0.3

    def test_where_the_host_is_not_the_reason_it_is_the_slowdown(self) -> None:
        assert summary.lost_share(found(slower=0.2, lost={Cause.BLOCK_IO: 0.05}), Cause.GPU, 1.0) == 0.2

    def test_it_is_the_part_of_the_cause(self) -> None:
        """Nine tenths of half."""
        one = found(lost={Cause.BLOCK_IO: 0.45, Cause.LOCK: 0.05})

        assert summary.lost_share(one, Cause.BLOCK_IO, 0.9) == pytest.approx(0.45)

    def test_what_no_cause_explains_takes_nothing_from_it(self) -> None:
        """Steps take twice as long, and a disk explains three fifths of that."""
        assert summary.lost_share(found(lost={Cause.BLOCK_IO: 0.3}), Cause.BLOCK_IO, 0.6) == pytest.approx(0.3)

    def test_it_is_between_nothing_and_everything(self) -> None:
        assert summary.lost_share(found(lost={Cause.BLOCK_IO: 1.3}), Cause.BLOCK_IO, 1.2) == 1.0
        assert summary.lost_share(found(slower=-0.1), Cause.GPU, 1.0) == 0.0


class TestShares:
    def test_what_a_rank_does_while_it_waits_is_not_added_to_the_wait(self) -> None:
        """It waits for another rank for nine tenths of the loss, and sleeps at the same time."""
        shares = (("own_wait", 0.97), ("peer_rank", 0.9), ("irq", 0.02))

        assert summary.parts_of_whole(Cause.PEER_RANK, shares) == (
            ("peer_rank", 0.9),
            ("own_wait", pytest.approx(0.1)),
        )

    def test_shares_that_add_up_are_as_they_were(self) -> None:
        shares = (("block_io", 0.6), ("lock", 0.3))

        assert summary.parts_of_whole(Cause.LOCK, shares) == shares


class TestSlowdown:
    @pytest.mark.parametrize(("slower", "slowdown"), [(0.5, 1.0), (0.2, 0.25), (-0.1, 0.0), (None, None), (1.0, None)])
    def test_half_of_the_time_is_twice_as_long(self, slower: float | None, slowdown: float | None) -> None:
        """Where no step ends it is unknown."""
        assert summary.slowdown(found(slower=slower)) == (None if slowdown is None else pytest.approx(slowdown))


class TestCulprits:
    def test_they_have_their_shares_largest_first(self) -> None:
        lost_ns = {CRON: 100 * MS, HOG: 300 * MS, DISK: 500 * MS}

        assert summary.culprits(a_span(1, lost_ns=lost_ns), Cause.CPU_CONTENTION) == (
            ("stress-ng", 0.75),
            ("cron", 0.25),
        )

    def test_time_without_a_culprit_is_a_part_of_the_whole(self) -> None:
        assert summary.culprits(a_span(1, lost_ns={HOG: 300 * MS, NO_ONE: 700 * MS}), Cause.CPU_CONTENTION) == (
            ("stress-ng", 0.3),
        )

    def test_program_with_hardly_any_of_it_is_no_culprit(self) -> None:
        """Less than a fifth of the time has one."""
        assert summary.culprits(a_span(1, lost_ns={HOG: 100 * MS, NO_ONE: 700 * MS}), Cause.CPU_CONTENTION) == ()

    def test_five_are_kept(self) -> None:
        lost_ns = {(Cause.CPU_CONTENTION, f"program{number}"): MS for number in range(9)}

        assert len(summary.culprits(a_span(1, lost_ns=lost_ns), Cause.CPU_CONTENTION)) == 5

    def test_loss_of_a_cause_is_summed_over_culprits(self) -> None:
        lost_ns = {CRON: 100 * MS, HOG: 300 * MS, DISK: 500 * MS}

        assert summary.lost_ns(a_span(1, lost_ns=lost_ns), Cause.CPU_CONTENTION, 0.3) == 400 * MS

    def test_loss_of_a_cause_that_nothing_is_charged_to_is_its_share_of_the_time(self) -> None:
        """The job computes for three tenths of two seconds."""
        assert summary.lost_ns(a_span(2, lost_ns={DISK: 500 * MS}), Cause.OWN_CODE, 0.3) == 600 * MS


class TestOpened:
    """The chain of a span in which half of the time was lost to a hog."""

    def test_it_has_the_figures_of_the_span(self) -> None:
        reason = Verdict(Cause.CPU_CONTENTION, Effect.GAP, 0.9, (("cpu_contention", 0.9),))
        chain = summary.opened(
            "1" * 32,
            7,
            a_span(2, lost_ns={HOG: SECOND}),
            found(lost={Cause.CPU_CONTENTION: 0.5}),
            reason,
            usual_step_ns=10_000_000.4,
            is_chronic=False,
        )

        assert (chain.id, chain.process, chain.cause, chain.effect) == ("1" * 32, 7, Cause.CPU_CONTENTION, Effect.GAP)
        assert (chain.began_ns, chain.opened_ns, chain.updated_ns) == (100 * SECOND, 102 * SECOND, 102 * SECOND)
        assert (chain.severity, chain.lost_share, chain.contribution) == (Severity.HIGH, pytest.approx(0.45), 0.9)
        assert (chain.slowdown, chain.usual_step_ns, chain.lost_ns) == (1.0, 10_000_000, SECOND)
        assert chain.culprits == (("stress-ng", 1.0),)

    def test_culprits_of_the_verdict_come_first(self) -> None:
        """A neighbour on the GPU holds no CPU."""
        reason = Verdict(Cause.GPU_CONTENTION, Effect.SYNC, 1.0, (), culprits=(("serve", 1.0),))
        chain = summary.opened("1" * 32, 7, a_span(2), found(), reason, usual_step_ns=0.0, is_chronic=False)

        assert chain.culprits == (("serve", 1.0),)

    def test_chronic_one_is_medium_at_most(self) -> None:
        reason = Verdict(Cause.DATALOADER, Effect.GAP, 1.0, ())
        one = found(slower=None, lost={Cause.DATALOADER: 0.9})
        chain = summary.opened("1" * 32, 7, a_span(2), one, reason, usual_step_ns=0.0, is_chronic=True)

        assert (chain.severity, chain.is_chronic) == (Severity.MEDIUM, True)
