"""Links of documents to files that do not come with the program."""

from __future__ import annotations

import re

from exporter.assets.documents import PROJECT, linked
from exporter.assets.writing import Assets

NAMES = ("docs/fleet.md", "docs/serve.md", "docs/pictures/fleet.svg", "alerts/runbook.md", "deploy/helm/x/Chart.yaml")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(text: str) -> list[str]:
    """The links of a document of this content, once written."""
    return LINK.findall(linked("docs/fleet.md", text.encode(), NAMES).decode())


class TestLinked:
    def test_file_that_is_written_keeps_its_link(self) -> None:
        """With its heading; a folder that has files is there as well."""
        text = (
            "[a](serve.md#tokens) [b](../alerts/runbook.md) ![c](pictures/fleet.svg) [d](../deploy/helm/) [e](#usage)"
        )

        assert links(text) == [
            "serve.md#tokens",
            "../alerts/runbook.md",
            "pictures/fleet.svg",
            "../deploy/helm/",
            "#usage",
        ]

    def test_source_file_is_a_link_to_the_project(self) -> None:
        """Its heading stays."""
        assert links("[a](../bpf/README.md#maps) [b](../README.md)") == [
            f"{PROJECT}/bpf/README.md#maps",
            f"{PROJECT}/README.md",
        ]

    def test_addresses_are_left_alone(self) -> None:
        assert links("[a](https://example.com/x.md) [b](mailto:a@b)") == ["https://example.com/x.md", "mailto:a@b"]

    def test_other_files_are_unchanged(self) -> None:
        """A rule may hold text that looks like a link."""
        assert linked("alerts/cpu.rules.yaml", b"a](../bpf/README.md)", NAMES) == b"a](../bpf/README.md)"


class TestInstallation:
    def test_every_relative_link_of_a_written_document_leads_to_a_written_file(self) -> None:
        """A user of a wheel has no tree."""
        assets = Assets.of_installation()
        broken = []
        for name in assets.names:
            if name.endswith(".md"):
                text = linked(name, (assets.root / name).read_bytes(), assets.names).decode()
                again = linked(name, text.encode(), assets.names).decode()
                broken += [f"{name}: {target}" for target in LINK.findall(text) if target.startswith("../..")]
                assert again == text

        assert broken == []
