"""Metrics, flags, commands, make targets and files that documents and sources name exist; every page is in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import ROOT
from docs.generate.overhead import overhead
from exporter.__main__ import COMMANDS
from exporter.catalog import CLUSTER_METRICS, METRICS, Kind
from exporter.causes import CHAIN_CAUSES, Cause
from exporter.config import SETTINGS
from exporter.config.collectors import COLLECTORS
from tests.support.prose import files, prose

DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix() for pattern in ("*.md", "docs/*.md", "bpf/*.md") for path in ROOT.glob(pattern)
)
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")
EVERY_PAGE = pytest.mark.parametrize("name", PAGES)
LINKED = [*DOCUMENTS, "alerts/README.md", "alerts/runbook.md", "dashboards/README.md"]
EVERY_LINKED = pytest.mark.parametrize("name", LINKED)
EVERY_DOCUMENT = pytest.mark.parametrize("name", DOCUMENTS)

AUDIENCE = re.compile(r"# [^\n]+\n\n(?:<!--[^\n]*-->\n\n)?For \w")
"""Heading, perhaps a comment, and a paragraph that begins with "For" and names its readers."""

MADE_LATER = {".venv/bin/gpu-stall-exporter", "exporter/kernel/objects/"}
"""Named, but made by `make build`."""

PATH = re.compile(r"(?<![\w/.:@$}-])((?:exporter|bpf|tests|docs|alerts|dashboards)/[\w./-]*)")
OTHER_PATHS = {
    "docs/specification.md": "a file of the OTLP repository",
    "exporter/assets/files": "made by the build of a wheel",
    "exporter/a/__pycache__/b.pyc": "made up by a test",
    "exporter/kernel/rows.py": "to be corrected in bpf/",
    "exporter/top.proto": "the name of a protobuf descriptor that no file holds",
    "tests/standin/build": "made by `make build`",
    "tests/sglang": "a directory that a test makes up",
}
"""Paths in sources that are no files of this tree, and why."""

SAMPLES = {metric.name for metric in METRICS + CLUSTER_METRICS} | {
    metric.name + suffix
    for metric in METRICS
    if metric.kind is Kind.HISTOGRAM
    for suffix in ("_bucket", "_sum", "_count")
}
OTHER_FLAGS = {
    "at",
    "grpc.listen-address",
    "store.max-bytes",
    "store.path",
    "store.retention",
    "chain",
    "compare",
    "config.file",
    "deadline",
    "format",
    "url",
    "interval",
    "sort",
    "filter",
    "follow",
    "for",
    "lines",
    "max-bytes",
    "list",
    "name",
    "merge",
    "nodes",
    "nodes.ca",
    "nodes.cert",
    "nodes.deadline",
    "nodes.insecure",
    "nodes.key",
    "nodes.server-name",
    "nodes.token-file",
    "require-all",
    "once",
    "per-process",
    "resolution",
    "schema",
    "since",
    "workload",
    "recording",
    "confirm",
    "confirm-by",
    "yes",
    "force",
    "replay",
    "rates",
    "output",
    "runbook-url",
    "support-bundle",
    "make-certificate",
    "new-token",
    "web.allowed-hosts",
    "web.insecure-no-tls",
    "web.insecure-no-tokens",
    "web.token-file",
    *(f"no-collector.{name}" for name in COLLECTORS),
}
FOREIGN_FLAGS = {
    "field-selector",  # kubectl
    "cacert",  # curl
    "json",
    "cert",  # kubectl
    "key",
    "allow-uprobes",  # criu
    "nv",  # apptainer
    "group-add",  # docker
    "rm",
    "user",
    "image-architecture",  # deploy.release
    "all",
    "long",
    "only",
    "trials",
    "seed",
    "help",
    "live",
    "pid",
    "variant",
    "write",
    "web.enable-otlp-receiver",
} | {
    *("build", "build-arg", "cap-add", "cap-drop", "no-healthcheck", "platform", "read-only", "secret"),
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
"""Flags of tests.faults, docker, debootstrap, tests.bench, Prometheus, image-steps, kubectl and Helm."""


def text_of(name: str) -> str:
    """Content of one document."""
    return (ROOT / name).read_text(encoding="utf-8")


def quoted(text: str) -> str:
    """Code between backquotes and in fenced blocks, without the prose."""
    blocks = re.findall(r"^```.*?^```", text, flags=re.M | re.S)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return "\n".join(blocks + re.findall(r"`([^`\n]+)`", prose))


def anchors_of(path: Path) -> set[str]:
    """Anchors of the headings of a page."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", prose, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class TestNames:
    """Names in documents."""

    def test_there_are_documents(self) -> None:
        """The tests below would pass without any."""
        assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bpf/README.md", "docs/metrics.md"} <= set(DOCUMENTS)

    @EVERY_DOCUMENT
    def test_every_metric_exists(self, name: str) -> None:
        """In the catalogue, or as a sample of one of its histograms."""
        assert (
            set(re.findall(r"\bgpustall_[a-z0-9_]+\b(?!\*)", text_of(name))) - SAMPLES - {"gpustall_exporter_"} == set()
        )

    @EVERY_DOCUMENT
    def test_every_flag_exists(self, name: str) -> None:
        """A command accepts it."""
        flags = set(re.findall(r"(?<![\w-])--([a-z][a-z0-9.-]*[a-z0-9])", text_of(name)))

        assert flags - {setting.flag for setting in SETTINGS} - OTHER_FLAGS - FOREIGN_FLAGS == set()

    @EVERY_DOCUMENT
    def test_every_command_exists(self, name: str) -> None:
        """The word after the program's name."""
        assert set(re.findall(r"gpu-stall-exporter (\w+)", quoted(text_of(name)))) <= set(COMMANDS)

    @EVERY_DOCUMENT
    def test_every_make_target_exists(self, name: str) -> None:
        """In the Makefile."""
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.M))

        assert set(re.findall(r"\bmake ([a-z][a-z-]*)", quoted(text_of(name)))) <= targets

    @EVERY_DOCUMENT
    def test_every_file_exists(self, name: str) -> None:
        """Paths that begin with a folder of this tree."""
        found = set(re.findall(r"(?<![\w/.-])((?:exporter|bpf|tests|docs|\.venv)/[\w./-]*)", quoted(text_of(name))))

        assert {path for path in found - MADE_LATER if not (ROOT / path).exists()} == set()


class TestLinks:
    """[text](target) and ![picture](target)."""

    @EVERY_LINKED
    def test_relative_link_leads_to_a_file(self, name: str) -> None:
        """From the folder the document is in."""
        folder = (ROOT / name).parent
        targets = re.findall(r"\]\(([^)\s]+)\)", text_of(name))
        relative = [target.partition("#")[0] for target in targets if not target.startswith("https://")]

        assert [target for target in relative if not (folder / target).exists()] == []

    @EVERY_LINKED
    def test_anchor_of_a_link_is_a_heading(self, name: str) -> None:
        """By GitHub's rule for headings."""
        path = ROOT / name
        links = [target.partition("#") for target in re.findall(r"\]\(([^)\s]*#[^)\s]+)\)", text_of(name))]
        pages = [(path.parent / page if page else path, anchor) for page, _, anchor in links if "://" not in page]

        assert [anchor for page, anchor in pages if page.suffix == ".md" and anchor not in anchors_of(page)] == []

    @EVERY_LINKED
    def test_document_can_be_reached(self, name: str) -> None:
        """Another document links to it; README and the changelog are found by their names."""
        linked = {
            Path(ROOT / one).parent.joinpath(target).resolve()
            for one in LINKED
            for target in re.findall(r"\]\(([^)\s#]+)\)", text_of(one))
            if not target.startswith("https://")
        }

        assert name in ("README.md", "CHANGELOG.md") or (ROOT / name).resolve() in linked


class TestSources:
    """Paths in comments, docstrings and strings of C, Python and YAML."""

    @pytest.mark.parametrize("suffix", [".c", ".h", ".py", ".yaml", ".yml", ".toml", "Makefile"])
    def test_every_path_exists(self, suffix: str) -> None:
        """Those that begin with a folder of this tree."""

        def missing(text: str) -> list[str]:
            found = (path.rstrip(".-/") for path in PATH.findall(text))
            return [path for path in found if path not in OTHER_PATHS and not (ROOT / path).exists()]

        # Of most files, not even the code has one that is missing.
        names = [name for name in files() if name.endswith(suffix) and missing(text_of(name))]

        assert [
            f"{name}:{number}: {one}" for name in names for number, line in prose(name) for one in missing(line)
        ] == []


class TestCauses:
    """Tables with a row for each cause."""

    def test_chains_page_has_each_cause_of_a_chain_once(self) -> None:
        """A second row would say something else one day."""
        section = text_of("docs/chains.md").partition("\n## Causes\n")[2].partition("\n## ")[0]

        assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(CHAIN_CAUSES)

    def test_runbook_has_each_cause_once(self) -> None:
        """Those of lost time included, which the boards show."""
        section = text_of("alerts/runbook.md").partition("\n## Causes\n")[2].partition("\n## ")[0]

        assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(Cause)


class TestFigures:
    """What the exporter costs is measured once, in docs/measurements.md; docs/faq.md has a part that is made from it."""

    COST = re.compile(
        r"\bmicroseconds? (?:each|a call|per call)|calls? (?:costs?|takes?) [^.]*?(?:µs|microsecond)|% longer|% of a core\b"
        r"|exporter (?:uses|takes|needs) [^.|]*?\bM(?:i)?B"
    )
    GENERATED = re.compile(r"<!-- overhead: begin.*?<!-- overhead: end -->", re.DOTALL)
    MEASURED_THERE = frozenset(("docs/measurements.md", "docs/comparison.md", "CHANGELOG.md"))
    """The source, the cost of other tools, and what was true of a version."""

    @EVERY_DOCUMENT
    def test_no_other_page_has_a_figure_of_its_own(self, name: str) -> None:
        """Two that were measured on different days contradict each other."""
        text = self.GENERATED.sub("", text_of(name))

        assert name in self.MEASURED_THERE or self.COST.findall(text) == []

    def test_figure_that_was_not_measured_is_an_error(self) -> None:
        """So that a renamed row of `make bench` is noticed."""
        with pytest.raises(ValueError, match="has no row"):
            overhead("| figure | measured |\n| --- | --- |\n")


class TestIndex:
    """docs/README.md."""

    @EVERY_PAGE
    def test_page_is_in_the_index(self, name: str) -> None:
        """With a link."""
        assert f"]({name})" in text_of("docs/README.md")

    @EVERY_PAGE
    def test_page_names_its_readers_first(self, name: str) -> None:
        """The first paragraph begins with "For operators who …:" or the like."""
        assert AUDIENCE.match(text_of(f"docs/{name}"))


class TestExplainDocument:
    """The fields of `explain --format=json`, in docs/history.md."""

    def test_every_field_is_documented(self) -> None:
        """Fields with a name of their own."""
        modules = ("document", "comparison_text")
        source = "".join((ROOT / f"exporter/explain/{one}.py").read_text(encoding="utf-8") for one in modules)
        documented = re.findall(r"`(\w+)`", text_of("docs/history.md").partition("## JSON document")[2])

        assert set(re.findall(r'"(\w+)":', source)) - {"name", "share_ratio"} <= set(documented)


class TestWords:
    """Wording."""

    @EVERY_DOCUMENT
    def test_no_path_of_one_machine(self, name: str) -> None:
        """Only those that every Linux has."""
        assert re.findall(r"(?<![\w.~])/(?:home|root|work|tmp|Users|mnt)/", text_of(name)) == []
