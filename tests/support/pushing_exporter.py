"""An exporter that pushes, on which the environment of the tests has no bearing."""

from __future__ import annotations

import os
from typing import Any

import gpustall_standin as standin
from tests.support import exporter_process
from tests.support.exporter_process import Exporter
from tests.support.traced import eventually


def running(*flags: str) -> Any:
    """Without a proxy and OpenTelemetry's variables."""
    foreign = dict.fromkeys((name for name in os.environ if name.startswith("OTEL_")), "")
    return exporter_process.running(*flags, environment={**foreign, "NO_PROXY": "*", "no_proxy": "*"})


def await_probes(exporter: Exporter) -> None:
    """Wait until the stand-in's libraries are probed: some process has to use them."""
    for name in standin.PROBED:
        path = standin.build_dir() / name
        eventually(lambda path=path: f"attached to {path}" in exporter.logs, f"{path} is probed")


def await_process(exporter: Exporter, rank: str) -> None:
    """Wait until a process is exported."""
    eventually(lambda: exporter.scrape().matching("gpustall_workload_info", rank=rank), f"rank {rank} is exported")
