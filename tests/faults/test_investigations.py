"""An investigation with a real job, the exporter and `serve`: `make investigations` has ten."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.python.call_site import LINES
from tests.faults.injectors import NotPossible
from tests.faults.investigations.cases import Case
from tests.faults.investigations.judged import Judged
from tests.faults.investigations.played import play
from tests.faults.recorder import private_standin
from tests.faults.shapes.shape import InsideFault
from tests.support.exporter_process import Exporter
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = [pytest.mark.end_to_end, pytest.mark.whole_machine]
CASE = Case(
    "file-lock",
    "another process holds a lock on a file",
    "lightning",
    InsideFault.FILE_LOCK.value,
    culprits=("python",),
    lines=("fcntl.flock(self._file, fcntl.LOCK_EX)",),
    share=20.0,
)
"""It costs nearly all of the time, so that other work on the machine costs less."""
PATIENCE_SECONDS = 120.0


def until_lines_are_known(exporter: Exporter) -> None:
    """In the log, for a chain with a right cause."""

    def is_there() -> bool:
        lines = [line for line in exporter.logs.splitlines() if LINES in line]
        return any(f"cause={cause} " in line for line in lines for cause in CASE.causes)

    eventually(is_there, "the chain has lines of Python", PATIENCE_SECONDS)


class TestInvestigation:
    @pytest.mark.timeout(600)
    def test_a_client_finds_who_holds_a_lock_and_the_line_that_waits(self, tmp_path: Path) -> None:
        """It asks over HTTPS, and knows nothing of the fault."""
        need_tracing()
        try:
            found = Judged(CASE, play(CASE, private_standin(tmp_path), until_lines_are_known))
        except NotPossible as reason:
            pytest.skip(str(reason))
        said = "\n\n".join(call.text for call in found.findings.calls)

        assert found.is_right, said
        assert found.has_line, said
