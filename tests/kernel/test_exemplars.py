"""Exemplars: duration, time and thread of the slowest call of a window."""

from __future__ import annotations

import os
import time

from exporter.kernel.operations import OPERATIONS
from exporter.totals import Call
from exporter.units import slot_of
from tests.support.traced import Tracer, only

WINDOW_NS = 1 << 33  # EXEMPLAR_WINDOW of bpf/lib/operation.bpf.h
SLOW, FAST = "cudaStreamSynchronize:1:50ms", "cudaStreamSynchronize:7:2ms"


def slowest(traced: Tracer, *orders: str) -> Call:
    """The exemplar of cudaStreamSynchronize after a program has made these calls."""
    run = traced.run("--sync=block", *orders)
    row = run.row("cudaStreamSynchronize")
    assert row.slowest is not None
    return row.slowest


def slot_of_slowest(traced: Tracer, *orders: str) -> tuple[int, int]:
    """Slot of the exemplar of a program whose calls were all in one window, and the last slot that has a call."""
    while True:
        window = time.monotonic_ns() // WINDOW_NS
        reading = traced.run("--sync=block", *orders).reading
        if window == time.monotonic_ns() // WINDOW_NS:
            break
    keys = (key for key in reading.operations if OPERATIONS[key.operation].name == "cudaStreamSynchronize")
    row = reading.operations[max(keys, key=lambda key: key.process)]
    assert row.slowest is not None
    return slot_of(row.slowest.duration_ns), max(slot for slot, count in enumerate(row.slots) if count)


class TestSlowest:
    """Within a window, and beyond it."""

    def test_slower_call_replaces_a_faster_one(self, traced: Tracer) -> None:
        """Seven of 2 ms, then one of 50 ms."""
        found, last = slot_of_slowest(traced, FAST, SLOW)

        assert found == last

    def test_faster_call_of_the_same_window_does_not_replace_it(self, best_traced: Tracer) -> None:
        """One of 50 ms, then seven of 2 ms."""
        found, last = slot_of_slowest(best_traced, SLOW, FAST)

        assert found == last

    def test_any_call_of_a_later_window_replaces_it(self, best_traced: Tracer) -> None:
        """Recent calls count."""
        next_ns = (time.monotonic_ns() // WINDOW_NS + 1) * WINDOW_NS
        pause = f"sleep:1:{(next_ns - time.monotonic_ns()) // 1_000_000 + 1}ms"

        assert slowest(best_traced, SLOW, pause, FAST).ended_ns > next_ns

    def test_time_is_that_of_the_return(self, traced: Tracer) -> None:
        """CLOCK_MONOTONIC, while the program ran."""
        before_ns = time.monotonic_ns()
        call = slowest(traced, SLOW)

        assert before_ns + call.duration_ns <= call.ended_ns <= time.monotonic_ns()

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
