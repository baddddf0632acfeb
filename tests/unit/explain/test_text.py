"""explanation: what somebody reads at three in the morning, from what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from exporter.causes import Cause
from exporter.chains.chain import Effect, End, Severity
from exporter.chains.event import ChainEvent
from exporter.explain import text
from exporter.explain.explanation import Explanation, Status, explain
from exporter.explain.selection import Selection
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.window import NO_STEPS, Window
from exporter.model import Identity
from tests.support.history import MS, NOON, SECOND, a_report, a_run, a_window, process_labels, resolved, times

NOW_SECONDS = 200.0


def windows_until(seconds: float, began_seconds: float = -100.0, **changes: Any) -> list[Window]:
    """One after the other."""
    ends = range(int(began_seconds) + 10, int(seconds) + 1, 10)
    return [a_window(float(ended), **changes) for ended in ends]


def explained(
    reports: Sequence[ChainEvent] = (),
    windows: Sequence[Window] | None = None,
    runs: Sequence[Run] | None = None,
    selection: str = "",
    since_seconds: float = -100.0,
) -> Explanation:
    """At NOW_SECONDS, of five minutes in which rank 3 was always there."""
    windows = windows_until(NOW_SECONDS) if windows is None else windows
    return explain(
        [a_run()] if runs is None else runs,
        [RecordedEvent(1, report) for report in reports],
        [RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window]) for window in windows],
        selection=Selection.of(selection),
        since_unix_ns=NOON + int(since_seconds * SECOND),
        now_unix_ns=NOON + int(NOW_SECONDS * SECOND),
    )


def told(*reports: ChainEvent, **known: Any) -> list[str]:
    """In the time of Greenwich."""
    return text.lines(explained(reports, **known), UTC)


def of_rank(rank: str, digit: str, **changes: Any) -> ChainEvent:
    """An episode of another rank."""
    return a_report(identity=Identity(node="gpu7", rank=rank), tgid=100 + int(rank), chain_id=digit * 32, **changes)


class TestGoingOn:
    """The verdict is the first line."""

    def test_whole_text(self) -> None:
        """What it costs, why, what to do, and what was looked at."""
        assert told(a_report()) == [
            "rank 3 (pod trainer-0) loses 46 % of its time to cpu_contention, since 08:00:00 UTC (3 min 20 s), high;"
            " stress-ng took it. Still going on.",
            "",
            "  cost    steps take 1.9 times as long: 14.0 ms -> 26.6 ms; lately 20.0 ms a step,"
            " 10 % of the time lost (over 30 s)",
            "  why     of what is lost: cpu_contention 97 %, cpu_oversubscribed 2.0 %",
            "          of the cpu_contention: stress-ng 94 %, cron 4.0 %",
            "  do      stress-ng takes the CPUs: keep it off them.",
            "            taskset -acp 0-3 100",
            "            renice -n 19 -p 777",
            f"  where   node gpu7, pod trainer-0, pid 100, command python, cgroup /job, chain {'1' * 32}",
            "",
            "In the last 5 min: rank 3 (pid 100) made 15,000 steps; 10 % of the time lost, most of it to cpu_contention.",
        ]

    def test_worst_comes_first(self) -> None:
        """The others are one line each."""
        lines = told(a_report(), of_rank("5", "2", severity=Severity.CRITICAL, lost_share=0.7, culprits=()))

        assert lines[0].startswith("rank 5 (pid 105) loses 70 % of its time to cpu_contention, since 08:00:00 UTC")
        assert "Also going on:" in lines
        assert lines[lines.index("Also going on:") + 1].startswith("  rank 3 (pod trainer-0) loses 46 %")

    def test_ranks_that_wait_for_it_are_told_with_it(self) -> None:
        """One thing has happened, not eight."""
        waiting = [
            of_rank(rank, str(number), cause=Cause.PEER_RANK, severity=Severity.MEDIUM, peer="3", culprits=())
            for number, rank in enumerate("0124567", 2)
        ]
        lines = told(a_report(), *waiting)

        assert "  waiting Ranks 0-2, 4-7 wait for it." in lines
        assert not any("peer_rank" in line for line in lines)

    def test_rank_that_waits_for_one_without_an_episode_is_told_itself(self) -> None:
        """The other one may be on another node."""
        (line, *_) = told(of_rank("0", "2", cause=Cause.PEER_RANK, severity=Severity.MEDIUM, peer="6", culprits=()))

        assert line == (
            "rank 0 (pid 100) waits for rank 6 46 % of its time (peer_rank), since 08:00:00 UTC (3 min 20 s), medium."
            " Still going on."
        )

    def test_two_that_wait_for_each_other_are_both_told(self) -> None:
        """Neither is folded away."""
        each = {"cause": Cause.PEER_RANK, "culprits": ()}
        lines = told(of_rank("0", "2", peer="1", **each), of_rank("1", "3", peer="0", **each))

        assert sum("(peer_rank)" in line for line in lines) == 2

    def test_host_that_is_acquitted_is_named_as_such(self) -> None:
        """And where to look instead."""
        lines = told(
            a_report(
                cause=Cause.NOT_HOST,
                effect=Effect.SYNC,
                severity=Severity.MEDIUM,
                culprits=(),
                contribution=0.93,
                shares=(("lock", 0.04),),
            )
        )

        assert lines[0] == (
            "rank 3 (pod trainer-0) is 1.9 times slower, and the host is NOT the reason (not_host), since 08:00:00 UTC"
            " (3 min 20 s), medium. Still going on."
        )
        assert (
            "  why     waits for the GPU take longer, and CPUs, memory, disks, locks and input of this host explain 7.0 % of it"
            in lines
        )
        assert any("the GPU (clocks, errors, another user of it)" in line for line in lines)

    def test_rank_that_never_came_is_named(self) -> None:
        """There are no steps to compare."""
        lines = told(
            a_report(
                cause=Cause.NCCL_HANG, severity=Severity.CRITICAL, slowdown=None, culprits=(), shares=(), peer="3"
            ),
            windows=[],
        )

        assert lines[0].startswith(
            "rank 3 (pod trainer-0) never came to a collective that the others wait in (nccl_hang), since"
        )
        assert "  cost    no step has ended since; usually one takes 14.0 ms" in lines

    def test_cause_that_explains_less_is_told_with_its_part(self) -> None:
        """Of what is lost."""
        (line, *_) = told(a_report(contribution=0.62, culprits=(("stress-ng", 0.5),)))

        assert "loses 46 % of its time, 62 % of that to cpu_contention" in line
        assert "stress-ng took 50 % of it" in line

    def test_job_that_was_never_better_says_so(self) -> None:
        """Nothing usual is known of it, whatever its steps take."""
        lines = told(a_report(is_chronic=True, slowdown=None))

        assert lines[2].startswith("  cost    46 % of the time, for as long as the job is known;")


class TestOver:
    """Nothing is wrong any more."""

    def test_verdict_says_that_it_is_over(self) -> None:
        """What it was is told all the same."""
        lines = told(resolved(a_report(), 24))

        assert lines[0] == (
            "Nothing is wrong now. In the last 5 min: rank 3 (pod trainer-0) lost 46 % of its time to cpu_contention,"
            " from 08:00:00 to 08:00:24 UTC (24 s), high; stress-ng took it. It recovered."
        )
        assert "  do      stress-ng takes the CPUs: keep it off them." in lines

    def test_earlier_ones_are_one_line_each(self) -> None:
        """The latest first; behind one that goes on."""
        first = resolved(of_rank("5", "2", began_seconds=-50.0, culprits=()), 9.3)
        second = resolved(of_rank("6", "3", began_seconds=-20.0), 15, End.JOB_ENDED)
        lines = told(first, second, a_report())
        at = lines.index("Earlier, in the last 5 min:")

        assert lines[at + 1 : at + 3] == [
            "  07:59:40 UTC  rank 6 (pid 106) lost 46 % of its time to cpu_contention for 15 s, high,"
            " culprit stress-ng, job_ended",
            "  07:59:10 UTC  rank 5 (pid 105) lost 46 % of its time to cpu_contention for 9.3 s, high",
        ]

    def test_episode_that_ended_before_is_not_told(self) -> None:
        """It began and ended before the span."""
        assert explained([resolved(a_report(-300.0), 24)]).status is Status.FINE


class TestFine:
    """Silence is no answer."""

    def test_what_was_looked_at_is_told(self) -> None:
        """Of eight ranks."""
        windows = [
            a_window(
                190.0,
                process=rank,
                labels=process_labels(str(rank), 100 + rank),
                steps=times(499 + (rank == 0), 20 * MS),
                lost_ns={"lock": 80 * MS},
            )
            for rank in range(8)
        ]
        lines = told(windows=windows_until(180.0, labels=process_labels("0")) + windows, since_seconds=-100.0)

        assert lines == [
            "No episode in the last 5 min; 8 ranks made 17,993 steps; 8.0 % of the time lost, most of it to cpu_contention."
        ]

    def test_nobody_made_a_call(self) -> None:
        """The exporter was there, and recorded so."""
        found = explain(
            [a_run()],
            [],
            [RecordedWindows(1, NOON - 100 * SECOND, NOON + 195 * SECOND, [])],
            selection=Selection(),
            since_unix_ns=NOON - 100 * SECOND,
            now_unix_ns=NOON + 200 * SECOND,
        )

        assert text.lines(found, UTC) == ["No process made a traced call in the last 5 min."]

    def test_young_job_gets_no_verdict(self) -> None:
        """Nothing is usual of it yet."""
        lines = told(windows=[a_window(198.0, began_unix_ns=NOON + 190 * SECOND, steps=times(7, 20 * MS))])

        assert lines[0] == (
            "Too early for a verdict: rank 3 (pid 100) known since 08:03:10 UTC, 7 steps so far; what is usual is learned from"
            " ten steps and five quiet seconds."
        )

    def test_exporter_that_has_just_begun_asks_for_patience(self) -> None:
        """The first window comes after ten seconds."""
        lines = told(windows=[], runs=[a_run(196.0, 197.0, cut_seconds=0.0)])

        assert lines[0].startswith("Nothing is known yet: the exporter began at 08:03:16 UTC")

    def test_chains_that_are_off_are_said_to_be(self) -> None:
        """Fine would be a lie."""
        lines = told(runs=[a_run(has_chains=False)])

        assert lines[0].startswith("No verdict: episodes are not looked for")
        assert lines[-1].startswith("In the last 5 min: rank 3 (pid 100) made 15,000 steps")

    def test_job_without_steps_is_told_by_its_losses(self) -> None:
        """An inference server."""
        (line,) = told(windows=windows_until(NOW_SECONDS, steps=NO_STEPS, lost_ns={}))

        assert line == "No episode in the last 5 min; rank 3 (pid 100) made no steps that recur; 0 % of the time lost."


class TestGaps:
    """What was not recorded is said."""

    def test_exporter_that_was_away(self) -> None:
        """From when to when."""
        windows = windows_until(0.0) + windows_until(NOW_SECONDS, began_seconds=60.0)
        runs = [a_run(-600.0, 2.0, id=0), a_run(60.0)]

        assert told(windows=windows, runs=runs)[-1] == (
            "Nothing was recorded from 08:00:00 UTC to 08:01:00 UTC (1 min): the exporter was not running."
        )

    def test_exporter_that_could_not_write(self) -> None:
        """It ran all the time."""
        windows = windows_until(0.0) + windows_until(NOW_SECONDS, began_seconds=60.0)

        assert told(windows=windows)[-1].endswith("it could not be written, see the exporter's log.")

    def test_history_that_is_younger_than_the_span(self) -> None:
        """What was before is not known."""
        lines = told(windows=windows_until(NOW_SECONDS, began_seconds=50.0), runs=[a_run(50.0)])

        assert lines[-1] == "The history begins at 08:00:50 UTC."

    def test_exporter_that_was_killed_is_said_to_be_gone(self) -> None:
        """And an episode is only known to have gone on until then."""
        lines = told(a_report(), windows=windows_until(100.0), runs=[a_run(seen_seconds=101.0)])

        assert lines[0] == "The exporter was last seen at 08:01:41 UTC: what follows is what was known then."
        assert lines[1].endswith("It went on when the exporter was last seen, at 08:01:41 UTC.")

    def test_exporter_that_was_stopped_is_said_to_be(self) -> None:
        """At the time at which it was."""
        lines = told(runs=[a_run(seen_seconds=190.0, ended_unix_ns=NOON + 190 * SECOND)])

        assert lines[0].startswith("The exporter stopped at 08:03:10 UTC")

    def test_episode_of_an_earlier_run_does_not_go_on(self) -> None:
        """The exporter was killed and started again; what it found then is new."""
        found = explain(
            [a_run(-600.0, 50.0), a_run(60.0, 199.0, id=2)],
            [RecordedEvent(1, a_report())],
            [RecordedWindows(2, NOON + 60 * SECOND, NOON + 199 * SECOND, [])],
            selection=Selection(),
            since_unix_ns=NOON - 100 * SECOND,
            now_unix_ns=NOON + 200 * SECOND,
        )

        assert found.status is Status.LEFT_SLOW
        assert text.lines(found, UTC)[0].endswith("It went on when the exporter was last seen, at 08:00:50 UTC.")


class TestSelection:
    """Of --workload."""

    def test_other_ranks_are_left_out(self) -> None:
        """Their episodes and their steps."""
        found = explained([a_report(), of_rank("5", "2")], selection="rank=5")

        assert [episode.rank for episode in found.episodes] == ["5"]
        assert found.processes == ()

    def test_begin_of_a_pod_is_enough(self) -> None:
        """As one copies it from a terminal."""
        assert [episode.rank for episode in explained([a_report(), of_rank("5", "2")], selection="train").episodes] == [
            "3"
        ]
