"""The generated parts of the documents are current, and README says what it must. `make golden` rewrites the former."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from exporter import config
from exporter.catalog import COMMON_LABELS, METRICS
from exporter.config.web import DEFAULT_PORT
from exporter.gpu.throttle_reasons import REASONS
from exporter.kernel.abi import LossReason
from tests.support.documents import (
    BEGIN,
    COMMON_LABEL_MEANINGS,
    DOCUMENTS,
    END,
    LABEL_MEANINGS,
    LOSS_MEANINGS,
    ROOT,
    THROTTLING_MEANINGS,
    toml_defaults,
)

README = ROOT / "README.md"
PROMTOOL = shutil.which("promtool")
NEEDS_PROMTOOL = pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: install the package prometheus")


def blocks(language: str) -> list[str]:
    """README's fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.M | re.S)


def promtool(*arguments: str) -> str:
    """What `promtool check` says; fails when it complains."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "check", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class TestGeneratedParts:
    """Made by tests/support/documents.py."""

    @pytest.mark.parametrize("name", DOCUMENTS)
    def test_document_is_current(self, name: str) -> None:
        """As the code would make it now."""
        path = ROOT / name
        if os.environ.get("GOLDEN_REWRITE") == "1":
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            path.write_text(DOCUMENTS[name](before), encoding="utf-8")
        text = path.read_text(encoding="utf-8")

        assert DOCUMENTS[name](text) == text, "run `make golden`"

    def test_readme_has_every_metric_once_in_its_table(self) -> None:
        """In the order of the catalogue."""
        generated = README.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]

        assert re.findall(r"^\| `(\w+)` \|", generated, flags=re.M) == [metric.name for metric in METRICS]

    def test_every_common_label_has_a_meaning(self) -> None:
        """And none that does not exist has one."""
        assert tuple(COMMON_LABEL_MEANINGS) == COMMON_LABELS

    def test_every_loss_has_a_meaning(self) -> None:
        """So that a count above zero can be acted on. What was mended is none."""
        assert set(LOSS_MEANINGS) == set(LossReason) - {LossReason.HEALED}

    def test_every_reason_of_throttling_has_a_meaning(self) -> None:
        """Whoever meets one can act on it."""
        assert set(THROTTLING_MEANINGS) == set(REASONS)

    def test_every_label_has_a_meaning(self) -> None:
        """And none that does not exist has one."""
        assert set(LABEL_MEANINGS) == {label for metric in METRICS for label in metric.labels}


class TestFileOfDefaults:
    """The TOML of docs/flags.md."""

    def test_it_says_what_the_defaults_say(self, tmp_path: Path) -> None:
        """And is accepted."""
        file = tmp_path / "exporter.toml"
        file.write_text(toml_defaults(), encoding="utf-8")

        assert config.load({"config.file": str(file)}, {"NODE_NAME": "gpu7"}) == config.load({}, {"NODE_NAME": "gpu7"})

    def test_it_names_every_setting_that_has_a_default(self) -> None:
        """Nobody has to look elsewhere for a key."""
        assert toml_defaults().count(" = ") == sum(bool(setting.default) for setting in config.SETTINGS)


class TestReadme:
    """What a newcomer sees first."""

    def test_the_two_commands_stand_before_everything_else_that_can_be_typed(self) -> None:
        """make run, make test."""
        first = blocks("sh")[0]

        assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make run", "make test"]

    def test_ports_are_the_default_one_and_that_of_otlp(self) -> None:
        """Wherever one is named."""
        ports = set(re.findall(r":(\d{4,5})\b", README.read_text(encoding="utf-8")))

        assert ports == {str(DEFAULT_PORT), "4318"}

    @NEEDS_PROMTOOL
    def test_every_query_can_be_parsed(self, tmp_path: Path) -> None:
        """By Prometheus itself, each as the expression of a rule."""
        rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(blocks("promql"))]
        file = tmp_path / "rules.yaml"
        file.write_text(json.dumps({"groups": [{"name": "readme", "rules": rules}]}), encoding="utf-8")  # JSON is YAML

        assert len(rules) >= 5
        assert f"{len(rules)} rules found" in promtool("rules", str(file))

    @NEEDS_PROMTOOL
    def test_scrape_configuration_is_valid(self, tmp_path: Path) -> None:
        """And honours our labels."""
        (configuration,) = blocks("yaml")
        file = tmp_path / "prometheus.yaml"
        file.write_text(configuration, encoding="utf-8")

        assert "valid prometheus config" in promtool("config", str(file))
        assert "honor_labels: true" in configuration
