"""What does an hour of a GPU cost? A file of prices becomes rules that turn lost GPU time into dollars.

In: `rates.toml`. Out: a rule file for Prometheus; prices stand in it as numbers, and models as the NVIDIA driver calls them.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.errors import BadInput

DEFAULT = "default"
"""The price of a GPU whose model has none of its own."""

TABLE = "usd_per_hour"
MODELS = (
    *("GB300", "GB200", "GH200", "B300", "B200", "H200", "H100", "H800", "H20"),
    *("A100", "A800", "A40", "A30", "A16", "A10G", "A10", "A2", "A6000", "A5000", "A4000"),
    *("L40S", "L40", "L20", "L4", "L2", "V100", "T4", "P100", "P40", "P4", "K80"),
    *("RTX 5090", "RTX 5080", "RTX 4090", "RTX 4080", "RTX 3090", "RTX 3080", "RTX 6000 Ada", "RTX PRO 6000"),
)
"""Words that tell a model within the name that the driver gives it, such as H100 in `NVIDIA H100 80GB HBM3`."""
_VENDORS = ("NVIDIA ", "Tesla ", "GeForce ", "Quadro ")
MADE_BY = "Made by `gpu-stall-exporter rates`."
_HEAD = """\
# Made by `gpu-stall-exporter rates` from {source}; edit that file instead.
# Lost GPU time in dollars: what a rank loses in an hour at its present pace, by cause.
groups:
  - name: gpustall-cost
    rules:
      # The price of an hour of one GPU. A machine with GPUs of several models has the price that stands first.
      - record: instance:gpustall_gpu:usd_per_hour
        expr: |2
"""
_TAIL = """
      - record: rank:gpustall_lost:usd_per_hour
        expr: |2
            rate(gpustall_lost_seconds_total[5m])
          * on (cluster, job, instance) group_left ()
            instance:gpustall_gpu:usd_per_hour
      - record: namespace_training_job_cause:gpustall_lost:usd_per_hour
        expr: |2
          sum by (cluster, namespace, training_job, cause) (
              rank:gpustall_lost:usd_per_hour
            * ignoring (cause, training_job) group_left (training_job)
              rank:gpustall_training_job:info
          )
      - record: namespace:gpustall_lost:usd_per_hour
        expr: sum by (cluster, namespace) (rank:gpustall_lost:usd_per_hour)
      - record: cluster:gpustall_lost:usd_per_hour
        expr: sum by (cluster) (rank:gpustall_lost:usd_per_hour)
"""


@dataclass(frozen=True)
class Rate:
    """model: a word of MODELS, a whole name, or DEFAULT."""

    model: str
    usd_per_hour: float


def read(path: Path) -> tuple[Rate, ...]:
    """In the order of the file. Raises BadInput, which names the line."""
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is no TOML file: {error}") from None
    for name in found:
        if name != TABLE:
            raise BadInput(f"{_place(path, text, name)}: unknown table {name}", remedy=f"prices stand in [{TABLE}]")
    prices = found.get(TABLE)
    if not isinstance(prices, dict) or not prices:
        raise BadInput(f"{path} has no prices", remedy=f"write them below [{TABLE}], such as H100 = 2.99")
    return tuple(_rate(path, text, model, price) for model, price in prices.items())


def _rate(path: Path, text: str, model: str, price: object) -> Rate:
    place = _place(path, text, model)
    if model != DEFAULT and model not in MODELS and not model.startswith(_VENDORS):
        raise BadInput(
            f"{place}: unknown GPU model {model!r}",
            remedy=f"use a whole name as `nvidia-smi -L` has it, or one of {', '.join(MODELS)}",
        )
    if isinstance(price, bool) or not isinstance(price, (int, float)) or not math.isfinite(price):
        raise BadInput(f"{place}: the price of {model} is no number", remedy="give dollars an hour, such as 2.99")
    if price < 0:
        raise BadInput(f"{place}: the price of {model} is negative", remedy="give dollars an hour, such as 2.99")
    return Rate(model, float(price))


def _place(path: Path, text: str, key: str) -> str:
    """tomllib does not tell where a key stands."""
    pattern = re.compile(rf"""\s*(\[\s*)?["']?{re.escape(key)}["']?\s*[=\]]""")
    numbers = (number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line))
    return f"{path}, line {next(numbers, '?')}"


def rules(rates: tuple[Rate, ...], source: str) -> str:
    """The rule file. source: the name of the file that the prices come from."""
    priced = {rate.model: rate.usd_per_hour for rate in rates}
    return _HEAD.format(source=source) + "\n          or\n".join(_prices(priced)) + _TAIL


def _prices(priced: Mapping[str, float]) -> Iterator[str]:
    """Whole names before words: they are the narrower ones."""
    for model in sorted(priced, key=lambda model: (model in MODELS, not model.startswith(_VENDORS))):
        if model != DEFAULT:
            yield _price(f'gpustall_gpu_info{{model=~"{_matching(model)}"}}', priced[model])
    yield _price("gpustall_exporter_build_info", priced.get(DEFAULT, 0.0))


def _price(series: str, usd_per_hour: float) -> str:
    return f"            group by (cluster, job, instance) ({series}) * {usd_per_hour:g}"


def _matching(model: str) -> str:
    """A regular expression for the driver's names, which Prometheus matches from end to end."""
    if model not in MODELS:
        return re.sub(r"([.+*?()|\[\]{}^$])", r"\\\\\1", model)
    return f"(.*[ -])?{model}([ -].*)?"
