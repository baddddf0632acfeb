"""What makes a late rank late."""

from __future__ import annotations

from exporter.causes import Cause
from exporter.fleet.jobs import Member
from exporter.fleet.late_rank import explained, standing_rank
from exporter.fleet.lateness import Parts, RankLateness
from exporter.fleet.rank_report import ReportedChain
from tests.support.rank_reports import a_chain, a_rank

BEFORE = Parts(0.5, 0.1, 0.1, {"lock": 0.01})


def cause_of(lost: dict[str, float], *chains: ReportedChain, computing: float = 0.1) -> str:
    """The cause of a rank that is late by 0.4 s of a step."""
    now = Parts(0.9, 0.1, computing, lost)
    return explained(RankLateness(Member("gpu1", a_rank(chains=chains)), 0.4, now, BEFORE)).cause


class TestSlow:
    def test_largest_growth_is_the_cause(self) -> None:
        assert cause_of({"lock": 0.05, "irq": 0.3, "unknown": 0.9}) == "irq"

    def test_chain_counts_where_little_is_charged(self) -> None:
        assert cause_of({"lock": 0.05}, a_chain(Cause.CPU_QUOTA)) == "cpu_quota"

    def test_chain_of_little_account_does_not(self) -> None:
        assert cause_of({"lock": 0.05}, a_chain(Cause.CPU_QUOTA, lost_ratio=0.01)) == ""

    def test_longer_computing_is_its_own_code(self) -> None:
        assert cause_of({}, computing=0.45) == "own_code"

    def test_chain_of_another_cause_has_no_say_in_the_culprit(self) -> None:
        now = Parts(0.9, 0.1, 0.1, {"irq": 0.3})
        member = Member("gpu1", a_rank(chains=(a_chain(Cause.CPU_CONTENTION),)))
        found = explained(RankLateness(member, 0.4, now, BEFORE))

        assert (found.cause, found.culprit) == ("irq", "")


class TestStanding:
    def test_end_of_the_process_comes_first(self) -> None:
        chains = (a_chain(Cause.STALLED, lost_ratio=1.0), a_chain(Cause.OOM_KILLED, state="resolved"))

        assert standing_rank(Member("gpu1", a_rank(chains=chains, is_gone=True))).cause == "oom_killed"

    def test_host_comes_before_the_standstill_itself(self) -> None:
        chains = (a_chain(Cause.STALLED, lost_ratio=1.0), a_chain(Cause.PAUSED, lost_ratio=1.0))

        assert standing_rank(Member("gpu1", a_rank(chains=chains))).cause == "paused"

    def test_chain_of_little_account_is_no_reason(self) -> None:
        assert standing_rank(Member("gpu1", a_rank(chains=(a_chain(Cause.LOCK, lost_ratio=0.05),)))).cause == ""
