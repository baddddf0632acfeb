"""campaign: how episodes are counted, and the rules that they are compared with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change
from exporter.totals import Counts
from exporter.units import slot_of
from tests.faults.campaign.co_occurrence import Alarm, alarms
from tests.faults.campaign.gauges import Gauge
from tests.faults.campaign.plan import QUIET_SECONDS, again, episodes_of, long_sessions, short_sessions
from tests.faults.campaign.score import Case, is_excused, is_settled, is_slower
from tests.faults.campaign.session import Session, load, save
from tests.faults.campaign.table import complaints
from tests.faults.diagnosed import Event
from tests.faults.figures import Share
from tests.faults.job import Step, Window
from tests.faults.recording import RecordedRun
from tests.faults.registry import EPISODES
from tests.support.chains import SECOND, a_chain

LOCK = EPISODES["lock-holder-sleeps"]
MS = 1_000_000


def event(cause: Cause = Cause.LOCK, *, rank: int = 0, **changes: Any) -> Event:
    """A chain that was opened a second after the fault began."""
    return Event(11 * SECOND, rank, Change.OPENED, a_chain(cause=cause, **changes))


def case(*opened: Event, name: str = LOCK.name, impact: float | None = 1.0, rules: tuple[Alarm, ...] = ()) -> Case:
    """A fault from the tenth second to the fifteenth."""
    last = tuple(one.chain for one in opened)
    return Case(EPISODES[name], impact, 10 * SECOND, 15 * SECOND, opened, last, impact, rules)


class TestCase:
    """One window."""

    @pytest.mark.parametrize(("impact", "is_positive"), [(0.03, False), (0.05, True), (None, True)])
    def test_fault_without_impact_is_none(self, impact: float | None, is_positive: bool) -> None:
        """A hang has no impact that can be measured, and is one."""
        assert case(impact=impact).is_positive is is_positive

    def test_silence_is_a_miss(self) -> None:
        """But not where the host had nothing to do with it."""
        assert complaints(case()) == ["missed"]
        assert complaints(case(name="slow-gpu")) == []

    def test_first_cause_counts(self) -> None:
        """The rank that has the fault: a rank that waits for it has a chain as well, perhaps earlier."""
        waits = event(Cause.PEER_RANK, rank=0)

        assert complaints(case(event(Cause.GPU), event())) == ["cause gpu", "2 chains"]
        assert complaints(case(waits, event(Cause.SLOW_RANK, rank=1), name="slow-rank")) == []

    def test_late_rank_must_be_the_right_one(self) -> None:
        """Rank 1 of 2."""
        assert complaints(case(event(Cause.SLOW_RANK, rank=0), name="slow-rank")) == ["culprit"]

    def test_program_that_holds_the_cpus_must_be_named(self) -> None:
        """As it is when the chain is over: at first others may have been there as well."""
        chain = event(Cause.CPU_CONTENTION, culprits=(("stress-ng", 1.0),))
        over = a_chain(cause=Cause.CPU_CONTENTION, culprits=(("fault-hog", 0.8), ("stress-ng", 0.2)))

        assert case(chain, name="cpu-neighbour").names_culprit is False
        assert replace(case(chain, name="cpu-neighbour"), last=(over,)).names_culprit is True

    def test_contribution_is_compared_as_a_share_of_the_time(self) -> None:
        """Steps took twice as long, and half of the time is reported lost, 0.9 of it to the cause: 45 % against 50."""
        chain = event(slowdown=1.0, contribution=0.9, shares=(("lock", 0.9), ("irq", 0.1)))

        assert case(chain).contribution_error == pytest.approx(0.05)

    def test_wrong_cause_has_no_contribution(self) -> None:
        """It is counted as wrong already."""
        assert case(event(Cause.IRQ)).contribution_error is None


def session_of(*walls_ms: tuple[int, int]) -> Session:
    """Rank 0 makes so many steps of so many milliseconds, without a fault."""
    steps, now_ns = [], 0
    for count, wall_ms in walls_ms:
        for _ in range(count):
            times = {"start_ns": now_ns, "end_ns": now_ns + wall_ms * MS}
            steps.append(
                Step(number=len(steps), rank=0, loader_wait_ns=0, delay_ns=0, cpu_ns=0, runnable_ns=0, **times)
            )
            now_ns += wall_ms * MS
    return Session(EPISODES["quiet"], RecordedRun(tuple(steps), (), {0: 0}, ()), ())


class TestFile:
    """What is kept of a session."""

    def test_windows_are_those_it_was_played_with(self, tmp_path: Path) -> None:
        """Whatever the plan has by now."""
        path = tmp_path / "one.session.xz"
        session = session_of((100, 10))
        save(session, path)

        kept = load(path, again(EPISODES["quiet"], 0.0, 7))
        assert (kept.run, kept.episode.windows) == (session.run, session.episode.windows)


class TestDisturbance:
    """Whether an unexpected chain is a false alarm, or the job was slower."""

    @pytest.mark.parametrize(("wall_ms", "is_so"), [(10, False), (11, True)])
    def test_steps_are_compared_with_all_quiet_times(self, wall_ms: int, is_so: bool) -> None:
        """Ten seconds of 10 ms, then ten in which a chain is opened, also where those just before it were slow as well."""
        chain = a_chain(cause=Cause.GPU, began_ns=18 * SECOND)
        session = session_of((1500, 10), (500, wall_ms))

        assert is_slower(session, Event(19 * SECOND, 0, Change.OPENED, chain)) is is_so

    @pytest.mark.parametrize(
        ("name", "wall_ms", "is_so"),
        [("quiet", 11, True), ("quiet", 10, False), ("phase-change", 11, False), ("hogs-elsewhere", 11, False)],
    )
    def test_only_a_session_without_any_injection_is_excused(self, name: str, wall_ms: int, is_so: bool) -> None:
        """Steps are a tenth longer, or as long as ever; what a decoy injects must not be blamed on anything."""
        chain = a_chain(cause=Cause.GPU, began_ns=18 * SECOND)
        session = replace(session_of((1500, 10), (500, wall_ms)), episode=EPISODES[name])

        assert is_excused(session, Event(19 * SECOND, 0, Change.OPENED, chain)) is is_so


class TestOnset:
    """A fault that comes just after steps have become longer of themselves proves nothing."""

    def test_fault_after_quiet_seconds_counts(self) -> None:
        """Steps are what they were."""
        assert is_settled(session_of((1000, 10)), 10 * SECOND)

    def test_fault_within_two_seconds_of_a_disturbance_does_not(self) -> None:
        """A second of steps that are half longer."""
        assert not is_settled(session_of((900, 10), (67, 15)), 10 * SECOND)

    def test_fault_in_a_job_that_has_been_slow_for_long_counts(self) -> None:
        """It is slower than it was half a minute ago, and steady."""
        assert is_settled(session_of((1000, 10), (1000, 15)), 25 * SECOND)


class TestShare:
    """With Wilson's bounds."""

    def test_bounds_of_nine_in_ten(self) -> None:
        """As in any table: 0.596 to 0.982."""
        low, high = Share(9, 10).bounds()

        assert (round(low, 3), round(high, 3)) == (0.596, 0.982)

    def test_nothing_says_nothing(self) -> None:
        """No case at all."""
        assert Share(0, 0).bounds() == (0.0, 1.0)


class TestPlan:
    """Sessions."""

    def test_long_form_has_enough_episodes(self) -> None:
        """At least 240, and decoys beside them."""
        sessions = list(long_sessions())

        assert episodes_of(sessions) >= 240
        assert sum(one.is_decoy for one in sessions) >= 5

    def test_short_form_is_short(self) -> None:
        """About twenty."""
        assert 12 <= episodes_of(short_sessions()) <= 24

    def test_windows_leave_time_to_recover(self) -> None:
        """A chain is resolved five seconds behind its fault."""
        session = again(LOCK, 1.0, 3)
        first, second, third = session.windows

        assert (second.first - first.end) * session.step_seconds == pytest.approx(QUIET_SECONDS, abs=0.02)
        assert third.end <= session.steps
        assert session.fault_flags()[-3:] == (
            f"--fault-from-step={first.first}",
            f"--fault-to-step={first.end}",
            f"--fault-every={second.first - first.first}",
        )

    def test_one_window_is_as_before(self) -> None:
        """No flag says that it comes again."""
        assert LOCK.windows == (LOCK.window,)
        assert LOCK.window == Window(60, 100)


def gauges(*walls_ms: list[float], switches: int = 100, busy: float = 0.2) -> list[Gauge]:
    """One for each second, with calls of these lengths more in it."""
    found, counts = [], Counts()
    for number, walls in enumerate(walls_ms):
        for wall in walls:
            slot = slot_of(round(wall * MS))
            counts = counts.plus(Counts(slot, (1,)))
        calls = {"cudaStreamSynchronize": (counts.begin, counts.held)}
        found.append(Gauge(number * SECOND, busy * number, number, 0.5, 0, 1.0, 0, 0.0, switches * number, calls))
    return found


class TestCoOccurrence:
    """Rules of others."""

    def test_long_tail_and_a_few_switches_are_an_alarm(self) -> None:
        """Any thread switches a few times in ten seconds."""
        found = list(alarms(gauges([], [10.0] * 50, [10.0] * 40 + [50.0] * 10)))

        assert found == [Alarm(2 * SECOND, "tail-cudaStreamSynchronize", ("cpu_contention",))]

    def test_calls_that_are_all_alike_are_none(self) -> None:
        """Whatever the host does."""
        assert list(alarms(gauges([], [10.0] * 50, [10.0] * 50, busy=0.99))) == []

    def test_rate_that_drops_is_an_alarm(self) -> None:
        """To less than 0.6 of the most that there was, from the sixth second on."""
        walls = [[10.0] * 50] * 6 + [[10.0] * 20]

        assert [one.rule for one in alarms(gauges(*walls))] == ["drop-cudaStreamSynchronize"]
