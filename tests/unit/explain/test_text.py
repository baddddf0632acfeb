"""text: the explanation that a person reads, from the history."""

from __future__ import annotations

from datetime import UTC
from typing import ClassVar

from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, End, Severity
from exporter.explain import text
from exporter.explain.explanation import Status, explain
from exporter.history.run import RecordedEvent, RecordedWindows
from exporter.history.selection import Selection
from exporter.history.window import NO_STEPS
from exporter.python.call_site import LINES
from tests.support.history import (
    MS,
    NOON,
    SECOND,
    a_call_site,
    a_run,
    a_window,
    an_event,
    process_labels,
    resolved,
    times,
)
from tests.unit.explain.five_minutes import NOW_SECONDS, explained, lines_of, of_rank, windows_until


class TestOpenChain:
    def test_whole_text(self) -> None:
        """Verdict, cost, reason, remedy, place, and totals."""
        assert lines_of(an_event()) == [
            "rank 3 (pod trainer-0) loses 46 % of its time to cpu_contention, since 08:00:00 UTC (3 min 20 s),"
            " severity high; culprit stress-ng. Still going on.",
            "",
            "  cost    steps take 1.9 times as long: 14.0 ms -> 26.6 ms; in the last 30 s 20.0 ms a step",
            "  why     lost time by cause: cpu_contention 97 %, cpu_oversubscribed 2.0 %",
            "          cpu_contention by culprit: stress-ng 94 %, cron 4.0 %",
            "  do      stress-ng is using the job's CPUs. Pin it elsewhere.",
            "            taskset -acp 0-3 100",
            "            renice -n 19 -p 777",
            f"  where   node gpu7, pod trainer-0, pid 100, command python, cgroup /job, chain {'1' * 32}",
            "",
            "In the last 5 min: rank 3 (pid 100) made 15,000 steps; 10 % of the time lost, most of it to cpu_contention.",
        ]

    def test_lines_of_python_with_slow_calls_stand_below(self) -> None:
        """Those of the windows while the chain was open: 20 of them, from the first second on."""
        lines = lines_of(an_event(), windows=windows_until(NOW_SECONDS, call_sites=(a_call_site(),)))

        assert lines[8] == (
            "  lines   cudaStreamSynchronize: 23 s in 460 slow calls, 50.0 ms each (slow from 25.0 ms),"
            " from step (train.py:142) through Stream.synchronize (torch/cuda/streams.py:106)"
        )

    def test_view_of_nccl_follows_the_stacks(self) -> None:
        """With a name of its own in the first column."""
        stacks = an_event(change=Change.EVIDENCE, evidence=("thread 1 has been outside CUDA and NCCL",))
        view = an_event(change=Change.EVIDENCE, evidence=("NCCL RAS: first", "NCCL RAS: second"))
        lines = lines_of(an_event(), view, stacks)

        stuck = lines.index("  stacks  thread 1 has been outside CUDA and NCCL")
        assert lines[stuck + 1 : stuck + 3] == ["  nccl    NCCL RAS: first", "          NCCL RAS: second"]

    def test_lines_of_evidence_stand_instead_of_those_of_windows(self) -> None:
        """They have the time between calls as well."""
        evidence = an_event(change=Change.EVIDENCE, evidence=(LINES, "  cudaMalloc: 1 s in 2 slow calls"))
        windows = windows_until(NOW_SECONDS, call_sites=(a_call_site(),))
        lines = lines_of(an_event(), evidence, windows=windows)

        assert lines[8:10] == [f"  lines   {LINES}", "            cudaMalloc: 1 s in 2 slow calls"]
        assert lines[10].startswith("  where ")

    def test_slow_calls_with_little_of_the_time_are_left_out(self) -> None:
        """Each window of ten seconds has one of 50 ms, half a percent."""
        windows = windows_until(NOW_SECONDS, call_sites=(a_call_site(calls=1),))

        assert not any(line.startswith("  lines") for line in lines_of(an_event(), windows=windows))

    def test_three_lines_are_shown_and_the_others_counted(self) -> None:
        sites = tuple(a_call_site(line, calls=line, each_ns=SECOND) for line in range(1, 6))
        lines = lines_of(an_event(), windows=windows_until(NOW_SECONDS, call_sites=sites))

        assert "(train.py:5)" in next(line for line in lines if "train.py:" in line)
        assert "          and 2 more places; --format=json lists all" in lines

    def test_worst_chain_comes_first_and_the_others_are_one_line_each(self) -> None:
        lines = lines_of(an_event(), of_rank("5", "2", severity=Severity.CRITICAL, lost_share=0.7, culprits=()))

        assert lines[0].startswith("rank 5 (pid 105) loses 70 % of its time to cpu_contention, since 08:00:00 UTC")
        assert "Other open chains:" in lines
        assert lines[lines.index("Other open chains:") + 1].startswith("  rank 3 (pod trainer-0) loses 46 %")

    def test_ranks_that_wait_for_a_chain_stand_with_it(self) -> None:
        """Eight chains with one cause are one problem."""
        waiting = [
            of_rank(rank, str(number), cause=Cause.PEER_RANK, severity=Severity.MEDIUM, peer="3", culprits=())
            for number, rank in enumerate("0124567", 2)
        ]
        lines = lines_of(an_event(), *waiting)

        assert "  waiting Ranks 0-2, 4-7 wait for it." in lines
        assert not any("peer_rank" in line for line in lines)

    def test_rank_that_waits_for_a_rank_without_a_chain_has_its_own_verdict(self) -> None:
        """The other rank may be on another node."""
        (line, *_) = lines_of(of_rank("0", "2", cause=Cause.PEER_RANK, severity=Severity.MEDIUM, peer="6", culprits=()))

        assert line == (
            "rank 0 (pid 100) waits for rank 6 for 46 % of its time (peer_rank), since 08:00:00 UTC (3 min 20 s),"
            " severity medium. Still going on."
        )

    def test_two_ranks_that_wait_for_each_other_both_have_a_verdict(self) -> None:
        each = {"cause": Cause.PEER_RANK, "culprits": ()}
        lines = lines_of(of_rank("0", "2", peer="1", **each), of_rank("1", "3", peer="0", **each))

        assert sum("(peer_rank)" in line for line in lines) == 2

    def test_slow_gpu_is_explained_by_its_calls(self) -> None:
        """And by what little the host explains."""
        lines = lines_of(
            an_event(
                cause=Cause.GPU,
                effect=Effect.SYNC,
                severity=Severity.MEDIUM,
                culprits=(),
                contribution=0.93,
                shares=(("lock", 0.04),),
            )
        )

        assert lines[0] == (
            "steps of rank 3 (pod trainer-0) take 1.9 times as long because calls that wait for the GPU take longer;"
            " no host resource explains it (gpu), since 08:00:00 UTC (3 min 20 s), severity medium. Still going on."
        )
        assert "  why     waits for the GPU take longer: 93 % of the slowdown" in lines
        assert "          shares by cause: lock 4.0 %" in lines

    def test_own_code_and_own_waits_have_reasons_of_their_own(self) -> None:
        """In a sentence each."""
        (code,) = (line for line in lines_of(an_event(cause=Cause.OWN_CODE)) if line.startswith("  why"))
        (wait,) = (line for line in lines_of(an_event(cause=Cause.OWN_WAIT)) if line.startswith("  why"))

        assert code == "  why     code of the job computes on the CPU between CUDA calls: 97 % of the slowdown"
        assert wait == (
            "  why     the job sleeps, waits for a child process or for an event between CUDA calls: 97 % of the slowdown"
        )

    def test_several_chains_of_one_rank_are_all_listed(self) -> None:
        """A disk on top of a neighbour: the worse one in full, the other one in a line."""
        lines = lines_of(
            of_rank("3", "2", cause=Cause.BLOCK_IO, severity=Severity.CRITICAL, culprits=()),
            of_rank("3", "3", cause=Cause.CPU_CONTENTION, severity=Severity.MEDIUM, lost_share=0.12),
        )

        assert lines[0].startswith("rank 3 (pid 103) loses 46 % of its time to block_io")
        assert lines[lines.index("Other open chains:") + 1].startswith(
            "  rank 3 (pid 103) loses 12 % of its time to cpu_contention"
        )

    def test_standstill_shows_what_its_thread_does(self) -> None:
        """There are no steps to compare."""
        detail = "no step has ended and no kernel was launched for 12 s: thread 4711 has been in cudaStreamSynchronize for 11.8 s"
        lines = lines_of(
            an_event(cause=Cause.STALLED, effect=Effect.STEP, slowdown=None, culprits=(), shares=(), detail=detail),
            windows=[],
        )

        assert lines[0].startswith("rank 3 (pod trainer-0) makes no progress (stalled), since")
        assert lines[2:4] == [
            "  cost    no step has ended since then; the baseline is 14.0 ms a step",
            f"  why     {detail}",
        ]

    def test_lasting_change_has_no_cost(self) -> None:
        """It is what the job is like now."""
        detail = "steps take 47.1 ms (+12 %) with 130 calls for the last minute, 42.0 ms with 130 calls before"
        event = an_event(
            cause=Cause.CHANGED,
            effect=Effect.STEP,
            severity=Severity.LOW,
            slowdown=None,
            usual_step_ns=0,
            lost_share=0.0,
            culprits=(),
            shares=(),
            detail=detail,
        )
        lines = lines_of(resolved(event, 60, End.CHANGED))

        assert lines[2] == f"  why     {detail}"
        assert not any(line.startswith("  cost") for line in lines)

    def test_cold_start_costs_the_time_until_steps_were_steady(self) -> None:
        """No step is its baseline yet."""
        event = an_event(
            cause=Cause.COLD_START, slowdown=None, usual_step_ns=0, lost_share=0.34, culprits=(), detail="3.1 s of 9 s"
        )

        assert lines_of(resolved(event, 9))[2] == "  cost    34 % of the time lost"

    def test_hang_names_the_missing_rank(self) -> None:
        """There are no steps to compare."""
        lines = lines_of(
            an_event(
                cause=Cause.NCCL_HANG, severity=Severity.CRITICAL, slowdown=None, culprits=(), shares=(), peer="3"
            ),
            windows=[],
        )

        assert lines[0].startswith(
            "rank 3 (pod trainer-0) has not joined a collective that the other ranks wait in (nccl_hang), since"
        )
        assert "  cost    no step has ended since then; the baseline is 14.0 ms a step" in lines

    def test_minor_culprit_stands_with_its_share(self) -> None:
        (line, *_) = lines_of(an_event(contribution=0.62, culprits=(("stress-ng", 0.5),)))

        assert "loses 46 % of its time to cpu_contention" in line
        assert "culprit stress-ng (50 % of it)" in line

    def test_job_that_was_always_slow_has_no_slowdown(self) -> None:
        """There is no baseline to compare with."""
        lines = lines_of(an_event(is_chronic=True, slowdown=None))

        assert lines[2].startswith("  cost    46 % of the time lost since the job was first seen;")


class TestFailure:
    """A rank that crashed, and another one that is slow."""

    CRASH: ClassVar = {
        "cause": Cause.CRASH,
        "effect": Effect.EXIT,
        "severity": Severity.CRITICAL,
        "slowdown": None,
        "usual_step_ns": 0,
        "lost_share": 0.0,
        "culprits": (),
        "shares": (),
        "detail": "ended by SIGSEGV; cudaStreamSynchronize had returned error 700 0.2 s before",
    }

    def test_crash_comes_before_what_is_slow(self) -> None:
        """With its signal and its last CUDA error, and without a length."""
        crash = resolved(of_rank("1", "2", **self.CRASH), 0, End.JOB_ENDED)
        lines = lines_of(an_event(), crash)

        assert lines[0] == (
            "rank 1 (pid 101) crashed: ended by SIGSEGV; cudaStreamSynchronize had returned error 700"
            " 0.2 s before, at 08:00:00 UTC, severity critical."
        )
        assert lines[lines.index("Open chains:") + 1].startswith("  rank 3 (pod trainer-0) loses 46 %")

    def test_standstill_that_is_over_does_not_come_before_what_is_slow(self) -> None:
        """The job recovered from it."""
        over = resolved(of_rank("1", "2", **(self.CRASH | {"cause": Cause.NCCL_HANG, "detail": ""})), 9.0)

        assert lines_of(an_event(), over)[0].startswith("rank 3 (pod trainer-0) loses")
        assert lines_of(over)[0].startswith("Nothing is slow now.")

    def test_it_is_not_called_nothing(self) -> None:
        """Although nothing is slow."""
        lines = lines_of(resolved(of_rank("1", "2", **self.CRASH), 0, End.JOB_ENDED))

        assert lines[0].startswith("rank 1 (pid 101) crashed")

    def test_out_of_memory_takes_no_time(self) -> None:
        out = resolved(of_rank("1", "2", **(self.CRASH | {"cause": Cause.CUDA_OOM, "detail": ""})), 0.0000063)
        crash = resolved(of_rank("1", "3", **self.CRASH), 0, End.JOB_ENDED)
        lines = lines_of(crash, out)
        (earlier,) = lines[lines.index("Earlier, in the last 5 min:") + 1 :][:1]

        assert earlier == "  08:00:00 UTC  rank 1 (pid 101) ran out of GPU memory (cuda_oom), critical"

    def test_what_threads_wait_for_in_a_hang_is_not_called_lost_to_a_lock(self) -> None:
        hang = an_event(cause=Cause.NCCL_HANG, slowdown=None, culprits=(), shares=(), peer="3")

        assert lines_of(hang)[-1] == "In the last 5 min: rank 3 (pid 100) made 15,000 steps."


class TestNewNormal:
    """What holds now is measured now: a chain that ended as `changed` has not made the job faster."""

    CHANGED = resolved(an_event(cause=Cause.OWN_WAIT, culprits=(), usual_step_ns=14 * MS), 60, End.CHANGED)

    def test_its_two_lengths_come_first(self) -> None:
        """Steps take 20 ms in the last windows."""
        first, second, *_ = lines_of(self.CHANGED)

        assert first == (
            "Steps of rank 3 (pid 100) take 1.4 times as long as before 08:00:00 UTC: 14.0 ms -> 20.0 ms (own_wait);"
            " this has become their normal length."
        )
        assert second.startswith("No chain is open. In the last 5 min: steps of rank 3 (pod trainer-0) took")

    def test_it_comes_first_although_the_chain_is_before_the_span(self) -> None:
        """Its end is two minutes and a half ago; the span is the last minute."""
        first, second, *_ = lines_of(self.CHANGED, windows=windows_until(NOW_SECONDS, 140.0), since_seconds=140.0)

        assert first.startswith("Steps of rank 3 (pid 100) take 1.4 times as long as before 08:00:00 UTC")
        assert second.startswith("No slowdown in the last 1 min;")

    def test_it_gives_way_to_an_open_chain(self) -> None:
        assert lines_of(self.CHANGED, an_event(100.0, chain_id="2" * 32))[0].startswith(
            "rank 3 (pod trainer-0) loses 46 %"
        )

    def test_of_now_nothing_is_claimed_when_the_exporter_has_stopped(self) -> None:
        """Neither that it is slow nor that it is not."""
        stopped = a_run(ended_unix_ns=NOON + 150 * SECOND)
        first, second, *_ = lines_of(self.CHANGED, windows=windows_until(150.0), runs=[stopped])

        assert first.startswith("The exporter stopped at ")
        assert second.startswith("No chain was open then. In the last 5 min: ")


class TestResolvedChain:
    def test_verdict_begins_with_nothing_is_slow_now(self) -> None:
        """The chain is explained all the same."""
        lines = lines_of(resolved(an_event(), 24))

        assert lines[0] == (
            "Nothing is slow now. In the last 5 min: rank 3 (pod trainer-0) lost up to 46 % of its time to cpu_contention,"
            " from 08:00:00 to 08:00:24 UTC (24 s), severity high; culprit stress-ng. It recovered."
        )
        assert "  do      stress-ng is using the job's CPUs. Pin it elsewhere." in lines

    def test_earlier_chains_are_one_line_each(self) -> None:
        """The latest first, after an open one."""
        first = resolved(of_rank("5", "2", began_seconds=-50.0, culprits=()), 9.3)
        second = resolved(of_rank("6", "3", began_seconds=-20.0), 15, End.JOB_ENDED)
        lines = lines_of(first, second, an_event())
        at = lines.index("Earlier, in the last 5 min:")

        assert lines[at + 1 : at + 3] == [
            "  07:59:40 UTC  rank 6 (pid 106) lost up to 46 % of its time to cpu_contention for 15 s, high,"
            " culprit stress-ng, ended with the process",
            "  07:59:10 UTC  rank 5 (pid 105) lost up to 46 % of its time to cpu_contention for 9.3 s, high",
        ]

    def test_chain_that_ended_before_the_time_span_is_left_out(self) -> None:
        assert explained([resolved(an_event(-300.0), 24)]).status is Status.FINE


class TestNoChain:
    def test_totals_of_all_ranks_are_shown(self) -> None:
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
        lines = lines_of(windows=windows_until(180.0, labels=process_labels("0")) + windows, since_seconds=-100.0)

        assert lines == [
            "No slowdown in the last 5 min; 8 ranks made 17,993 steps; 8.0 % of the time lost, most of it to cpu_contention."
        ]

    def test_process_that_was_recorded_twice_has_its_name(self) -> None:
        """The exporter was restarted: the same process has another number."""
        (line,) = lines_of(windows=[*windows_until(180.0), a_window(190.0, process=2)], since_seconds=-100.0)

        assert line.startswith("No slowdown in the last 5 min; rank 3 (pid 100) made ")

    def test_no_process_made_a_call(self) -> None:
        """The exporter was running, and recorded an empty window."""
        found = explain(
            [a_run()],
            [],
            [RecordedWindows(1, NOON - 100 * SECOND, NOON + 195 * SECOND, [])],
            selection=Selection(),
            since_unix_ns=NOON - 100 * SECOND,
            now_unix_ns=NOON + 200 * SECOND,
        )

        assert text.lines(found, UTC) == ["No process made a traced call in the last 5 min."]

    def test_job_without_a_baseline_gets_no_verdict(self) -> None:
        lines = lines_of(windows=[a_window(198.0, began_unix_ns=NOON + 190 * SECOND, steps=times(7, 20 * MS))])

        assert lines[0] == (
            "Too early for a verdict: rank 3 (pid 100) first seen at 08:03:10 UTC, 7 steps so far; a baseline takes ten steps and"
            " five quiet seconds."
        )

    def test_exporter_that_has_just_started_has_no_data(self) -> None:
        """The first window comes after ten seconds."""
        lines = lines_of(windows=[], runs=[a_run(196.0, 197.0, window_seconds=0.0)])

        assert lines[0].startswith("No data yet: the exporter started at 08:03:16 UTC")

    def test_without_chains_there_is_no_verdict(self) -> None:
        lines = lines_of(runs=[a_run(has_chains=False)])

        assert lines[0].startswith("No verdict: chains are off")
        assert lines[-1].startswith("In the last 5 min: rank 3 (pid 100) made 15,000 steps")

    def test_job_without_steps_has_its_lost_time_only(self) -> None:
        """As an inference server."""
        (line,) = lines_of(windows=windows_until(NOW_SECONDS, steps=NO_STEPS, lost_ns={}))

        assert line == "No slowdown in the last 5 min; rank 3 (pid 100) made no recurring steps; 0 % of the time lost."


class TestGaps:
    def test_time_in_which_the_exporter_was_not_running(self) -> None:
        windows = windows_until(0.0) + windows_until(NOW_SECONDS, began_seconds=60.0)
        runs = [a_run(-600.0, 2.0, id=0), a_run(60.0)]

        assert lines_of(windows=windows, runs=runs)[-1] == (
            "Nothing was recorded from 08:00:00 UTC to 08:01:00 UTC (1 min): the exporter was not running."
        )

    def test_time_in_which_the_exporter_could_not_write(self) -> None:
        windows = windows_until(0.0) + windows_until(NOW_SECONDS, began_seconds=60.0)

        assert lines_of(windows=windows)[-1].endswith("it could not be written, see the exporter's log.")

    def test_begin_of_the_history(self) -> None:
        lines = lines_of(windows=windows_until(NOW_SECONDS, began_seconds=50.0), runs=[a_run(50.0)])

        assert lines[-1] == "The history begins at 08:00:50 UTC."

    def test_exporter_that_was_killed_last_wrote_then(self) -> None:
        """A chain is only known to have been open until then."""
        lines = lines_of(an_event(), windows=windows_until(100.0), runs=[a_run(seen_seconds=101.0)])

        assert lines[0] == "The exporter last wrote at 08:01:41 UTC; this is what was known then."
        assert lines[1].endswith("It was still going on when the exporter last wrote, at 08:01:41 UTC.")

    def test_exporter_that_was_stopped(self) -> None:
        lines = lines_of(runs=[a_run(seen_seconds=190.0, ended_unix_ns=NOON + 190 * SECOND)])

        assert lines[0].startswith("The exporter stopped at 08:03:10 UTC")

    def test_chain_of_an_earlier_run_is_not_open(self) -> None:
        """The exporter was killed and started again: a chain that it opens is a new one."""
        found = explain(
            [a_run(-600.0, 50.0), a_run(60.0, 199.0, id=2)],
            [RecordedEvent(1, an_event())],
            [RecordedWindows(2, NOON + 60 * SECOND, NOON + 199 * SECOND, [])],
            selection=Selection(),
            since_unix_ns=NOON - 100 * SECOND,
            now_unix_ns=NOON + 200 * SECOND,
        )

        assert found.status is Status.SLOW_WHEN_STOPPED
        assert text.lines(found, UTC)[0].endswith(
            "It was still going on when the exporter last wrote, at 08:00:50 UTC."
        )


class TestSelection:
    def test_chains_and_steps_of_other_ranks_are_left_out(self) -> None:
        found = explained([an_event(), of_rank("5", "2")], selection="rank=5")

        assert [chain.rank for chain in found.chains] == ["5"]
        assert found.processes == ()

    def test_prefix_of_a_pod_is_enough(self) -> None:
        found = explained([an_event(), of_rank("5", "2")], selection="train")

        assert [chain.rank for chain in found.chains] == ["3"]
