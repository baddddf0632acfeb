"""history.window: a window as a document and back."""

from __future__ import annotations

import json

import pytest

from exporter.history.window import NO_STEPS, Window
from tests.support.history import a_window, process_labels


class TestDocument:
    @pytest.mark.parametrize(
        "window",
        [
            a_window(),
            a_window(steps=NO_STEPS, lost_ns={}, culprits_ns=(), operations=()),
            a_window(labels=process_labels("")),
        ],
        ids=["full", "without steps", "without a rank"],
    )
    def test_survives_json(self, window: Window) -> None:
        """Without the times, which all windows of a batch share."""
        document = json.loads(json.dumps(window.to_document()))

        assert Window.from_document(document, window.began_unix_ns, window.ended_unix_ns) == window

    @pytest.mark.parametrize("document", [[], {}, "window", [1, 2, 3], None])
    def test_other_documents_are_refused(self, document: object) -> None:
        with pytest.raises((TypeError, ValueError)):
            Window.from_document(document, 0, 1)
