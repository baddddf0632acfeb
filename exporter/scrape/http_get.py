"""What does a URL answer? One GET of an exposition in Prometheus' protobuf format, within bounds of time and size.

In: a Target. Out: the body and when it was answered. Redirects are followed, to http and https only; a name and password in the
URL are sent as basic authentication to that server alone, and never shown. Proxies are those of the environment, but not for this
machine.
"""

from __future__ import annotations

import base64
import email.utils
import http.client
import ipaddress
import socket
import ssl
import time
import urllib.error
import urllib.request
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from exporter import __version__
from exporter.clock import Moment
from exporter.errors import BadInput, ExporterError
from exporter.units import NANOSECONDS

TIMEOUT_SECONDS: Final = 10.0
BODY_BYTES_MAX: Final = 64 << 20
_CHUNK_BYTES: Final = 1 << 16
_ACCEPT: Final = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
_CONTENT_TYPE: Final = "application/vnd.google.protobuf"
_CLOCKS_AGREE_NS: Final = 2 * NANOSECONDS  # the header Date has whole seconds
WANTED: Final = "want the address of gpu-stall-exporter's metrics, such as http://gpu7:10478/metrics"


class ScrapeFailed(ExporterError):
    """No exposition came: no connection, not in time, an error status, another format, too much of it."""


class ScrapeTarget(NamedTuple):
    """Where to scrape. url: without name and password. shown: also without the query, which may hold a token.

    authorization: a header's value, "" for none.
    """

    url: str
    shown: str
    authorization: str = ""


class ScrapedPage(NamedTuple):
    """The body, and when it was answered, the time of day by the server's clock if that is off."""

    body: bytes
    at: Moment


def target_of(text: str) -> ScrapeTarget:
    """`gpu7:10478` is short for `http://gpu7:10478/metrics`. Raises BadInput, which does not repeat what may be secret."""
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        host, port = url.hostname, url.port
    except ValueError:
        raise BadInput("--url is not a URL", remedy=WANTED) from None
    if url.scheme not in ("http", "https") or not host or not text.isascii() or not text.isprintable() or " " in text:
        raise BadInput("--url is not a URL of http or https", remedy=WANTED)
    where = f"[{host}]" if ":" in host else host
    plain = SplitResult(
        url.scheme,
        f"{where}:{port}" if port else where,
        "/metrics" if url.path in ("", "/") else url.path,
        url.query,
        "",
    )
    authorization = ""
    if url.username is not None:
        name_and_password = f"{unquote(url.username)}:{unquote(url.password or '')}"
        authorization = "Basic " + base64.b64encode(name_and_password.encode()).decode()
    return ScrapeTarget(plain.geturl(), plain._replace(query="").geturl(), authorization)


def fetch(
    target: ScrapeTarget, timeout_seconds: float = TIMEOUT_SECONDS, bytes_max: int = BODY_BYTES_MAX
) -> ScrapedPage:
    """Raises NoAnswer, which names the target and the reason. timeout_seconds: of each wait, and of all of
    the body."""
    request = urllib.request.Request(  # noqa: S310 - target_of() has seen to the scheme
        target.url, headers={"Accept": _ACCEPT, "User-Agent": f"gpu-stall-exporter/{__version__}"}
    )
    if target.authorization:
        request.add_unredirected_header("Authorization", target.authorization)
    until, asked_ns = time.monotonic() + timeout_seconds, time.monotonic_ns()
    try:
        with _opener(target).open(request, timeout=timeout_seconds) as response:
            at = _answered(asked_ns, response.headers.get("Date", ""))
            return ScrapedPage(_body(response, until, bytes_max), at)
    except ScrapeFailed as error:
        raise ScrapeFailed(f"{target.shown}: {error}", remedy=error.remedy) from None
    except urllib.error.HTTPError as error:
        error.close()
        raise ScrapeFailed(
            f"{target.shown}: status {error.code} {error.reason}"[:300], remedy="see that --url has the right path"
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason, remedy = _reason(error, timeout_seconds)
        raise ScrapeFailed(f"{target.shown}: {reason}", remedy=remedy) from None


def _opener(target: ScrapeTarget) -> urllib.request.OpenerDirector:
    """Without the handlers of file: and ftp:, which a redirect could lead to."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler({} if _is_this_machine(target) else None),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _is_this_machine(target: ScrapeTarget) -> bool:
    host = urlsplit(target.url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _answered(asked_ns: int, date: str) -> Moment:
    """Halfway between question and answer. date: of the server, which counts where its clock is another one's."""
    now_ns = time.monotonic_ns()
    at_ns = (asked_ns + now_ns) // 2
    unix_ns = time.time_ns() - (now_ns - at_ns)
    try:
        server_unix_ns = int(email.utils.parsedate_to_datetime(date).timestamp()) * NANOSECONDS
    except (ValueError, TypeError, OverflowError):
        return Moment(at_ns, unix_ns)
    return Moment(at_ns, unix_ns if abs(server_unix_ns - unix_ns) <= _CLOCKS_AGREE_NS else server_unix_ns)


def _body(response: Any, until: float, bytes_max: int) -> bytes:
    kind = response.headers.get_content_type()
    if kind != _CONTENT_TYPE:
        raise ScrapeFailed(f"answers with {kind}, not with metrics in the protobuf format", remedy=WANTED)
    pieces, size_bytes = [], 0
    while piece := response.read1(_CHUNK_BYTES):
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > bytes_max:
            raise ScrapeFailed(f"answers with more than {bytes_max >> 20} MiB, which is too much to show")
        if time.monotonic() > until:
            raise TimeoutError
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(pieces)


def _reason(error: Exception, timeout_seconds: float) -> tuple[str, str]:
    """What went wrong, and what to do."""
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, TimeoutError):
        return f"no whole answer within {timeout_seconds:g} s", "see whether the exporter is overloaded"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused", "start `gpu-stall-exporter run` there, or give --url"
    if isinstance(error, socket.gaierror):
        return f"the name cannot be resolved: {error.strerror}", "give --url with another host"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate cannot be trusted: {error.verify_message}", "set SSL_CERT_FILE to its authority's"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}", "try --url with http"
    if isinstance(error, http.client.HTTPException):
        return f"the answer is no whole HTTP: {type(error).__name__}", WANTED
    return getattr(error, "strerror", None) or str(error)[:200] or type(error).__name__, WANTED
