"""Why a request has no usable response. Each message is a phrase that follows an address.

HttpFailure
├── CertificateUnusable   a certificate or key file of ours cannot be loaded
├── NameNotResolved
├── ConnectionFailed      unreachable, reset, or closed before the end of the response
│   └── ConnectionRefused
├── TlsFailed             one side does not trust the other, or the server has no TLS
├── ProxyFailed           the proxy opened no tunnel
├── NotHttp
├── ResponseTooLarge
├── DeadlineExceeded
└── RequestCancelled      HttpClient.cancel() was called
"""

from __future__ import annotations

import socket
import ssl

from exporter.errors import ExporterError

_MAX_CHARACTERS = 200
_TLS_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)  # closed without an alert: no verdict on a certificate
CLOSED_EARLY = "connection closed before the response was complete"


class HttpFailure(ExporterError):
    """A request without a usable response."""


class CertificateUnusable(HttpFailure):
    """A certificate or key file cannot be loaded."""


class NameNotResolved(HttpFailure):
    """The host name has no address."""


class ConnectionFailed(HttpFailure):
    """No connection, or it broke."""


class ConnectionRefused(ConnectionFailed):
    """No process listens on the port."""


class TlsFailed(HttpFailure):
    """The TLS handshake failed."""


class ProxyFailed(HttpFailure):
    """The proxy opened no tunnel."""


class NotHttp(HttpFailure):
    """The server does not speak HTTP/1."""


class ResponseTooLarge(HttpFailure):
    """The response exceeds a limit."""


class DeadlineExceeded(HttpFailure):
    """The response was not complete in time."""


class RequestCancelled(HttpFailure):
    """Another thread cancelled the request."""


def failure_of(error: Exception) -> HttpFailure:
    """The failure that an error of the operating system, of TLS or of the resolver amounts to."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(f"certificate not trusted: {error.verify_message}")
    if isinstance(error, _TLS_CLOSED):
        return ConnectionFailed(CLOSED_EARLY)
    if isinstance(error, ssl.SSLError):
        return TlsFailed(f"TLS handshake failed: {error.reason or error}")
    if isinstance(error, socket.gaierror):
        return NameNotResolved(f"cannot resolve the host name: {error.strerror}")
    if isinstance(error, UnicodeError):
        return NameNotResolved("cannot resolve the host name: a label is empty or longer than 63 characters")
    if isinstance(error, ConnectionRefusedError):
        return ConnectionRefused("connection refused")
    reason = getattr(error, "strerror", None) or str(error)[:_MAX_CHARACTERS] or type(error).__name__
    return ConnectionFailed(reason[:1].lower() + reason[1:])
