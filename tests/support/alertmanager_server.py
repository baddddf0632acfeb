"""An Alertmanager with the configuration of alerts/, whose receivers are webhooks of a test."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.receiver import Receiver
from tests.support.requirements import ROOT, need_command
from tests.support.server_process import Server, listening

SHIPPED = ROOT / "alerts" / "alertmanager.yaml"
ANNOUNCEMENT = r'msg="Listening on"[^\n]* address=(\S+)'


class Notification(NamedTuple):
    """A webhook call. receiver: its name in the shipped configuration. alerts: in Alertmanager's format."""

    receiver: str
    status: str
    alerts: list[dict[str, Any]]
    arrived_seconds: float

    @property
    def names(self) -> set[str]:
        """Names of the alerts."""
        return {alert["labels"]["alertname"] for alert in self.alerts}


def configuration(url: str) -> str:
    """The shipped configuration, with the webhook url/NAME as every receiver. Changes of a page are sent after 5 s."""
    head, _, receivers = SHIPPED.read_text(encoding="utf-8").partition("\nreceivers:\n")
    head = head.replace("group_interval: 1m", "group_interval: 5s")  # a test waits for the resolution
    hooks = "".join(
        f"  - name: {name}\n"
        + (f"    webhook_configs: [{{url: '{url}/{name}', send_resolved: true}}]\n" if name != "none" else "")
        for name in re.findall(r"^  - name: (\w+)$", receivers, re.MULTILINE)
    )
    return f"{head}\nreceivers:\n{hooks}"


@contextmanager
def alerting(found: Receiver, folder: Path) -> Iterator[Server]:
    """A running Alertmanager that notifies the receiver."""
    binary = need_command("prometheus-alertmanager", "prometheus-alertmanager")
    folder.mkdir()
    (folder / "alertmanager.yml").write_text(configuration(found.url), encoding="utf-8")
    command = [
        binary,
        f"--config.file={folder}/alertmanager.yml",
        f"--storage.path={folder}/data",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
    ]
    with listening(command, ANNOUNCEMENT, folder) as server:
        yield server


def fire(server: Server, *alerts: dict[str, str]) -> None:
    """Fires alerts with these labels, as Prometheus would."""
    document = [{"labels": labels, "annotations": {"description": labels["alertname"]}} for labels in alerts]
    request = urllib.request.Request(
        f"http://{server.address}/api/v2/alerts",
        data=json.dumps(document).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - the same
        pass


def notifications(found: Receiver) -> list[Notification]:
    """All notifications so far, in order."""
    notified = []
    for request in found.requests:
        document = json.loads(request.content)
        receiver = request.path.rpartition("/")[2]
        notified.append(Notification(receiver, document["status"], document["alerts"], request.arrived_seconds))
    return notified
