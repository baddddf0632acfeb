"""Where to push to: the receivers that flags, file and environment name, each with everything a push needs to know.

The flags and the variables of OpenTelemetry describe the receiver `default`; the file may have more, each in a table of its
own, `[otlp.receiver.NAME]`. A receiver of the file takes nothing from the environment: no one's token reaches another.
A receiver is where metrics go; logs and traces go beside them, or where their own variables say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from exporter.config.settings import (
    Parse,
    SecretValueError,
    Setting,
    duration,
    in_any_case,
    milliseconds,
    name,
    one_of,
    readable_file,
    switch,
)
from exporter.errors import BadInput

DEFAULT_RECEIVER = "default"
RECEIVER_TABLE = "otlp.receiver."
MAX_RECEIVERS = 8
MIN_INTERVAL_SECONDS = 0.2
METRICS, LOGS, TRACES = "metrics", "logs", "traces"

Headers = tuple[tuple[str, str], ...]

_RECEIVER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OUR_HEADERS = {
    *("accept-encoding", "connection", "content-encoding", "content-length", "content-type"),
    *("expect", "host", "proxy-authorization", "transfer-encoding"),
}
_ONE_PROTOCOL = one_of("http/json", "http/protobuf")
_ONE_COMPRESSION = one_of("gzip", "none")
_ONE_TEMPORALITY = one_of("cumulative", "delta", "lowmemory")
_AGGREGATIONS = {"explicit_bucket_histogram": "explicit", "base2_exponential_bucket_histogram": "exponential"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one signal goes, and how. name: of the receiver. timeout_seconds: of one request, from connecting on."""

    name: str
    url: str
    protocol: str
    compression: str
    timeout_seconds: float
    headers: Headers
    ca_file: Path | None
    client_certificate_file: Path | None
    client_key_file: Path | None

    @property
    def shown_url(self) -> str:
        """The URL without its query, which may hold a key."""
        return urlsplit(self.url)._replace(query="").geturl()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver(Target):
    """One place to push to. name: its label. As a Target it is that of the metrics. logs, traces: None where it gets none."""

    interval_seconds: float
    temporality: str
    histograms: str
    logs: Target | None
    traces: Target | None


def _url(text: str) -> str:
    """A URL that can be posted to. Nothing of it is shown when it may hold a password or a key."""
    wanted = "want a URL such as http://localhost:4318"
    error_type = SecretValueError if {"@", "?"} & set(text) else ValueError
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise error_type(wanted) from None
    if parts.username is not None or parts.password is not None:
        raise SecretValueError("a URL must not hold a user or a password; use --otlp.headers-file")
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port or parts.fragment or not is_plain:
        raise error_type(wanted)
    return text


def _below(signal: str) -> Parse:
    """A parser for the URL of a signal below a base: http://localhost:4318 -> http://localhost:4318/v1/metrics.

    A base that ends in the path of the metrics has that of another signal in its place.
    """

    def parse(text: str) -> str:
        parts = urlsplit(_url(text))
        path = parts.path.rstrip("/").removesuffix(_path_of(METRICS))
        return parts._replace(path=path + _path_of(signal)).geturl()

    return parse


def _path_of(signal: str) -> str:
    return f"/v1/{signal}"


def _protocol(text: str) -> str:
    if text == "grpc":
        raise ValueError("gRPC is not spoken here; want http/protobuf or http/json, usually on port 4318")
    return str(_ONE_PROTOCOL(text))


def _aggregation(text: str) -> str:
    return _AGGREGATIONS[one_of(*_AGGREGATIONS)(text.lower())]


def _headers(text: str) -> Headers:
    """`api-key=secret,x-scope=a%20b`, the values percent-encoded, as OpenTelemetry's variable has them."""
    pairs = [(f"header {n}", part.strip()) for n, part in enumerate(text.split(","), 1) if part.strip()]
    return tuple(_header(where, pair, unquote) for where, pair in pairs)


def _headers_file(text: str) -> Headers:
    """A header a line, `name=value` as it is; empty lines and those that begin with # are left out."""
    try:
        lines = readable_file(text).read_text(encoding="ascii").splitlines()
    except UnicodeDecodeError:
        raise ValueError("want ASCII: one name=value a line") from None
    wanted = [(f"line {n} of {text}", line.strip()) for n, line in enumerate(lines, 1) if line.strip()]
    return tuple(_header(where, line, str) for where, line in wanted if not line.startswith("#"))


def _header(where: str, pair: str, decode: type[str] | object) -> tuple[str, str]:
    header, equals, value = pair.partition("=")
    header, value = header.strip(), str(decode(value.strip()))  # type: ignore[operator]
    if not equals:
        raise SecretValueError(f"{where} has no `=`; want name=value")
    if not _HEADER_NAME.fullmatch(header):
        raise SecretValueError(f"the name of {where} is no header's name")
    if header.lower() in _OUR_HEADERS:
        raise SecretValueError(f"{where} sets {header.lower()}, which the exporter sets itself")
    if not (value.isascii() and value.isprintable()):
        raise SecretValueError(f"the value of {where} has characters that no header may have")
    return header, value


def _attributes(text: str) -> Headers:
    """`deployment.environment.name=prod,team=a%20b`, as OpenTelemetry's variable has them."""
    found = []
    for pair in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = pair.partition("=")
        key, value = unquote(key.strip()), unquote(value.strip())
        if not (equals and key and (key + value).isprintable()):
            raise ValueError("want key=value pairs with commas between them, values percent-encoded")
        found.append((key, value))
    return tuple(found)


def _names_otlp(text: str) -> bool:
    """Whether a list of exporters names this protocol: `otlp`, `console,otlp`; not `none`."""
    return "otlp" in (one.strip() for one in text.split(","))


def _interval(parse: Parse) -> Parse:
    """A parser that takes no time in which snapshots are shared: two pushes would tell the same moment."""

    def parse_interval(text: str) -> float:
        seconds = float(parse(text))
        if seconds < MIN_INTERVAL_SECONDS:
            raise ValueError("want at least 200 milliseconds")
        return seconds

    return parse_interval


def _variables(suffix: str) -> tuple[str, str]:
    """The variable of the metrics, which goes first, and the one of all signals."""
    return f"OTEL_EXPORTER_OTLP_METRICS_{suffix}", f"OTEL_EXPORTER_OTLP_{suffix}"


RECEIVER_SETTINGS = (
    Setting(
        "otlp.endpoint",
        "",
        _below(METRICS),
        "URL",
        "push to this OTLP/HTTP receiver, such as http://localhost:4318; /v1/metrics is added, and /v1/logs and /v1/traces",
        dict(zip(_variables("ENDPOINT"), (_url, _below(METRICS)), strict=True)),
    ),
    Setting(
        "otlp.logs",
        "true",
        switch,
        "BOOL",
        "push a log record when a causal chain opens, escalates or is resolved",
        {"OTEL_LOGS_EXPORTER": _names_otlp},
    ),
    Setting(
        "otlp.traces",
        "true",
        switch,
        "BOOL",
        "push a span for each causal chain that is over",
        {"OTEL_TRACES_EXPORTER": _names_otlp},
    ),
    Setting(
        "otlp.protocol",
        "http/json",
        _protocol,
        "PROTOCOL",
        "http/json or http/protobuf",
        dict.fromkeys(_variables("PROTOCOL"), in_any_case(_protocol)),
    ),
    Setting(
        "otlp.compression",
        "gzip",
        _ONE_COMPRESSION,
        "HOW",
        "gzip or none",
        dict.fromkeys(_variables("COMPRESSION"), in_any_case(_ONE_COMPRESSION)),
    ),
    Setting(
        "otlp.interval",
        "15s",
        _interval(duration),
        "DURATION",
        "time between pushes, at least 200ms",
        {"OTEL_METRIC_EXPORT_INTERVAL": _interval(milliseconds)},
    ),
    Setting(
        "otlp.timeout",
        "10s",
        duration,
        "DURATION",
        "how long one request may take, from connecting to the end of the answer",
        dict.fromkeys(_variables("TIMEOUT"), milliseconds),
    ),
    Setting(
        "otlp.temporality",
        "cumulative",
        _ONE_TEMPORALITY,
        "WHICH",
        "cumulative, or delta as Datadog wants it; lowmemory is delta here",
        {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": in_any_case(_ONE_TEMPORALITY)},
    ),
    Setting(
        "otlp.histograms",
        "exponential",
        one_of("exponential", "explicit"),
        "WHICH",
        "exponential without loss, or explicit with the buckets of /metrics",
        {"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": _aggregation},
    ),
    Setting(
        "otlp.headers-file",
        "",
        _headers_file,
        "FILE",
        "headers of every request, one name=value a line; for tokens, which do not belong into a command line",
        dict.fromkeys(_variables("HEADERS"), _headers),
    ),
    Setting(
        "otlp.ca-file",
        "",
        readable_file,
        "FILE",
        "certificates (PEM) to trust instead of the system's",
        dict.fromkeys(_variables("CERTIFICATE"), readable_file),
    ),
    Setting(
        "otlp.client-certificate-file",
        "",
        readable_file,
        "FILE",
        "certificate (PEM) to show to the receiver",
        dict.fromkeys(_variables("CLIENT_CERTIFICATE"), readable_file),
    ),
    Setting(
        "otlp.client-key-file",
        "",
        readable_file,
        "FILE",
        "its private key (PEM), without a passphrase",
        dict.fromkeys(_variables("CLIENT_KEY"), readable_file),
    ),
)
"""Of one receiver."""

RESOURCE_SETTINGS = (
    Setting(
        "otlp.service-name",
        "",
        name,
        "NAME",
        "service.name of everything that is pushed; else that of the attributes, else gpu-stall-exporter",
        {"OTEL_SERVICE_NAME": name},
    ),
    Setting(
        "otlp.resource-attributes",
        "",
        _attributes,
        "KEY=VALUE,…",
        "more attributes of every resource, values percent-encoded",
        {"OTEL_RESOURCE_ATTRIBUTES": _attributes},
    ),
)
"""Of all receivers."""

_RECEIVER_KEYS = {setting.flag.removeprefix("otlp."): setting for setting in RECEIVER_SETTINGS}


def is_receiver_key(flag: str) -> bool:
    """Whether a dotted key of the file belongs to a table of a receiver: `otlp.receiver.datadog.endpoint`."""
    return flag.startswith(RECEIVER_TABLE) and flag.removeprefix(RECEIVER_TABLE).partition(".")[2] in _RECEIVER_KEYS


def receivers(texts: Mapping[str, tuple[str, str]], environment: Mapping[str, str]) -> tuple[Receiver, ...]:
    """Every receiver that has an endpoint, the default one first. texts: flag -> (text, where it stands)."""
    found = tuple(_all(texts, environment))
    if len(found) > MAX_RECEIVERS:
        raise BadInput(f"{len(found)} OTLP receivers are too many", remedy=f"name at most {MAX_RECEIVERS}")
    return found


def _all(texts: Mapping[str, tuple[str, str]], environment: Mapping[str, str]) -> Iterator[Receiver]:
    if receiver := _receiver(DEFAULT_RECEIVER, texts, {} if _is_switched_off(environment) else environment):
        yield receiver
    names = sorted({flag.removeprefix(RECEIVER_TABLE).partition(".")[0] for flag in texts if is_receiver_key(flag)})
    for one in names:
        table = f"{RECEIVER_TABLE}{one}"
        if not _RECEIVER_NAME.fullmatch(one) or one == DEFAULT_RECEIVER:
            raise BadInput(
                f"[{table}]: {one!r} is no name for a receiver",
                remedy="use small letters, digits, - and _, at most 31, and not `default`, which the flags describe",
            )
        own = {f"otlp.{key}": texts[f"{table}.{key}"] for key in _RECEIVER_KEYS if f"{table}.{key}" in texts}
        receiver = _receiver(one, own, {})
        if receiver is None:
            raise BadInput(f"[{table}] has no endpoint", remedy='add `endpoint = "http://…:4318"`')
        yield receiver


def _is_switched_off(environment: Mapping[str, str]) -> bool:
    """Whether the environment that names a receiver also says not to use it."""
    exporters = environment.get("OTEL_METRICS_EXPORTER", "").strip(", ")
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return is_disabled or (bool(exporters) and not _names_otlp(exporters))


def _receiver(
    receiver_name: str, texts: Mapping[str, tuple[str, str]], environment: Mapping[str, str]
) -> Receiver | None:
    has_endpoint = _RECEIVER_KEYS["endpoint"].value(texts, environment) is not None
    # What the environment says of a push that nobody asked for is no concern of ours, be it right or wrong.
    environment = environment if has_endpoint else {}
    values = {key: setting.value(texts, environment) for key, setting in _RECEIVER_KEYS.items()}
    if not has_endpoint:
        return None
    metrics = _target(receiver_name, values)
    logs, traces = (
        _beside(metrics, signal, texts, environment) if values[signal] else None for signal in (LOGS, TRACES)
    )
    return Receiver(
        **metrics,
        interval_seconds=values["interval"],
        temporality="cumulative" if values["temporality"] == "cumulative" else "delta",
        histograms=values["histograms"],
        logs=logs,
        traces=traces,
    )


def _target(receiver_name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Target."""
    if values["client-key-file"] and not values["client-certificate-file"]:
        raise BadInput(f"OTLP receiver {receiver_name}: a client key without a client certificate")
    return {
        "name": receiver_name,
        "url": values["endpoint"],
        "protocol": values["protocol"],
        "compression": values["compression"],
        "timeout_seconds": values["timeout"],
        "headers": values["headers-file"] or (),
        "ca_file": values["ca-file"],
        "client_certificate_file": values["client-certificate-file"],
        "client_key_file": values["client-key-file"],
    }


def _beside(
    metrics: Mapping[str, Any], signal: str, texts: Mapping[str, tuple[str, str]], environment: Mapping[str, str]
) -> Target | None:
    """Where another signal goes. None: the variable of the metrics has named the receiver, by a path of no known form."""
    settings = {key: _of_signal(setting, signal) for key, setting in _RECEIVER_KEYS.items()}
    values = {key: setting.value(texts, environment) for key, setting in settings.items()}
    if values["endpoint"]:
        return Target(**_target(metrics["name"], values))
    if not urlsplit(metrics["url"]).path.rstrip("/").endswith(_path_of(METRICS)):
        return None
    return Target(**{**metrics, "url": _below(signal)(metrics["url"])})


def _of_signal(setting: Setting, signal: str) -> Setting:
    """A setting with the variable of another signal in the place of that of the metrics."""
    of_metrics, of_signal = f"_{METRICS.upper()}_", f"_{signal.upper()}_"
    variables = {name.replace(of_metrics, of_signal): parse for name, parse in setting.environment.items()}
    if setting.flag != "otlp.endpoint":
        return setting._replace(environment=variables)
    parsers = (_url, _below(signal))
    return setting._replace(parse=_below(signal), environment=dict(zip(variables, parsers, strict=True)))
