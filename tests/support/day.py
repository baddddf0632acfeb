"""A day of a node with eight ranks as a history, with the operations and histograms of a training job."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from exporter.history.file_guard import claim
from exporter.history.store import Store
from exporter.history.window import OperationTime, ProcessLabels, Switches, Window
from exporter.history.window_batch import WindowBatch
from exporter.model import Identity
from exporter.totals import Counts, HistogramTotal
from exporter.units import upper_edge_seconds
from tests.support.history import NOON as _NOON
from tests.support.history import SECOND, an_event, resolved

RANKS = 8
WINDOW_SECONDS = 10
WINDOWS = 24 * 3600 // WINDOW_SECONDS
_DIFFERENT = 64
_WRITTEN_AT_ONCE = 256

_CALLS = {  # operation -> calls in a window, slot of the shortest, occupied slots
    ("runtime", "cudaLaunchKernel"): (60_000, 96, 24),
    ("runtime", "cudaMemcpyAsync"): (4_000, 104, 20),
    ("runtime", "cudaStreamSynchronize"): (500, 180, 12),
    ("runtime", "cudaEventRecord"): (6_000, 92, 16),
    ("runtime", "cudaEventSynchronize"): (500, 150, 14),
    ("driver", "cuLaunchKernelEx"): (2_000, 98, 16),
    ("nccl", "ncclAllReduce"): (1_500, 120, 14),
    ("nccl", "ncclAllGather"): (800, 124, 12),
    ("", "other"): (900, 0, 0),
}
_CAUSES = ("cpu_contention", "peer_rank", "own_wait", "lock", "page_fault", "wakeup_latency", "unknown")
_STATES = ("on_cpu", "gpu_wait", "runnable", "lock", "sleep", "io", "page_fault", "throttled", "irq")


def make_day(path: Path, now_unix_ns: int, *, node: str = "gpu7", windows: int = WINDOWS) -> None:
    """The last of them ends now. A chain was open for each hour."""
    file = claim(path)
    began_unix_ns = now_unix_ns - windows * WINDOW_SECONDS * SECOND
    store = Store(file, 256 << 20, began_unix_ns=began_unix_ns, version="1.0", has_chains=True)
    batches: list[WindowBatch] = []
    for batch in _batches(node, began_unix_ns, windows):
        batches.append(batch)
        if len(batches) == _WRITTEN_AT_ONCE:
            store.write([], batches, batch.ended_unix_ns)
            batches = []
    events = []
    for hour in range(windows * WINDOW_SECONDS // 3600):
        began_seconds = (began_unix_ns - _NOON) / SECOND + hour * 3600 + 600
        opened = an_event(began_seconds, chain_id=f"{hour:02}{node.encode().hex()}".ljust(32, "0")[:32])
        events += [opened, resolved(opened, 300)]
    store.write(events, batches, now_unix_ns)
    store.close()
    file.release()


def _batches(node: str, began_unix_ns: int, windows: int) -> Iterator[WindowBatch]:
    rng = random.Random(node)
    different = [[_window(rng, node, rank) for rank in range(RANKS)] for _ in range(_DIFFERENT)]
    for number in range(windows):
        began = began_unix_ns + number * WINDOW_SECONDS * SECOND
        yield WindowBatch(began, began + WINDOW_SECONDS * SECOND, different[number % _DIFFERENT])


def _window(rng: random.Random, node: str, rank: int) -> Window:
    labels = ProcessLabels(
        Identity(node, str(rank), "0123456789ab", "training", f"trainer-{rank}"), 4000 + rank, "python"
    )
    lost_ns = {cause: rng.randrange(SECOND // 10) for cause in _CAUSES}
    culprits_ns = tuple((cause, f"program-{rng.randrange(20)}", rng.randrange(SECOND // 20)) for cause in _CAUSES[:6])
    return Window(
        rank + 1,
        labels,
        0,
        WINDOW_SECONDS * SECOND,
        _histogram(rng, 500, 186, 8),
        lost_ns,
        culprits_ns,
        {state: rng.randrange(10 * SECOND) for state in _STATES},
        Switches(rng.randrange(9000), rng.randrange(900)),
        tuple(OperationTime(*key, count, 0, _histogram(rng, count, *shape)) for key, (count, *shape) in _CALLS.items()),
    )


def _histogram(rng: random.Random, count: int, first: int, slots: int) -> HistogramTotal:
    """A bell of so many slots, with some slots beside it that a few calls are in."""
    weights = [2.0 ** -abs(at - slots / 3) * rng.uniform(0.5, 1.5) for at in range(slots)]
    counts = Counts.of([max(round(count * weight / sum(weights)), rng.randrange(2)) for weight in weights], first)
    sum_ns = sum(held * int(upper_edge_seconds(slot) * 0.95e9) for slot, held in enumerate(counts.held, counts.begin))
    return HistogramTotal(counts, sum_ns)
