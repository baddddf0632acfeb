"""Settings of OTLP pushes: which receivers get metrics, logs and traces, and how.

Flags and OpenTelemetry's environment variables describe the receiver `default`. The file may define more, each in a table of its
own, `[otlp.receiver.NAME]`; these ignore the environment, so that no receiver gets a token that is meant for another one.
The endpoint of a receiver is that of its metrics. Logs and traces go to the same host, unless variables name another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exporter.config import otlp_parsers as parse
from exporter.config.otlp_parsers import (
    LOGS,
    METRICS,
    TRACES,
    Compression,
    Headers,
    HistogramForm,
    OtlpProtocol,
    Temporality,
)
from exporter.config.parsers import choice, duration, in_any_case, milliseconds, name, readable_file, switch
from exporter.config.setting import Given, Setting, declared, derived, group, made_from, setting
from exporter.errors import BadInput

DEFAULT_RECEIVER = "default"
RECEIVER_TABLE = "otlp.receiver."
MAX_RECEIVERS = 8
DEFAULT_SERVICE_NAME = "gpu-stall-exporter"

_RECEIVER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one signal goes, and how. name: of the receiver. timeout_seconds: of one request, including the connection."""

    name: str
    url: str
    protocol: OtlpProtocol
    compression: Compression
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
    """The target of the metrics, and those of logs, traces and windows: None if the receiver does not get them."""

    interval_seconds: float
    temporality: Temporality
    histograms: HistogramForm
    logs: Target | None
    traces: Target | None
    windows: Target | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """What the flags, or a table of the file, hold of one receiver. endpoint: None for no receiver."""

    endpoint: str | None = setting(
        "otlp.endpoint",
        None,
        parse.url_below(METRICS),
        "URL",
        "push to this OTLP/HTTP receiver; /v1/metrics, /v1/logs, /v1/traces are appended",
        also=dict(zip(parse.variables("ENDPOINT", str), (parse.url, parse.url_below(METRICS)), strict=True)),
        is_reloadable=True,
    )
    logs: bool = setting(
        "otlp.logs",
        "true",
        switch,
        "BOOL",
        "push a log record when a chain opens, escalates or is resolved",
        also={"OTEL_LOGS_EXPORTER": parse.names_otlp},
        is_reloadable=True,
    )
    traces: bool = setting(
        "otlp.traces",
        "true",
        switch,
        "BOOL",
        "push a span for each resolved chain",
        also={"OTEL_TRACES_EXPORTER": parse.names_otlp},
        is_reloadable=True,
    )
    windows: bool = setting(
        "otlp.windows",
        "false",
        switch,
        "BOOL",
        "push a log record of what each process did, every ten seconds",
        is_reloadable=True,
    )
    protocol: OtlpProtocol = setting(
        "otlp.protocol",
        "http/json",
        parse.protocol,
        "PROTOCOL",
        "encoding: http/json or http/protobuf",
        also=parse.choice_variables("PROTOCOL", parse.protocol),
        is_reloadable=True,
    )
    compression: Compression = setting(
        "otlp.compression",
        "gzip",
        choice(Compression),
        "METHOD",
        "compression: gzip or none",
        also=parse.choice_variables("COMPRESSION", choice(Compression)),
        is_reloadable=True,
    )
    interval_seconds: float = setting(
        "otlp.interval",
        "15s",
        parse.interval(duration),
        "DURATION",
        "time between pushes, 200ms or more",
        also={"OTEL_METRIC_EXPORT_INTERVAL": parse.interval(milliseconds)},
        is_reloadable=True,
    )
    timeout_seconds: float = setting(
        "otlp.timeout",
        "10s",
        duration,
        "DURATION",
        "timeout of a request, including the connection",
        also=parse.variables("TIMEOUT", milliseconds),
        is_reloadable=True,
    )
    temporality: Temporality = setting(
        "otlp.temporality",
        "cumulative",
        parse.temporality,
        "KIND",
        "temporality: cumulative, delta (for Datadog) or lowmemory (same as delta)",
        also={"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": in_any_case(parse.temporality)},
        is_reloadable=True,
    )
    histograms: HistogramForm = setting(
        "otlp.histograms",
        "exponential",
        choice(HistogramForm),
        "KIND",
        "histograms: exponential, or explicit with the buckets of /metrics",
        also={"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": parse.aggregation},
        is_reloadable=True,
    )
    headers: Headers = setting(
        "otlp.headers-file",
        tuple,
        parse.headers_file,
        "FILE",
        "headers of every request, such as tokens; one name=value per line",
        also=parse.variables("HEADERS", parse.headers),
        is_reloadable=True,
    )
    ca_file: Path | None = setting(
        "otlp.ca-file",
        None,
        readable_file,
        "FILE",
        "CA certificates (PEM) [those of the system]",
        also=parse.variables("CERTIFICATE", parse.certificates_file),
        is_reloadable=True,
    )
    client_certificate_file: Path | None = setting(
        "otlp.client-certificate-file",
        None,
        readable_file,
        "FILE",
        "client certificate (PEM)",
        also=parse.variables("CLIENT_CERTIFICATE", readable_file),
        is_reloadable=True,
    )
    client_key_file: Path | None = setting(
        "otlp.client-key-file",
        None,
        readable_file,
        "FILE",
        "private key of the client certificate (PEM, no passphrase)",
        also=parse.variables("CLIENT_KEY", readable_file),
        is_reloadable=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSettings:
    """Attributes of the resource, the same for all receivers. given_service_name: None if only the attributes may name it."""

    given_service_name: str | None = setting(
        "otlp.service-name",
        None,
        name,
        "NAME",
        f"service.name of the resource [from the attributes, else {DEFAULT_SERVICE_NAME}]",
        also={"OTEL_SERVICE_NAME": name},
        is_reloadable=True,
    )
    attributes: Headers = setting(
        "otlp.resource-attributes",
        tuple,
        parse.attributes,
        "KEY=VALUE,…",
        "additional resource attributes, percent-encoded values",
        also={"OTEL_RESOURCE_ATTRIBUTES": parse.attributes},
        is_reloadable=True,
    )

    @property
    def service_name(self) -> str:
        """`service.name`."""
        return self.given_service_name or dict(self.attributes).get("service.name") or DEFAULT_SERVICE_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """receivers: the default one first; empty for no pushes.

    unusable: the variable of OpenTelemetry because of which all of them are ignored, and why; "" for none.
    """

    receivers: tuple[Receiver, ...] = made_from(ReceiverSettings, ())
    resource: ResourceSettings = group(ResourceSettings)
    unusable: str = derived("")


_SETTING_OF = declared(ReceiverSettings)
_FLAG_OF_KEY = {one.flag.removeprefix("otlp."): one.flag for one in _SETTING_OF.values()}


def is_receiver_key(flag: str) -> bool:
    """Whether a dotted key of the file is one of a receiver's table: `otlp.receiver.datadog.endpoint`."""
    return flag.startswith(RECEIVER_TABLE) and flag.removeprefix(RECEIVER_TABLE).partition(".")[2] in _FLAG_OF_KEY


def read(given: Given) -> OtlpSettings:
    """Every receiver that has an endpoint. Raises BadInput.

    OpenTelemetry's variables are for every program of the machine, and often set by an operator of the cluster: what cannot be
    used here, such as gRPC, must not end a program that is only scraped.
    """
    try:
        return _read(given)
    except BadInput as error:
        own = _read(given.without_foreign_variables())  # what is wrong in them remains an error
        return replace(own, unusable=error.one_line())


def _read(given: Given) -> OtlpSettings:
    receivers = tuple(_receivers(given))
    if len(receivers) > MAX_RECEIVERS:
        raise BadInput(f"{len(receivers)} OTLP receivers are too many", remedy=f"define at most {MAX_RECEIVERS}")
    # Where nothing is pushed, errors in them do not matter.
    resource = (given if receivers else given.without_foreign_variables()).read(ResourceSettings)
    return OtlpSettings(receivers=receivers, resource=resource)


def _receivers(given: Given) -> Iterator[Receiver]:
    of_flags = given.without_foreign_variables() if _is_disabled(given) else given
    if receiver := _receiver(DEFAULT_RECEIVER, of_flags):
        yield receiver
    keys = [flag.removeprefix(RECEIVER_TABLE) for flag in given.texts if is_receiver_key(flag)]
    for receiver_name in sorted({key.partition(".")[0] for key in keys}):
        table = f"{RECEIVER_TABLE}{receiver_name}"
        if not _RECEIVER_NAME.fullmatch(receiver_name) or receiver_name == DEFAULT_RECEIVER:
            raise BadInput(
                f"[{table}]: invalid receiver name {receiver_name!r}",
                remedy="use 1 to 31 lower-case letters, digits, - and _, and not `default`",
            )
        texts = {
            flag: given.texts[f"{table}.{key}"] for key, flag in _FLAG_OF_KEY.items() if f"{table}.{key}" in given.texts
        }
        receiver = _receiver(receiver_name, Given(texts, {}))
        if receiver is None:
            raise BadInput(f"[{table}] has no endpoint", remedy='add `endpoint = "http://…:4318"`')
        yield receiver


def _is_disabled(given: Given) -> bool:
    """Whether OpenTelemetry's variables disable the receiver that they name."""
    exporters = given.environment.get("OTEL_METRICS_EXPORTER", "").strip(", ")
    is_sdk_disabled = given.environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return is_sdk_disabled or (bool(exporters) and not parse.names_otlp(exporters))


def _receiver(receiver_name: str, given: Given) -> Receiver | None:
    if given.value(_SETTING_OF["endpoint"]) is None:
        given.without_foreign_variables().read(ReceiverSettings)  # flags are checked whether they are used or not
        return None
    settings = given.read(ReceiverSettings)
    metrics = _target(receiver_name, settings)
    return Receiver(
        **metrics,
        interval_seconds=settings.interval_seconds,
        temporality=settings.temporality,
        histograms=settings.histograms,
        logs=_target_of(LOGS, metrics, given) if settings.logs else None,
        traces=_target_of(TRACES, metrics, given) if settings.traces else None,
        windows=_target_of(LOGS, metrics, given) if settings.windows else None,
    )


def _target(receiver_name: str, settings: ReceiverSettings) -> dict[str, Any]:
    """The fields of a Target."""
    if settings.client_key_file and not settings.client_certificate_file:
        raise BadInput(f"OTLP receiver {receiver_name}: a client key without a client certificate")
    return {
        "name": receiver_name,
        "url": settings.endpoint,
        "protocol": settings.protocol,
        "compression": settings.compression,
        "timeout_seconds": settings.timeout_seconds,
        "headers": settings.headers,
        "ca_file": settings.ca_file,
        "client_certificate_file": settings.client_certificate_file,
        "client_key_file": settings.client_key_file,
    }


def _target_of(signal: str, metrics: dict[str, Any], given: Given) -> Target | None:
    """None if the variable for metrics names the receiver by a path other than /v1/metrics: that of the signal is unknown."""
    values = {field: given.value(_of_signal(one, signal)) for field, one in _SETTING_OF.items()}
    settings = ReceiverSettings(**values)
    if settings.endpoint:
        return Target(**_target(metrics["name"], settings))
    if not urlsplit(metrics["url"]).path.rstrip("/").endswith(parse.path_of(METRICS)):
        return None
    return Target(**{**metrics, "url": parse.url_below(signal)(metrics["url"])})


def _of_signal(one: Setting, signal: str) -> Setting:
    """The setting with the environment variable of another signal instead of the one for metrics."""
    names = [variable.replace(f"_{METRICS.upper()}_", f"_{signal.upper()}_") for variable in one.also]
    if one is not _SETTING_OF["endpoint"]:
        return replace(one, also=dict(zip(names, one.also.values(), strict=True)))
    below = parse.url_below(signal)
    return replace(one, parse=below, also=dict(zip(names, (parse.url, below), strict=True)))
