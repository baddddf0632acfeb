"""promtool evaluates an expression for given series: what Prometheus makes of it, without a server."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PROMTOOL = shutil.which("promtool")
NEEDS_PROMTOOL = pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: install the package prometheus")


class Expected(NamedTuple):
    """The one value of an expression, without labels. at: since the first sample."""

    at: str
    value: float


def evaluated(series: Mapping[str, str], expression: str, expected: Expected) -> str:
    """What promtool reports: "" if the expression has this value. series: samples, one a minute, in its notation."""
    return _judged(
        series,
        [
            {
                "expr": expression,
                "eval_time": expected.at,
                "exp_samples": [{"labels": "{}", "value": expected.value}],
            }
        ],
    )


def empty(series: Mapping[str, str], expressions: Sequence[str], at: str, rules: Sequence[Path] = ()) -> str:
    """What promtool reports: "" if no expression has a value at this time. rules: files that are evaluated before."""
    return _judged(series, [{"expr": one, "eval_time": at, "exp_samples": []} for one in expressions], rules)


def reported(series: Mapping[str, str], checks: Iterable[tuple[str, Expected | str]], rules: Sequence[Path]) -> str:
    """What promtool reports about all of these expressions: "" if each has its value, or none at the time alone."""
    tests = [
        {"expr": expression, "eval_time": expected, "exp_samples": []}
        if isinstance(expected, str)
        else {
            "expr": expression,
            "eval_time": expected.at,
            "exp_samples": [{"labels": "{}", "value": expected.value}],
        }
        for expression, expected in checks
    ]
    return _judged(series, tests, rules)


def _judged(series: Mapping[str, str], tests: Sequence[Mapping[str, Any]], rules: Sequence[Path] = ()) -> str:
    assert PROMTOOL is not None
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": tests,
    }
    document = {"rule_files": list(map(str, rules)), "evaluation_interval": "1m", "tests": [case]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "case.yaml")
        path.write_text(json.dumps(document), encoding="utf-8")
        done = subprocess.run(
            [PROMTOOL, "test", "rules", path], capture_output=True, text=True, timeout=120, check=False
        )
    return "" if done.returncode == 0 else done.stdout + done.stderr
