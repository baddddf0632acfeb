"""A CPU hog beside a job pages once, with the culprit's name, and the page is resolved."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.alertmanager_server import SHIPPED, Notification, alerting, fire, notifications
from tests.support.paging import CRITICAL, Page, page
from tests.support.receiver import receiver
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
