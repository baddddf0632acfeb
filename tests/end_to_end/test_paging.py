"""A CPU hog beside a job pages once, with the culprit's name, and the page is resolved."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.alertmanager_server import (
    SHIPPED,
    Notification,
    alerting,
    fire,
    notifications,
    send,
    with_messages,
)
from tests.support.paging import CRITICAL, Page, page
from tests.support.receiver import Receiver, receiver
from tests.support.requirements import need_command, need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually, only

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """All notifications, from the start of the hogs to the resolution."""
    need_tracing()
    need_command("prometheus", "prometheus")
    need_command("prometheus-alertmanager", "prometheus-alertmanager")
    built()
    return page(tmp_path_factory.mktemp("paging"))


@pytest.mark.acceptance
class TestPage:
    """Through the real programs, with the rules and the configuration that we ship."""

    def test_there_is_one_page_and_its_resolution(self, paged: Page) -> None:
        """In this order."""
        assert [one.status for one in paged.paged()] == ["firing", "resolved"]

    def test_it_names_the_culprit_and_the_chain(self, paged: Page) -> None:
        """The chain is one of the exporter's log: other work on the machine may have opened another one."""
        alert = only(paged.paged()[0].alerts)
        opened = re.findall(r'msg="chain opened: cpu_contention.* chain_id=(\w+)', paged.logs)

        assert alert["labels"]["cause"] == "cpu_contention"
        assert f"(culprit: {paged.culprit})" in alert["annotations"]["description"]
        assert alert["labels"]["chain_id"] in opened

    def test_it_links_to_the_runbook(self, paged: Page) -> None:
        """To the section of that alert."""
        assert only(paged.paged()[0].alerts)["annotations"]["runbook_url"].endswith(f"runbook.md#{CRITICAL.lower()}")

    def test_its_command_begins_with_its_chain(self, paged: Page) -> None:
        """Pasted while it is open."""
        first, *rest = paged.explained.splitlines()
        alert = only(paged.paged()[0].alerts)

        assert re.match(
            rf"rank 0 .* of its time to cpu_contention.*; culprit {paged.culprit}\b.* Still going on\.$", first
        )
        assert f"chain {alert['labels']['chain_id']}" in "\n".join(rest)

    def test_the_webhook_gets_it_as_well(self, paged: Page) -> None:
        """In addition to the pager."""
        assert [one.status for one in paged.notifications if one.receiver == "webhook"] == ["firing", "resolved"]


CHAIN = {"alertname": CRITICAL, "severity": "critical", "node": "a", "container": "c", "cause": "lock"}
BURNS = {"alertname": "GpuStallLostTime", "severity": "critical", "node": "a", "container": "c"}
SLOW_GPU = {"alertname": "GpuStallSlowGpu", "severity": "warning", "node": "b", "container": "c", "cause": "gpu"}
BURNS_ELSEWHERE = BURNS | {"node": "b"}


def both(told: list[Notification]) -> list[dict[str, Any]]:
    """The alerts that were paged, once two of them were."""
    paged = [alert for one in told if one.receiver == "pager" for alert in one.alerts]
    return paged if len(paged) > 1 else []


def incident(container: str, chain: str, *, node: str = "a", **changes: Any) -> dict[str, Any]:
    """A critical chain of a job on bare metal, with annotations that name it."""
    annotations = {name: f"{name} of {chain}" for name in ("description", "explain", "dashboard", "runbook_url")}
    labels = {"alertname": CRITICAL, "severity": "critical", "node": node, "container": container, "chain_id": chain}
    return {"labels": labels | {"cause": "lock"}, "annotations": annotations, **changes}


def messages(found: Receiver, of: str) -> list[dict[str, Any]]:
    """What was sent to PagerDuty or Slack so far."""
    return [json.loads(request.content) for request in found.requests if request.path == f"/{of}"]


def first_of(chain: str, sent: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first message that names a chain."""
    return next((one for one in sent if chain in json.dumps(one)), None)


class TestMessages:
    """The text of a page and of a message to a channel."""

    def test_page_is_of_what_fires_and_not_of_what_is_over(self, tmp_path: Path) -> None:
        """A chain of the job is resolved while its next one fires: title, command, runbook and board are those of the second."""
        with receiver() as found, alerting(found, tmp_path / "alertmanager", with_messages) as server:
            send(server, incident("job_1", "1111"))
            eventually(lambda: first_of("1111", messages(found, "pagerduty")), "the first chain pages")
            over = datetime.now(UTC).isoformat()
            send(server, incident("job_1", "1111", endsAt=over), incident("job_1", "2222"))
            event = eventually(lambda: first_of("2222", messages(found, "pagerduty")), "the second chain pages")

        assert event["event_action"] == "trigger"
        assert event["payload"]["summary"] == "description of 2222"
        assert event["payload"]["custom_details"]["explain"] == "explain of 2222"
        del event["payload"]["custom_details"]["resolved"]  # Alertmanager's own list
        assert "1111" not in json.dumps(event)

    def test_message_to_a_channel_says_what_is_over(self, tmp_path: Path) -> None:
        """After what fires."""
        low = {"severity": "warning"}
        with receiver() as found, alerting(found, tmp_path / "alertmanager", with_messages) as server:
            first, second = incident("job_1", "1111"), incident("job_1", "2222")
            first["labels"] |= low
            second["labels"] |= low
            send(server, first)
            eventually(lambda: first_of("1111", messages(found, "slack")), "the first chain is in the channel")
            send(server, first | {"endsAt": datetime.now(UTC).isoformat()}, second)
            message = eventually(lambda: first_of("2222", messages(found, "slack")), "the second one is in the channel")
        (attachment,) = message["attachments"]

        assert attachment["title_link"] == "runbook_url of 2222"
        assert attachment["text"].split("\n")[:2] == ["description of 2222", "```explain of 2222```"]
        assert "1111" not in attachment["text"].partition("Resolved: ")[0]

    def test_two_jobs_of_a_node_without_kubernetes_are_two_incidents(self, tmp_path: Path) -> None:
        """Each has a page of its own."""
        with receiver() as found, alerting(found, tmp_path / "alertmanager", with_messages) as server:
            send(server, incident("job_1", "1111"))
            first = eventually(lambda: first_of("1111", messages(found, "pagerduty")), "the first job pages")
            send(server, incident("job_2", "2222"))
            second = eventually(lambda: first_of("2222", messages(found, "pagerduty")), "the second job pages")

        assert first["dedup_key"] != second["dedup_key"]
        assert "1111" not in json.dumps(second)

    @pytest.mark.parametrize(
        ("container", "incidents"), [("", 2), ("trainer.service", 2), ("trainer.service (uid 7)", 2), ("job_1", 1)]
    )
    def test_job_of_a_batch_system_is_one_incident_on_all_its_nodes(
        self, tmp_path: Path, container: str, incidents: int
    ) -> None:
        """A service of the same name on another node is another job, and so is a process in no container."""
        with receiver() as found, alerting(found, tmp_path / "alertmanager", with_messages) as server:
            send(server, incident(container, "1111"))
            eventually(lambda: first_of("1111", messages(found, "pagerduty")), "the first node pages")
            send(server, incident(container, "2222", node="b"))
            eventually(lambda: first_of("2222", messages(found, "pagerduty")), "the second node pages")

            assert len({one["dedup_key"] for one in messages(found, "pagerduty")}) == incidents


class TestConfiguration:
    """alerts/alertmanager.yaml."""

    def test_chain_inhibits_the_page_of_its_own_burn_rate(self, tmp_path: Path) -> None:
        """And no other: that of another node pages, although a GPU there is slow."""
        with receiver() as found, alerting(found, tmp_path / "alertmanager") as server:
            fire(server, CHAIN, SLOW_GPU)  # a chain is known long before an hour's mean is
            fire(server, BURNS, BURNS_ELSEWHERE)
            paged = eventually(lambda: both(notifications(found)), "the chain and the other one are paged")

        assert sorted((alert["labels"]["alertname"], alert["labels"]["node"]) for alert in paged) == [
            (CRITICAL, "a"),
            ("GpuStallLostTime", "b"),
        ]

    def test_alertmanager_accepts_it(self) -> None:
        """Checked with its own tool."""
        amtool = need_command("amtool", "prometheus-alertmanager")
        done = subprocess.run(
            [amtool, "check-config", SHIPPED], capture_output=True, text=True, timeout=60, check=False
        )

        assert done.returncode == 0, done.stdout + done.stderr
