"""The files of a bundle, and the function that collects each. A function raises if it cannot; the other files are written.

Secrets are not collected in the first place; redaction.py is the second line of defence. Of other processes only the libraries
that they map are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exporter.config import Config
from exporter.host.processes import Processes
from exporter.support_bundle.exporter_log import exporter_log
from exporter.support_bundle.installation import installation
from exporter.support_bundle.kernel import kernel, kernel_log
from exporter.support_bundle.libraries import gpu_libraries
from exporter.support_bundle.machine import Machine
from exporter.support_bundle.metrics import metrics
from exporter.support_bundle.settings import settings
from exporter.support_bundle.system import cgroups, environment, system

Part = Callable[[], str | Mapping[str, Any] | Sequence[Any]]


def parts(config: Config, checks: Sequence[Mapping[str, Any]], version: str, machine: Machine) -> Mapping[str, Part]:
    """File name -> how it is made, most useful first: the last are truncated. checks: results of `check`."""
    return {
        "checks.json": lambda: list(checks),
        "exporter.json": lambda: installation(version),
        "configuration.json": lambda: settings(config),
        "kernel.json": lambda: kernel(machine),
        "machine.json": lambda: system(machine),
        "cgroups.json": lambda: cgroups(machine),
        "environment.json": lambda: environment(machine.environment),
        "libraries.json": lambda: gpu_libraries(Processes(config.procfs)),
        "metrics.txt": lambda: metrics(config, machine),
        "log.txt": lambda: exporter_log(machine),
        "kernel-log.txt": lambda: kernel_log(machine),
    }
