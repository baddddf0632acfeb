"""Flags, a TOML file and the environment become one frozen Config. Reads and checks; does nothing else.

A flag beats the file, the file beats the environment, the environment beats the default. Keys of the file are the flags
without dashes, dots making tables: `--web.listen-address` is `listen-address` in `[web]`. An unknown key is refused.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import socket
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from exporter.errors import BadInput

DEFAULT_PORT = 10478  # G-P-U on a keypad
COLLECTORS = ("cuda", "nccl")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Config:
    """What `run` was told. Durations in seconds."""

    listen_address: tuple[str, int]
    telemetry_path: str
    max_requests: int
    with_exporter_metrics: bool
    node: str
    attach_kind: str
    collectors: tuple[str, ...]
    tick_interval_seconds: float
    discovery_interval_seconds: float
    series_ttl_seconds: float
    procfs: Path
    standin_if_idle: bool
    log_level: str
    log_format: str


class Setting(NamedTuple):
    """One flag. parse: text -> value, raising ValueError with what is wanted. choices: for the help text only."""

    flag: str
    default: str
    parse: Callable[[str], Any]
    metavar: str
    help: str


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    is_bracketed = host.startswith("[") and host.endswith("]")
    # Brackets and IPv6 go together: in `::1:80` nobody can say where the address ends.
    if not colon or not is_port or is_bracketed != (":" in host):
        raise ValueError("want HOST:PORT, such as 127.0.0.1:10478 or [::1]:10478; :10478 listens on every address")
    host = host[1:-1] if is_bracketed else host
    if host and host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise ValueError(f"{host!r} is no IP address") from None
    return host or "0.0.0.0", int(port)  # noqa: S104 - asked for by leaving the host out


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0.01 <= seconds <= 1e7:
        raise ValueError("want a positive duration such as 250ms, 30s or 15m")
    return seconds


def _path_of_url(text: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]{1,200}", text) or text in ("/healthz", "/readyz"):
        raise ValueError("want a path such as /metrics that is not taken by another page")
    return text


def _flag_value(text: str) -> bool:
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise ValueError("want true or false")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 100_000:
        return int(text)
    raise ValueError("want a whole number from 1 to 100000")


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text in choices:
            return text
        raise ValueError(f"want one of {', '.join(choices)}")

    return parse


def _existing_dir(text: str) -> Path:
    if text and Path(text).is_dir():
        return Path(text)
    raise ValueError("want a directory that exists")


def _node(text: str) -> str:
    if text and len(text) <= 128 and text.isprintable():
        return text
    raise ValueError("want 1 to 128 printable characters")


SETTINGS = (
    Setting("web.listen-address", f"127.0.0.1:{DEFAULT_PORT}", _address, "HOST:PORT", "where to serve metrics"),
    Setting("web.telemetry-path", "/metrics", _path_of_url, "PATH", "path of the metrics"),
    Setting("web.max-requests", "40", _count, "N", "requests served at a time; one more is turned away"),
    Setting(
        "web.disable-exporter-metrics", "false", _flag_value, "BOOL", "leave out gpustall_exporter_* and process_*"
    ),
    Setting("node", "", _node, "NAME", "value of the node label (environment NODE_NAME, else the host name)"),
    Setting(
        "probes.attach",
        "auto",
        _one_of("auto", "session", "multi", "single"),
        "KIND",
        "how functions are probed: session (kernel 6.13), multi (6.6), single (any), auto takes the best",
    ),
    *(
        Setting(f"collector.{name}", "true", _flag_value, "BOOL", f"the {name} collector (also --no-collector.{name})")
        for name in COLLECTORS
    ),
    Setting("tick.interval", "250ms", _duration, "DURATION", "how often news of the kernel are handled"),
    Setting("discovery.interval", "30s", _duration, "DURATION", "how often all of /proc is walked for libraries"),
    Setting("series.ttl", "15m", _duration, "DURATION", "how long the totals of a workload outlive its last process"),
    Setting("path.procfs", "/proc", _existing_dir, "DIR", "where procfs is mounted"),
    Setting("standin.if-idle", "false", _flag_value, "BOOL", "start the stand-in job when no process uses CUDA"),
    Setting("log.level", "info", _one_of("debug", "info", "warning", "error"), "LEVEL", "least severity to log"),
    Setting("log.format", "logfmt", _one_of("logfmt", "json"), "FORMAT", "how log lines look"),
)
_BY_FLAG = {setting.flag: setting for setting in SETTINGS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare every setting. Values stay text here; load() parses them, so that file and flag are read alike."""
    parser.add_argument(
        "--config.file", dest="config.file", metavar="FILE", help="TOML file with any of these settings"
    )
    for setting in SETTINGS:
        is_switch = setting.parse is _flag_value
        parser.add_argument(
            f"--{setting.flag}",
            dest=setting.flag,
            metavar=setting.metavar,
            nargs="?" if is_switch else None,
            const="true" if is_switch else None,
            help=f"{setting.help} [{setting.default}]" if setting.default else setting.help,
        )
        if setting.flag.startswith("collector."):
            parser.add_argument(
                f"--no-{setting.flag}", dest=setting.flag, action="store_const", const="false", help=argparse.SUPPRESS
            )


def load(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Config:
    """The Config of parsed flags. Raises BadInput, naming the setting and where its value came from."""
    environment = os.environ if environment is None else environment
    file = arguments.get("config.file")
    in_file = {} if file is None else _read_file(Path(file))
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        flag = setting.flag
        if (text := arguments.get(flag)) is not None:
            values[flag] = _parsed(setting, text, f"--{flag}")
        elif flag in in_file:
            values[flag] = _parsed(setting, in_file[flag], f"{flag} in {file}")
        elif flag == "node":
            values[flag] = _parsed(setting, environment.get("NODE_NAME") or socket.gethostname(), "NODE_NAME")
        else:
            values[flag] = setting.parse(setting.default)
    collectors = tuple(name for name in COLLECTORS if values[f"collector.{name}"])
    if not collectors:
        raise BadInput("every collector is switched off", remedy="leave at least one --collector.NAME on")
    return Config(
        listen_address=values["web.listen-address"],
        telemetry_path=values["web.telemetry-path"],
        max_requests=values["web.max-requests"],
        with_exporter_metrics=not values["web.disable-exporter-metrics"],
        node=values["node"],
        attach_kind=values["probes.attach"],
        collectors=collectors,
        tick_interval_seconds=values["tick.interval"],
        discovery_interval_seconds=values["discovery.interval"],
        series_ttl_seconds=values["series.ttl"],
        procfs=values["path.procfs"],
        standin_if_idle=values["standin.if-idle"],
        log_level=values["log.level"],
        log_format=values["log.format"],
    )


def _parsed(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        raise BadInput(f"{source}: {text!r}: {error}") from None


def _read_file(path: Path) -> dict[str, str]:
    """Flag -> text, of a TOML file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--config.file: cannot read {path}: {error.strerror}") from None
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
            _flatten(value, (*above, key), found, path)
        elif flag not in _BY_FLAG:
            raise BadInput(
                f"--config.file: {path} has the unknown key {flag!r}", remedy="see `run --help` for all settings"
            )
        elif isinstance(value, bool):
            found[flag] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            found[flag] = str(value)
        else:
            raise BadInput(f"--config.file: {flag} in {path} must be a single value")
