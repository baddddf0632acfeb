"""Failures: what a mistake is called over every transport."""

from __future__ import annotations

import pytest

from exporter.errors import BadInput, ExporterError, NotPossibleHere
from exporter.investigate.mistakes import StatementTooSlow
from exporter.serve.tools.failure import Failure, StatusKind, TooMany, UnknownName


class TestFailure:
    @pytest.mark.parametrize(
        ("error", "kind", "status"),
        [
            (BadInput("x"), "bad_input", 400),
            (UnknownName("x"), "not_found", 404),
            (TooMany("x"), "too_many", 429),
            (NotPossibleHere("x"), "not_possible", 503),
            (StatementTooSlow("x"), "too_slow", 504),
            (ExporterError("x"), "internal", 500),
        ],
    )
    def test_kind_and_status_follow_from_the_type(self, error: ExporterError, kind: str, status: int) -> None:
        """The text is for people."""
        found = Failure.of(error)

        assert (found.kind.label, found.kind.status) == (kind, status)

    def test_document_has_message_and_remedy(self) -> None:
        document = Failure.of(BadInput("since: want a duration", remedy="such as 15m")).document()

        assert document == {
            "error": {
                "kind": "bad_input",
                "status": 400,
                "message": "since: want a duration",
                "remedy": "such as 15m",
            }
        }

    def test_every_kind_has_a_status_of_its_own(self) -> None:
        assert len({kind.status for kind in StatusKind}) == len(StatusKind)
