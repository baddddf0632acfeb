"""Every board and its file. `python -m dashboards` writes the files, and so does `make golden`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dashboards import chains, cost, exporter, fleet, host, ranks, workload
from dashboards.boards import Board

FOLDER = Path(__file__).parent / "grafana"
BOARDS = (fleet.BOARD, workload.BOARD, ranks.BOARD, host.BOARD, chains.BOARD, cost.BOARD, exporter.BOARD)
"""In the order in which to use them."""


def file_of(board: Board) -> Path:
    """gpustall-fleet -> grafana/fleet.json."""
    return FOLDER / f"{board.uid.removeprefix('gpustall-')}.json"


def text_of(board: Board) -> str:
    """The JSON of a board."""
    return json.dumps(board.document(), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write all files; returns the exit status."""
    for board in BOARDS:
        file_of(board).write_text(text_of(board), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
