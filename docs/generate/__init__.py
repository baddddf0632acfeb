"""Files that are made from the code: tables of metrics, labels and flags, rules, boards. `make golden` writes them.

In: the catalogue, settings, operations, capabilities, floors, rule files, boards, a recording. Out: Markdown, YAML and JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dashboards.__main__ import BOARDS, file_of, text_of
from docs.generate.addresses import FILES, addressed
from docs.generate.deployment import datadog_mapping, rules_for_kubernetes, rules_of_prices
from docs.generate.explain_schema import explain_schema
from docs.generate.flags import flags_page
from docs.generate.fleet_schema import fleet_schema
from docs.generate.metrics import metrics_page
from docs.generate.overhead import overhead
from docs.generate.parts import capabilities, demo, floors, renewed
from docs.generate.queries import functions, queries, views
from docs.generate.tools import tools
from docs.generate.window_record import attributes, example
from exporter.__main__ import PROGRAM, command_parsers
from exporter.manual import completions, page
from exporter.manual.command import Command, commands

ROOT = Path(__file__).parents[2]
CHART = "deploy/helm/gpu-stall-exporter"


def _with_part(path: str, name: str, make: Callable[[], str]) -> str:
    return renewed((ROOT / path).read_text(encoding="utf-8"), name, make())


def _query_page() -> str:
    text = (ROOT / "docs/query.md").read_text(encoding="utf-8")
    for name, make in {"queries": queries, "views": views, "functions": functions}.items():
        text = renewed(text, name, make())
    return text


def _window_record_page() -> str:
    text = (ROOT / "docs/window-record.md").read_text(encoding="utf-8")
    for name, make in {"attributes": attributes, "example": example}.items():
        text = renewed(text, name, make())
    return text


def _manual(write: Callable[[str, Sequence[Command]], str]) -> str:
    return write(PROGRAM, commands(command_parsers()))


DOCUMENTS: dict[str, Callable[[], str]] = {
    **{path: partial(addressed, path) for path in FILES},
    "README.md": partial(_with_part, "README.md", "demo", demo),
    "alerts/prometheusrule.yaml": rules_for_kubernetes,
    "alerts/rates.rules.yaml": rules_of_prices,
    "docs/shell/_gpu-stall-exporter": partial(_manual, completions.zsh),
    "docs/shell/gpu-stall-exporter.1": partial(_manual, page.man),
    "docs/shell/gpu-stall-exporter.bash": partial(_manual, completions.bash),
    "docs/shell/gpu-stall-exporter.fish": partial(_manual, completions.fish),
    "docs/metrics.md": metrics_page,
    "deploy/datadog/openmetrics.d/conf.yaml": datadog_mapping,
    "docs/explain.schema.json": explain_schema,
    "docs/explain-nodes.schema.json": fleet_schema,
    "docs/faq.md": partial(_with_part, "docs/faq.md", "overhead", overhead),
    "docs/flags.md": flags_page,
    "docs/query.md": _query_page,
    "docs/window-record.md": _window_record_page,
    "docs/serve.md": partial(_with_part, "docs/serve.md", "tools", tools),
    "docs/architecture.md": partial(_with_part, "docs/architecture.md", "floors", floors),
    "docs/security.md": partial(_with_part, "docs/security.md", "capabilities", capabilities),
    **{str(file_of(board).relative_to(ROOT)): partial(text_of, board) for board in BOARDS},
    # Helm reads no files from outside of the chart, so the chart has copies.
    f"{CHART}/files/prometheusrule.yaml": rules_for_kubernetes,
    **{f"{CHART}/files/dashboards/{file_of(board).name}": partial(text_of, board) for board in BOARDS},
}
"""Path of each generated file, and the function that makes its text."""
