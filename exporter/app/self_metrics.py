"""The exporter's metrics about itself: its build, what is attached and what failed, what a snapshot took, dropped records."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Mapping

from exporter import __version__, catalog
from exporter.gpu.inventory import gpus
from exporter.kernel.apis import API_LABEL
from exporter.kernel.loader import Kernel
from exporter.model import Snapshot
from exporter.own_metrics.store import OwnMetrics
from exporter.pipeline.tick import Pipeline
from exporter.probes.discovery import Discovery


def report_start(own: OwnMetrics, kernel: Kernel) -> None:
    """Constant from the start, or counted from 0."""
    own.replace(catalog.own.GPU_INFO, dict.fromkeys(gpus(), 1.0))
    own.set(catalog.own.LOSSES, 0, "mapping_watch", "ring_full")
    own.set(catalog.own.PROBES_ENABLED, 1)
    own.set(catalog.own.RELOAD_SUCCESS, 1)
    own.set(catalog.own.RELOAD_TIME, time.time())
    own.set(
        catalog.own.BUILD_INFO,
        1,
        __version__,
        platform.python_version(),
        kernel.libbpf.version(),
        platform.release(),
        kernel.kind_label,
    )


def report_attachments(own: OwnMetrics, discovery: Discovery) -> None:
    """Library files and functions that are probed, and those that could not be."""
    files: dict[tuple[str, ...], float] = {}
    functions: dict[tuple[str, ...], float] = {}
    unguarded: dict[tuple[str, ...], float] = {}
    for probed in discovery.probed():
        assert probed.attachment is not None  # noqa: S101 - that is what probed() selects
        api = API_LABEL[probed.api]
        kind = (api, probed.attachment.kind_label)
        files[kind] = files.get(kind, 0) + 1
        functions[api,] = functions.get((api,), 0) + len(probed.attachment.functions)
        unguarded[api,] = unguarded.get((api,), 0) + (probed.lease is None)
    own.set(catalog.own.UNREADABLE_PROCESSES, discovery.unreadable_processes)
    own.replace(catalog.own.ATTACHMENTS, files)
    own.replace(catalog.own.ATTACHED_FUNCTIONS, functions)
    own.replace(catalog.own.UNGUARDED_LIBRARIES, unguarded)
    changed: dict[tuple[str, ...], float] = dict(discovery.changed)
    own.replace(catalog.own.CHANGED_LIBRARIES, changed)
    failures: dict[tuple[str, ...], float] = dict(discovery.failures)
    own.replace(catalog.own.ATTACH_FAILURES, failures)
    surplus: dict[tuple[str, ...], float] = dict(discovery.surplus)
    own.replace(catalog.own.SURPLUS_ATTACHMENTS, surplus)


def report_snapshot(
    own: OwnMetrics,
    pipeline: Pipeline,
    recursion_misses: Callable[[], Mapping[str, int]],
    snapshot: Snapshot,
    duration_seconds: float,
) -> None:
    """What a snapshot took and holds, how full the kernel's tables are, and what could not be recorded.

    recursion_misses: program -> runs that the kernel left out, since the program was running on that CPU.
    """
    tables = pipeline.tables
    own.set(catalog.own.PUBLISH_DURATION, duration_seconds)
    own.set(catalog.own.SERIES, sum(len(family.points) for family in snapshot.families))
    own.replace(catalog.own.MAP_ENTRIES, {(name,): count for name, count in tables.entries.items()})
    own.replace(catalog.own.MAP_CAPACITY, {(name,): count for name, count in tables.capacities().items()})
    for (program, reason), count in tables.drops().items():
        own.set(catalog.own.LOSSES, count, program.name.lower(), reason.name.lower())
    own.set(catalog.own.HEALED_SWITCHES, tables.healed())
    for figure, error in pipeline.accounting_errors().items():
        own.set(catalog.own.ACCOUNTING_ERROR, error, figure)
    recursions: Counter[str] = Counter()
    for name, misses in recursion_misses().items():
        recursions[name.partition("_")[0]] += misses
    for subject, count in recursions.items():
        own.set(catalog.own.LOSSES, count, subject, "recursion")
