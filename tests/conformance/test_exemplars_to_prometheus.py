"""Prometheus 3 stores the exemplar that leads from lost seconds to a chain's span, whichever way it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter import catalog
from exporter.clock import Clock, Moment
from exporter.model import Exemplar, Family, Point, Snapshot
from exporter.output.otlp.metric_exporter import MetricExporter
from exporter.output.web.pages import Pages
from exporter.own_metrics.store import OwnMetrics
from tests.conformance import partners
from tests.support.pushing import ORIGIN, target
from tests.support.reports import CHAIN_ID, RANK, SPAN_ID
from tests.support.traced import eventually
from tests.support.web_server import serving

pytestmark = pytest.mark.conformance
PATIENCE_SECONDS = 60
LOST = 'gpustall_lost_seconds_total{cause="lock"}'
WANTED = ({"trace_id": CHAIN_ID, "span_id": SPAN_ID}, 0.25)


def snapshot(now: Moment) -> Snapshot:
    """A rank that has lost a quarter of a second in a chain that goes on."""
    labels = (("trace_id", CHAIN_ID), ("span_id", SPAN_ID))
    exemplar = Exemplar(labels, 0.25, now.unix_ns)
    family = Family(
        catalog.sched.LOST, (Point(RANK, ("lock",), 1.5), Point(RANK, ("irq",), 2.5)), {(RANK, ("lock",)): exemplar}
    )
    return Snapshot(now, (family,), {RANK: now.unix_ns - 60_000_000_000})


@contextmanager
def scraped(clock: Clock) -> Iterator[str]:
    """`/metrics` of it; gives the address."""
    pages = Pages(lambda: snapshot(clock.now()), OwnMetrics(), lambda: True, with_exporter_metrics=False)
    with serving(pages) as (host, port):
        yield f"{host}:{port}"


def stored(server: partners.Prometheus) -> list[tuple[dict[str, str], float]]:
    """Labels and value of each exemplar."""
    return [(one["labels"], float(one["value"])) for one in server.exemplars(LOST)]


class TestStored:
    """By the server."""

    def test_scraped(self, tmp_path: Path) -> None:
        """In protobuf, as this server negotiates it."""
        with partners.prometheus(tmp_path) as server, scraped(Clock()) as address:
            server.targets_file.with_suffix(".new").write_text(json.dumps([{"targets": [address]}]))
            server.targets_file.with_suffix(".new").rename(server.targets_file)
            found = eventually(lambda: stored(server), "an exemplar is stored", PATIENCE_SECONDS)

        assert found[0] == WANTED

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_pushed(self, tmp_path: Path, protocol: str) -> None:
        """Over OTLP, whose two ids become labels."""
        clock = Clock()
        with partners.prometheus(tmp_path) as server:
            to = target(server.otlp_endpoint, protocol=protocol, interval="1s")
            delivery = MetricExporter(to, lambda: snapshot(clock.now()), OwnMetrics(), ORIGIN)
            delivery.start()
            found = eventually(lambda: stored(server), "an exemplar is stored", PATIENCE_SECONDS)
            delivery.stop()
            delivery.join()

        assert found[0] == WANTED
