"""`make pictures`: the boards of the documents, drawn from what real programs measured here and now, in about three minutes."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from dashboards.__main__ import BOARDS
from dashboards.data import Span
from dashboards.drawing import draw
from tests.support.requirements import ROOT
from tests.support.watched_jobs import watched

FOLDER = ROOT / "docs" / "pictures"
SECONDS = 150


def main() -> int:
    """Write one picture for each board; returns the exit status."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.time()
        with watched(Path(folder)) as servers:
            time.sleep(max(begin + SECONDS - time.time(), 0))
            span = Span(begin + 10, time.time(), 2.0)
            for board in BOARDS:
                path = FOLDER / f"{board.uid.removeprefix('gpustall-')}.svg"
                path.write_text(draw(board, servers.native.url, span), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
