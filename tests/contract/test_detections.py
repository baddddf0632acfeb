"""docs/detections.md and the code agree: all that the page names exists, and every cause of a chain is on the page."""

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
DETECTED = dict(re.findall(r"^\| (\d+) \| \[[^\]]*\]\(#\d+-[a-z-]+\) \| (yes|in part|no) \|$", PAGE, flags=re.M))
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
    """The text of a section after `Reported by:` and the like; "" if there is none."""
    found = re.search(rf"^{begin}: (.*?)(?=^\w+(?: \w+)?: |\Z)", SECTIONS[number], flags=re.M | re.S)
    return found[1] if found else ""


def quoted(text: str) -> set[str]:
    """Words in backquotes."""
    return set(re.findall(r"`([^`]+)`", text))


class TestPage:
    """All problems, each with a verdict."""

    def test_every_problem_has_a_line_and_a_section(self) -> None:
        """In ascending order."""
        numbers = [str(number) for number in range(1, PROBLEMS + 1)]

        assert list(DETECTED) == numbers
        assert list(SECTIONS) == numbers

    def test_links_of_the_table_lead_to_the_sections(self) -> None:
        """By GitHub's rule for headings."""
        links = re.findall(r"\(#(\d+-[a-z-]+)\)", PAGE)
        headings = re.findall(r"^## (.*)$", PAGE, flags=re.M)

        assert links == [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]

    def test_every_cause_of_a_chain_is_on_the_page(self) -> None:
        """Except `changed`, which is no problem."""
        named = set().union(*(quoted(part(number, "Reported by")) for number in SECTIONS))

        assert CAUSES - named == {"changed"}


class TestProblems:
    """Each section."""

    @EVERY_PROBLEM
    def test_a_detected_problem_has_a_cause_or_an_alert_and_a_test(self, number: str) -> None:
        """One that is not detected has neither, but a reason."""
        names = quoted(part(number, "Reported by")) & (CAUSES | ALERTS)
        proof = quoted(part(number, "Tested by"))

        if DETECTED[number] == "yes":
            assert names
            assert proof
        elif DETECTED[number] == "in part":
            assert proof
            assert part(number, "Not covered")
        else:
            assert not names
            assert not proof
            assert len(SECTIONS[number]) > 100

    @EVERY_PROBLEM
    def test_everything_it_names_exists(self, number: str) -> None:
        """Metrics, causes, alerts, episodes and files."""
        names = quoted(SECTIONS[number])
        metrics = {name for name in names if name.startswith("gpustall_")}
        alerts = {name for name in names if name.startswith("GpuStall")}
        files = {name for name in names if name.startswith("tests/")}
        proof = quoted(part(number, "Tested by")) - files

        assert metrics <= {metric.name for metric in catalog.METRICS}
        assert alerts <= ALERTS
        assert {file for file in files if not (ROOT / file).exists()} == set()
        assert proof <= set(EPISODES)
        assert quoted(part(number, "Reported by")) - alerts <= CAUSES | {"detail", "gpu-stall-exporter check"}
