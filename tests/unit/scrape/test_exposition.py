"""scrape.exposition: the exporter's own bytes are read back; other bodies are refused with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter import catalog
from exporter.model import Exemplar, Family, Histogram, Identity, Snapshot
from exporter.output import protobuf
from exporter.scrape import exposition, rates
from exporter.scrape.exposition import NotOurs
from exporter.scrape.samples import Distribution, Number
from tests.support.hostile_files import HAND_MADE_EXPOSITIONS, raw_labels
from tests.support.records import STARTED_UNIX_NS, TRAINER, at, histogram_of, point, snapshot_of

AT = at(5.0)


def body_of(snapshot: Snapshot) -> bytes:
    """A body of the exporter."""
    return b"".join(protobuf.render(snapshot))


class TestRead:
    """The exporter's own bytes."""

    def test_counter_has_its_start(self) -> None:
        """Labels in the order of the catalogue."""
        scrape = exposition.read(body_of(snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaFree"))), AT)

        assert scrape.at == AT
        assert scrape.numbers_of(catalog.cuda.OPERATIONS) == {
            (TRAINER, ("runtime", "cudaFree")): Number(12, STARTED_UNIX_NS)
        }

    def test_gauge_has_no_start(self) -> None:
        scrape = exposition.read(body_of(snapshot_of(catalog.chains.ACTIVE, point(1, "lock", "gap"))), AT)

        assert scrape.numbers_of(catalog.chains.ACTIVE) == {(TRAINER, ("lock", "gap")): Number(1)}

    def test_histogram_has_every_bucket_of_the_kernel(self) -> None:
        """Gaps, the first and the last bucket included; classic buckets and exemplars are skipped."""
        slots = {0: 3, 1: 2, 100: 5, 101: 1, 104: 7, 337: 11}
        exemplar = Exemplar((("pid", "1"),), 0.25, STARTED_UNIX_NS)
        histogram = Histogram(histogram_of(slots).counts, 1.5, exemplar)
        scrape = exposition.read(body_of(snapshot_of(catalog.sched.STEP_DURATION, point(histogram))), AT)

        assert scrape.distributions_of(catalog.sched.STEP_DURATION) == {
            (TRAINER, ()): Distribution(slots, 1.5, STARTED_UNIX_NS)
        }

    def test_histogram_without_a_call_is_empty(self) -> None:
        scrape = exposition.read(body_of(snapshot_of(catalog.sched.STEP_DURATION, point(histogram_of({})))), AT)

        assert scrape.distributions_of(catalog.sched.STEP_DURATION)[TRAINER, ()].calls == 0

    def test_metric_about_the_exporter_has_no_identity(self) -> None:
        body = protobuf.family(
            catalog.own.COLLECTOR_SUCCESS.name,
            "",
            protobuf.GAUGE,
            [protobuf.metric(protobuf.label_pairs(["collector"], ["nccl"]), protobuf.number(protobuf.GAUGE, 0))],
        )

        assert exposition.read(body, AT).numbers_of(catalog.own.COLLECTOR_SUCCESS) == {(None, ("nccl",)): Number(0)}

    def test_other_metrics_of_the_exporter_are_skipped(self) -> None:
        scrape = exposition.read(body_of(snapshot_of(catalog.allocator.LIVE, point(4096))), AT)

        assert (scrape.numbers, scrape.distributions) == ({}, {})

    def test_every_metric_that_rates_asks_for_is_read(self) -> None:
        """One that is not would be missing for `top` without an error."""
        source = Path(rates.__file__).read_text(encoding="utf-8")
        asked = {
            getattr(getattr(catalog, part), name) for part, name in re.findall(r"catalog\.(\w+)\.([A-Z_]+)", source)
        }

        assert catalog.chains.LOST in asked
        assert asked <= set(exposition.WANTED)

    def test_several_families_are_read(self) -> None:
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


class TestUntrusted:
    """Untrusted bytes."""

    def test_control_characters_are_replaced(self) -> None:
        """In an identity, and in a label of the metric's own."""
        labels = {"node": "\x1b[2J", "rank": "0", "cause": "\u202elock\n", "effect": "gap"}
        body = family_of(catalog.chains.ACTIVE, labels, protobuf.number(protobuf.GAUGE, 1))
        ((identity, own),) = exposition.read(body, AT).numbers_of(catalog.chains.ACTIVE)

        assert identity == Identity(node="\ufffd[2J", rank="0")
        assert own == ("\ufffdlock\ufffd", "gap")

    def test_a_long_label_is_cut(self) -> None:
        """At the length of the exporter's labels."""
        body = family_of(catalog.chains.ACTIVE, {"cause": "x" * 100_000}, protobuf.number(protobuf.GAUGE, 1))
        ((_, (cause, effect)),) = exposition.read(body, AT).numbers_of(catalog.chains.ACTIVE)

        assert (len(cause), effect) == (128, "")

    def test_bytes_that_are_no_text_are_replaced(self) -> None:
        """The parser returns them as bytes."""
        body = raw_labels(b"a\xff")
        ((_, own),) = exposition.read(body, AT).numbers_of(catalog.chains.ACTIVE)

        assert own == ("a\ufffd", "a\ufffd")

    @pytest.mark.parametrize("value", [1e300, 1e19])
    def test_huge_value_is_bounded(self, value: float) -> None:
        """Its sums stay finite."""
        body = family_of(catalog.chains.ACTIVE, {}, protobuf.number(protobuf.GAUGE, value))
        ((_, found),) = exposition.read(body, AT).numbers_of(catalog.chains.ACTIVE).items()

        assert found.value == 1e18

    @pytest.mark.parametrize("name", HAND_MADE_EXPOSITIONS)
    def test_hostile_body_is_refused(self, name: str) -> None:
        with pytest.raises(NotOurs):
            exposition.read(HAND_MADE_EXPOSITIONS[name](), AT)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_value_that_is_not_finite_is_zero(self, value: float) -> None:
        """It would spoil every sum."""
        body = family_of(catalog.chains.ACTIVE, {}, protobuf.number(protobuf.GAUGE, value))

        assert list(exposition.read(body, AT).numbers_of(catalog.chains.ACTIVE).values()) == [Number(0)]

    def test_metrics_of_another_exporter_are_refused(self) -> None:
        body = protobuf.family("node_load1", "", protobuf.GAUGE, [])

        with pytest.raises(NotOurs, match=r"^metrics of another program, not of gpu-stall-exporter$"):
            exposition.read(body, AT)

    def test_an_empty_body_is_refused(self) -> None:
        with pytest.raises(NotOurs, match="metrics of another program"):
            exposition.read(b"", AT)

    def test_a_body_cut_short_is_refused(self) -> None:
        """Not displayed in part."""
        body = body_of(snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaFree")))

        with pytest.raises(NotOurs, match="incomplete metrics"):
            exposition.read(body[:-1], AT)

    @pytest.mark.parametrize("body", [b"\xff" * 64, b"<!DOCTYPE html><html>" * 9, b"\x05\xff\xff\xff\xff\xff"])
    def test_bytes_of_another_kind_are_refused(self, body: bytes) -> None:
        """Whatever length their first byte has."""
        with pytest.raises(NotOurs):
            exposition.read(body, AT)

    def test_buckets_beyond_the_exporter_s_are_refused(self) -> None:
        """A span of a thousand million buckets would fill the memory."""
        span = protobuf.nested(b"\x62", b"\x08" + protobuf.zigzag(0) + b"\x10" + protobuf.varint(1_000_000_000))
        body = family_of(catalog.sched.STEP_DURATION, {}, protobuf.nested(b"\x3a", b"\x28\x06" + span))

        with pytest.raises(NotOurs, match="beyond the exporter"):
            exposition.read(body, AT)

    def test_buckets_of_another_width_are_refused(self) -> None:
        """Schema 4 has twice as many."""
        span = protobuf.nested(b"\x62", b"\x08" + protobuf.zigzag(0) + b"\x10" + protobuf.varint(1))
        body = family_of(catalog.sched.STEP_DURATION, {}, protobuf.nested(b"\x3a", b"\x28\x08" + span))

        with pytest.raises(NotOurs, match="schema 4, want 3"):
            exposition.read(body, AT)
