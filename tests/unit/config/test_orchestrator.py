"""orchestrator: its settings."""

from __future__ import annotations

import pytest

from tests.unit.config.command_line import loaded, refused


class TestUrl:
    @pytest.mark.parametrize("text", ["ftp://a", "https://", "http://a/?b", "10.0.0.1:443", "http://a b"])
    def test_other_texts_than_urls_are_refused(self, text: str) -> None:
        """Also a URL with a query."""
        assert refused(f"--orchestrator.url={text}").endswith("want a URL such as https://10.96.0.1:443")

    def test_password_is_refused_and_not_repeated(self) -> None:
        found = refused("--orchestrator.url=https://me:secret@10.0.0.7")

        assert "secret" not in found
        assert found.endswith("a URL must not hold a user or a password; use --orchestrator.token-file")

    def test_slash_at_the_end_is_dropped(self) -> None:
        assert loaded("--orchestrator.url=https://10.0.0.7:10250/").orchestrator.url == "https://10.0.0.7:10250"
