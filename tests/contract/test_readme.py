"""README: short, and what it shows can be typed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from docs.generate import ROOT
from exporter.__main__ import COMMANDS
from exporter.config.web import DEFAULT_PORT
from tests.support.patience import PATIENCE_SECONDS
from tests.support.promtool import NEEDS_PROMTOOL, PROMTOOL

README = ROOT / "README.md"
MAX_BYTES = 12 * 1024


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.M | re.S)


def promtool(*arguments: str) -> str:
    """Output of `promtool check`; fails if it reports a problem."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class TestReadme:
    """The first page that a newcomer reads."""

    def test_it_is_short(self) -> None:
        """Details belong to docs/."""
        assert README.stat().st_size <= MAX_BYTES

    def test_commands_of_a_clone_stand_before_everything_else_that_can_be_typed(self) -> None:
        """make run and make test, then a demo; within a screen of 24 lines."""
        first = blocks("sh")[0]
        before = README.read_text(encoding="utf-8").partition(first)[0]

        assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make run", "make test", "make demo"]
        assert before.count("\n") + first.count("\n") <= 24

    def test_commands_of_a_clone_are_targets(self) -> None:
        """`make help` lists them."""
        done = subprocess.run(
            ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
        listed = {line.split()[1] for line in done.stdout.splitlines()}

        assert {"run", "test", "demo"} <= listed

    def test_every_command_is_in_the_table(self) -> None:
        """In rows that begin with the program's name, or with the command alone."""
        rows = re.findall(r"^\| `(?:gpu-stall-exporter )?(\w+)", README.read_text(encoding="utf-8"), flags=re.M)

        assert set(COMMANDS) <= set(rows)

    def test_ports_are_the_default_one_and_that_of_otlp(self) -> None:
        """10478 and 4318."""
        ports = set(re.findall(r":(\d{4,5})\b", README.read_text(encoding="utf-8")))

        assert ports == {str(DEFAULT_PORT), "4318"}

    @NEEDS_PROMTOOL
    def test_every_query_can_be_parsed(self, tmp_path: Path) -> None:
        """Prometheus takes each as the expression of a rule."""
        rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(blocks("promql"))]
        file = tmp_path / "rules.yaml"
        file.write_text(json.dumps({"groups": [{"name": "readme", "rules": rules}]}), encoding="utf-8")  # JSON is YAML

        assert len(rules) >= 5
        assert f"{len(rules)} rules found" in promtool("rules", str(file))

    @NEEDS_PROMTOOL
    def test_scrape_configuration_is_valid(self, tmp_path: Path) -> None:
        """It keeps the exporter's labels."""
        (configuration,) = blocks("yaml")
        file = tmp_path / "prometheus.yaml"
        file.write_text(configuration, encoding="utf-8")

        assert "valid prometheus config" in promtool("config", str(file))
        assert "honor_labels: true" in configuration
