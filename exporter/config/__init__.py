"""Flags, a TOML file and the environment -> one frozen Config. Reads and checks; does nothing else.

A flag overrides its environment variable, that overrides the file, and the file overrides variables of other programs and the
default. setting.py has how a setting is declared.
"""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.config import command_line, otlp, parsers, toml_file
from exporter.config.collectors import CollectorSettings
from exporter.config.log import LogSettings
from exporter.config.orchestrator import OrchestratorSettings
from exporter.config.otlp import OtlpSettings
from exporter.config.probes import ProbeSettings
from exporter.config.setting import Given, Setting, group, setting, settings_of
from exporter.config.stacks import StackSettings
from exporter.config.storage import HistorySettings, RecordingSettings, SeriesSettings
from exporter.config.web import WebSettings
from exporter.errors import BadInput


def _host_name() -> str:
    try:
        return parsers.name(socket.gethostname())
    except ValueError as error:
        raise BadInput(f"the host name cannot be a label: {error}", remedy="set --node") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of `run` and `check`. Durations in seconds."""

    web: WebSettings = group(WebSettings)
    node: str = setting(
        "node",
        _host_name,
        parsers.name,
        "NAME",
        "value of the label `node` [host name]",
        also={"NODE_NAME": parsers.name},
    )
    probes: ProbeSettings = group(ProbeSettings)
    collectors: CollectorSettings = group(CollectorSettings)
    stacks: StackSettings = group(StackSettings)
    tick_interval_seconds: float = setting(
        "tick.interval",
        "250ms",
        parsers.duration,
        "DURATION",
        "how often the exporter reads its BPF maps; shorter costs more CPU",
        is_reloadable=True,
    )
    series: SeriesSettings = group(SeriesSettings)
    history: HistorySettings = group(HistorySettings)
    recording: RecordingSettings = group(RecordingSettings)
    hash_key_file: Path | None = setting(
        "nccl.hash-key-file",
        None,
        parsers.key_file,
        "FILE",
        "file with the key for communicator hashes, 16 bytes or more, equal on all nodes",
    )
    with_ras: bool = setting(
        "nccl.ras", "false", parsers.switch, "BOOL", "query NCCL's RAS socket of a hung or slow job for missing ranks"
    )
    procfs: Path = setting("path.procfs", "/proc", parsers.existing_dir, "DIR", "mount point of procfs")
    orchestrator: OrchestratorSettings = group(OrchestratorSettings)
    otlp: OtlpSettings = group(OtlpSettings, otlp.read)
    log: LogSettings = group(LogSettings)


CONFIG_FILE = Setting(
    flag="config.file", default="", parse=Path, metavar="FILE", help="TOML file with any of these settings"
)
SETTINGS = settings_of(Config)


VARIABLES = frozenset(one.variable for one in (CONFIG_FILE, *SETTINGS))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --config.file and every setting."""
    command_line.add_arguments_in_groups(parser, (CONFIG_FILE, *SETTINGS))


def load(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Config:
    """The Config of parsed arguments. Raises BadInput, which names the setting, where its value came from and what is wanted."""
    texts = command_line.texts(arguments, (CONFIG_FILE, *SETTINGS))
    environment = os.environ if environment is None else environment
    file = Given(texts, environment).value(CONFIG_FILE)
    if file is not None:
        texts = toml_file.texts(file, SETTINGS) | command_line.texts_of_variables(environment, SETTINGS) | texts
    return Given(texts, environment).read(Config)
