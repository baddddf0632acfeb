"""`gpu-stall-exporter rates`: Prometheus rules that price lost GPU time, from a file of GPU prices."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from exporter.errors import BadInput
from exporter.rules import cost
from exporter.rules.kubernetes import prometheus_rule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rates", type=Path, default=Path("rates.toml"), metavar="FILE", help="TOML file with GPU prices [rates.toml]"
    )
    parser.add_argument(
        "--format",
        choices=("rules", "kubernetes"),
        default="rules",
        help="rule file for Prometheus, or PrometheusRule for Kubernetes [rules]",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write [standard output]")


def run(arguments: argparse.Namespace) -> int:
    """Replaces the output at once: Prometheus never reads half a file."""
    text = cost.rules(cost.read(arguments.rates), arguments.rates.name)
    if arguments.format == "kubernetes":
        text = prometheus_rule("gpu-stall-exporter-rates", f"# {cost.GENERATED_BY}", [text])
    if arguments.output is None:
        sys.stdout.write(text)
        return 0
    temporary: Path = arguments.output.with_name(f".{arguments.output.name}.new")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(arguments.output)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BadInput(f"cannot write {arguments.output}: {error.strerror}") from None
    return 0
