"""A running exporter finds a runtime under another name as soon as its process maps the driver, long before the next scan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.exporter_process import running
from tests.support.held_calls import fresh_rank, held_calls
from tests.support.requirements import need_command, need_tracing
from tests.support.traced import eventually
from tests.support.unnamed_libraries import RUNTIME, linked

pytestmark = pytest.mark.end_to_end
OPERATIONS = "gpustall_cuda_operations_total"


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()
    need_command("cc", "gcc")


class TestFreshProcess:
    """Scans are a day apart."""

    def test_calls_of_a_new_process_are_counted(self, tmp_path: Path) -> None:
        """And those of a second one, whose driver is probed already."""
        (tmp_path / "first").mkdir()
        (tmp_path / "second").mkdir()
        first = linked(tmp_path / "first", "libndj4cuda.so", RUNTIME)
        second = linked(tmp_path / "second", "libndj4cuda.so", RUNTIME)
        with running("--probes.discovery-interval=24h") as exporter:
            for executable in (first, second):
                rank = fresh_rank()
                with held_calls("cudaEventRecord:23", executable=executable, rank=rank) as calls:
                    said = f"attached to {executable.parent}/libndj4cuda.so"
                    eventually(lambda said=said: said in exporter.logs, said)
                    calls.make()
                    eventually(
                        lambda rank=rank: (
                            exporter.scrape().total(OPERATIONS, rank=rank, operation="cudaEventRecord", api="runtime")
                            == 23
                        ),
                        "23 calls are counted",
                    )
