"""timeline: which slices, instants and values a source becomes."""

from __future__ import annotations

import pytest

from exporter.chains.chain import Change, Severity
from exporter.history.selection import Selection
from exporter.history.window import OperationTime
from exporter.pipeline.replayed_windows import SlowCallSpan, ThreadSpan
from exporter.timeline.timeline import CHAIN, EXPERIMENT, EXPORTER, LOST, SEVERITY, SLOW_CALLS, STACK, THREAD, Timeline
from tests.support.history import (
    MS,
    SECOND,
    a_call_site,
    a_run,
    a_stack,
    a_window,
    an_event,
    process_labels,
    resolved,
    times,
)
from tests.support.timelines import NOW_UNIX_NS, a_source, at, instants, items_of, slices, values

ESCALATED = an_event(change=Change.ESCALATED, at_unix_ns=at(5), severity=Severity.CRITICAL, duration_ns=5 * SECOND)


class TestWindows:
    def test_each_cause_is_a_slice_over_the_whole_window(self) -> None:
        """When in it the time was lost is not known."""
        found = slices(items_of(a_source([a_window()])), LOST)

        assert [(one.name, one.began_unix_ns, one.ended_unix_ns) for one in found] == [
            ("cpu_contention 9.0 %", at(0), at(10)),
            ("lock 1.0 %", at(0), at(10)),
        ]

    def test_arguments_name_the_culprits(self) -> None:
        contention, lock = slices(items_of(a_source([a_window()])), LOST)

        assert contention.arguments == {
            "cause": "cpu_contention",
            "lost_seconds": 0.9,
            "lost_ratio": 0.09,
            "culprits": ("stress-ng 900 ms",),
        }
        assert "culprits" not in lock.arguments

    def test_counters_hold_the_means_of_the_window_from_its_begin(self) -> None:
        """500 steps of 20 ms in ten seconds, with a call each."""
        items = items_of(a_source([a_window()]))

        assert values(items, "lost share")[0] == (0, pytest.approx(10))
        assert values(items, "steps")[0] == (0, 50)
        assert values(items, "step duration")[0] == (0, 20)
        assert values(items, "calls")[0] == (0, 50)

    def test_counters_are_zero_after_the_last_window(self) -> None:
        assert values(items_of(a_source([a_window()])), "steps")[-1] == (10, 0)

    def test_counters_are_zero_in_a_gap(self) -> None:
        items = items_of(a_source([a_window(10), a_window(40)]))

        assert values(items, "steps") == [(0, 50), (10, 0), (30, 50), (40, 0)]

    def test_window_without_steps_has_no_duration(self) -> None:
        items = items_of(a_source([a_window(steps=times(0, 0))]))

        assert values(items, "step duration")[0] == (0, 0)

    def test_calls_of_all_operations_are_added(self) -> None:
        operations = tuple(OperationTime("runtime", name, 30, 0, times(30, MS)) for name in "abc")

        assert values(items_of(a_source([a_window(operations=operations)])), "calls")[0] == (0, 9)

    def test_window_that_overlaps_the_one_before_begins_where_that_ends(self) -> None:
        """The time of day was set back: slices of a track may not cross."""
        found = slices(items_of(a_source([a_window(10), a_window(14)])), LOST)

        assert [(one.began_unix_ns, one.ended_unix_ns) for one in found if one.name.startswith("lock")] == [
            (at(0), at(10)),
            (at(10), at(14)),
        ]

    def test_what_was_taken_back_is_no_slice(self) -> None:
        """A sum may fall below zero for a moment."""
        assert slices(items_of(a_source([a_window(lost_ns={"lock": -MS, "irq": 0})])), LOST) == []

    def test_two_unknown_processes_do_not_share_tracks(self) -> None:
        """In another pid namespace: both have no process id, and the same labels."""
        windows = [a_window(process=number, labels=process_labels("", 0)) for number in (1, 2)]
        found = slices(items_of(a_source(windows)), LOST)

        assert len({one.track for one in found}) == 4
        assert {one.ended_unix_ns - one.began_unix_ns for one in found} == {10 * SECOND}

    def test_cause_of_a_newer_version_keeps_its_name(self) -> None:
        (found,) = slices(items_of(a_source([a_window(lost_ns={"gremlins": SECOND}, culprits_ns=())])), LOST)

        assert (found.name, found.track.name) == ("gremlins 10 %", "others")


class TestSlowCalls:
    def test_line_is_a_slice_over_the_whole_window(self) -> None:
        """23 calls of 50 ms."""
        (found,) = slices(items_of(a_source([a_window(call_sites=(a_call_site(),))])), SLOW_CALLS)

        assert (
            found.name
            == found.track.name
            == ("cudaStreamSynchronize from step (train.py:142) through Stream.synchronize (torch/cuda/streams.py:106)")
        )
        assert (found.began_unix_ns, found.ended_unix_ns) == (at(0), at(10))
        assert found.arguments == {
            "operation": "cudaStreamSynchronize",
            "slow_calls": 23,
            "slow_seconds": 1.15,
            "slow_from_seconds": 0.025,
        }

    def test_stack_is_an_instant_where_it_is_new(self) -> None:
        sites = (a_call_site(),)
        items = items_of(a_source([a_window(10, call_sites=sites), a_window(20, call_sites=sites)]))
        (found,) = instants(items, STACK)

        assert len(slices(items, SLOW_CALLS)) == 2
        assert found.at_unix_ns == at(0)
        assert found.arguments["stack"] == tuple(map(a_stack().shown, a_stack().frames))

    def test_line_keeps_its_track(self) -> None:
        """Also when another one takes more time than it."""
        windows = [
            a_window(10, call_sites=(a_call_site(1, 20), a_call_site(2, 10))),
            a_window(20, call_sites=(a_call_site(1, 10), a_call_site(2, 20))),
        ]
        found = slices(items_of(a_source(windows)), SLOW_CALLS)

        assert len({one.track for one in found}) == 2
        assert all(one.name == one.track.name for one in found)

    def test_those_of_a_recording_have_its_whole_time(self) -> None:
        """A recording does not have the moment of each."""
        span = SlowCallSpan(1, process_labels(), at(0), at(60), (a_call_site(),))
        (found,) = slices(items_of(a_source(threads=[span])), SLOW_CALLS)

        assert (found.began_unix_ns, found.ended_unix_ns) == (at(0), at(60))


class TestThreads:
    def test_slice_is_named_by_the_state_that_took_most_time(self) -> None:
        span = ThreadSpan(
            process_labels(), 101, "worker", at(1), at(2), {"on_cpu": 300 * MS, "runnable": 700 * MS}, "cudaMemset"
        )
        (found,) = slices(items_of(a_source(threads=[span])), THREAD)

        assert (found.name, found.track.name) == ("runnable", "worker 101")
        assert found.arguments == {"runnable_seconds": 0.7, "on_cpu_seconds": 0.3, "open_call": "cudaMemset"}


class TestChains:
    def test_slice_lasts_from_the_onset_to_the_end(self) -> None:
        (found,) = slices(items_of(a_source(events=[an_event(), resolved(an_event(), 24)])), CHAIN)

        assert (found.name, found.began_unix_ns, found.ended_unix_ns) == ("cpu_contention", at(0), at(24))
        assert found.arguments["culprits"] == ("stress-ng 94 %", "cron 4.0 %")
        assert found.arguments["commands"] == ("taskset -acp 0-3 100", "renice -n 19 -p 777")

    def test_open_chain_lasts_until_now(self) -> None:
        (found,) = slices(items_of(a_source(events=[an_event()])), CHAIN)

        assert (found.ended_unix_ns, found.arguments["state"]) == (NOW_UNIX_NS, "open")

    def test_each_severity_is_a_slice_within_it(self) -> None:
        found = slices(items_of(a_source(events=[an_event(), ESCALATED, resolved(ESCALATED, 24)])), SEVERITY)

        assert [(one.name, one.began_unix_ns, one.ended_unix_ns) for one in found] == [
            ("high", at(0), at(5)),
            ("critical", at(5), at(24)),
        ]

    def test_chain_from_before_the_time_span_begins_with_it(self) -> None:
        """A chain that has been open for days would make all else too small to see; its begin is an argument."""
        (found,) = slices(items_of(a_source(events=[an_event()], since_seconds=60)), CHAIN)

        assert found.began_unix_ns == at(60)
        assert found.arguments["began_unix_seconds"] == at(0) / SECOND

    def test_chains_at_the_same_time_have_a_track_each(self) -> None:
        events = [an_event(number, chain_id=str(number) * 32) for number in (1, 2)]
        found = slices(items_of(a_source(events=events)), CHAIN)

        assert [one.track.name for one in found] == ["chains", "chains 2"]

    def test_next_chain_is_on_the_same_track(self) -> None:
        first = an_event(0)
        events = [first, resolved(first, 10), an_event(10, chain_id="2" * 32)]
        found = slices(items_of(a_source(events=events)), CHAIN)

        assert found[0].track is found[1].track

    def test_stacks_are_instants_on_it(self) -> None:
        stack = ("thread 101 (trainer) has been in ncclAllReduce for 11.8 s, called by", "  forward (model.py:12)")
        events = [an_event(), an_event(change=Change.EVIDENCE, at_unix_ns=at(7), evidence=stack)]
        (found,) = instants(items_of(a_source(events=events)), STACK)

        assert (found.name, found.at_unix_ns, found.arguments["stack"]) == (stack[0], at(7), stack)

    def test_result_of_an_experiment_is_an_instant(self) -> None:
        measured = ("14 ms a step during the pause",)
        events = [an_event(), an_event(change=Change.CONFIRMED, at_unix_ns=at(9), evidence=measured)]
        (found,) = instants(items_of(a_source(events=events)), EXPERIMENT)

        assert (found.name, found.arguments) == ("confirmed", {"measured": measured})

    def test_open_chains_are_counted_by_severity(self) -> None:
        other = an_event(3, chain_id="2" * 32)
        items = items_of(a_source(events=[an_event(), ESCALATED, resolved(ESCALATED, 24), other, resolved(other, 4)]))

        assert values(items, "open chains: high") == [(0, 1), (3, 2), (5, 1), (7, 0)]
        assert values(items, "open chains: critical") == [(5, 1), (24, 0)]


class TestExporter:
    def test_each_run_is_a_slice(self) -> None:
        """From the begin of the time span, if it began before."""
        runs = [a_run(-500, -100, ended_unix_ns=at(-100)), a_run(-90, 190, id=2, version="2.0")]
        found = slices(items_of(a_source([a_window()], runs=runs, since_seconds=-300)), EXPORTER)

        assert [(one.name, one.began_unix_ns, one.ended_unix_ns) for one in found] == [
            ("version 1.0", at(-300), at(-100)),
            ("version 2.0", at(-90), at(190)),
        ]

    def test_runs_at_the_same_time_have_a_track_each(self) -> None:
        """Those of a merged history are of several nodes."""
        runs = [a_run(-90, 190), a_run(-80, 180, id=2)]
        found = slices(items_of(a_source([a_window()], runs=runs)), EXPORTER)

        assert [(one.track.name, one.began_unix_ns, one.ended_unix_ns) for one in found] == [
            ("exporter", at(-90), at(190)),
            ("exporter 2", at(-80), at(180)),
        ]


class TestSelection:
    def test_other_workloads_are_left_out(self) -> None:
        windows = [a_window(), a_window(labels=process_labels("7", 107))]
        events = [an_event(), an_event(chain_id="2" * 32, identity=process_labels("7").identity, tgid=107)]
        items = items_of(a_source(windows, events), "rank=7")

        assert [len(slices(items, category)) for category in (LOST, CHAIN)] == [2, 1]
        assert values(items, "open chains: high")[0] == (0, 1)

    def test_their_names_are_known_for_a_message(self) -> None:
        timeline = Timeline(a_source([a_window()]), Selection.of("rank=7"))
        list(timeline.items())

        assert (timeline.is_empty, timeline.names) == (True, {"rank 3 (pid 100)"})
