"""What tests of settings share: loading a Config from flags and variables."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from exporter.config import Config, add_arguments, load
from exporter.config.otlp import Receiver
from exporter.errors import BadInput

BASE, METRICS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
LOCAL = "http://localhost:4318"
PEM = "-----BEGIN CERTIFICATE-----\n"
SECRET = "s3cr3t"  # noqa: S105 - it must appear nowhere


def loaded(*argv: str, **environment: str) -> Config:
    """The Config of flags and variables; NODE_NAME is gpu7 unless given."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return load(vars(parser.parse_args(argv)), {"NODE_NAME": "gpu7", **environment})


def receiver(*argv: str, **environment: str) -> Receiver:
    """The only receiver."""
    (found,) = loaded(*argv, **environment).otlp.receivers
    return found


def refused(*argv: str, **environment: str) -> str:
    """The error message."""
    with pytest.raises(BadInput) as raised:
        loaded(*argv, **environment)
    return raised.value.one_line()


def unusable(*argv: str, **environment: str) -> str:
    """The message about a variable of OpenTelemetry that is not used."""
    return loaded(*argv, **environment).otlp.unusable


def toml(folder: Path, text: str) -> str:
    """The flag that names a file with this text."""
    (folder / "exporter.toml").write_text(text, encoding="utf-8")
    return f"--config.file={folder}/exporter.toml"


def headers_file(folder: Path, text: str) -> str:
    """The flag that names a file of headers with this text."""
    (folder / "headers").write_text(text, encoding="utf-8")
    return f"--otlp.headers-file={folder}/headers"
