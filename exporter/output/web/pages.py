"""The pages /, /metrics, /call-sites, /healthz, /readyz and /-/reload: a Request -> a Response. No sockets or access rules."""

from __future__ import annotations

import html
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from exporter import __version__, catalog
from exporter.errors import ExporterError
from exporter.model import Snapshot
from exporter.output import protobuf, text
from exporter.output.negotiation import Format, accepts_gzip, choose_format
from exporter.output.own_exposition import OwnExposition
from exporter.output.web.call_sites import NAME, NO_READING, CallSitesReading
from exporter.output.web.call_sites import page as call_sites_page
from exporter.output.web.messages import Request, Response, plain
from exporter.own_metrics.store import OwnMetrics

GZIP_LEVEL = 1  # level 9 costs 8 times the CPU for a sixth less (docs/measurements.md)
HEALTH, READINESS, RELOAD = "/healthz", "/readyz", "/-/reload"
_BLOCK_BYTES = 1 << 16
_GZIP_WINDOW = 31  # zlib: gzip header, largest window


Reload = Callable[[], Sequence[str]]
"""Reloads the configuration. Returns the flags whose change needs a restart. Raises ExporterError when it keeps the old one."""


class Pages:
    """snapshot: returns the current metrics. is_ready: whether a tick has finished. is_alive: whether ticks go on.

    reload: None: disabled. call_sites: the slow calls of every process.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        own: OwnMetrics,
        is_ready: Callable[[], bool],
        *,
        telemetry_path: str = "/metrics",
        with_exporter_metrics: bool = True,
        reload: Reload | None = None,
        is_alive: Callable[[], bool] = lambda: True,
        call_sites: Callable[[], CallSitesReading] = lambda: NO_READING,
    ) -> None:
        self._snapshot = snapshot
        self._own = own
        self._own_exposition = OwnExposition(own)
        self._is_ready = is_ready
        self._is_alive = is_alive
        self._telemetry_path = telemetry_path
        self._with_exporter_metrics = with_exporter_metrics
        self._reload = reload
        self._call_sites = call_sites
        self._call_sites_path = f"{telemetry_path.rpartition('/')[0]}/{NAME}"

    def sharing_key(self, request: Request) -> tuple[object, ...] | None:
        """Concurrent requests with the same key may share a response; None for a page that costs nothing to make."""
        if request.path == self._telemetry_path and request.method in ("GET", "HEAD"):
            return choose_format(request.headers.get("accept", "")), accepts_gzip(request.headers)
        if request.path == self._call_sites_path and request.method in ("GET", "HEAD"):
            return (NAME,)
        if request.path == RELOAD and request.method in ("POST", "PUT"):
            return RELOAD, object()  # never shared: the file may have changed since the last one read it
        return None

    def answer(self, request: Request) -> Response:
        """The response; for HEAD that of GET, whose body is not sent."""
        if request.path == RELOAD:
            return self._reloaded(request)
        if request.method not in ("GET", "HEAD"):
            return plain(405, "only GET and HEAD\n", ("Allow", "GET, HEAD"))
        if request.path == self._telemetry_path:
            return self._metrics(request)
        if request.path == self._call_sites_path:
            return call_sites_page(self._call_sites())
        if request.path == HEALTH:
            return (
                plain(200, "ok\n")
                if self._is_alive()
                else plain(503, "no tick has finished for long: the exporter hangs\n")
            )
        if request.path == READINESS:
            return plain(200, "ready\n") if self._is_ready() else plain(503, "not ready: no tick has finished yet\n")
        if request.path == "/":
            return self._landing()
        return plain(404, f"not found; metrics are at {self._telemetry_path}\n")

    def _metrics(self, request: Request) -> Response:
        fmt = choose_format(request.headers.get("accept", ""))
        snapshot = self._snapshot()
        started_at = time.monotonic()
        headers = [("Content-Type", fmt.value), ("Vary", "Accept, Accept-Encoding")]
        pieces = self._pieces(snapshot, fmt)
        if accepts_gzip(request.headers):
            headers.append(("Content-Encoding", "gzip"))
            pieces = _gzipped(pieces)
        body = tuple(_blocks(pieces))
        self._own.set(catalog.own.RENDER_DURATION, time.monotonic() - started_at, fmt.name.lower())
        return Response(200, tuple(headers), body)

    def _pieces(self, snapshot: Snapshot, fmt: Format) -> Iterator[bytes]:
        if self._with_exporter_metrics:
            yield self._own_exposition.render(fmt)
        if fmt is Format.PROTOBUF:
            yield from protobuf.render(snapshot)
            return
        for piece in text.render(snapshot, fmt):
            yield piece.encode()
        if fmt is Format.OPENMETRICS:
            yield b"# EOF\n"

    def _reloaded(self, request: Request) -> Response:
        if self._reload is None:
            return plain(403, "disabled; --web.enable-lifecycle enables it\n")
        if request.method not in ("POST", "PUT"):
            return plain(405, "only POST and PUT\n", ("Allow", "POST, PUT"))
        try:
            needs_restart = self._reload()
        except ExporterError as error:
            return plain(500, f"not reloaded, keeping the last configuration: {error.one_line()}\n")
        restart = f"; restart for the changes of {', '.join(needs_restart)}" if needs_restart else ""
        return plain(200, f"reloaded{restart}\n")

    def _landing(self) -> Response:
        path, call_sites_path = html.escape(self._telemetry_path), html.escape(self._call_sites_path)
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>gpu-stall-exporter</title>'
            "<style>body{font-family:sans-serif;margin:3em;max-width:40em}li{margin:.4em 0}</style></head><body>"
            f"<h1>gpu-stall-exporter</h1><p>Why a GPU waits. Version {__version__}.</p><ul>"
            f'<li><a href="{path}">{path}</a>: metrics</li>'
            f'<li><a href="{call_sites_path}">{call_sites_path}</a>: lines of Python that made slow calls</li>'
            f'<li><a href="{HEALTH}">{HEALTH}</a>: the exporter is alive</li>'
            f'<li><a href="{READINESS}">{READINESS}</a>: the exporter is ready</li></ul></body></html>\n'
        )
        return Response(200, (("Content-Type", "text/html; charset=utf-8"),), (page.encode(),))


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size_bytes = 0
    for piece in pieces:
        held.append(piece)
        size_bytes += len(piece)
        if size_bytes >= _BLOCK_BYTES:
            yield b"".join(held)
            held, size_bytes = [], 0
    if held:
        yield b"".join(held)


def _gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()
