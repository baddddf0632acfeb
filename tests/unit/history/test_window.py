"""history.window: a window as a document and back."""

from __future__ import annotations

import json

import pytest

from exporter.history.window import NO_STEPS, Window
from exporter.python.call_site import OTHER_STACKS
from tests.support.history import a_call_site, a_stack, a_window, process_labels


class TestDocument:
    @pytest.mark.parametrize(
        "window",
        [
            a_window(),
            a_window(steps=NO_STEPS, lost_ns={}, culprits_ns=(), operations=()),
            a_window(labels=process_labels("")),
            a_window(call_sites=(a_call_site(), a_call_site(api="", operation="other", stack=OTHER_STACKS))),
        ],
        ids=["full", "without steps", "without a rank", "with call sites"],
    )
    def test_survives_json(self, window: Window) -> None:
        """Without the times, which all windows of a batch share."""
        document = json.loads(json.dumps(window.to_document()))

        stacks = {site.stack.number: site.stack for site in window.call_sites}
        assert Window.from_document(document, window.began_unix_ns, window.ended_unix_ns, stacks.__getitem__) == window

    def test_document_of_version_1_has_no_call_sites(self) -> None:
        """The last field was added in version 2."""
        window = a_window()

        assert Window.from_document(window.to_document()[:8], window.began_unix_ns, window.ended_unix_ns) == window

    def test_document_has_the_number_of_a_stack(self) -> None:
        """Whose frames are elsewhere."""
        (site,) = a_window(call_sites=(a_call_site(),)).to_document()[8]

        assert site == ["runtime", "cudaStreamSynchronize", 25_000_000, 23, 1_150_000_000, a_stack().number]

    @pytest.mark.parametrize("document", [[], {}, "window", [1, 2, 3], None])
    def test_other_documents_are_refused(self, document: object) -> None:
        with pytest.raises((TypeError, ValueError)):
            Window.from_document(document, 0, 1)
