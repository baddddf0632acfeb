"""Flags, a TOML file and the environment become one frozen Config. Reads and checks; does nothing else.

A flag beats the file, the file beats the environment, the environment beats the default. Keys of the file are the flags
without dashes, dots making tables: `--web.listen-address` is `listen-address` in `[web]`. An unknown key is refused.
"""

from __future__ import annotations

import argparse
import os
import socket
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exporter.config import orchestrator as orchestrators
from exporter.config import otlp, settings
from exporter.config.orchestrator import Orchestrator
from exporter.config.otlp import Receiver
from exporter.config.settings import Setting
from exporter.errors import BadInput

DEFAULT_PORT = 10478  # G-P-U on a keypad
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}/metrics"
"""Where the commands look that ask a running exporter."""
CALL_COLLECTORS = ("cuda", "nccl")
HOST_COLLECTORS = ("block", "memory", "cpu", "process", "network", "device")
GPU_COLLECTORS = ("allocator", "graph", "launch", "memcpy")
COLLECTORS = (*CALL_COLLECTORS, "sched", "chains", "engine", *HOST_COLLECTORS, *GPU_COLLECTORS)


@dataclass(frozen=True, slots=True)
class Config:
    """What `run` was told. Durations in seconds."""

    listen_addresses: tuple[tuple[str, int], ...]
    with_systemd_sockets: bool
    web_config_file: Path | None
    is_health_open: bool
    with_reload: bool
    telemetry_path: str
    max_requests: int
    with_exporter_metrics: bool
    node: str
    attach_kind: str
    launch_mode: str
    overhead_limit: float
    returns: str
    probes_on_arm64: bool
    is_frozen: bool
    collectors: tuple[str, ...]
    with_page_allocations: bool
    tick_interval_seconds: float
    discovery_interval_seconds: float
    series_ttl_seconds: float
    max_workloads: int
    procfs: Path
    with_network_namespaces: bool
    capsules: Path | None
    history_path: Path | None
    history_max_bytes: int
    history_retention_seconds: float
    orchestrator: Orchestrator
    receivers: tuple[Receiver, ...]
    service_name: str
    resource_attributes: tuple[tuple[str, str], ...]
    log_level: str
    log_format: str


HISTORY_PATH = Setting(
    "history.path",
    "/var/lib/gpu-stall-exporter/history.sqlite",
    settings.file_or_none,
    "FILE",
    "where the history is kept that `explain` reads, FILE.sqlite; none to keep none",
)
SETTINGS = (
    Setting(
        "web.listen-address",
        f"127.0.0.1:{DEFAULT_PORT}",
        settings.addresses,
        "HOST:PORT",
        "where to serve metrics; may be given several times",
        is_repeated=True,
    ),
    Setting(
        "web.systemd-socket",
        "false",
        settings.switch,
        "BOOL",
        "serve on the sockets that systemd hands over, and not on --web.listen-address",
    ),
    Setting(
        "web.config.file",
        "",
        settings.absolute_file,
        "FILE",
        "TLS, users, headers and rate limit, as Prometheus' exporter-toolkit has them; read again whenever it changes",
    ),
    Setting(
        "web.open-health",
        "false",
        settings.switch,
        "BOOL",
        "answer /healthz and /readyz without a password all the same",
    ),
    Setting("web.enable-lifecycle", "false", settings.switch, "BOOL", "let POST /-/reload read --config.file again"),
    Setting("web.telemetry-path", "/metrics", settings.path_of_url, "PATH", "path of the metrics"),
    Setting("web.max-requests", "40", settings.count, "N", "requests served at a time; one more is turned away"),
    Setting(
        "web.disable-exporter-metrics", "false", settings.switch, "BOOL", "leave out gpustall_exporter_* and process_*"
    ),
    Setting(
        "node", "", settings.name, "NAME", "value of the node label; else the host name", {"NODE_NAME": settings.name}
    ),
    Setting(
        "probes.attach",
        "auto",
        settings.one_of("auto", "session", "multi", "single"),
        "KIND",
        "how functions are probed: session (kernel 6.13), multi (6.6), single (any), auto takes the best",
    ),
    Setting(
        "probes.launch",
        "full",
        settings.one_of("full", "duty", "off"),
        "MODE",
        "kernel launches: full times all of them while --probes.overhead-limit allows it, duty one in 64, off sees none",
    ),
    Setting(
        "probes.overhead-limit",
        "1%",
        settings.share,
        "SHARE",
        "share of a CPU that probes may cost a process for ten seconds before only one launch in 64 is timed",
    ),
    Setting(
        "probes.returns",
        "auto",
        settings.one_of("auto", "always", "never"),
        "WHEN",
        "whether returns of functions are probed; auto: unless this kernel may end a job under a seccomp filter at one."
        " Without them CUDA calls are counted, and nothing else is told of them",
    ),
    Setting(
        "probes.on-arm64",
        "false",
        settings.switch,
        "BOOL",
        "probe on arm64, where a fault of the kernel has been reported to crash probed programs",
    ),
    Setting(
        "attach.frozen",
        "false",
        settings.switch,
        "BOOL",
        "probe the libraries that are in use when the exporter starts, and no others ever; what that needs is given up then",
    ),
    *(
        Setting(
            f"collector.{name}", "true", settings.switch, "BOOL", f"the {name} collector (also --no-collector.{name})"
        )
        for name in COLLECTORS
    ),
    Setting(
        "memory.page-allocations",
        "false",
        settings.switch,
        "BOOL",
        "count the pages that the kernel allocates for traced processes; it costs any process of this machine some 20 ns for"
        " each allocation of pages, and a traced one some 60",
    ),
    Setting("tick.interval", "250ms", settings.duration, "DURATION", "how often news of the kernel are handled"),
    Setting(
        "discovery.interval", "30s", settings.duration, "DURATION", "how often all of /proc is walked for libraries"
    ),
    Setting(
        "series.ttl", "15m", settings.duration, "DURATION", "how long the totals of a workload outlive its last process"
    ),
    Setting(
        "series.max-workloads",
        "256",
        settings.count,
        "N",
        "workloads (ranks in containers) told apart at a time; those beyond are rank and container `other`",
    ),
    HISTORY_PATH,
    Setting(
        "history.max-bytes",
        "64MiB",
        settings.size,
        "SIZE",
        "how much the history may take, its log included; from 2MiB on",
    ),
    Setting("history.retention", "24h", settings.duration, "DURATION", "how far the history goes back"),
    Setting("path.procfs", "/proc", settings.existing_dir, "DIR", "where procfs is mounted"),
    Setting(
        "network.namespaces",
        "false",
        settings.switch,
        "BOOL",
        "tell of the sockets of jobs in other network namespaces too, such as those of pods; takes CAP_SYS_ADMIN, which nothing"
        " else here needs",
    ),
    Setting(
        "capsule.directory",
        "/var/lib/gpu-stall-exporter/capsules",
        settings.path_or_none,
        "DIR",
        "where the kernel's rows around each chain are kept, at most 64 MiB; none keeps no capsules",
    ),
    *orchestrators.SETTINGS,
    *otlp.RECEIVER_SETTINGS,
    *otlp.RESOURCE_SETTINGS,
    Setting(
        "log.level", "info", settings.one_of("debug", "info", "warning", "error"), "LEVEL", "least severity to log"
    ),
    Setting("log.format", "logfmt", settings.one_of("logfmt", "json"), "FORMAT", "how log lines look"),
)
_BY_FLAG = {setting.flag: setting for setting in SETTINGS}
_FLAG_OF = {
    "listen_addresses": "web.listen-address",
    "with_systemd_sockets": "web.systemd-socket",
    "web_config_file": "web.config.file",
    "is_health_open": "web.open-health",
    "with_reload": "web.enable-lifecycle",
    "telemetry_path": "web.telemetry-path",
    "max_requests": "web.max-requests",
    "with_exporter_metrics": "web.disable-exporter-metrics",
    "node": "node",
    "attach_kind": "probes.attach",
    "launch_mode": "probes.launch",
    "overhead_limit": "probes.overhead-limit",
    "returns": "probes.returns",
    "probes_on_arm64": "probes.on-arm64",
    "is_frozen": "attach.frozen",
    "collectors": "collector.*",
    "with_page_allocations": "memory.page-allocations",
    "tick_interval_seconds": "tick.interval",
    "discovery_interval_seconds": "discovery.interval",
    "series_ttl_seconds": "series.ttl",
    "max_workloads": "series.max-workloads",
    "procfs": "path.procfs",
    "with_network_namespaces": "network.namespaces",
    "capsules": "capsule.directory",
    "history_path": "history.path",
    "history_max_bytes": "history.max-bytes",
    "history_retention_seconds": "history.retention",
    "orchestrator": "orchestrator.*",
    "receivers": "otlp.*",
    "service_name": "otlp.service-name",
    "resource_attributes": "otlp.resource-attributes",
    "log_level": "log.level",
    "log_format": "log.format",
}
"""Field of Config -> the flag, or the flags, that it is made from."""
_RELOADABLE = (
    "overhead_limit",
    "tick_interval_seconds",
    "discovery_interval_seconds",
    "series_ttl_seconds",
    "receivers",
    "service_name",
    "resource_attributes",
    "log_level",
    "log_format",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare every setting. Values stay text here; load() parses them, so that file and flag are read alike."""
    parser.add_argument(
        "--config.file", dest="config.file", metavar="FILE", help="TOML file with any of these settings"
    )
    for setting in SETTINGS:
        is_switch = setting.parse is settings.switch
        parser.add_argument(
            f"--{setting.flag}",
            dest=setting.flag,
            metavar=setting.metavar,
            action="append" if setting.is_repeated else "store",
            nargs="?" if is_switch else None,
            const="true" if is_switch else None,
            help=(f"{setting.help} [{setting.default}]" if setting.default else setting.help).replace("%", "%%"),
        )
        if setting.flag.startswith("collector."):
            parser.add_argument(
                f"--no-{setting.flag}", dest=setting.flag, action="store_const", const="false", help=argparse.SUPPRESS
            )


def load(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Config:
    """The Config of parsed flags. Raises BadInput, naming the setting and where its value came from."""
    environment = os.environ if environment is None else environment
    file = arguments.get("config.file")
    texts = {} if file is None else {flag: (text, f"{flag} in {file}") for flag, text in _read_file(Path(file)).items()}
    for flag in _BY_FLAG:
        if (text := arguments.get(flag)) is not None:
            texts[flag] = (",".join(text) if isinstance(text, list) else text, f"--{flag}")
    receivers = otlp.receivers(texts, environment)
    others = [setting for setting in SETTINGS if setting not in otlp.RECEIVER_SETTINGS + otlp.RESOURCE_SETTINGS]
    values = {setting.flag: setting.value(texts, environment) for setting in others}
    # As with the receivers: what the environment says of a push that nobody asked for is no concern of ours.
    of_pushes = environment if receivers else {}
    values |= {setting.flag: setting.value(texts, of_pushes) for setting in otlp.RESOURCE_SETTINGS}
    attributes = dict(values["otlp.resource-attributes"] or ())
    collectors = tuple(name for name in COLLECTORS if values[f"collector.{name}"])
    if "sched" not in collectors:  # which chains are made of
        collectors = tuple(name for name in collectors if name != "chains")
    if not set(collectors) & set(CALL_COLLECTORS):
        raise BadInput(
            "no calls would be traced: both --collector.cuda and --collector.nccl are off",
            remedy="leave at least one of the two on",
        )
    special: dict[str, Any] = {
        "with_exporter_metrics": not values["web.disable-exporter-metrics"],
        "node": values["node"] or _host_name(),
        "collectors": collectors,
        "orchestrator": orchestrators.orchestrator(values),
        "receivers": receivers,
        "service_name": values["otlp.service-name"] or attributes.get("service.name") or "gpu-stall-exporter",
        "resource_attributes": tuple(attributes.items()),
    }
    return Config(**special, **{name: values[flag] for name, flag in _FLAG_OF.items() if name not in special})


def reloaded(before: Config, wanted: Config) -> tuple[Config, list[str]]:
    """What can be changed while the exporter runs is as wanted, the rest as before; and the flags that would need a restart."""
    possible = {name: getattr(wanted, name) for name in _RELOADABLE}
    left = [
        flag
        for name, flag in _FLAG_OF.items()
        if name not in possible and getattr(before, name) != getattr(wanted, name)
    ]
    return replace(before, **possible), left


def _host_name() -> str:
    try:
        return settings.name(socket.gethostname())
    except ValueError as error:
        raise BadInput(f"the host's name cannot be a label: {error}", remedy="set --node") from None


def _read_file(path: Path) -> dict[str, str]:
    """Flag -> text, of a TOML file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--config.file: cannot read {path}: {error.strerror}") from None
    except RecursionError:
        raise BadInput(f"--config.file: {path} is nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"--config.file: {path} is not TOML: {error}") from None
    found: dict[str, str] = {}
    _flatten(content, (), found, path)
    return found


def _flatten(table: Mapping[str, Any], above: Sequence[str], found: dict[str, str], path: Path) -> None:
    """`{"web": {"max-requests": 5}}` -> `{"web.max-requests": "5"}`."""
    for key, value in table.items():
        flag = ".".join((*above, key))
        if isinstance(value, Mapping):
            if not value and flag.startswith(otlp.RECEIVER_TABLE):
                raise BadInput(f"--config.file: [{flag}] in {path} is empty", remedy="give it an endpoint")
            _flatten(value, (*above, key), found, path)
        elif flag not in _BY_FLAG and not otlp.is_receiver_key(flag):
            raise BadInput(
                f"--config.file: {path} has the unknown key {flag!r}", remedy="see `run --help` for all settings"
            )
        elif isinstance(value, bool):
            found[flag] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            found[flag] = str(value)
        elif isinstance(value, list) and flag in _BY_FLAG and _BY_FLAG[flag].is_repeated:
            found[flag] = ",".join(map(str, value))
        else:
            raise BadInput(f"--config.file: {flag} in {path} must be a single value")
