"""Exemplars: duration, time and thread of the slowest call of a window."""

from __future__ import annotations

import os
import time

import pytest

from exporter.totals import Call
from tests.support.priority import before_others
from tests.support.traced import Tracer, only

SLOW_NS, FAST_NS = 50_000_000, 2_000_000
WINDOW_NS = 1 << 33  # EXEMPLAR_WINDOW of bpf/lib/operation.bpf.h
SLOW, FAST = "cudaStreamSynchronize:1:50ms", "cudaStreamSynchronize:7:2ms"


def slowest(traced: Tracer, *orders: str) -> Call:
    """The exemplar of cudaStreamSynchronize after a program has made these calls."""
    with before_others():
        run = traced.run("--sync=block", *orders)
    row = run.row("cudaStreamSynchronize")
    assert row.slowest is not None
    return row.slowest


def left_of_window_ns() -> int:
    """Waits until the next window begins."""
    return WINDOW_NS - time.monotonic_ns() % WINDOW_NS


def wait_for_room_in_window() -> None:
    """Waits for a window in which a program can make its first calls."""
    if left_of_window_ns() < 3_000_000_000:
        time.sleep(left_of_window_ns() / 1e9)


class TestSlowest:
    """Within a window, and beyond it."""

    @pytest.mark.acceptance
    def test_slower_call_replaces_a_faster_one(self, traced: Tracer) -> None:
        """Seven of 2 ms, then one of 50 ms."""
        assert slowest(traced, FAST, SLOW).duration_ns >= SLOW_NS - 1_000_000

    @pytest.mark.acceptance
    def test_faster_call_of_the_same_window_does_not_replace_it(self, best_traced: Tracer) -> None:
        """One of 50 ms, then seven of 2 ms."""
        wait_for_room_in_window()

        assert slowest(best_traced, SLOW, FAST).duration_ns >= SLOW_NS - 1_000_000

    @pytest.mark.acceptance
    def test_any_call_of_a_later_window_replaces_it(self, best_traced: Tracer) -> None:
        """Recent calls count."""
        wait_for_room_in_window()
        pause = f"sleep:1:{left_of_window_ns() // 1_000_000 + 1_000}ms"

        assert FAST_NS - 1_000_000 <= slowest(best_traced, SLOW, pause, FAST).duration_ns < SLOW_NS - 1_000_000

    def test_time_is_that_of_the_return(self, traced: Tracer) -> None:
        """CLOCK_MONOTONIC, while the program ran."""
        before_ns = time.monotonic_ns()
        ended_ns = slowest(traced, SLOW).ended_ns

        assert before_ns + SLOW_NS - 1_000_000 <= ended_ns <= time.monotonic_ns()

    def test_thread_is_the_caller(self, traced: Tracer) -> None:
        """A program of one thread: its tid is its tgid, in this pid namespace."""
        run = traced.run("--sync=block", SLOW)

        call = run.row("cudaStreamSynchronize").slowest

        assert call is not None
        assert call.tid == call.tgid == only(run.reading.processes.values()).tgid
        assert call.tid != os.getpid()

    def test_operation_without_timed_calls_has_no_exemplar(self, best_traced: Tracer) -> None:
        """Driver launches made by the runtime."""
        assert best_traced.run("cudaLaunchKernel:23").row("cuLaunchKernel").slowest is None
