"""Every setting in force; those that may hold a secret are reduced to what is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exporter.config import Config, strict_yaml
from exporter.config.otlp import Receiver, Target
from exporter.support_bundle.redaction import KNOWN_PATHS

_WEB_KEYS = frozenset(
    {
        *(
            "cert",
            "cert_file",
            "key",
            "key_file",
            "client_ca",
            "client_ca_file",
            "client_auth_type",
            "client_allowed_sans",
        ),
        *("min_version", "max_version", "cipher_suites", "curve_preferences", "prefer_server_cipher_suites"),
        *("http2", "headers", "interval", "burst"),
        *("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"),
    }
)


def settings(config: Config) -> dict[str, Any]:
    """Setting -> value. Of the node's name only that it is set, of resource attributes only the keys."""
    return _values(config, without=("node", "web", "orchestrator", "otlp")) | {
        "node": "set",
        "web": _values(config.web, without=("config_file",)) | {"config_file": web_config(config.web.config_file)},
        "orchestrator": _values(config.orchestrator, without=("url", "token_file"))
        | {
            "url": _without_secrets(config.orchestrator.url or ""),
            "has_token": config.orchestrator.token_file.exists(),
        },
        "otlp": {
            "receivers": [_receiver(one) for one in config.otlp.receivers],
            "service_name": config.otlp.resource.service_name,
            "resource_attributes": [key for key, _ in config.otlp.resource.attributes],
        },
    }


def _values(group: Any, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """Field -> value, fit for JSON."""
    values = {one.name: getattr(group, one.name) for one in fields(group) if one.name not in without}
    return {
        name: _values(value) if is_dataclass(value) else str(value) if isinstance(value, Path) else value
        for name, value in values.items()
    }


def _receiver(receiver: Receiver) -> dict[str, Any]:
    signals = {"logs": receiver.logs, "traces": receiver.traces}
    return {
        **_target(receiver),
        "interval_seconds": receiver.interval_seconds,
        "temporality": receiver.temporality,
        "histograms": receiver.histograms,
        **{name: _target(target) if target else None for name, target in signals.items()},
    }


def _target(target: Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "url": _without_secrets(target.url),
        "protocol": target.protocol,
        "compression": target.compression,
        "timeout_seconds": target.timeout_seconds,
        "headers": [name for name, _ in target.headers],
        "has_ca_file": target.ca_file is not None,
        "has_client_certificate": target.client_certificate_file is not None,
    }


def _without_secrets(url: str) -> str:
    """Without user and query, and without unknown parts of the path, which may be a key."""
    if not url:
        return ""
    parts = urlsplit(url)
    path = "/".join(one if one.lower() in KNOWN_PATHS else "…" for one in parts.path.split("/"))
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{path}"


def web_config(path: Path | None) -> Any:
    """Which keys are set, and how many users there are."""
    if path is None:
        return None
    try:
        content = strict_yaml.load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return f"cannot be read: {type(error).__name__}"
    if not isinstance(content, dict):
        return "has no keys"
    return {
        _web_key(key): len(below)
        if key == "basic_auth_users" and isinstance(below, dict)
        else sorted(map(_web_key, below))
        if isinstance(below, dict)
        else "set"
        for key, below in content.items()
    }


def _web_key(key: str) -> str:
    return key if key in _WEB_KEYS else "another key"
