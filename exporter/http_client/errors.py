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

import re
import socket
import ssl

from exporter.errors import ExporterError

_MAX_CHARACTERS = 200
_TLS_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)  # closed without an alert: no verdict on a certificate
_ALERT = re.compile(r"ALERT_(.+)")
_ABOUT_CLIENT_CERTIFICATE = {
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_REVOKED": "it was revoked",
    "UNKNOWN_CA": "its authority is not trusted there",
    "BAD_CERTIFICATE": "bad certificate",
    "CERTIFICATE_UNKNOWN": "certificate unknown",
    "UNSUPPORTED_CERTIFICATE": "unsupported certificate",
}
"""Alerts that a server sends about the certificate of its client. Source: RFC 8446, section 6.2."""
CLOSED_EARLY = "connection closed before the response was complete"


class HttpFailure(ExporterError):
    """A request without a usable response."""


class CertificateUnusable(HttpFailure):
    """A certificate or key file cannot be loaded."""


class ClientCertificateUnusable(CertificateUnusable):
    """It is that of the client, or its key."""


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
        return TlsFailed(f"the server's certificate is not trusted: {error.verify_message}")
    if isinstance(error, _TLS_CLOSED):
        return ConnectionFailed(CLOSED_EARLY)
    if isinstance(error, ssl.SSLError):
        return TlsFailed(f"TLS handshake failed: {_tls_reason(error)}")
    if isinstance(error, socket.gaierror):
        return NameNotResolved(f"cannot resolve the host name: {error.strerror}")
    if isinstance(error, UnicodeError):
        return NameNotResolved("cannot resolve the host name: a label is empty or longer than 63 characters")
    if isinstance(error, ConnectionRefusedError):
        return ConnectionRefused("connection refused")
    reason = getattr(error, "strerror", None) or str(error)[:_MAX_CHARACTERS] or type(error).__name__
    return ConnectionFailed(reason[:1].lower() + reason[1:])


def _tls_reason(error: ssl.SSLError) -> str:
    """`SSLV3_ALERT_CERTIFICATE_EXPIRED` says neither who refuses nor what."""
    reason = error.reason or str(error)
    alert = _ALERT.search(reason)
    if alert is None:
        return reason
    name = alert[1]
    if name == "CERTIFICATE_REQUIRED":
        return "the server requires a client certificate"
    if name in _ABOUT_CLIENT_CERTIFICATE:
        return f"the server refuses the client certificate: {_ABOUT_CLIENT_CERTIFICATE[name]}"
    return f"the server refuses it: {name.lower().replace('_', ' ')}"
