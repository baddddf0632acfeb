"""The boards fit Grafana's own types: no unknown member, no unknown value."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dashboards.__main__ import BOARDS, text_of
from dashboards.boards import Board

PACKAGES = Path(__file__).parent / "grafana"
KINDS = {
    "bargauge": "bargauge/panelcfg/x/BarGaugePanelCfg",
    "heatmap": "heatmap/panelcfg/x/HeatmapPanelCfg",
    "stat": "stat/panelcfg/x/StatPanelCfg",
    "state-timeline": "statetimeline/panelcfg/x/StateTimelinePanelCfg",
    "table": "table/panelcfg/x/TablePanelCfg",
    "timeseries": "timeseries/panelcfg/x/TimeSeriesPanelCfg",
}
"""Kind of a panel -> where `@grafana/schema` has its options."""

OF_PROMETHEUS = {"expr", "step", "titleFormat", "textFormat", "tagKeys", "useValueForTime"}
"""Members of an annotation that its data source reads, and that Grafana's types leave to it."""

# JSON has words where the types have enumerations.
PLAIN = """\
type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[]
  : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
"""
FLAGS = ("--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext")


@pytest.fixture(scope="module")
def packages() -> Path:
    """A folder with Grafana's types and the compiler, from npm; made once."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is missing: install Node.js")
    wanted = b"".join(path.read_bytes() for path in sorted(PACKAGES.iterdir()))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "gpu-stall-exporter" / "conformance" / f"grafana-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(PACKAGES, folder)
        install = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
        if done.returncode:
            pytest.skip(f"Grafana's types cannot be installed: {done.stderr[-300:]}")
        (folder / "whole").touch()
    return folder


def typed(board: Board) -> str:
    """The board and the options of its panels as TypeScript, which compiles if they fit the types."""
    document: dict[str, Any] = json.loads(text_of(board))
    for annotation in document["annotations"]["list"]:
        for name in OF_PROMETHEUS:
            del annotation[name]
    lines = ["import type { Dashboard } from '@grafana/schema';", PLAIN]
    lines += [
        f"import type * as {kind.replace('-', '_')} from '@grafana/schema/dist/esm/raw/composable/{path}_types.gen';"
        for kind, path in KINDS.items()
    ]
    lines.append(f"export const board = {json.dumps(document)} satisfies Plain<Dashboard>;")
    panels = itertools.chain.from_iterable((one, *one.get("panels", ())) for one in document["panels"])
    for panel in panels:
        if panel["type"] == "row":
            continue
        kind, number = panel["type"].replace("-", "_"), panel["id"]
        lines.append(f"export const options{number} = {json.dumps(panel['options'])} satisfies Plain<{kind}.Options>;")
        custom = panel["fieldConfig"]["defaults"].get("custom")
        if custom:
            lines.append(f"export const custom{number} = {json.dumps(custom)} satisfies Plain<{kind}.FieldConfig>;")
    return "\n".join(lines) + "\n"


def complaints(packages: Path, name: str, text: str) -> str:
    """The output of the compiler."""
    source = packages / f"{name}.ts"
    source.write_text(text, encoding="utf-8")
    compiler = packages / "node_modules" / ".bin" / "tsc"
    done = subprocess.run(
        [compiler, *FLAGS, source], cwd=packages, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout + done.stderr


class TestTypes:
    """Types of `@grafana/schema`."""

    @pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
    def test_board_has_them(self, packages: Path, board: Board) -> None:
        """The board, the options of its panels, and their field options."""
        assert complaints(packages, board.uid, typed(board)) == ""

    def test_wrong_member_is_found(self, packages: Path) -> None:
        """Without this, the test above would prove nothing."""
        text = typed(BOARDS[0]).replace('"colorMode": "value"', '"colorMode": "loud"')

        assert "loud" in complaints(packages, "wrong", text)
