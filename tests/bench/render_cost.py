"""What does a scrape cost to render? CPU of 10,000 samples as text, and gzipped, from a snapshot made by hand."""

from __future__ import annotations

import time
import zlib

from exporter import catalog, units
from exporter.model import Family, Histogram, Identity, Point, Snapshot
from exporter.output import text
from exporter.output.text import Format

SAMPLES_WANTED = 10_000
ROUNDS = 15


def _snapshot() -> tuple[Snapshot, int]:
    """A snapshot of histograms, and its number of samples."""
    samples_each = len(units.CLASSIC_SLOTS) + 3  # buckets, +Inf, _sum, _count
    series = -(-SAMPLES_WANTED // samples_each)
    counts = tuple((slot * 7) % 11 if 80 < slot < 240 else 0 for slot in range(units.SLOTS))
    points = tuple(
        Point(
            Identity("node-1", str(n % 8), "0123456789ab"),
            ("runtime", f"cudaOperation{n // 8}"),
            Histogram(counts, 1.5),
        )
        for n in range(series)
    )
    return Snapshot(0.0, (Family(catalog.CUDA_OPERATION_DURATION, points),)), series * samples_each


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
