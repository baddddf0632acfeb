"""protobuf: a snapshot in Prometheus' format with native histograms, read back by Google's parser."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from exporter import catalog, units
from exporter.model import Exemplar, Family, Histogram, Identity, Snapshot
from exporter.output.negotiation import Format
from exporter.output.own_exposition import OwnExposition
from exporter.output.protobuf import render, varint, zigzag
from exporter.own_metrics.store import OwnMetrics
from tests.support.golden import CASES, exposition
from tests.support.prometheus_protobuf import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Native,
    classic_of,
    labels_of,
    native_of,
    of_delimited,
)
from tests.support.records import STARTED_UNIX_NS, TRAINER, at, histogram_of, point, snapshot_of
from tests.support.traced import only

DURATION = catalog.cuda.OPERATION_DURATION
LABELS = {
    "node": "gpu7",
    "rank": "3",
    "container": "0123456789ab",
    "namespace": "",
    "pod": "",
    "api": "runtime",
    "operation": "cudaMalloc",
}


def families_of(snapshot: Snapshot) -> dict[str, Any]:
    """What a client reads."""
    return of_delimited(b"".join(render(snapshot)))


def metric_of(value: float | Histogram, metric: catalog.Metric = DURATION) -> Any:
    """The one series of a family that has one."""
    labels = ("runtime", "cudaMalloc")[: len(metric.labels)]
    return only(families_of(snapshot_of(metric, point(value, *labels)))[metric.name].metric)


def native(slots: dict[int, int]) -> Native:
    """What is read of a histogram with these counts by slot."""
    return native_of(metric_of(histogram_of(slots)))


class TestVarints:
    """Numbers as protobuf writes them."""

    @pytest.mark.parametrize(
        ("number", "written"),
        [
            (0, b"\0"),
            (127, b"\x7f"),
            (128, b"\x80\x01"),
            (300, b"\xac\x02"),
            (16_383, b"\xff\x7f"),
            (16_384, b"\x80\x80\x01"),
            (2**64 - 1, b"\xff" * 9 + b"\x01"),
        ],
    )
    def test_unsigned(self, number: int, written: bytes) -> None:
        """Seven bits a byte, the lowest first; 300 is the specification's own example."""
        assert varint(number) == written

    @pytest.mark.parametrize(
        ("number", "written"),
        [(0, b"\0"), (-1, b"\x01"), (1, b"\x02"), (-2, b"\x03"), (2**31 - 1, b"\xfe\xff\xff\xff\x0f")],
    )
    def test_signed(self, number: int, written: bytes) -> None:
        """Zigzag: small numbers of either sign are short."""
        assert zigzag(number) == written


class TestFamilies:
    """Names, types, labels."""

    def test_counter_keeps_the_suffix_in_its_name(self) -> None:
        """Unlike in OpenMetrics, a family is named like its samples."""
        family = families_of(snapshot_of(catalog.cuda.OPERATIONS, point(23, "runtime", "cudaMalloc")))

        found = only(family.values())
        assert (found.name, found.type, found.help) == (
            "gpustall_cuda_operations_total",
            COUNTER,
            catalog.cuda.OPERATIONS.help,
        )
        assert only(found.metric).counter.value == 23

    def test_info_is_a_gauge_of_1(self) -> None:
        """The format has no type for it."""
        snapshot = snapshot_of(catalog.nccl.COMMUNICATOR_INFO, point(1, "0", "abc", "0", "2"))

        found = only(families_of(snapshot).values())

        assert (found.name, found.type, only(found.metric).gauge.value) == (
            "gpustall_nccl_communicator_info",
            GAUGE,
            1,
        )

    def test_all_labels_are_there_the_empty_ones_too(self) -> None:
        """An omitted `pod` would become the exporter's own."""
        assert labels_of(metric_of(1, catalog.cuda.OPERATIONS)) == LABELS

    def test_exporter_s_own_points_have_no_common_labels(self) -> None:
        """They are about no workload."""
        own = point(5, "default", "delivered", identity=None)

        assert labels_of(only(families_of(snapshot_of(catalog.own.PUSHES, own))[catalog.own.PUSHES.name].metric)) == {
            "receiver": "default",
            "outcome": "delivered",
        }

    def test_counter_has_its_start(self) -> None:
        """So that Prometheus can count the first increase from zero."""
        created = metric_of(1, catalog.cuda.OPERATIONS).counter.created_timestamp

        assert created.seconds * 10**9 + created.nanos == STARTED_UNIX_NS

    def test_two_identities_are_kept_apart(self) -> None:
        """Also when their points take turns."""
        ranks = [Identity(rank=rank) for rank in ("0", "1")]
        points = [point(n, "runtime", "cudaMalloc", identity=ranks[n % 2]) for n in range(4)]

        family = families_of(snapshot_of(catalog.cuda.OPERATIONS, *points))["gpustall_cuda_operations_total"]

        assert [(labels_of(m)["rank"], m.counter.value) for m in family.metric] == [
            ("0", 0),
            ("1", 1),
            ("0", 2),
            ("1", 3),
        ]

    def test_empty_snapshot_is_an_empty_body(self) -> None:
        """Nothing has been traced yet."""
        assert b"".join(render(Snapshot(at(0.0), ()))) == b""


class TestNativeHistograms:
    """Schema 3: bucket i holds (2**((i-1)/8), 2**(i/8)] seconds."""

    def test_slot_of_one_second_is_bucket_0(self) -> None:
        """Slot 240 ends at 2**30 units of 2**-30 s."""
        assert native({240: 7}) == Native(3, 7, 0.0, {0: 7})

    @pytest.mark.parametrize(("slot", "index"), [(0, -240), (1, -239), (160, -80), (248, 8), (336, 96), (337, 97)])
    def test_slot_is_the_bucket_with_its_upper_edge(self, slot: int, index: int) -> None:
        """The overflow slot counts in the bucket above the last edge, since a native histogram has no +Inf."""
        assert native({slot: 1}).buckets == {index: 1}

    def test_neighbours_share_a_span(self) -> None:
        """Counts are written as differences, and read back as counts."""
        assert native({100: 5, 101: 3, 102: 9}).buckets == {-140: 5, -139: 3, -138: 9}

    def test_two_empty_buckets_are_bridged(self) -> None:
        """They cost a byte each, a new span four."""
        assert native({100: 5, 103: 2}).buckets == {-140: 5, -139: 0, -138: 0, -137: 2}

    def test_three_empty_buckets_begin_a_new_span(self) -> None:
        """They are not written at all."""
        assert native({100: 5, 104: 2}).buckets == {-140: 5, -136: 2}

    def test_histogram_without_calls_is_still_a_native_one(self) -> None:
        """Marked by a zero threshold above 0."""
        metric = metric_of(histogram_of({}))

        assert native_of(metric) == Native(3, 0, 0.0, {})
        assert metric.histogram.zero_threshold > 0

    def test_counts_and_sum_are_exact(self) -> None:
        """Counts beyond the integers of a double; the sum is the double that it is."""
        found = native_of(metric_of(Histogram(histogram_of({80: 2**62 + 1}).counts, 0.1)))

        assert (found.count, found.sum_seconds, found.buckets) == (2**62 + 1, 0.1, {-160: 2**62 + 1})

    @settings(max_examples=150)
    @given(st.dictionaries(st.integers(0, units.SLOTS - 1), st.integers(1, 2**62), max_size=40))
    def test_every_histogram_is_read_back(self, slots: dict[int, int]) -> None:
        """Whatever the gaps and the differences."""
        found = {index: count for index, count in native(slots).buckets.items() if count}

        assert found == {slot - 240: count for slot, count in slots.items()}


class TestClassicBuckets:
    """Beside the native ones."""

    def test_edges_and_counts_are_those_of_the_text(self) -> None:
        """2**-19 s to 1 s, and +Inf."""
        metric = metric_of(histogram_of({160: 2, 240: 3, 337: 1}))

        assert classic_of(metric) == {
            2**-19: 0,
            2**-16: 0,
            2**-13: 0,
            2**-10: 2,
            2**-7: 2,
            2**-5: 2,
            2**-3: 2,
            1.0: 5,
            math.inf: 6,
        }

    @settings(max_examples=100)
    @given(st.dictionaries(st.integers(0, units.SLOTS - 1), st.integers(1, 10**9), max_size=20))
    def test_classic_and_native_agree_at_every_classic_edge(self, slots: dict[int, int]) -> None:
        """Every classic edge is a native one."""
        metric = metric_of(histogram_of(slots))
        classic, native_ = classic_of(metric), native_of(metric)

        assert {2.0**e: native_.cumulative(e) for e in units.CLASSIC_EXPONENTS} | {math.inf: native_.count} == classic


class TestExemplars:
    """One measured call."""

    CALL = Exemplar((("pid", "4026"), ("tid", "4031")), 0.25, 1_790_000_000_125_000_000)

    def metric(self, exemplar: Exemplar) -> Any:
        """A histogram that has it."""
        return metric_of(Histogram(histogram_of({220: 4}).counts, 1.0, exemplar))

    def test_classic_bucket_that_counts_the_call_has_it(self) -> None:
        """0.25 s lies between 2**-3 s and 1 s."""
        having = {b.upper_bound: b.exemplar for b in self.metric(self.CALL).histogram.bucket if b.HasField("exemplar")}

        assert list(having) == [1.0]
        assert labels_of(having[1.0]) == {"pid": "4026", "tid": "4031"}
        assert (having[1.0].value, having[1.0].timestamp.seconds, having[1.0].timestamp.nanos) == (
            0.25,
            1_790_000_000,
            125_000_000,
        )

    def test_native_histogram_has_it_too(self) -> None:
        """In the list of its own."""
        found = only(self.metric(self.CALL).histogram.exemplars)

        assert (labels_of(found), found.value) == ({"pid": "4026", "tid": "4031"}, 0.25)

    def test_call_on_an_edge_belongs_below_it(self) -> None:
        """Upper edges are inclusive."""
        on_edge = Exemplar((), 2**-7, 1)

        assert [b.upper_bound for b in self.metric(on_edge).histogram.bucket if b.HasField("exemplar")] == [2**-7]

    def test_call_beyond_every_edge_is_shown_with_infinity(self) -> None:
        """A hang that ended."""
        hang = Exemplar((), 5_000.0, 1)

        assert [b.upper_bound for b in self.metric(hang).histogram.bucket if b.HasField("exemplar")] == [math.inf]


class TestTraces:
    """The chain in the exemplar of a counter."""

    def test_counter_has_it_beside_its_value(self) -> None:
        """And its start; a series without one has none."""
        episode = Exemplar((("trace_id", "a" * 32), ("span_id", "b" * 16)), 0.5, 1_790_000_000_125_000_000)
        family = Family(catalog.sched.LOST, (point(1.5, "lock"), point(2.5, "irq")), {(TRAINER, ("lock",)): episode})
        snapshot = Snapshot(at(0.0), (family,), {TRAINER: STARTED_UNIX_NS})
        lock, irq = families_of(snapshot)["gpustall_lost_seconds_total"].metric
        found = lock.counter.exemplar

        assert (lock.counter.value, lock.counter.HasField("created_timestamp")) == (1.5, True)
        assert labels_of(found) == {"trace_id": "a" * 32, "span_id": "b" * 16}
        assert (found.value, found.timestamp.seconds, found.timestamp.nanos) == (0.5, 1_790_000_000, 125_000_000)
        assert not irq.counter.HasField("exemplar")


class TestAgreement:
    """With the other formats."""

    @pytest.mark.parametrize("case", CASES)
    def test_says_the_same_as_openmetrics(self, case: str) -> None:
        """Every sample, by name and labels."""
        snapshot = CASES[case]()
        wanted = {
            (s.name, tuple(sorted((k, float(v) if k == "le" else v) for k, v in s.labels.items()))): float(s.value)
            for family in parse_openmetrics(exposition(snapshot, Format.OPENMETRICS))
            for s in family.samples
        }
        found: dict[Any, float] = {}
        for name, family in families_of(snapshot).items():
            for metric in family.metric:
                labels = labels_of(metric)
                if family.type != HISTOGRAM:
                    value = metric.counter.value if family.type == COUNTER else metric.gauge.value
                    found[name, tuple(sorted(labels.items()))] = value
                    continue
                found[f"{name}_sum", tuple(sorted(labels.items()))] = metric.histogram.sample_sum
                found[f"{name}_count", tuple(sorted(labels.items()))] = metric.histogram.sample_count
                for le, count in classic_of(metric).items():
                    found[f"{name}_bucket", tuple(sorted({**labels, "le": le}.items()))] = count

        assert found == wanted

    def test_exporter_s_own_metrics_are_those_of_the_text(self) -> None:
        """Those of the process included."""
        own = OwnMetrics()
        own.add(catalog.own.PUSHES, 3, "default", "delivered")
        own.set(catalog.own.BUILD_INFO, 1, "0.1", "3.11", "1.1", "6.18", "session")
        own.set(catalog.own.TICK_DURATION, 0.25)

        found = of_delimited(OwnExposition(own).render(Format.PROTOBUF))

        assert only(found["gpustall_exporter_pushes_total"].metric).counter.value == 3
        assert labels_of(only(found["gpustall_exporter_build_info"].metric))["kernel"] == "6.18"
        assert only(found["gpustall_exporter_tick_duration_seconds"].metric).gauge.value == 0.25
        assert only(found["process_resident_memory_bytes"].metric).gauge.value > 2**20
        assert found["process_cpu_seconds_total"].type == COUNTER

    def test_identity_is_the_trainer_s(self) -> None:
        """The builder of this file and the one of the others agree."""
        assert tuple(LABELS.values())[:5] == TRAINER.values()
