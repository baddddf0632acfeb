"""What the documents name exists: metrics, flags, commands, make targets, files. What they forbid is not in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.__main__ import COMMANDS
from exporter.catalog import METRICS, Kind
from exporter.config import SETTINGS
from exporter.config.collectors import COLLECTORS
from tests.support.documents import ROOT

DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix() for pattern in ("*.md", "docs/*.md", "bpf/*.md") for path in ROOT.glob(pattern)
)
EVERY_DOCUMENT = pytest.mark.parametrize("name", DOCUMENTS)

MADE_LATER = {".venv/bin/gpu-stall-exporter", "exporter/kernel/objects/"}
"""Named, but made by `make build`."""

SAMPLES = {metric.name for metric in METRICS} | {
    metric.name + suffix
    for metric in METRICS
    if metric.kind is Kind.HISTOGRAM
    for suffix in ("_bucket", "_sum", "_count")
}
OTHER_FLAGS = {
    "config.file",
    "format",
    "url",
    "interval",
    "sort",
    "filter",
    "once",
    "per-process",
    "since",
    "workload",
    "capsule",
    "confirm",
    "by",
    "yes",
    "replay",
    "rates",
    "output",
    "support-bundle",
    *(f"no-collector.{name}" for name in COLLECTORS),
}
FOREIGN_FLAGS = {"long", "only", "pid", "variant", "write", "web.enable-otlp-receiver"} | {
    *("build", "build-arg", "cap-add", "cap-drop", "name", "no-healthcheck", "platform", "read-only", "secret"),
    *(
        "architecture",
        "gpus",
        "security-opt",
        "tmpfs",
        "uts",
        "volumes",
        "from-file",
        "namespace",
        "server-side",
        "set",
        "now",
    ),
}
"""Of tests.faults, of `docker run`, of debootstrap, of tests.bench, of Prometheus; of Docker, image-steps, kubectl, Helm."""


def text_of(name: str) -> str:
    """One document."""
    return (ROOT / name).read_text(encoding="utf-8")


def quoted(text: str) -> str:
    """Code: what stands between backquotes or in a fenced block. Prose is left out."""
    blocks = re.findall(r"^```.*?^```", text, flags=re.M | re.S)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return "\n".join(blocks + re.findall(r"`([^`\n]+)`", prose))


class TestNames:
    """A reader can type what is written."""

    def test_there_are_documents(self) -> None:
        """So that the tests below say something."""
        assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bpf/README.md", "docs/metrics.md"} <= set(DOCUMENTS)

    @EVERY_DOCUMENT
    def test_every_metric_exists(self, name: str) -> None:
        """In the catalogue, or as a sample of a histogram in it."""
        assert (
            set(re.findall(r"\bgpustall_[a-z0-9_]+\b(?!\*)", text_of(name))) - SAMPLES - {"gpustall_exporter_"} == set()
        )

    @EVERY_DOCUMENT
    def test_every_flag_exists(self, name: str) -> None:
        """Of a command."""
        flags = set(re.findall(r"(?<![\w-])--([a-z][a-z0-9.-]*[a-z0-9])", text_of(name)))

        assert flags - {setting.flag for setting in SETTINGS} - OTHER_FLAGS - FOREIGN_FLAGS == set()

    @EVERY_DOCUMENT
    def test_every_command_exists(self, name: str) -> None:
        """What follows the program's name."""
        assert set(re.findall(r"gpu-stall-exporter (\w+)", quoted(text_of(name)))) <= set(COMMANDS)

    @EVERY_DOCUMENT
    def test_every_make_target_exists(self, name: str) -> None:
        """In the Makefile."""
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.M))

        assert set(re.findall(r"\bmake ([a-z][a-z-]*)", quoted(text_of(name)))) <= targets

    @EVERY_DOCUMENT
    def test_every_file_exists(self, name: str) -> None:
        """That is named with a folder of this tree in front."""
        found = set(re.findall(r"(?<![\w/.-])((?:exporter|bpf|tests|docs|\.venv)/[\w./-]*)", quoted(text_of(name))))

        assert {path for path in found - MADE_LATER if not (ROOT / path).exists()} == set()


class TestLinks:
    """[text](target) and ![picture](target)."""

    @EVERY_DOCUMENT
    def test_relative_link_leads_to_a_file(self, name: str) -> None:
        """From the folder the document is in."""
        folder = (ROOT / name).parent
        targets = re.findall(r"\]\(([^)\s]+)\)", text_of(name))
        relative = [target.partition("#")[0] for target in targets if not target.startswith("https://")]

        assert [target for target in relative if not (folder / target).exists()] == []

    @EVERY_DOCUMENT
    def test_document_can_be_reached(self, name: str) -> None:
        """README, or a document it leads to, links to it; the changelog is found by its name."""
        linked = {
            Path(ROOT / one).parent.joinpath(target).resolve()
            for one in DOCUMENTS
            for target in re.findall(r"\]\(([^)\s#]+)\)", text_of(one))
            if not target.startswith("https://")
        }

        assert name in ("README.md", "CHANGELOG.md") or (ROOT / name).resolve() in linked


class TestWords:
    """How it is said."""

    @EVERY_DOCUMENT
    def test_no_path_of_one_machine(self, name: str) -> None:
        """Only those that every Linux has."""
        assert re.findall(r"(?<![\w.~])/(?:home|root|work|tmp|Users|mnt)/", text_of(name)) == []
