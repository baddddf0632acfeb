"""otlp.points: resources, values, and the split into requests."""

from __future__ import annotations

import os
import uuid

import pytest

from exporter import catalog
from exporter.catalog import Metric
from exporter.model import Family, Identity, Point, Snapshot
from exporter.output.otlp import points
from exporter.output.otlp.points import DataPoint, Origin
from tests.support.records import STARTED_UNIX_NS, TRAINER, at, histogram_of, point

NOW_UNIX_NS = STARTED_UNIX_NS + 60_000_000_000
OTHER = Identity(node="gpu7", rank="4", container="0123456789ab")
ORIGIN = Origin("gpu7", "gpu-stall-exporter")
NOT_UTF_8 = os.fsdecode(b"a\xff")
"""A lone surrogate, which os.environ has for bytes that are not UTF-8."""


def calls(value: int, operation: str = "cudaMalloc", identity: Identity | None = TRAINER) -> DataPoint:
    """A counter with two labels of its own."""
    return DataPoint(catalog.cuda.OPERATIONS, identity, ("runtime", operation), value, STARTED_UNIX_NS)


def live(value: int, identity: Identity | None = TRAINER) -> DataPoint:
    """A gauge."""
    return DataPoint(catalog.allocator.LIVE, identity, (), value, STARTED_UNIX_NS)


def number_of(metric: Metric, value: float) -> int | float:
    """The number that is sent for a value of this metric."""
    return points.number(DataPoint(metric, None, (), value, 0))


class TestDataPoints:
    """The points of a snapshot and of the exporter's own families."""

    def test_every_series_is_a_point(self) -> None:
        """Those of workloads first, in the snapshot's order, then those of the exporter."""
        families = (
            Family(catalog.cuda.OPERATIONS, (point(3, "runtime", "cudaMalloc"), point(4, "driver", "cuMemAlloc"))),
            Family(catalog.allocator.LIVE, (point(5),)),
        )
        own = Family(catalog.own.TICKS, (Point(None, (), 6.0),))
        started = {TRAINER: STARTED_UNIX_NS, None: STARTED_UNIX_NS + 1}

        assert points.data_points(Snapshot(at(60.0), families, started), (own,)) == [
            DataPoint(catalog.cuda.OPERATIONS, TRAINER, ("runtime", "cudaMalloc"), 3, STARTED_UNIX_NS),
            DataPoint(catalog.cuda.OPERATIONS, TRAINER, ("driver", "cuMemAlloc"), 4, STARTED_UNIX_NS),
            DataPoint(catalog.allocator.LIVE, TRAINER, (), 5, STARTED_UNIX_NS),
            DataPoint(catalog.own.TICKS, None, (), 6.0, STARTED_UNIX_NS + 1),
        ]

    def test_each_identity_has_its_own_start(self) -> None:
        """A rank that started a minute later has counted for a minute less."""
        family = Family(catalog.allocator.FREED, (point(1), point(1, identity=OTHER)))
        started = {TRAINER: STARTED_UNIX_NS, OTHER: STARTED_UNIX_NS + 30_000_000_000}
        found = points.data_points(Snapshot(at(60.0), (family,), started), ())

        assert [one.start_unix_ns for one in found] == [STARTED_UNIX_NS, STARTED_UNIX_NS + 30_000_000_000]

    @pytest.mark.parametrize("started", [{}, {TRAINER: NOW_UNIX_NS + 1}], ids=["unknown", "in the future"])
    def test_start_is_never_after_the_moment(self, started: dict[Identity | None, int]) -> None:
        """The time of day may have been set back since; a receiver refuses such a point."""
        snapshot = Snapshot(at(60.0), (Family(catalog.allocator.FREED, (point(1),)),), started)

        assert [one.start_unix_ns for one in points.data_points(snapshot, ())] == [NOW_UNIX_NS]


class TestResources:
    """One resource for each rank in a container, and one for the exporter."""

    def test_rank_in_a_container_has_its_conventional_attributes(self) -> None:
        """container.id has twelve digits like the label; unknown attributes are left out."""
        found = ORIGIN.resource(TRAINER)

        assert found.pop("service.instance.id")
        assert found == {
            "service.name": "gpu-stall-exporter",
            "host.name": "gpu7",
            "container.id": "0123456789ab",
            "gpustall.rank": "3",
        }

    def test_pod_has_its_conventional_attributes(self) -> None:
        """By the semantic conventions for Kubernetes."""
        found = ORIGIN.resource(Identity(node="gpu7", namespace="research", pod="train-0"))

        assert found.pop("service.instance.id")
        assert found == {
            "service.name": "gpu-stall-exporter",
            "host.name": "gpu7",
            "k8s.namespace.name": "research",
            "k8s.pod.name": "train-0",
        }

    def test_exporter_is_a_service_on_a_host(self) -> None:
        """It has no rank."""
        found = ORIGIN.resource(None)

        assert found.pop("service.instance.id")
        assert found == {"service.name": "gpu-stall-exporter", "host.name": "gpu7"}

    @pytest.mark.parametrize("container", ["job-7", "0123456789AB", "0123456789abc", "0123456789a", ""])
    def test_container_that_is_no_id_is_no_container_id(self, container: str) -> None:
        """A label may hold a name; the attribute may not."""
        assert "container.id" not in ORIGIN.resource(Identity(node="gpu7", container=container))

    def test_user_s_attributes_are_on_every_resource(self) -> None:
        """Beside the exporter's."""
        origin = Origin("gpu7", "stalls", (("deployment.environment.name", "prod"), ("team", "a b")))

        for identity in (None, TRAINER):
            found = origin.resource(identity)
            assert (found["deployment.environment.name"], found["team"], found["service.name"]) == (
                "prod",
                "a b",
                "stalls",
            )

    @pytest.mark.parametrize("identity", [None, TRAINER], ids=["exporter", "rank"])
    def test_user_s_attributes_do_not_replace_the_exporter_s(self, identity: Identity | None) -> None:
        """With one service.instance.id for all, a receiver takes every rank for one and the same."""
        ours = ORIGIN.resource(identity)
        origin = Origin("gpu7", "gpu-stall-exporter", tuple((key, "stolen") for key in ours))

        assert origin.resource(identity) == ours

    @pytest.mark.parametrize(
        "key",
        [
            *("k8s.pod.name", "k8s.pod.uid", "k8s.pod.label.app", "k8s.namespace.name", "k8s.container.name"),
            *("k8s.daemonset.name", "container.id", "container.image.name", "process.pid"),
        ],
    )
    def test_attributes_of_the_exporter_s_own_pod_are_on_no_job(self, key: str) -> None:
        """The downward API gives them; a job in no container has none of its own."""
        origin = Origin("gpu7", "gpu-stall-exporter", ((key, "gpu-stall-exporter-x7k2p"),))

        assert origin.resource(None)[key] == "gpu-stall-exporter-x7k2p"
        assert key not in origin.resource(Identity(node="gpu7", rank="0"))

    @pytest.mark.parametrize("key", ["k8s.cluster.name", "k8s.node.name", "host.id", "cloud.region", "team"])
    def test_attributes_of_the_node_are_on_every_resource(self, key: str) -> None:
        origin = Origin("gpu7", "gpu-stall-exporter", ((key, "a"),))

        assert origin.resource(None)[key] == origin.resource(TRAINER)[key] == "a"

    def test_bytes_that_are_no_utf_8_become_question_marks(self) -> None:
        """In keys, in values, in the node's and the service's names."""
        origin = Origin(NOT_UTF_8, NOT_UTF_8, ((NOT_UTF_8, NOT_UTF_8),))
        found = origin.resource(None)

        assert (found["a?"], found["host.name"], found["service.name"]) == ("a?", "a?", "a?")


class TestInstances:
    """service.instance.id."""

    def test_it_is_a_uuid(self) -> None:
        """By the semantic conventions: version 5, of a name in their namespace."""
        found = uuid.UUID(ORIGIN.resource(TRAINER)["service.instance.id"])

        assert found == uuid.uuid5(uuid.UUID("4d63009a-8d0f-11ee-aad7-4c796ed8e320"), "gpu7\n3\n0123456789ab\n\n")
        assert found.version == 5

    def test_it_is_the_same_for_the_same_labels(self) -> None:
        """Whatever the user's attributes are."""
        again = Identity(node="gpu7", rank="3", container="0123456789ab")
        other_origin = Origin("gpu7", "stalls", (("team", "a"),))

        assert ORIGIN.resource(TRAINER)["service.instance.id"] == other_origin.resource(again)["service.instance.id"]

    def test_it_differs_with_every_label(self) -> None:
        """Two containers with a rank 3, two ranks of a container, and the same text in another label differ."""
        identities = [
            TRAINER,
            Identity(node="gpu8", rank="3", container="0123456789ab"),
            Identity(node="gpu7", rank="4", container="0123456789ab"),
            Identity(node="gpu7", rank="3", container="ba9876543210"),
            Identity(node="gpu7", rank="3", container="0123456789ab", namespace="a"),
            Identity(node="gpu7", rank="3", container="0123456789ab", pod="a"),
            Identity(node="gpu7", rank="3", namespace="0123456789ab"),
            Identity(node="exporter", rank="gpu7"),
            Identity(),
        ]
        instances = {ORIGIN.resource(identity)["service.instance.id"] for identity in (None, *identities)}

        assert len(instances) == 10

    def test_exporter_s_own_differs_from_node_to_node(self) -> None:
        """Each node has one."""
        other = Origin("gpu8", "gpu-stall-exporter")

        assert ORIGIN.resource(None)["service.instance.id"] != other.resource(None)["service.instance.id"]


class TestAttributes:
    """The attributes of a point, which are the labels of a scrape."""

    def test_workload_has_the_five_labels_and_its_own(self) -> None:
        """Empty ones included, in the order of a scrape."""
        assert list(points.attributes(calls(1)).items()) == [
            ("node", "gpu7"),
            ("rank", "3"),
            ("container", "0123456789ab"),
            ("namespace", ""),
            ("pod", ""),
            ("api", "runtime"),
            ("operation", "cudaMalloc"),
        ]

    def test_exporter_has_only_its_own(self) -> None:
        one = DataPoint(catalog.own.MAP_ENTRIES, None, ("operations",), 5, STARTED_UNIX_NS)

        assert points.attributes(one) == {"map": "operations"}


class TestNumbers:
    """Integers and doubles."""

    @pytest.mark.parametrize(
        ("metric", "value", "sent"),
        [
            (catalog.cuda.OPERATIONS, 3, 3),
            (catalog.allocator.LIVE, 0, 0),
            (catalog.allocator.LIVE, -1, -1),  # more freed than was seen allocated
            (catalog.own.TICKS, 3.0, 3),  # own metrics are kept as floats
            (catalog.own.PUSHED_BYTES, 0.5, 0.5),
            (catalog.memcpy.BYTES, 2**63 - 1, 2**63 - 1),
            (catalog.memcpy.BYTES, 2**63, 2.0**63),
            (catalog.memcpy.BYTES, 2**64 - 1, 2.0**64),
            (catalog.own.TICK_TIME, 3, 3.0),
            (catalog.own.TICK_TIME, 0, 0.0),
        ],
    )
    def test_counts_are_integers_while_they_fit_and_seconds_are_doubles(
        self, metric: Metric, value: float, sent: float
    ) -> None:
        """One series never changes its type, except beyond what an int64 holds."""
        found = number_of(metric, value)

        assert (found, type(found)) == (sent, type(sent))

    @pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
    @pytest.mark.parametrize("metric", [catalog.own.TICK_DURATION, catalog.own.TICKS], ids=["seconds", "counted"])
    def test_value_that_is_not_finite_is_a_double(self, metric: Metric, value: float) -> None:
        """An int64 has no such values, and one of them must not spoil the whole push."""
        found = number_of(metric, value)

        assert repr(found) == repr(value)


class TestExplicitCounts:
    """The counts of the classic buckets."""

    def test_counts_are_not_cumulative(self) -> None:
        """Slot 88 ends at 2^-19 s, slot 89 begins there, slot 240 ends at 1 s, slot 337 is overflow."""
        counts = histogram_of({0: 1, 88: 2, 89: 3, 240: 4, 241: 5, 337: 6}).counts

        assert points.explicit_counts(counts) == [3, 3, 0, 0, 0, 0, 0, 4, 11]


class TestRequests:
    """The split into requests."""

    def test_points_are_ordered_by_resource_then_by_metric(self) -> None:
        """A snapshot has them by metric, then by rank."""
        given = [calls(1), calls(2, identity=OTHER), calls(3, "cudaFree"), live(4), live(5, OTHER)]
        (request,) = points.requests(given)

        assert [one.value for one in request] == [1, 3, 4, 2, 5]

    def test_metric_has_all_its_points(self) -> None:
        """Three metrics of one name would be duplicates for a receiver."""
        (request,) = points.requests([calls(1), live(2), calls(3, "cudaFree"), calls(4, "cudaHostAlloc")])
        ((identity, metrics),) = [(identity, list(metrics)) for identity, metrics in points.grouped(request)]

        assert identity == TRAINER
        assert [(metric, [one.value for one in of]) for metric, of in metrics] == [
            (catalog.cuda.OPERATIONS, [1, 3, 4]),
            (catalog.allocator.LIVE, [2]),
        ]

    def test_no_points_make_no_request(self) -> None:
        assert list(points.requests([])) == []

    @pytest.mark.parametrize(
        ("count", "sizes"), [(1, [1]), (1000, [1000]), (1001, [1000, 1]), (2500, [1000, 1000, 500])]
    )
    def test_request_has_a_thousand_points_at_most(self, count: int, sizes: list[int]) -> None:
        """About a megabyte."""
        assert [len(one) for one in points.requests([calls(n) for n in range(count)])] == sizes

    def test_split_keeps_every_point_once_and_in_order(self) -> None:
        """Also where a metric or a resource is split in two."""
        ranks = [Identity(rank=str(rank)) for rank in range(5)]
        given = [calls(n, str(n), rank) for n in range(300) for rank in ranks] + [
            live(n, r) for n, r in enumerate(ranks)
        ]
        found = [one for request in points.requests(given) for one in request]

        of_ranks = [[one for one in given if one.identity == rank] for rank in ranks]
        assert found == [one for of_rank in of_ranks for one in of_rank]


class TestEncodable:
    """Text that UTF-8 can hold."""

    @pytest.mark.parametrize(
        ("text", "written"),
        [("", ""), ("plain", "plain"), ("größe 🙂", "größe 🙂"), (NOT_UTF_8, "a?"), ("\ud83d", "?")],
    )
    def test_only_lone_surrogates_are_replaced(self, text: str, written: str) -> None:
        """One of them would spoil a whole request."""
        assert points.encodable(text) == written
