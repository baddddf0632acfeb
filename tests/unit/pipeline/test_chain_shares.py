"""chain_shares: chains of an owner that has too many are not reported."""

from __future__ import annotations

import pytest

from exporter.chains.chain import Chain, Change, Transition
from exporter.pipeline.chain_shares import AT_ONCE, EVERY_NS, ChainShares
from exporter.workloads import refusals
from exporter.workloads.owner import user_owner
from exporter.workloads.refusals import Refusals
from tests.support.chains import a_chain

FLOOD, OTHER = user_owner(1001), user_owner(1002)


class Reports:
    """Which chains are reported."""

    def __init__(self) -> None:
        self.refused = Refusals()
        self.shares = ChainShares(self.refused)
        self.now_ns = 0

    def opens(self, number: int, owner: str = "uid 1001") -> bool:
        return self._admits(Change.OPENED, number, owner)

    def _admits(self, change: Change, number: int, owner: str = "uid 1001") -> bool:
        who = FLOOD if owner == "uid 1001" else OTHER
        return self.shares.admits(Transition(change, _chain(number)), who, self.now_ns)

    def resolves(self, number: int) -> bool:
        return self._admits(Change.RESOLVED, number)


def _chain(number: int) -> Chain:
    return a_chain(id=str(number))


@pytest.fixture
def reports() -> Reports:
    """Nothing was reported yet."""
    return Reports()


class TestAdmits:
    def test_so_many_at_once(self, reports: Reports) -> None:
        """The others are counted, by owner."""
        reported = [reports.opens(number) for number in range(AT_ONCE + 3)]

        assert reported == [True] * AT_ONCE + [False] * 3
        assert reports.refused.sums() == {(refusals.CHAINS, "uid 1001"): 3}

    def test_then_one_in_a_while(self, reports: Reports) -> None:
        for number in range(AT_ONCE):
            reports.opens(number)
        reports.now_ns = 2 * EVERY_NS

        assert [reports.opens(1_000 + number) for number in range(3)] == [True, True, False]

    def test_chains_of_others_are_reported(self, reports: Reports) -> None:
        for number in range(2 * AT_ONCE):
            reports.opens(number)

        assert reports.opens(1_000, "uid 1002")

    def test_chain_is_reported_to_its_end_or_not_at_all(self, reports: Reports) -> None:
        for number in range(AT_ONCE + 1):
            reports.opens(number)
        reports.now_ns = 100 * EVERY_NS

        assert reports.shares.unreported == {str(AT_ONCE)}
        assert not reports.resolves(AT_ONCE)
        assert reports.resolves(0)
        assert reports.shares.unreported == set()

    def test_all_may_be_reported_again_after_a_while(self, reports: Reports) -> None:
        for number in range(AT_ONCE):
            reports.opens(number)
        reports.now_ns = AT_ONCE * EVERY_NS

        assert all(reports.opens(1_000 + number) for number in range(AT_ONCE))
