"""config.url: which texts are URLs of servers, and what an error must not repeat."""

from __future__ import annotations

import pytest

from exporter.config.setting import SecretValueError
from exporter.config.url import http_url

EXAMPLE = "https://10.96.0.1:443"


def parsed(text: str, *, with_query: bool = False) -> str:
    return http_url(text, example=EXAMPLE, credentials_flag="--token-file", with_query=with_query)


class TestHttpUrl:
    @pytest.mark.parametrize("text", ["http://a", "https://10.0.0.7:65535", "https://[::1]:1/path"])
    def test_text_itself_is_returned(self, text: str) -> None:
        assert parsed(text) == text

    @pytest.mark.parametrize(
        "text",
        [
            *("ftp://a", "https://", "10.0.0.1:443", "http://a b", "http://a/#b", "http://ä", "http://a\x7f"),
            *("https://a:65536", "https://a:0", "https://a:x", "https://[::1"),
        ],
    )
    def test_other_texts_are_refused_with_an_example(self, text: str) -> None:
        """Ports go from 1 to 65535."""
        with pytest.raises(ValueError, match=f"^want a URL such as {EXAMPLE}$") as raised:
            parsed(text)

        assert not isinstance(raised.value, SecretValueError)

    def test_query_is_refused_unless_it_may_have_one(self) -> None:
        """It may hold a key."""
        assert parsed("http://a/?b=c", with_query=True) == "http://a/?b=c"
        with pytest.raises(SecretValueError, match=r"^want a URL such as"):
            parsed("http://a/?b=c")

    @pytest.mark.parametrize("text", ["https://me@a", "https://me:secret@a", "https://:secret@a"])
    def test_user_or_password_is_refused_with_where_it_belongs(self, text: str) -> None:
        with pytest.raises(SecretValueError) as raised:
            parsed(text)

        assert str(raised.value) == "a URL must not hold a user or a password; use --token-file"

    def test_invalid_url_that_may_hold_a_password_is_a_secret(self) -> None:
        with pytest.raises(SecretValueError, match=r"^want a URL such as"):
            parsed("https://me:secret@a:65536")
