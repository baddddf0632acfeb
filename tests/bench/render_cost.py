"""What does a scrape cost to render? CPU of 10,000 samples as text, and gzipped, from a snapshot made by hand."""

from __future__ import annotations

import math
import time
import zlib

from exporter import catalog, units
from exporter.clock import Clock
from exporter.model import Family, Histogram, Identity, Point, Snapshot
from exporter.output import text
from exporter.output.negotiation import Format

SAMPLES_WANTED = 10_000
ROUNDS = 15


def _snapshot() -> tuple[Snapshot, int]:
    """A snapshot of histograms, and its number of samples."""
    samples_each = len(units.CLASSIC_SLOTS) + 3  # buckets, +Inf, _sum, _count
    series = -(-SAMPLES_WANTED // samples_each)
    counts = _bell()
    points = tuple(
        Point(
            Identity("node-1", str(n % 8), "0123456789ab"),
            ("runtime", f"cudaOperation{n // 8}"),
            Histogram(counts, 1.5),
        )
        for n in range(series)
    )
    return Snapshot(Clock().now(), (Family(catalog.CUDA_OPERATION_DURATION, points),)), series * samples_each


def _bell() -> tuple[int, ...]:
    """A million calls around 30 us, as a log-normal distribution has them: 64 slots, eight octaves, are occupied."""
    weights = [math.exp(-(((slot - 120) / 12) ** 2) / 2) if 88 <= slot < 152 else 0.0 for slot in range(units.SLOTS)]
    return tuple(math.ceil(weight * 1e6 / sum(weights)) for weight in weights)


def render_cpu_ms() -> tuple[float, float]:
    """(text, text and gzip) in CPU milliseconds per 10,000 samples, best of ROUNDS."""
    snapshot, samples = _snapshot()
    plain, zipped = [], []
    for _ in range(ROUNDS):
        started = time.process_time()
        body = "".join(text.render(snapshot, Format.TEXT)).encode()
        plain.append(time.process_time() - started)
        zlib.compress(body, 1, 31)
        zipped.append(time.process_time() - started)
    return min(plain) * 1e3 * SAMPLES_WANTED / samples, min(zipped) * 1e3 * SAMPLES_WANTED / samples
