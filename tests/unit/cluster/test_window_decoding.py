"""Records of windows become rows."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.cluster import json_request, protobuf_request
from exporter.cluster.plain_records import PlainRecord
from exporter.cluster.window_decoding import window_row
from exporter.history.window import CommunicatorWindow
from exporter.output.otlp import json_records, protobuf_records
from exporter.output.otlp.points import Origin
from exporter.output.otlp.window_records import window_record
from exporter.text.untrusted import Untrusted
from tests.support.cluster_rows import NOON, SECOND, window
from tests.support.history import a_window
from tests.support.otlp_requests import window_attributes


def record(resource: dict[str, Any] | None = None, **attributes: Any) -> PlainRecord:
    known = {**window_attributes(NOON), **{name.replace("__", "."): value for name, value in attributes.items()}}
    return PlainRecord(resource or {}, "gpustall.window", NOON + 10 * SECOND, 0, "", "", known)


class TestWindowRow:
    def test_attributes_become_columns(self) -> None:
        assert window_row(record()) == window()

    def test_what_is_left_out_is_empty(self) -> None:
        only_id = {"gpustall.window.id": f"00000000000000aa-7-{NOON}"}
        row = window_row(PlainRecord({}, "gpustall.window", NOON, 0, "", "", only_id))

        assert (row.process, row.began_unix_ns, row.node, row.steps, row.lost_causes) == (7, NOON, "", 0, ())
        assert row.overhead_seconds is None

    def test_labels_that_the_record_lacks_are_those_of_the_resource(self) -> None:
        row = window_row(record({"host.name": "gpu9", "k8s.pod.name": "other"}, node=""))

        assert (row.node, row.pod) == ("gpu9", "trainer-0")

    def test_job_is_the_first_of_the_largest_communicators(self) -> None:
        several = [{"hash": f"{number:016x}", "ranks": ranks} for number, ranks in ((1, 2), (2, 64), (3, 64))]

        assert window_row(record(gpustall__communicators=several)).job == "0000000000000002"

    def test_job_of_a_process_without_communicators_is_the_process(self) -> None:
        assert window_row(record(gpustall__communicators=[])).job == "00000000000000aa-1"

    def test_all_calls_are_timed_where_nothing_else_is_known(self) -> None:
        row = window_row(record(gpustall__calls=[{"api": "nccl", "operation": "ncclAllReduce", "calls": 7}]))

        assert (row.call_counts, row.call_timed, row.call_errors, row.call_seconds) == ((7,), (7,), (0,), (0.0,))

    def test_unknown_attributes_are_ignored(self) -> None:
        """A newer exporter may have more."""
        assert window_row(record(gpustall__new={"a": 1})) == window()

    def test_control_characters_of_names_are_replaced(self) -> None:
        assert window_row(record(process__command="a\x1b[2J\ud800")).command == "a\ufffd[2J\ufffd"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("gpustall__window__id", None),
            ("gpustall__window__id", 7),
            ("gpustall__window__id", "aa-1-2"),
            ("gpustall__window__id", f"00000000000000aa-1-{2**63}"),
            ("gpustall__window__id", f"00000000000000AA-1-{NOON}"),
            ("gpustall__window__duration", -1.0),
            ("gpustall__window__duration", float("nan")),
            ("gpustall__steps", 2**63),
            ("gpustall__steps", True),
            ("gpustall__step__buckets", {"first": 1, "counts": [-1]}),
            ("gpustall__step__buckets", {"first": 10_000, "counts": [1]}),
            ("gpustall__step__buckets", {"first": 0, "counts": [1] * 10_000}),
            ("gpustall__step__buckets", {"first": 0, "counts": [2**63]}),
            ("gpustall__lost", {"io": "much"}),
            ("gpustall__lost", {"io": float("inf")}),
            ("gpustall__lost", {f"cause{number}": 1.0 for number in range(65)}),
            ("gpustall__culprits", [{"culprit": 7}]),
            ("gpustall__culprits", [7]),
            ("gpustall__culprits", [{}] * 65),
            ("gpustall__communicators", [{"hash": "ff"}]),
            ("gpustall__communicators", [{"hash": "00000000000000ff", "ranks": 2**30}]),
            ("gpustall__calls", {"api": "cuda"}),
            ("process__pid", 2**40),
            ("process__pid", -1),
            ("node", 7),
        ],
    )
    def test_bad_value_is_refused(self, name: str, value: Any) -> None:
        with pytest.raises(Untrusted):
            window_row(record(**{name: value}))


class TestFromTheExporter:
    @pytest.mark.parametrize(
        ("encoder", "decoder"), [(json_records, json_request), (protobuf_records, protobuf_request)]
    )
    def test_record_that_the_exporter_sends_becomes_its_row(self, encoder: Any, decoder: Any) -> None:
        communicators = (CommunicatorWindow(0xFE, 0, 2, 20, None), CommunicatorWindow(0xFF, 3, 8, 700, SECOND // 4))
        made = a_window(communicators=communicators)
        (plain,) = decoder.log_records(
            encoder.encode_logs([window_record(made, "00000000000000aa")], Origin("gpu7", "gpu-stall-exporter"))
        )
        row = window_row(plain)

        assert (row.run, row.process, row.began_unix_ns, row.ended_unix_ns) == (
            "00000000000000aa",
            1,
            made.began_unix_ns,
            made.ended_unix_ns,
        )
        assert (row.node, row.rank, row.pid, row.command) == ("gpu7", "3", 100, "python")
        assert (row.steps, row.step_seconds, row.bucket_first, row.bucket_counts) == (500, 10.0, 190, (500,))
        assert (row.lost_causes, row.lost_seconds) == (("cpu_contention", "lock"), (0.9, 0.1))
        assert row.culprit_names == ("stress-ng",)
        assert (row.job, row.communicator_lags) == ("00000000000000ff", (None, 0.25))
        assert (row.call_operations, row.call_counts, row.call_timed, row.call_seconds) == (
            ("cudaStreamSynchronize",),
            (500,),
            (500,),
            (5.0,),
        )
