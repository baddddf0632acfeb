"""replayed_windows: what processes and threads did in a recording."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

from exporter.demo.scenarios import SCENARIOS
from exporter.history.run import RecordedWindows
from exporter.pipeline.replay import ReplayedRun
from exporter.pipeline.replayed_windows import ReplayedThreads, ReplayedWindows, ThreadSpan
from exporter.recording.file import read
from tests.support.history import SECOND, a_call_site

RECORDING = read(SCENARIOS["cpu-contention"].recording)


def taken(length_ns: int) -> list[RecordedWindows]:
    """Windows of at least this length, and the rest."""
    replayed = ReplayedRun(RECORDING.ticks())
    windows = ReplayedWindows(RECORDING, replayed)
    found = [windows.take() for _ in replayed.ticks() if windows.length_ns >= length_ns]
    return [*found, windows.take()] if windows.length_ns else found


class TestWindows:
    def test_short_windows_add_up_to_a_long_one(self) -> None:
        """Nothing is lost or counted twice between them."""
        (whole,) = taken(1 << 62)
        lost_ns: Counter[str] = Counter()
        steps = calls = 0
        for one in taken(SECOND):
            (window,) = one.windows
            lost_ns.update(window.lost_ns)
            steps += window.steps.counts.total
            calls += sum(operation.calls for operation in window.operations)
        (window,) = whole.windows

        assert lost_ns == Counter(window.lost_ns)
        assert (steps, calls) == (window.steps.counts.total, window.operations[0].calls)
        assert steps > 1000

    def test_each_begins_where_the_one_before_ends(self) -> None:
        found = taken(SECOND)

        assert all(later.began_unix_ns == one.ended_unix_ns for one, later in pairwise(found))
        assert {round((one.ended_unix_ns - one.began_unix_ns) / SECOND) for one in found[:-1]} == {1}

    def test_culprits_are_named(self) -> None:
        largest = [window.culprits_ns[0][:2] for one in taken(SECOND) for window in one.windows if window.culprits_ns]

        assert largest.count(("cpu_contention", "noisy-neighbour")) > 5


class TestSlowCalls:
    def test_span_is_the_whole_recording(self) -> None:
        """With the labels of the windows."""
        (number,) = RECORDING.processes
        process = replace(RECORDING.processes[number], call_sites=(a_call_site(),))
        recording = replace(RECORDING, processes={number: process})
        replayed = ReplayedRun(recording.ticks())
        windows = ReplayedWindows(recording, replayed)
        taken = [windows.take() for _ in replayed.ticks() if windows.length_ns >= SECOND]
        (found,) = windows.slow_calls()

        assert (found.process, found.call_sites) == (number, (a_call_site(),))
        assert found.labels == taken[0].windows[0].labels
        assert (found.began_unix_ns, found.ended_unix_ns) == (
            taken[0].began_unix_ns,
            RECORDING.taken_at.unix_ns_of(replayed.now_ns),
        )

    def test_recording_without_slow_calls_has_no_span(self) -> None:
        replayed = ReplayedRun(RECORDING.ticks())
        windows = ReplayedWindows(RECORDING, replayed)
        for _ in replayed.ticks():
            windows.take()

        assert list(windows.slow_calls()) == []


class TestThreads:
    def test_states_of_a_span_add_up_to_its_length(self) -> None:
        """To the time between the two readings, within a microsecond."""
        replayed = ReplayedRun(RECORDING.ticks())
        threads = ReplayedThreads(RECORDING, replayed)
        spans: list[ThreadSpan] = [span for _ in replayed.ticks() for span in threads.take()]
        trainer = [span for span in spans if span.comm == "trainer"]

        assert all(
            abs(sum(span.states_ns.values()) - (span.ended_unix_ns - span.began_unix_ns)) < 1000 for span in spans
        )
        assert len(trainer) > 5
        assert all(span.states_ns["runnable"] > span.states_ns["on_cpu"] for span in trainer[:5])
        assert {span.labels.identity.rank for span in spans} == {"0"}
