"""The slowest call of a window, kept as exemplar: how long, when, and by which thread."""

from __future__ import annotations

import os
import time

from exporter.totals import Call
from tests.support.traced import Tracer, only

SLOW_NS, FAST_NS = 50_000_000, 2_000_000
WINDOW_NS = 1 << 33  # EXEMPLAR_WINDOW of bpf/abi.h
SLOW, FAST = "cudaStreamSynchronize:1:50ms", "cudaStreamSynchronize:7:2ms"


def slowest(traced: Tracer, *orders: str) -> Call:
    """The exemplar of cudaStreamSynchronize after a program has carried out its orders."""
    run = traced.run("--sync=block", *orders)
    row = run.row("cudaStreamSynchronize")
    assert row.slowest is not None
    return row.slowest


def left_of_window_ns() -> int:
    """Until the next window begins."""
    return WINDOW_NS - time.monotonic_ns() % WINDOW_NS


def wait_for_room_in_window() -> None:
    """A program that begins now makes its first calls before this window ends."""
    if left_of_window_ns() < 3_000_000_000:
        time.sleep(left_of_window_ns() / 1e9)


class TestSlowest:
    """Within a window, and beyond it."""

    def test_slower_call_takes_the_place_of_a_faster_one(self, traced: Tracer) -> None:
        """Seven of 2 ms, then one of 50 ms."""
        assert slowest(traced, FAST, SLOW).duration_ns >= SLOW_NS - 1_000_000

    def test_faster_call_of_the_same_window_leaves_it_in_its_place(self, best_traced: Tracer) -> None:
        """One of 50 ms, then seven of 2 ms."""
        wait_for_room_in_window()

        assert slowest(best_traced, SLOW, FAST).duration_ns >= SLOW_NS - 1_000_000

    def test_call_of_a_later_window_takes_its_place_however_fast(self, best_traced: Tracer) -> None:
        """What is slow now counts, not what was slow an hour ago."""
        wait_for_room_in_window()
        pause = f"sleep:1:{left_of_window_ns() // 1_000_000 + 1_000}ms"

        assert FAST_NS - 1_000_000 <= slowest(best_traced, SLOW, pause, FAST).duration_ns < SLOW_NS - 1_000_000

    def test_time_is_when_the_call_returned(self, traced: Tracer) -> None:
        """By the monotonic clock, while the program ran."""
        before_ns = time.monotonic_ns()
        ended_ns = slowest(traced, SLOW).ended_ns

        assert before_ns + SLOW_NS - 1_000_000 <= ended_ns <= time.monotonic_ns()

    def test_thread_is_the_one_that_called(self, traced: Tracer) -> None:
        """A program of one thread: its tid is its tgid, as this pid namespace shows it."""
        run = traced.run("--sync=block", SLOW)

        call = run.row("cudaStreamSynchronize").slowest

        assert call is not None
        assert call.tid == call.tgid == only(run.reading.processes.values()).tgid
        assert call.tid != os.getpid()

    def test_operation_of_which_no_call_was_timed_has_none(self, best_traced: Tracer) -> None:
        """The runtime's own launches through the driver."""
        assert best_traced.run("cudaLaunchKernel:23").row("cuLaunchKernel").slowest is None
