"""docs/detections.md and the code: whatever the page names is there, and every cause of a chain is on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from exporter import catalog
from exporter.causes import CHAIN_CAUSES
from tests.faults.registry import EPISODES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "detections.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\d+) [^\n]*\n(.*?)(?=^## |\Z)", PAGE, flags=re.M | re.S))
SEEN = dict(re.findall(r"^\| (\d+) \| \[[^\]]*\]\(#\d+-[a-z-]+\) \| (yes|in part|no) \|$", PAGE, flags=re.M))
PROBLEMS = 26
EVERY_PROBLEM = pytest.mark.parametrize("number", [str(number) for number in range(1, PROBLEMS + 1)])
CAUSES = {cause.value for cause in CHAIN_CAUSES}
ALERTS = {
    rule["alert"]
    for file in (ROOT / "alerts").glob("*.rules.yaml")
    for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


def part(number: str, begin: str) -> str:
    """Of a section, what stands behind `Said by:` and the like; "" where there is none."""
    found = re.search(rf"^{begin}: (.*?)(?=^\w+(?: \w+)?: |\Z)", SECTIONS[number], flags=re.M | re.S)
    return found[1] if found else ""


def quoted(text: str) -> set[str]:
    """What stands in backquotes."""
    return set(re.findall(r"`([^`]+)`", text))


class TestPage:
    """All problems, each with a verdict."""

    def test_every_problem_has_a_line_and_a_section(self) -> None:
        """One after the other."""
        numbers = [str(number) for number in range(1, PROBLEMS + 1)]

        assert list(SEEN) == numbers
        assert list(SECTIONS) == numbers

    def test_links_of_the_table_lead_to_the_sections(self) -> None:
        """By GitHub's rule for headings."""
        links = re.findall(r"\(#(\d+-[a-z-]+)\)", PAGE)
        headings = re.findall(r"^## (.*)$", PAGE, flags=re.M)

        assert links == [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]

    def test_every_cause_of_a_chain_is_told_of(self) -> None:
        """But for the two that say of no problem what it is."""
        told = set().union(*(quoted(part(number, "Said by")) for number in SECTIONS))

        assert CAUSES - told == {"not_host"}


class TestProblems:
    """One by one."""

    @EVERY_PROBLEM
    def test_what_is_seen_has_a_cause_or_an_alert_and_a_proof(self, number: str) -> None:
        """And what is not has neither, but a reason."""
        names = quoted(part(number, "Said by")) & (CAUSES | ALERTS)
        proof = quoted(part(number, "Proved by"))

        if SEEN[number] == "yes":
            assert names
            assert proof
        elif SEEN[number] == "in part":
            assert proof
            assert part(number, "Not seen")
        else:
            assert not names
            assert not proof
            assert len(SECTIONS[number]) > 100

    @EVERY_PROBLEM
    def test_everything_it_names_exists(self, number: str) -> None:
        """Metrics, causes, alerts, episodes, files."""
        names = quoted(SECTIONS[number])
        metrics = {name for name in names if name.startswith("gpustall_")}
        alerts = {name for name in names if name.startswith("GpuStall")}
        files = {name for name in names if name.startswith("tests/")}
        proof = quoted(part(number, "Proved by")) - files

        assert metrics <= {metric.name for metric in catalog.METRICS}
        assert alerts <= ALERTS
        assert {file for file in files if not (ROOT / file).exists()} == set()
        assert proof <= set(EPISODES)
        assert quoted(part(number, "Said by")) - alerts <= CAUSES | {"detail", "gpu-stall-exporter check"}
