"""One POST to an OTLP receiver, through its proxy and with its certificates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from exporter.config.otlp import Target
from exporter.errors import BadInput
from exporter.http_client.client import HttpClient
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import CertificateUnusable
from exporter.http_client.proxy import proxy_for
from exporter.http_client.tls import FollowedContext

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1 << 16


class HttpResponse(NamedTuple):
    """headers: by lower-case name. body: its first MAX_BODY_BYTES."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class OtlpTransport:
    """Posts to one receiver. Raises BadInput when its certificates or its proxy cannot be used."""

    def __init__(self, receiver: Target) -> None:
        url = urlsplit(receiver.url)
        self._target = url._replace(scheme="", netloc="").geturl() or "/"
        self._headers = dict(receiver.headers)
        if url.scheme == "https":
            self._client = HttpClient(url, proxy_for(url), _followed_context(receiver))
        else:
            self._client = HttpClient(url, proxy_for(url))

    def post(self, body: bytes, headers: Mapping[str, str], timeout_seconds: float) -> HttpResponse:
        """Raises HttpFailure. timeout_seconds: from the look-up of the host name to the end of the response."""
        deadline = Deadline.after(timeout_seconds)
        with self._client.request("POST", self._target, {**self._headers, **headers}, deadline, body) as response:
            return HttpResponse(response.status, response.headers, response.read_prefix(MAX_BODY_BYTES))


def _followed_context(receiver: Target) -> FollowedContext:
    """Made at once, so that a file that cannot be used is found at the start."""
    name = f"OTLP receiver {receiver.name} ({receiver.shown_url})"

    def changed(error: CertificateUnusable | None) -> None:
        if error is None:
            log.info("%s: reloaded certificate files", name)
        else:
            log.error("%s: cannot use the changed certificate files, keeping the last ones: %s", name, error.one_line())

    try:
        return FollowedContext(receiver.ca_file, receiver.client_certificate_file, receiver.client_key_file, changed)
    except CertificateUnusable as error:
        raise BadInput(f"OTLP receiver {receiver.name}: {error}", remedy=error.remedy) from error
