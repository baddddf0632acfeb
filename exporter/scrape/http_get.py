"""One scrape: GET of an exposition in Prometheus' protobuf format, or of a document beside it, within bounds of time and size.

A user and password in the URL are sent as basic authentication and never shown. Proxies are those of the environment.
"""

from __future__ import annotations

import email.utils
import time
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from exporter.clock import Moment
from exporter.errors import BadInput, ExporterError
from exporter.http_client.client import HttpClient, ResponseReader
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import (
    ConnectionRefused,
    DeadlineExceeded,
    HttpFailure,
    NameNotResolved,
    ResponseTooLarge,
    TlsFailed,
)
from exporter.http_client.proxy import basic_authorization, proxy_for
from exporter.units import NANOSECONDS

TIMEOUT_SECONDS: Final = 10.0
BODY_BYTES_MAX: Final = 32 << 20
_NOT_FOUND: Final = 404
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_SERVER_ERROR: Final = 500
_CLOCKS_AGREE_NS: Final = 2 * NANOSECONDS  # the header Date has whole seconds
_MAX_CHARACTERS: Final = 200
WANTED: Final = "want the address of gpu-stall-exporter's metrics, such as http://gpu7:10478/metrics"
_REMEDIES: Final = {
    ConnectionRefused: "start `gpu-stall-exporter run` there, or give --url",
    DeadlineExceeded: "see whether the exporter is overloaded",
    NameNotResolved: "give --url with another host",
    TlsFailed: "set SSL_CERT_FILE to the certificate of its authority, or give --url with http",
}


class PageFormat(NamedTuple):
    """accept, content_type: of the request and of the response. name: for a message."""

    accept: str
    content_type: str
    name: str


METRICS: Final = PageFormat(
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
    "application/vnd.google.protobuf",
    "metrics in the protobuf format",
)
DOCUMENT: Final = PageFormat("application/json", "application/json", "a JSON document")


class ScrapeFailed(ExporterError):
    """No exposition: no connection, not in time, an error status, another format, too large."""


class OtherResponse(ScrapeFailed):
    """The address answers, but not with an exposition: it can be corrected, as a BadInput."""

    exit_code = BadInput.exit_code


class NotFound(OtherResponse):
    """The server has no such page: status 404."""


class ScrapeTarget(NamedTuple):
    """url: without user and password. shown: also without the query, which may hold a token. authorization: "" for none."""

    url: str
    shown: str
    authorization: str = ""

    def beside(self, name: str) -> ScrapeTarget:
        """The page of this name in the same folder, with the same query and authorization."""
        url, shown = urlsplit(self.url), urlsplit(self.shown)
        path = f"{url.path.rpartition('/')[0]}/{name}"
        return self._replace(url=url._replace(path=path).geturl(), shown=shown._replace(path=path).geturl())


class ScrapedPage(NamedTuple):
    """at: when the server answered, with its own time of day if its clock is off."""

    body: bytes
    at: Moment


def parse_target(text: str) -> ScrapeTarget:
    """`gpu7:10478` is short for `http://gpu7:10478/metrics`. Raises BadInput, which does not repeat what may be secret."""
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        host, port = url.hostname, url.port
    except ValueError:
        raise BadInput("--url is not a URL", remedy=WANTED) from None
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if url.scheme not in ("http", "https") or not host or port == 0 or not is_plain:
        raise BadInput("--url is not an http or https URL", remedy=WANTED)
    where = f"[{host}]" if ":" in host else host
    plain = SplitResult(
        url.scheme,
        f"{where}:{port}" if port else where,
        "/metrics" if url.path in ("", "/") else url.path,
        url.query,
        "",
    )
    authorization = "" if url.username is None else basic_authorization(url)
    return ScrapeTarget(plain.geturl(), plain._replace(query="").geturl(), authorization)


def fetch(
    target: ScrapeTarget,
    timeout_seconds: float = TIMEOUT_SECONDS,
    bytes_max: int = BODY_BYTES_MAX,
    wanted: PageFormat = METRICS,
) -> ScrapedPage:
    """Raises ScrapeFailed, which names the target and the reason. timeout_seconds: from connecting to the last byte."""
    url = urlsplit(target.url)
    client = HttpClient(url, proxy_for(url))
    path = url._replace(scheme="", netloc="").geturl()
    headers = {"Accept": wanted.accept, **({"Authorization": target.authorization} if target.authorization else {})}
    sent_ns = time.monotonic_ns()
    try:
        with client.request("GET", path, headers, Deadline.after(timeout_seconds)) as response:
            at = _answered_at(sent_ns, response.headers.get("date", ""))
            _check_head(response, wanted, with_password=bool(target.authorization))
            return ScrapedPage(bytes(response.read(bytes_max)), at)
    except ScrapeFailed as error:
        raise type(error)(f"{target.shown}: {error}", remedy=error.remedy) from None
    except ResponseTooLarge:
        raise OtherResponse(f"{target.shown}: response larger than {bytes_max >> 20} MiB", remedy=WANTED) from None
    except HttpFailure as error:
        raise ScrapeFailed(f"{target.shown}: {error}", remedy=_REMEDIES.get(type(error), WANTED)) from None


def _answered_at(sent_ns: int, date: str) -> Moment:
    """Halfway between request and response. date: of the server; its time of day is used where the clocks differ."""
    now_ns = time.monotonic_ns()
    at_ns = (sent_ns + now_ns) // 2
    unix_ns = time.time_ns() - (now_ns - at_ns)
    try:
        server_unix_ns = int(email.utils.parsedate_to_datetime(date).timestamp()) * NANOSECONDS
    except (ValueError, TypeError, OverflowError):
        return Moment(at_ns, unix_ns)
    return Moment(at_ns, unix_ns if abs(server_unix_ns - unix_ns) <= _CLOCKS_AGREE_NS else server_unix_ns)


def _check_head(response: ResponseReader, wanted: PageFormat, *, with_password: bool) -> None:
    if 300 <= response.status < 400:
        location = response.headers.get("location", "nowhere")[:_MAX_CHARACTERS]
        raise OtherResponse(f"status {response.status}: redirects to {location}", remedy="give --url that address")
    if not 200 <= response.status < 300:
        raise (NotFound if response.status == _NOT_FOUND else OtherResponse)(
            f"status {response.status} {response.reason[:_MAX_CHARACTERS]}".rstrip(),
            remedy=_remedy_of_status(response.status, with_password=with_password),
        )
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != wanted.content_type:
        raise OtherResponse(
            f"content type {content_type[:_MAX_CHARACTERS] or 'missing'}, not {wanted.name}",
            remedy=WANTED,
        )


def _remedy_of_status(status: int, *, with_password: bool) -> str:
    """The command line of a password can be read by every user of the machine, a variable cannot: it is named as well."""
    if status == _UNAUTHORIZED:
        return (
            "user or password of --url is wrong"
            if with_password
            else "set --url or GPUSTALL_URL to http://USER:PASSWORD@HOST:PORT, with a user of its --web.config.file"
        )
    if status == _FORBIDDEN:
        return (
            "access is denied: give --url a user who may read metrics, or ask the operator of the proxy in front of it"
        )
    if status >= _SERVER_ERROR:
        return "see the log of the exporter, or of the proxy in front of it"
    return "check the path in --url"
