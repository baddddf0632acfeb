"""What does a scrape or a push cost to render? CPU of each format, from a snapshot made by hand."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from exporter import catalog, units
from exporter.clock import Clock
from exporter.model import Exemplar, Family, Histogram, Identity, Point, Snapshot
from exporter.output import protobuf, text
from exporter.output.negotiation import Format
from exporter.output.otlp import json_body, protobuf_body
from exporter.output.otlp.points import Form, Origin, data_points, requests
from exporter.totals import Counts

SAMPLES_WANTED = 10_000
POINTS_WANTED = 1_000
ROUNDS = 15
_SAMPLES_EACH = len(units.CLASSIC_SLOTS) + 3  # buckets, +Inf, _sum, _count
_RANKS = 8


def _snapshot(series: int) -> tuple[Snapshot, int]:
    """A snapshot of histograms of eight ranks, and its number of samples."""
    now = Clock().now()
    identities = [Identity("node-1", str(rank), "0123456789ab") for rank in range(_RANKS)]
    exemplar = Exemplar((("pid", "4026"), ("tid", "4031")), 0.001, now.unix_ns)
    histogram = Histogram(_bell(), 1.5, exemplar)
    points = tuple(
        Point(identities[n * _RANKS // series], ("runtime", f"cudaOperation{n}"), histogram) for n in range(series)
    )
    families = (Family(catalog.cuda.OPERATION_DURATION, points),)
    return Snapshot(now, families, dict.fromkeys(identities, now.unix_ns)), series * _SAMPLES_EACH


def _bell() -> Counts:
    """A million calls around 30 us, as a log-normal distribution has them: 64 slots, eight octaves, are occupied."""
    weights = [math.exp(-(((slot - 120) / 12) ** 2) / 2) if 88 <= slot < 152 else 0.0 for slot in range(units.SLOTS)]
    return Counts.of([math.ceil(weight * 1e6 / sum(weights)) for weight in weights])


class RenderCosts(NamedTuple):
    """CPU milliseconds, best of ROUNDS. The first three: of 10,000 samples. The others: of 1,000 histogram points."""

    text_ms: float
    text_gzip_ms: float
    protobuf_ms: float
    otlp_json_ms: float
    otlp_json_gzip_ms: float
    otlp_protobuf_ms: float


def render_costs() -> RenderCosts:
    """Costs of every format."""
    snapshot, samples = _snapshot(-(-SAMPLES_WANTED // _SAMPLES_EACH))
    per_10_000 = SAMPLES_WANTED / samples
    text_ms, text_gzip_ms = _cpu_ms(lambda: "".join(text.render(snapshot, Format.TEXT)).encode())
    protobuf_ms, _ = _cpu_ms(lambda: b"".join(protobuf.render(snapshot)))
    pushed, _ = _snapshot(POINTS_WANTED)
    origin, form = Origin("node-1", "gpu-stall-exporter"), Form(is_delta=False, with_explicit_buckets=False)

    def body(module: ModuleType) -> bytes:
        (request,) = requests(data_points(pushed, ()))
        encoded: bytes = module.encode(request, pushed.taken_at.unix_ns, origin, form)
        return encoded

    json_ms, json_gzip_ms = _cpu_ms(lambda: body(json_body))
    otlp_protobuf_ms, _ = _cpu_ms(lambda: body(protobuf_body))
    return RenderCosts(
        text_ms * per_10_000,
        text_gzip_ms * per_10_000,
        protobuf_ms * per_10_000,
        json_ms,
        json_gzip_ms,
        otlp_protobuf_ms,
    )


def _cpu_ms(render: Callable[[], bytes]) -> tuple[float, float]:
    """(rendered, rendered and gzipped), best of ROUNDS."""
    plain, zipped = [], []
    for _ in range(ROUNDS):
        started = time.process_time()
        body = render()
        plain.append(time.process_time() - started)
        zlib.compress(body, 1, 31)
        zipped.append(time.process_time() - started)
    return min(plain) * 1e3, min(zipped) * 1e3
