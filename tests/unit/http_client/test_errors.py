"""http_client.errors: what an error of the system, of TLS or of the resolver amounts to."""

from __future__ import annotations

import errno
import os
import socket
import ssl

import pytest

from exporter.http_client.errors import (
    ConnectionFailed,
    ConnectionRefused,
    HttpFailure,
    NameNotResolved,
    TlsFailed,
    failure_of,
)


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError()
    error.verify_message = "self-signed certificate"
    return error


def wrong_version() -> ssl.SSLError:
    error = ssl.SSLError()
    error.reason = "WRONG_VERSION_NUMBER"
    return error


def label_too_long() -> UnicodeError:
    with pytest.raises(UnicodeError) as raised:
        ("a" * 64 + ".example").encode("idna")
    return raised.value


class TestFailureOf:
    @pytest.mark.parametrize(
        ("error", "kind", "message"),
        [
            (untrusted(), TlsFailed, "the server's certificate is not trusted: self-signed certificate"),
            (ssl.SSLEOFError(), ConnectionFailed, "connection closed before the response was complete"),
            (ssl.SSLZeroReturnError(), ConnectionFailed, "connection closed before the response was complete"),
            (wrong_version(), TlsFailed, "TLS handshake failed: WRONG_VERSION_NUMBER"),
            (
                socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
                NameNotResolved,
                "cannot resolve the host name: Name or service not known",
            ),
            (
                label_too_long(),
                NameNotResolved,
                "cannot resolve the host name: a label is empty or longer than 63 characters",
            ),
            (ConnectionRefusedError(), ConnectionRefused, "connection refused"),
            (
                OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)),
                ConnectionFailed,
                "network is unreachable",
            ),
            (OSError("Some words"), ConnectionFailed, "some words"),
            (TimeoutError(), ConnectionFailed, "timeoutError"),
        ],
        ids=lambda value: value.__name__ if isinstance(value, type) else None,
    )
    def test_kind_and_phrase(self, error: Exception, kind: type[HttpFailure], message: str) -> None:
        failure = failure_of(error)

        assert (type(failure), str(failure)) == (kind, message)

    def test_long_text_is_cut(self) -> None:
        """At 200 characters."""
        assert str(failure_of(ValueError("x" * 1000))) == "x" * 200
