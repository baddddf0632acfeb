"""orchestrator: its settings."""

from __future__ import annotations

import pytest

from tests.unit.config.command_line import loaded, refused


class TestUrl:
    @pytest.mark.parametrize("text", ["ftp://a", "https://", "https://a@b", "http://a/?b", "10.0.0.1:443"])
    def test_other_texts_than_urls_are_refused(self, text: str) -> None:
        """Also a URL with a password, or with a query."""
        assert refused(f"--orchestrator.url={text}").endswith("want a URL such as https://10.96.0.1:443")

    def test_slash_at_the_end_is_dropped(self) -> None:
        assert loaded("--orchestrator.url=https://10.0.0.7:10250/").orchestrator.url == "https://10.0.0.7:10250"
