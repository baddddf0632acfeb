"""A CPU hog beside a job, and what a person is told of it: one page, with the culprit's name, and its resolution."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.alertmanager_server import SHIPPED
from tests.support.paging import CRITICAL, Page, page
from tests.support.requirements import need_command, need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import only

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """From the hogs' begin to the resolution."""
    need_tracing()
    need_command("prometheus", "prometheus")
    need_command("prometheus-alertmanager", "prometheus-alertmanager")
    built()
    return page(tmp_path_factory.mktemp("paging"))


class TestPage:
    """Through the real programs, with the rules and the configuration that we ship."""

    def test_there_is_one_page_and_its_resolution(self, paged: Page) -> None:
        """In this order."""
        assert [one.status for one in paged.paged()] == ["firing", "resolved"]

    def test_it_names_the_culprit_and_the_chain(self, paged: Page) -> None:
        """The chain is the one that the exporter's log tells of."""
        alert = only(paged.paged()[0].alerts)
        opened = re.findall(r'msg="chain opened: cpu_contention.* chain_id=(\w+)', paged.logs)

        assert alert["labels"]["cause"] == "cpu_contention"
        assert f"through {paged.culprit}" in alert["annotations"]["description"]
        assert [alert["labels"]["chain_id"]] == opened

    def test_it_links_to_the_runbook(self, paged: Page) -> None:
        """To the section of that alert."""
        assert only(paged.paged()[0].alerts)["annotations"]["runbook_url"].endswith(f"runbook.md#{CRITICAL.lower()}")

    def test_the_webhook_is_told_as_well(self, paged: Page) -> None:
        """Beside the pager."""
        assert [one.status for one in paged.told if one.receiver == "webhook"] == ["firing", "resolved"]


class TestConfiguration:
    """alerts/alertmanager.yaml."""

    def test_alertmanager_takes_it(self) -> None:
        """By its own tool."""
        amtool = need_command("amtool", "prometheus-alertmanager")
        done = subprocess.run(
            [amtool, "check-config", SHIPPED], capture_output=True, text=True, timeout=60, check=False
        )

        assert done.returncode == 0, done.stdout + done.stderr
