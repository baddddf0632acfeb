"""An Alertmanager with the configuration of alerts/, whose receivers are webhooks of a test."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator
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


def with_messages(url: str) -> str:
    """The shipped configuration, with its messages: events of PagerDuty go to url/pagerduty, messages of Slack to url/slack."""
    text = SHIPPED.read_text(encoding="utf-8")
    for shipped, of_test in (
        ("group_interval: 1m", "group_interval: 2s"),
        ("group_interval: 5m", "group_interval: 2s"),
        ("group_wait: 30s", "group_wait: 1s"),
        ("group_wait: 5s", "group_wait: 1s"),
        ("routing_key_file: /etc/alertmanager/pagerduty.key", f"routing_key: key\n        url: '{url}/pagerduty'"),
        ("api_url_file: /etc/alertmanager/slack.url", f"api_url: '{url}/slack'"),
        ("http://127.0.0.1:9095/gpu-stalls", f"{url}/webhook"),
    ):
        assert shipped in text, shipped
        text = text.replace(shipped, of_test)
    return text


@contextmanager
def alerting(found: Receiver, folder: Path, configured: Callable[[str], str] = configuration) -> Iterator[Server]:
    """A running Alertmanager that notifies the receiver. configured: makes its configuration from the receiver's address."""
    binary = need_command("prometheus-alertmanager", "prometheus-alertmanager")
    folder.mkdir()
    (folder / "alertmanager.yml").write_text(configured(found.url), encoding="utf-8")
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
    send(server, *({"labels": labels, "annotations": {"description": labels["alertname"]}} for labels in alerts))


def send(server: Server, *alerts: dict[str, Any]) -> None:
    """Sends alerts in Alertmanager's format, as Prometheus would."""
    request = urllib.request.Request(
        f"http://{server.address}/api/v2/alerts",
        data=json.dumps(alerts).encode(),
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
