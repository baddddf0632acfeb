"""From a real fault to a page: a job, hogs that take its CPU, the exporter, Prometheus and Alertmanager with alerts/."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import gpustall_standin as standin
from gpustall_standin.job import SPIN
from gpustall_standin.scenarios import HOST_BOUND
from tests.faults.injectors.cpu import HOG, named_shell
from tests.support.alertmanager_server import Notification, alerting, configuration, notifications
from tests.support.exporter_process import Exporter, running
from tests.support.patience import PATIENCE_SECONDS
from tests.support.prometheus_server import serving
from tests.support.receiver import Receiver, receiver
from tests.support.requirements import ROOT, need_command
from tests.support.traced import eventually

SCRAPE_SECONDS = 5
LEARN_SECONDS = 12
"""Until the job has a baseline."""
HOGS_PER_CPU = 3
CRITICAL = "GpuStallChainCritical"

_CONFIGURATION = """\
global:
  scrape_interval: {seconds}s
  evaluation_interval: {seconds}s
rule_files: ["{rules}/*.rules.yaml"]
alerting:
  alertmanagers:
    - static_configs: [{{targets: ["{alertmanager}"]}}]
scrape_configs:
  - job_name: gpu-stall-exporter
    honor_labels: true
    static_configs: [{{targets: ["{exporter}"]}}]
"""


@dataclass(frozen=True)
class Page:
    """seconds: from the start of the fault to the page. notifications: until the resolution. logs: the exporter's.

    explained: what the command of the page prints on the node.
    """

    culprit: str
    seconds: float
    notifications: list[Notification]
    logs: str
    explained: str

    def paged(self) -> list[Notification]:
        """Notifications of critical chains that the pager got."""
        return [one for one in self.notifications if one.receiver == "pager" and CRITICAL in one.names]


class Paged(NamedTuple):
    """What runs on a node that pages. found: gets the notifications. history: the exporter's."""

    found: Receiver
    exporter: Exporter
    history: Path

    def pasted(self, command: str, *more: str) -> str:
        """What the command of a page prints here; it reads the history of the test. more: flags."""
        options = shlex.split(command.partition("gpu-stall-exporter explain ")[2])
        ours = [sys.executable, "-m", "exporter", "explain", *options, f"--history.path={self.history}", *more]
        return subprocess.run(ours, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout


@contextmanager
def paging(
    folder: Path, scrape_seconds: int = SCRAPE_SECONDS, configured: Callable[[str], str] = configuration
) -> Iterator[Paged]:
    """An exporter, and Prometheus and Alertmanager with alerts/, from the first scrape on. configured: as of alerting()."""
    history = folder / "state" / "history.sqlite"
    with (
        receiver() as found,
        running(f"--history.path={history}") as exporter,
        alerting(found, folder / "alertmanager", configured) as alertmanager,
    ):
        text = _CONFIGURATION.format(
            seconds=scrape_seconds,
            rules=ROOT / "alerts",
            alertmanager=alertmanager.address,
            exporter=exporter.url.removeprefix("http://").removesuffix("/metrics"),
        )
        (folder / "prometheus").mkdir()
        with serving(need_command("prometheus", "prometheus"), text, folder / "prometheus") as prometheus:
            prometheus.awaited("up == 1")  # Prometheus chooses the time of the first one
            yield Paged(found, exporter, history)


def page(folder: Path) -> Page:
    """Waits for the page and for its resolution: about two minutes."""
    command = standin.trainer_command("--ranks=1", "--seed=1", "--quiet", *HOST_BOUND)
    with paging(folder) as node:
        job = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.DEVNULL)
        try:
            time.sleep(LEARN_SECONDS)
            with named_shell(HOG, SPIN, count=HOGS_PER_CPU * len(os.sched_getaffinity(0))):
                began_seconds = time.monotonic()
                first: Notification = eventually(
                    lambda: next(iter(_paged(notifications(node.found), "firing")), None), "a page"
                )
                explained = node.pasted(first.alerts[0]["annotations"]["explain"])
            eventually(lambda: _paged(notifications(node.found), "resolved"), "its resolution")
        finally:
            job.kill()
            job.wait()
        arrived_seconds = first.arrived_seconds - began_seconds
        return Page(HOG, arrived_seconds, notifications(node.found), node.exporter.logs, explained)


def _paged(found: list[Notification], status: str) -> list[Notification]:
    return [one for one in found if one.receiver == "pager" and one.status == status and CRITICAL in one.names]
