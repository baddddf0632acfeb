"""faults.trials.score: how a trial is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change
from tests.faults.diagnosed import Event
from tests.faults.job import Step
from tests.faults.recording import RecordedRun
from tests.faults.trials.__main__ import agreement
from tests.faults.trials.extra import Extra
from tests.faults.trials.live import events_from
from tests.faults.trials.plan import PlannedFault, PlannedTrial
from tests.faults.trials.score import Booked, Case, beyond, is_named, published, score
from tests.faults.trials.table import complaints, figures, verdict
from tests.faults.trials.trial import Trial
from tests.support.chains import SECOND, a_chain

MS = SECOND // 1000
ON, OFF = 20 * SECOND, 30 * SECOND
STRESSOR, SLEEP, QUIET_PROXY = PlannedFault("cpu-stressor", 1.0), PlannedFault("sleep", 1.0, True), "quick-proxy"


def event(after_seconds: float, cause: Cause = Cause.CPU_CONTENTION, *, chain_id: str = "1", **changes: Any) -> Event:
    """A chain that opens so long after the fault came, having begun a second before."""
    now_ns = ON + round(after_seconds * SECOND)
    known = {"id": chain_id, "cause": cause, "began_ns": now_ns - SECOND, "opened_ns": now_ns}
    return Event(now_ns, 0, Change.OPENED, a_chain(**known | changes))


def steps(slow_ms: int, rank: int = 0) -> tuple[Step, ...]:
    """100 ms each until 20 s and from 30 s to 40, so long in between."""
    found: list[Step] = []
    now_ns = 0
    while now_ns < 40 * SECOND:
        end_ns = now_ns + (slow_ms if ON <= now_ns < OFF else 100) * MS
        found.append(Step(rank, len(found), now_ns, end_ns, 0, 0, 0, 0))
        now_ns = end_ns
    return tuple(found)


def case(*events: Event, fault: PlannedFault | None = STRESSOR, slow_ms: int = 200) -> Case:
    """The case of a trial with these events."""
    planned = PlannedTrial(0, 1, "torch-loader-processes", (fault,) if fault else (), Extra.NONE, "", 10.0)
    run = RecordedRun(steps(slow_ms), ((ON, OFF),), {0: 100}, ())
    (found,) = score(Trial(planned, run, reported=events))
    return found


class TestFault:
    """Something was wrong from 20 to 30 s."""

    def test_right_cause_and_culprit_is_right(self) -> None:
        """The culprit of the example chain is stress-ng."""
        found = case(event(2))

        assert (found.is_fault, found.is_right, found.names_culprit) == (True, True, True)
        assert verdict(found) == "right"

    def test_silence_is_a_miss(self) -> None:
        """Steps took twice as long."""
        assert complaints(case()) == ["missed"]

    def test_wrong_cause_is_wrong(self) -> None:
        """And says nothing of the culprit."""
        found = case(event(2, Cause.LOCK))

        assert complaints(found) == ["cause"]
        assert found.names_culprit is None

    def test_first_chain_counts(self) -> None:
        """A later one with the right cause does not make it good."""
        assert complaints(case(event(2, Cause.LOCK), event(4, chain_id="2"))) == ["cause"]

    def test_wrong_culprit_is_wrong(self) -> None:
        """It is named in the chain's own words."""
        assert complaints(case(event(2, culprits=(("python3", 1.0),)))) == ["culprit"]

    @pytest.mark.parametrize(("rank", "is_so"), [(0, True), (1, False)])
    def test_late_rank_must_be_the_right_one(self, rank: int, is_so: bool) -> None:
        """The chain is of rank 0."""
        straggler = PlannedFault("straggler", 1.0, True, rank)

        assert case(event(2, Cause.SLOW_RANK), fault=straggler).names_culprit is is_so

    def test_culprit_counts_as_it_was_when_the_chain_was_resolved(self) -> None:
        """At first others may have been there as well."""
        opened = event(2, culprits=(("python3", 1.0),))
        over = opened._replace(change=Change.RESOLVED, chain=event(2).chain)

        assert case(opened, over).names_culprit is True

    def test_detection_is_timed_from_the_first_slow_step(self) -> None:
        """Steps were slow at once."""
        assert case(event(2)).detected_after_ns == 2 * SECOND

    def test_fault_without_effect_is_none(self) -> None:
        """Neither is silence a miss."""
        found = case(slow_ms=105)

        assert not found.is_fault
        assert verdict(found) == "no fault: steps were hardly longer"

    def test_right_cause_of_a_weak_fault_is_no_false_alarm(self) -> None:
        """Steps are longer by a twentieth; another cause would be one."""
        assert case(event(2), slow_ms=105).false_alarms == ()
        assert len(case(event(2, Cause.LOCK), slow_ms=105).false_alarms) == 1

    def test_chain_that_had_begun_before_is_not_of_the_fault(self) -> None:
        """It is a false alarm while steps were as long as ever."""
        early = event(-4)

        assert complaints(case(early)) == ["false alarm: cpu_contention", "missed"]

    def test_chain_whose_begin_is_corrected_is_of_the_fault(self) -> None:
        """At first it seemed to have begun six seconds before."""
        opened = event(2, began_ns=ON - 6 * SECOND)
        over = opened._replace(change=Change.RESOLVED, chain=event(2).chain)

        assert case(opened, over).is_right

    def test_rank_that_waits_for_one_with_a_right_chain_is_right(self) -> None:
        """Rank 0 has the right cause, and is waited for; rank 3 has none."""
        waits = [event(3, Cause.PEER_RANK, chain_id=peer, peer=peer) for peer in ("0", "3")]
        found = case(event(2), *waits)

        assert [found.is_right_event(one) for one in found.opened] == [True, True, False]

    def test_own_work_is_distinguished_from_the_gpu(self) -> None:
        """A sleep in the step is no slow GPU."""
        assert case(event(2, Cause.GPU), fault=SLEEP).is_distinguished is False
        assert case(event(2)).is_distinguished is None


class TestDecoy:
    """Nothing was wrong."""

    DECOY = PlannedFault(QUIET_PROXY, 1.0)

    def test_silence_is_right(self) -> None:
        """All of its time is quiet, but for the first half of the time to learn."""
        found = case(fault=self.DECOY, slow_ms=100)

        assert verdict(found) == "silent"
        assert found.quiet_ns == pytest.approx(33.5 * SECOND)

    def test_chain_is_a_false_alarm(self) -> None:
        """Steps were as long as ever."""
        assert complaints(case(event(3), fault=self.DECOY, slow_ms=100)) == ["false alarm: cpu_contention"]

    def test_chain_of_nothing_is_a_false_alarm(self) -> None:
        """The same without a decoy."""
        assert complaints(case(event(3), fault=None, slow_ms=100)) == ["false alarm: cpu_contention"]

    def test_harmful_decoy_proves_nothing(self) -> None:
        """Steps took twice as long: the chain is true."""
        found = case(event(3), fault=self.DECOY)

        assert found.is_harmful_decoy
        assert (found.false_alarms, len(found.disturbed)) == ((), 1)

    def test_change_on_purpose_may_be_named_and_nothing_else(self) -> None:
        """Batches are larger now: steps take twice as long, and that is no contention."""
        larger = PlannedFault("batch-size", 1.0, True)

        assert complaints(case(fault=larger)) == []
        assert complaints(case(event(3), fault=larger)) == ["false alarm: cpu_contention"]

    def test_chain_of_the_first_seconds_does_not_count(self) -> None:
        """The job has just begun."""
        assert case(event(-17), fault=self.DECOY, slow_ms=100).false_alarms == ()


class TestSequence:
    """A stressor from 20 to 30 s, and a decoy from 32 to 36 s."""

    PLANNED = PlannedTrial(
        0, 1, "torch-loader-processes", (STRESSOR, TestDecoy.DECOY), Extra.NONE, "", 10.0, gap_seconds=2.0
    )

    def cases(self, *events: Event) -> list[Case]:
        run = RecordedRun(steps(200), ((ON, OFF), (32 * SECOND, 36 * SECOND)), {0: 100}, ())
        return score(Trial(self.PLANNED, run, reported=events))

    def test_each_fault_is_a_case(self) -> None:
        """With the chains that open from the grace of the one before to its own."""
        stressor, decoy = self.cases(event(2), event(14.9, chain_id="2"), event(15.1, chain_id="3"))

        assert [one.planned.faults for one in (stressor, decoy)] == [(STRESSOR,), (TestDecoy.DECOY,)]
        assert [event.chain.id for event in stressor.opened] == ["1", "2"]
        assert [event.chain.id for event in decoy.reported] == ["3"]

    def test_times_add_up_to_that_of_the_trial(self) -> None:
        """6.5 to 40 s, without the fault and its grace."""
        assert sum(one.quiet_ns for one in self.cases()) == pytest.approx(18.5 * SECOND)


class TestNames:
    """Culprits."""

    @pytest.mark.parametrize(
        ("culprit", "is_so"),
        [("stress-ng-cpu", True), ("gpu-stall-fault-1-2-neighbour", True), ("python3", False), ("", False)],
    )
    def test_program_or_group_is_enough(self, culprit: str, is_so: bool) -> None:
        """Workers of stress-ng have names of their own."""
        assert is_named(culprit, ["stress-ng"]) is is_so

    def test_long_name_is_cut_as_the_kernel_does(self) -> None:
        """15 characters."""
        assert is_named("a-program-with-", ["a-program-with-a-name"])


class TestFigures:
    """The table."""

    def test_error_of_booked_time_is_a_share_of_the_loss_and_of_the_time(self) -> None:
        """2 s booked, 4 lost, in 10."""
        entry = Booked(2 * SECOND, 4 * SECOND, 10 * SECOND)

        assert (entry.error_of_lost, entry.error_of_wall) == (0.5, 0.2)

    def test_steps_of_a_fault_lose_what_they_lost_before_it_as_well(self) -> None:
        """100 steps lost 1 s in 10 s; then 50 lost 4 s in 10 s, of which half a second would have been lost anyway."""
        lost = [{7: {(Cause.LOCK, ""): seconds * SECOND}} for seconds in (0, 1, 5)]

        assert beyond(lost, (ON - 10 * SECOND, ON, OFF), 7, steps(200)) == 3.5 * SECOND

    def test_lost_time_that_only_a_chain_has_is_that_of_the_chain(self) -> None:
        """No time is charged to a pageable copy: at its end it has cost 3 s. What a lock has cost is in the metrics."""
        copies = event(2, Cause.PAGEABLE_COPY, lost_ns=SECOND)
        over = replace(copies.chain, lost_ns=3 * SECOND)
        opened = [copies, event(2, Cause.LOCK, chain_id="2", lost_ns=5 * SECOND)]

        assert published(frozenset({"lock"}), opened, {over.id: over}) == (3 * SECOND, True)
        assert published(frozenset({"pageable_copy"}), [copies], {}) == (SECOND, False)

    def test_tuned_and_held_out_have_columns_of_their_own(self) -> None:
        """One right of one, none of one."""
        lines = figures([case(event(2))], [case(event(2, Cause.LOCK))]).splitlines()
        (line,) = (line for line in lines if line.startswith("| right cause first"))

        assert [cell.split(" ")[1] for cell in line.split("|")[2:4]] == ["1.000", "0.000"]

    def test_harmful_decoys_count_no_quiet_time(self) -> None:
        """Otherwise false alarms an hour would look fewer."""
        lines = figures([case(fault=TestDecoy.DECOY)], []).splitlines()
        (line,) = (line for line in lines if line.startswith("| false alarms"))

        assert line.split("|")[2].strip() == "-"


class TestLive:
    """Chains from the exporter's log."""

    LINE = (
        '{"ts": "1970-01-01T00:01:00.000Z", "level": "warning", "msg": "chain opened: lock", "chain_id": "7", "pid": "100", '
        '"cause": "lock", "effect": "gap", "severity": "high", "lost_share": "0.5", "contribution": "0.9", "open_seconds": "1.5"}'
    )

    def test_line_of_the_log_is_an_event(self) -> None:
        """The monotonic clock was 0 at ten seconds; the chain began 1.5 s before it was opened."""
        (found,) = events_from(['{"ts": "", "msg": "serving"}', self.LINE], {3: 100}, 10 * SECOND)

        assert (found.now_ns, found.rank, found.change) == (50 * SECOND, 3, Change.OPENED)
        assert (found.chain.cause, found.chain.began_ns) == (Cause.LOCK, 48_500_000_000)

    def test_other_processes_do_not_count(self) -> None:
        """Rank 0 is process 200."""
        assert list(events_from([self.LINE], {0: 200}, 0)) == []

    @pytest.mark.parametrize(("live", "word"), [((event(3, Cause.LOCK),), "agrees"), ((), "differs")])
    def test_replay_and_exporter_agree_on_the_first_chain(self, live: tuple[Event, ...], word: str) -> None:
        """Whether it is right or not."""
        replayed = case(event(2, Cause.LOCK), event(4, chain_id="2"))

        assert agreement(replayed, case(*live)).startswith(f"| live | {word}")
