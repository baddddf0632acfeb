"""The check of every setting that is the URL of a server which the exporter connects to."""

from __future__ import annotations

from urllib.parse import urlsplit

from exporter.config.setting import SecretValueError


def http_url(text: str, *, example: str, credentials_flag: str, with_query: bool = False) -> str:
    """The text itself. An error repeats nothing of one that may hold a password or a key.

    example: of a valid one. credentials_flag: where passwords belong. with_query: whether it may have a query.
    """
    wanted = f"want a URL such as {example}"
    error_type = SecretValueError if {"@", "?"} & set(text) else ValueError
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0  # raises ValueError beyond 65535
    except ValueError:
        raise error_type(wanted) from None
    if parts.username is not None or parts.password is not None:
        raise SecretValueError(f"a URL must not hold a user or a password; use {credentials_flag}")
    is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and has_port
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if not is_http or not is_plain or parts.fragment or (parts.query and not with_query):
        raise error_type(wanted)
    return text
