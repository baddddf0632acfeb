"""`run` with two libraries that see the same calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import forwarding_library
from tests.support.exporter_process import Exporter, running
from tests.support.exposition import Scrape
from tests.support.held_calls import fresh_rank, without_rank
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
OPERATIONS = "gpustall_cuda_operations_total"
SURPLUS = "gpustall_exporter_surplus_attachments_total"


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()


class TestPassedOn:
    """One library passes its calls on to the other."""

    def test_calls_are_counted_once_and_the_surplus_attachment_is_reported(self, tmp_path: Path) -> None:
        """23 calls; both libraries stay attached, and one attachment is reported as surplus."""
        program, rank = forwarding_library.compiled(tmp_path), fresh_rank()
        with running() as exporter, forwarding_library.caller(program, 23, {**without_rank(), "RANK": rank}) as caller:
            for name in (forwarding_library.FIRST, forwarding_library.SECOND):
                eventually(lambda name=name: f"attached to {tmp_path / name}" in exporter.logs, f"{name} is probed")
            caller.make()
            scrape = eventually(
                lambda: self._with_calls(exporter, rank), "calls and the surplus attachment are exported"
            )

            assert scrape.total(OPERATIONS, operation="cudaEventRecord", rank=rank) == 23
            assert scrape.total(SURPLUS, library="runtime") == 1
            assert f"detached from {tmp_path}" not in exporter.logs
            assert (
                f"calls to {tmp_path / forwarding_library.FIRST} are forwarded to {tmp_path / forwarding_library.SECOND}"
                in exporter.logs
            )

    @staticmethod
    def _with_calls(exporter: Exporter, rank: str) -> Scrape | None:
        scrape = exporter.scrape()
        return scrape if scrape.total(OPERATIONS, rank=rank) and scrape.total(SURPLUS) else None
