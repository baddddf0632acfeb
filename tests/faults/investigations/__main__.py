"""`python -m tests.faults.investigations [NAME…]`: faults in running jobs, each found by a client that asks `serve`.

Prints a row for each. Exit code: 0 if nine of ten are right. A fault that this machine cannot have is named and left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.faults.injectors import NotPossible
from tests.faults.investigations.cases import CASES, Case
from tests.faults.investigations.document import document, table_row
from tests.faults.investigations.judged import Judged
from tests.faults.investigations.played import play
from tests.faults.recorder import private_standin

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "investigations.md"
RIGHT_SHARE: Final = 0.9


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make investigations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(case.name for case in CASES)} [all]")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--answers", type=Path, metavar="FOLDER", help="write whole answers there")
    options = parser.parse_args(argv)
    if unknown := set(options.names) - {case.name for case in CASES}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    judged = []
    for one in played([case for case in CASES if not options.names or case.name in options.names]):
        judged.append(one)
        print(table_row(one), flush=True)
        if options.answers:
            _keep(one, options.answers)
    if options.write:
        PAGE.write_text(document(judged), encoding="utf-8")
    right = sum(one.is_right for one in judged)
    print(f"{right} of {len(judged)} are right")
    return 0 if judged and right >= RIGHT_SHARE * len(judged) else 1


def played(cases: Iterable[Case]) -> Iterator[Judged]:
    """One after another."""
    with tempfile.TemporaryDirectory() as folder:
        libraries = private_standin(Path(folder))
        for case in cases:
            try:
                yield Judged(case, play(case, libraries))
            except NotPossible as reason:
                print(f"{case.name}: not possible here: {reason}", flush=True)


def _keep(one: Judged, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(f"> {call.tool} {dict(call.arguments)}\n{call.text}" for call in one.findings.calls)
    (folder / f"{one.case.name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
