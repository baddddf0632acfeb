"""Settings of the web server that serves the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from exporter.config.parsers import absolute_file, addresses, count, inverted_switch, path_of_url, switch
from exporter.config.setting import setting

DEFAULT_PORT = 10478  # G-P-U on a keypad
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}/metrics"
"""Where commands look for a running exporter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """listen_addresses: (host, port); host "" is every IPv4 address. config_file: None for plain HTTP without users."""

    listen_addresses: tuple[tuple[str, int], ...] = setting(
        "web.listen-address",
        f"127.0.0.1:{DEFAULT_PORT}",
        addresses,
        "HOST:PORT",
        "address to serve metrics on (repeatable)",
        is_repeated=True,
    )
    with_systemd_sockets: bool = setting(
        "web.systemd-socket", "false", switch, "BOOL", "serve on sockets from systemd, ignore --web.listen-address"
    )
    config_file: Path | None = setting(
        "web.config.file",
        None,
        absolute_file,
        "FILE",
        "YAML file with TLS, users, headers, rate limit (exporter-toolkit format)",
    )
    is_health_open: bool = setting(
        "web.open-health", "false", switch, "BOOL", "serve /healthz and /readyz without authentication"
    )
    with_reload: bool = setting(
        "web.enable-lifecycle", "false", switch, "BOOL", "allow configuration reload by POST /-/reload"
    )
    telemetry_path: str = setting("web.telemetry-path", "/metrics", path_of_url, "PATH", "URL path of the metrics")
    max_requests: int = setting(
        "web.max-requests",
        "40",
        count,
        "N",
        "requests served in parallel; a further one waits 0.8 s, then gets status 503",
    )
    with_exporter_metrics: bool = setting(
        "web.disable-exporter-metrics",
        "false",
        inverted_switch,
        "BOOL",
        "omit gpustall_exporter_* and process_* metrics",
    )
