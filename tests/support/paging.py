"""From a real fault to a page: a job, hogs that take its CPU, the exporter, Prometheus and Alertmanager with alerts/."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import gpustall_standin as standin
from gpustall_standin.job import SPIN
from gpustall_standin.scenarios import HOST_BOUND
from tests.faults.injectors.cpu import HOG, named_shell
from tests.support.alertmanager_server import Notification, alerting, notifications
from tests.support.exporter_process import Exporter, running
from tests.support.patience import PATIENCE_SECONDS
from tests.support.prometheus_server import Prometheus, serving
from tests.support.receiver import receiver
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


def page(folder: Path) -> Page:
    """Waits for the page and for its resolution: about two minutes."""
    command = standin.trainer_command("--ranks=1", "--seed=1", "--quiet", *HOST_BOUND)
    history = folder / "state" / "history.sqlite"
    kept = f"--history.path={history}"
    with receiver() as found, running(kept) as exporter, alerting(found, folder / "alertmanager") as alertmanager:
        text = _CONFIGURATION.format(
            seconds=SCRAPE_SECONDS,
            rules=ROOT / "alerts",
            alertmanager=alertmanager.address,
            exporter=_address(exporter),
        )
        (folder / "prometheus").mkdir()
        with serving(need_command("prometheus", "prometheus"), text, folder / "prometheus") as prometheus:
            _await_a_scrape(prometheus)
            job = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.DEVNULL)
            try:
                time.sleep(LEARN_SECONDS)
                with named_shell(HOG, SPIN, count=HOGS_PER_CPU * len(os.sched_getaffinity(0))):
                    began_seconds = time.monotonic()
                    first: Notification = eventually(
                        lambda: next(iter(_paged(notifications(found), "firing")), None), "a page"
                    )
                    explained = _pasted(first.alerts[0]["annotations"]["explain"], history)
                eventually(lambda: _paged(notifications(found), "resolved"), "its resolution")
            finally:
                job.kill()
                job.wait()
        return Page(HOG, first.arrived_seconds - began_seconds, notifications(found), exporter.logs, explained)


def _pasted(command: str, history: Path) -> str:
    """What the command prints here; it reads the history of the test."""
    options = shlex.split(command.partition("gpu-stall-exporter explain ")[2])
    ours = [sys.executable, "-m", "exporter", "explain", *options, f"--history.path={history}"]
    return subprocess.run(ours, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout


def _paged(found: list[Notification], status: str) -> list[Notification]:
    return [one for one in found if one.receiver == "pager" and one.status == status and CRITICAL in one.names]


def _address(exporter: Exporter) -> str:
    return exporter.url.removeprefix("http://").removesuffix("/metrics")


def _await_a_scrape(prometheus: Prometheus) -> None:
    """Prometheus chooses the time of the first one."""
    prometheus.awaited("up == 1")
