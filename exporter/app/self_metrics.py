"""What the exporter says of itself among its own metrics: which build it is, what it probes, and what it could not probe."""

from __future__ import annotations

import platform
import time

from exporter import __version__, catalog
from exporter.gpu.inventory import gpus
from exporter.kernel.loader import Kernel
from exporter.output.own_metrics import OwnMetrics
from exporter.probes.discovery import API_LABEL, Discovery


def report_start(own: OwnMetrics, kernel: Kernel) -> None:
    """What is so from the start, and what is counted from 0."""
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
    """As discovery has left them."""
    files: dict[tuple[str, ...], float] = {}
    functions: dict[tuple[str, ...], float] = {}
    for probed in discovery.probed():
        assert probed.attachment is not None  # noqa: S101 - that is what probed() selects
        api = API_LABEL[probed.api]
        kind = (api, probed.attachment.kind_label)
        files[kind] = files.get(kind, 0) + 1
        functions[api,] = functions.get((api,), 0) + len(probed.attachment.functions)
    own.set(catalog.own.UNREADABLE_PROCESSES, discovery.unreadable_processes)
    own.replace(catalog.own.ATTACHMENTS, files)
    own.replace(catalog.own.ATTACHED_FUNCTIONS, functions)
    failures: dict[tuple[str, ...], float] = dict(discovery.failures)
    own.replace(catalog.own.ATTACH_FAILURES, failures)
    surplus: dict[tuple[str, ...], float] = dict(discovery.surplus)
    own.replace(catalog.own.SURPLUS_ATTACHMENTS, surplus)
