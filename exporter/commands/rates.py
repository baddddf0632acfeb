"""`gpu-stall-exporter rates`: Prometheus rules that price lost GPU time, from a file of GPU prices."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from exporter.errors import BadInput
from exporter.files import content
from exporter.rules import cost
from exporter.rules.kubernetes import prometheus_rule
from exporter.text.printable import printable


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
    text = cost.rules(cost.read(arguments.rates), printable(arguments.rates.name))
    if arguments.format == "kubernetes":
        text = prometheus_rule("gpu-stall-exporter-rates", f"# {cost.GENERATED_BY}", [text])
    if arguments.output is None:
        sys.stdout.write(text)
        return 0
    try:
        content.replace(arguments.output, [text.encode()])
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot write {arguments.output}: {getattr(error, 'strerror', None) or error}") from None
    return 0
