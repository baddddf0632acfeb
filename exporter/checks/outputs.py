"""Outputs: the history file, the ports, the web configuration, the OTLP receivers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.config.otlp import Target
from exporter.config.otlp_parsers import LOGS, TRACES
from exporter.errors import BadInput
from exporter.history import file_guard
from exporter.output.web import listeners
from exporter.output.web.access import AccessControl

if TYPE_CHECKING:
    from exporter.output.otlp.response import PushResult

_PUSH_REMEDY = "start the receiver, or correct --otlp.endpoint (HTTP is usually on port 4318); `run` keeps retrying"


def check(config: Config) -> Iterator[Check]:
    """History, ports, web configuration, a row for each signal of each receiver."""
    yield history(config)
    yield from ports(config)
    yield from web_config(config)
    yield from _receivers(config)


def history(config: Config) -> Check:
    """Writes nothing."""
    if config.history.path is None:
        found = "disabled by --history.path=none: `explain` has nothing to read"
        return Check("history", CheckState.WARNING, found, "remove --history.path=none")
    try:
        file_guard.check_writable(config.history.path)
    except file_guard.Unusable as error:
        return Check("history", CheckState.WARNING, str(error), error.remedy or "fix the cause; `run` keeps retrying")
    mib, hours = config.history.max_bytes / (1 << 20), config.history.retention_seconds / 3600
    return Check("history", CheckState.OK, f"{config.history.path}: at most {mib:.3g} MiB and {hours:.3g} h")


def ports(config: Config) -> Iterator[Check]:
    """Listens for a moment on each address."""
    if config.web.with_systemd_sockets:
        yield Check("port", CheckState.OK, "opened by systemd (socket activation)")
        return
    for address in config.web.listen_addresses:
        try:
            listeners.listening([address])[0].close()
        except BadInput as error:
            yield Check("port", CheckState.FAILED, str(error), error.remedy)
        else:
            yield Check("port", CheckState.OK, f"{listeners.shown(*address)} is free")


def web_config(config: Config) -> Iterator[Check]:
    """Nothing without a file."""
    path = config.web.config_file
    if path is None:
        return
    try:
        rules = AccessControl(path).rules()
    except BadInput as error:
        yield Check("web config", CheckState.FAILED, str(error), error.remedy)
        return
    found = [
        "TLS" if rules.context else "no TLS",
        f"{len(rules.config.users)} users" if rules.config.users else "no users",
        "a rate limit" if rules.bucket else "no rate limit",
    ]
    yield Check("web config", CheckState.OK, f"{path}: {', '.join(found)}")


def _receivers(config: Config) -> Iterator[Check]:
    """Sends an empty request to each OTLP receiver. One that is down does not keep `run` from starting."""
    if config.otlp.unusable:
        found = f"{config.otlp.unusable}; OpenTelemetry's variables are ignored"
        yield Check("push", CheckState.WARNING, found, "unset it, or set --otlp.endpoint if metrics are to be pushed")
    elif not config.otlp.receivers:
        yield Check("push", CheckState.OK, "no OTLP receiver is configured (--otlp.endpoint)")
        return
    from exporter.output.otlp import metric_exporter, record_codecs  # noqa: PLC0415 - 10 MiB that only a push needs

    for receiver in config.otlp.receivers:
        result = metric_exporter.probe(receiver)
        yield _push(f"push {receiver.name}", receiver, result, _PUSH_REMEDY)
        if result.is_retryable:
            continue  # a receiver that is down would be down for logs and traces, too
        with_chains = "chains" in config.collectors.enabled
        for flag, signal, target in (
            ("logs", LOGS, receiver.logs if with_chains else None),
            ("traces", TRACES, receiver.traces if with_chains else None),
            ("windows", LOGS, receiver.windows),
        ):
            if target is not None:
                remedy = f"set --otlp.{flag}=false if this receiver takes none"
                yield _push(f"push {receiver.name} {flag}", target, record_codecs.probe(target, signal), remedy)


def _push(name: str, target: Target, result: PushResult, remedy: str) -> Check:
    if result.is_accepted:
        return Check(name, CheckState.OK, f"{target.shown_url} accepts {target.protocol}")
    found = f"{target.shown_url}: {result.outcome.value.replace('_', ' ')}: {result.detail}"
    return Check(name, CheckState.WARNING, found, remedy)
