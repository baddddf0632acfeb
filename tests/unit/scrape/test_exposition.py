"""exposition: what the exporter writes is read back; what is none of ours is refused with a reason."""

from __future__ import annotations

import pytest

from exporter import catalog
from exporter.model import Exemplar, Family, Histogram, Identity, Snapshot
from exporter.output import protobuf
from exporter.scrape import exposition
from exporter.scrape.exposition import NotOurs
from exporter.scrape.samples import Distribution, Number
from tests.support.records import STARTED_UNIX_NS, TRAINER, at, histogram_of, point, snapshot_of

AT = at(5.0)


def body_of(snapshot: Snapshot) -> bytes:
    """What the exporter would send."""
    return b"".join(protobuf.render(snapshot))


class TestRead:
    """The exporter's own bytes."""

    def test_counter_comes_with_its_beginning(self) -> None:
        """Labels in the order of the catalogue."""
        scrape = exposition.read(body_of(snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaFree"))), AT)

        assert scrape.at == AT
        assert scrape.numbers_of(catalog.cuda.OPERATIONS) == {
            (TRAINER, ("runtime", "cudaFree")): Number(12, STARTED_UNIX_NS)
        }

    def test_gauge_has_none(self) -> None:
        """It is what it is."""
        scrape = exposition.read(body_of(snapshot_of(catalog.chains.ACTIVE, point(1, "lock", "gap"))), AT)

        assert scrape.numbers_of(catalog.chains.ACTIVE) == {(TRAINER, ("lock", "gap")): Number(1)}

    def test_histogram_has_every_bucket_of_the_kernel(self) -> None:
        """Gaps between them, the first and the last included; classic buckets and exemplars are passed over."""
        slots = {0: 3, 1: 2, 100: 5, 101: 1, 104: 7, 337: 11}
        exemplar = Exemplar((("pid", "1"),), 0.25, STARTED_UNIX_NS)
        histogram = Histogram(histogram_of(slots).counts, 1.5, exemplar)
        scrape = exposition.read(body_of(snapshot_of(catalog.sched.STEP_DURATION, point(histogram))), AT)

        assert scrape.distributions_of(catalog.sched.STEP_DURATION) == {
            (TRAINER, ()): Distribution(slots, 1.5, STARTED_UNIX_NS)
        }

    def test_histogram_without_a_call_is_empty(self) -> None:
        """As before the first one."""
        scrape = exposition.read(body_of(snapshot_of(catalog.sched.STEP_DURATION, point(histogram_of({})))), AT)

        assert scrape.distributions_of(catalog.sched.STEP_DURATION)[TRAINER, ()].calls == 0

    def test_metric_about_the_exporter_belongs_to_nobody(self) -> None:
        """Its labels are its own."""
        body = protobuf.family(
            catalog.own.COLLECTOR_SUCCESS.name,
            "",
            protobuf.GAUGE,
            [protobuf.metric(protobuf.label_pairs(["collector"], ["nccl"]), protobuf.number(protobuf.GAUGE, 0))],
        )

        assert exposition.read(body, AT).numbers_of(catalog.own.COLLECTOR_SUCCESS) == {(None, ("nccl",)): Number(0)}

    def test_what_is_not_wanted_is_passed_over(self) -> None:
        """Ours all the same."""
        scrape = exposition.read(body_of(snapshot_of(catalog.allocator.LIVE, point(4096))), AT)

        assert (scrape.numbers, scrape.distributions) == ({}, {})

    def test_several_families_are_read(self) -> None:
        """One behind the other."""
        families = (
            Family(catalog.sched.LOST, (point(1.5, "lock"),)),
            Family(catalog.chains.SEVERITY, (point(3, "lock", "gap"),)),
        )
        scrape = exposition.read(body_of(Snapshot(AT, families, {})), AT)

        assert set(scrape.numbers) == {catalog.sched.LOST.name, catalog.chains.SEVERITY.name}


def family_of(metric: catalog.Metric, labels: dict[str, str], value: bytes) -> bytes:
    """A family of one series."""
    pairs = protobuf.label_pairs(list(labels), list(labels.values()))
    return protobuf.family(metric.name, "", protobuf.GAUGE, [protobuf.metric(pairs, value)])


class TestStranger:
    """The bytes may come from anybody."""

    def test_control_characters_do_not_get_in(self) -> None:
        """Neither in an identity nor in a label of the metric's own."""
        labels = {"node": "\x1b[2J", "rank": "0", "cause": "\u202elock\n", "effect": "gap"}
        body = family_of(catalog.chains.ACTIVE, labels, protobuf.number(protobuf.GAUGE, 1))
        ((identity, own),) = exposition.read(body, AT).numbers_of(catalog.chains.ACTIVE)

        assert identity == Identity(node="\ufffd[2J", rank="0")
        assert own == ("\ufffdlock\ufffd", "gap")

    def test_a_long_label_is_cut(self) -> None:
        """At the length that ours have."""
        body = family_of(catalog.chains.ACTIVE, {"cause": "x" * 100_000}, protobuf.number(protobuf.GAUGE, 1))
        ((_, (cause, effect)),) = exposition.read(body, AT).numbers_of(catalog.chains.ACTIVE)

        assert (len(cause), effect) == (128, "")

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_a_value_that_is_no_number_counts_as_none(self, value: float) -> None:
        """It would spoil every sum."""
        body = family_of(catalog.chains.ACTIVE, {}, protobuf.number(protobuf.GAUGE, value))

        assert list(exposition.read(body, AT).numbers_of(catalog.chains.ACTIVE).values()) == [Number(0)]

    def test_metrics_of_another_exporter_are_refused(self) -> None:
        """They are named as what they are."""
        body = protobuf.family("node_load1", "", protobuf.GAUGE, [])

        with pytest.raises(NotOurs, match=r"^metrics, but none of gpu-stall-exporter$"):
            exposition.read(body, AT)

    def test_an_empty_body_is_refused(self) -> None:
        """It says nothing."""
        with pytest.raises(NotOurs, match="none of gpu-stall-exporter"):
            exposition.read(b"", AT)

    def test_a_body_cut_short_is_refused(self) -> None:
        """Rather than shown in part."""
        body = body_of(snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaFree")))

        with pytest.raises(NotOurs, match="cut short"):
            exposition.read(body[:-1], AT)

    @pytest.mark.parametrize("body", [b"\xff" * 64, b"<!DOCTYPE html><html>" * 9, b"\x05\xff\xff\xff\xff\xff"])
    def test_bytes_of_another_kind_are_refused(self, body: bytes) -> None:
        """Whatever their first number says."""
        with pytest.raises(NotOurs):
            exposition.read(body, AT)

    def test_buckets_that_no_call_can_be_in_are_refused(self) -> None:
        """A span of a thousand million would be a way to fill the memory."""
        span = protobuf.nested(b"\x62", b"\x08" + protobuf.zigzag(0) + b"\x10" + protobuf.varint(1_000_000_000))
        body = family_of(catalog.sched.STEP_DURATION, {}, protobuf.nested(b"\x3a", b"\x28\x06" + span))

        with pytest.raises(NotOurs, match="no call can be in"):
            exposition.read(body, AT)

    def test_buckets_of_another_width_are_refused(self) -> None:
        """Schema 4 has twice as many."""
        span = protobuf.nested(b"\x62", b"\x08" + protobuf.zigzag(0) + b"\x10" + protobuf.varint(1))
        body = family_of(catalog.sched.STEP_DURATION, {}, protobuf.nested(b"\x3a", b"\x28\x08" + span))

        with pytest.raises(NotOurs, match="schema 4, want 3"):
            exposition.read(body, AT)
