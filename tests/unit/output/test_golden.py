"""Whole expositions, compared with the files in tests/golden. `make golden` rewrites them."""

from __future__ import annotations

import os

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter import catalog
from exporter.output.negotiation import Format
from tests.support.golden import CASES, FILE_OF, FOLDER, OTLP_FILE, exposition, otlp_document

EVERY_CASE = pytest.mark.parametrize("case", CASES)


def kept(case: str, name: str, current: str) -> str:
    """A file of tests/golden; `make golden` first writes the current text into it."""
    path = FOLDER / case / name
    if os.environ.get("GOLDEN_REWRITE") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(current, encoding="utf-8")
    return path.read_text(encoding="utf-8")


class TestGolden:
    """From tables to text."""

    @EVERY_CASE
    @pytest.mark.parametrize("fmt", FILE_OF, ids=lambda fmt: fmt.name)
    def test_exposition_equals_the_golden_file(self, case: str, fmt: Format) -> None:
        """Byte for byte."""
        text = exposition(CASES[case](), fmt)

        assert kept(case, FILE_OF[fmt], text) == text

    @EVERY_CASE
    def test_push_equals_the_golden_file(self, case: str) -> None:
        """Every member of the JSON document, in its order."""
        document = otlp_document(CASES[case]())

        assert kept(case, OTLP_FILE, document) == document

    @EVERY_CASE
    def test_both_formats_have_the_same_samples(self, case: str) -> None:
        """Sample by sample; only `le="1"` is written 1.0 in OpenMetrics."""
        snapshot = CASES[case]()
        text = parse_text(exposition(snapshot, Format.TEXT))
        openmetrics = parse_openmetrics(exposition(snapshot, Format.OPENMETRICS))

        both = [
            [
                (s.name, {**s.labels, "le": float(s.labels.get("le", 0))}, s.value)
                for family in families
                for s in family.samples
            ]
            for families in (text, openmetrics)
        ]
        assert both[0] == both[1]

    def test_training_has_every_workload_metric(self) -> None:
        """So that none is without a golden line."""
        families = CASES["training"]().families

        assert [family.metric for family in families] == list(catalog.WORKLOAD_METRICS)

    def test_training_shows_an_exemplar_of_each_rank_and_of_its_chain(self) -> None:
        """Both formats that have exemplars do."""
        snapshot = CASES["training"]()
        text, pushed = exposition(snapshot, Format.OPENMETRICS), otlp_document(snapshot)

        assert (text.count(' # {pid="'), text.count(' # {trace_id="')) == (2, 1)
        assert (pushed.count('"exemplars"'), pushed.count('"traceId"')) == (3, 1)

    def test_hostile_shows_no_exemplar(self) -> None:
        """Its only one was being written when the tables were read: half of it may be another call's."""
        snapshot = CASES["hostile"]()

        assert " # {" not in exposition(snapshot, Format.OPENMETRICS)
        assert '"exemplars"' not in otlp_document(snapshot)

    def test_no_line_of_the_hostile_case_is_forged(self) -> None:
        """Every line is a comment or one of our samples."""
        lines = exposition(CASES["hostile"](), Format.TEXT).splitlines()

        assert [
            line for line in lines if not line.startswith(("# HELP gpustall_", "# TYPE gpustall_", "gpustall_"))
        ] == []
