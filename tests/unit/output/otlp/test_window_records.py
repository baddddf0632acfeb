"""otlp.window_records: what a process did in a window, as a log record."""

from __future__ import annotations

from exporter.history.window import CommunicatorWindow, OperationTime, ProcessLabels, Window
from exporter.model import Identity
from exporter.output.otlp.window_records import ATTRIBUTES, window_record
from exporter.totals import Counts, HistogramTotal
from tests.support.history import MS, NOON, SECOND, a_window, times

RUN_ID = "00c0ffee00c0ffee"
IDENTITY = Identity(node="gpu7", rank="0", container="0123456789ab", namespace="training", pod="trainer-0")
FULL = a_window(
    process=5,
    labels=ProcessLabels(IDENTITY, 4032, "python"),
    steps=HistogramTotal(Counts.of([2, 0, 1], begin=190), 61 * MS),
    operations=(
        OperationTime("runtime", "cudaLaunchKernel", 640, 0, times(10, 2 * MS)),
        OperationTime("runtime", "cudaMalloc", 23, 2, times(23, 1 * MS)),
        OperationTime("", "other", 7, 0, HistogramTotal(Counts(), 5 * MS)),
    ),
    communicators=(CommunicatorWindow(0x9F3C, 0, 16, 41, 70 * MS), CommunicatorWindow(1 << 63, 3, 8, 0, None)),
    probe_cost_ns=90 * MS,
)
"""Every field has a value."""

BARE = a_window(
    labels=ProcessLabels(Identity(node="gpu7"), 0, ""),
    steps=times(0, 0),
    lost_ns={},
    culprits_ns=(),
    states_ns={},
    operations=(OperationTime("nccl", "ncclAllReduce", 1, 0, times(0, 0)),),
)


class TestRecord:
    def test_time_is_the_end_of_the_window_and_a_window_is_information(self) -> None:
        record = window_record(FULL, RUN_ID)

        assert record.time_unix_ns == record.observed_unix_ns == NOON + 10 * SECOND
        assert (record.severity_number, record.severity_text) == (9, "INFO")
        assert (record.event_name, record.identity) == ("gpustall.window", IDENTITY)

    def test_it_belongs_to_no_trace(self) -> None:
        record = window_record(FULL, RUN_ID)

        assert (record.trace_id, record.span_id) == ("", "")

    def test_body_is_a_sentence(self) -> None:
        assert window_record(FULL, RUN_ID).body == "python (pid 4032): 3 steps, 1 s lost in 10 s"
        assert window_record(BARE, RUN_ID).body == "process (pid 0): 0 steps, 0 s lost in 10 s"


class TestAttributes:
    def test_all_of_them(self) -> None:
        """Seconds, numbers, and the first slot of the steps. 10 of 640 launches were timed."""
        assert window_record(FULL, RUN_ID).attributes == {
            "node": "gpu7",
            "rank": "0",
            "container": "0123456789ab",
            "namespace": "training",
            "pod": "trainer-0",
            "process.pid": 4032,
            "process.command": "python",
            "gpustall.window.id": "00c0ffee00c0ffee-5-1800000000000000000",
            "gpustall.window.duration": 10.0,
            "gpustall.steps": 3,
            "gpustall.step.time": 0.061,
            "gpustall.step.buckets": {"first": 190, "counts": (2, 0, 1)},
            "gpustall.lost": {"cpu_contention": 0.9, "lock": 0.1},
            "gpustall.culprits": ({"cause": "cpu_contention", "culprit": "stress-ng", "lost": 0.9},),
            "gpustall.thread_time": {"on_cpu": 4.0, "gpu_wait": 5.0, "runnable": 0.9, "lock": 0.1},
            "gpustall.communicators": (
                {"hash": "0000000000009f3c", "rank": 0, "ranks": 16, "operations": 41, "lag": 0.07},
                {"hash": "8000000000000000", "rank": 3, "ranks": 8, "operations": 0},
            ),
            "gpustall.calls": (
                {"api": "runtime", "operation": "cudaLaunchKernel", "calls": 640, "time": 0.02, "timed": 10},
                {"api": "runtime", "operation": "cudaMalloc", "calls": 23, "errors": 2, "time": 0.023},
                {"operation": "other", "calls": 7, "time": 0.005},
            ),
            "gpustall.overhead": 0.09,
        }

    def test_what_is_empty_or_zero_is_left_out(self) -> None:
        """But that none of the calls was timed is not the same as all."""
        assert window_record(BARE, RUN_ID).attributes == {
            "node": "gpu7",
            "gpustall.window.id": "00c0ffee00c0ffee-1-1800000000000000000",
            "gpustall.window.duration": 10.0,
            "gpustall.calls": ({"api": "nccl", "operation": "ncclAllReduce", "calls": 1, "timed": 0},),
        }

    def test_probes_that_cost_nothing_are_not_unknown(self) -> None:
        """Zero is sent, unlike elsewhere."""
        found = window_record(a_window(probe_cost_ns=0), RUN_ID)

        assert found.attributes["gpustall.overhead"] == 0.0

    def test_schema_has_every_attribute_in_the_order_in_which_they_are_sent(self) -> None:
        """docs/window-record.md is made from it."""
        assert [one.name for one in ATTRIBUTES] == list(window_record(FULL, RUN_ID).attributes)


class TestIds:
    """A receiver stores a window once, however often it gets it."""

    def test_ids_differ_by_run_process_and_begin(self) -> None:
        windows = (FULL, a_window(process=6), a_window(process=5, ended_seconds=20.0))
        ids = {self._id(window, run_id) for window in windows for run_id in (RUN_ID, "f" * 16)}

        assert len(ids) == 6

    def test_id_is_always_the_same(self) -> None:
        assert self._id(FULL, RUN_ID) == self._id(FULL, RUN_ID)

    @staticmethod
    def _id(window: Window, run_id: str) -> object:
        return window_record(window, run_id).attributes["gpustall.window.id"]
