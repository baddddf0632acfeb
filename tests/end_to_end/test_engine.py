"""An engine that serves in bursts: its name, its iterations and its idle time, as scraped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpustall_standin as standin
from exporter.kernel.abi import Api
from tests.support.exporter_process import Exporter, running
from tests.support.exposition import Scrape
from tests.support.held_calls import fresh_rank
from tests.support.requirements import need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
STEPS = "gpustall_engine_step_duration_seconds_count"
IDLE = "gpustall_engine_idle_seconds_total"
INFO = "gpustall_engine_info"


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the engine and the libraries, as files that no other process maps."""
    found = tmp_path_factory.mktemp("engine")
    for name in (*STANDIN_LIBRARIES.values(), "server"):
        shutil.copy(standin.build_dir() / name, found)
    return found


@pytest.fixture(scope="module")
def exporter(folder: Path) -> Iterator[Exporter]:
    """An exporter that has probed the libraries for an earlier engine."""
    with running() as found:
        with engine(folder, fresh_rank(), "--bursts=100") as process:
            for name in (STANDIN_LIBRARIES[Api.RUNTIME], STANDIN_LIBRARIES[Api.DRIVER]):
                eventually(lambda name=name: f"attached to {folder}/{name}" in found.logs, f"{name} is probed")
            process.kill()
        yield found


def engine(folder: Path, rank: str, *flags: str, title: str = "sglang::scheduler_TP0") -> subprocess.Popen[str]:
    """An engine that serves."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "RANK": rank}
    line = [title, "--sync=block", "--output=event", *flags]
    return subprocess.Popen(line, executable=folder / "server", env=environment, stdout=subprocess.PIPE, text=True)


def truth_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it printed at its end."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readlines()[-1])
    return found


class TestEngine:
    """From its first iteration to after its last."""

    def test_its_iterations_and_idle_time_are_those_it_counts(self, exporter: Exporter, folder: Path) -> None:
        """The counts stay when it has ended, its name does not."""
        rank = fresh_rank()
        with engine(folder, rank, "--bursts=2", "--iterations=41", "--idle-ms=2500") as process:
            eventually(lambda: exporter.scrape().total(INFO, rank=rank, engine="sglang") == 1, "it is known")
            truth = truth_of(process)

        def is_over() -> Scrape | None:
            page = exporter.scrape()
            return None if page.matching(INFO, rank=rank) else page

        page = eventually(is_over, "it is gone")

        assert page.total(STEPS, rank=rank, engine="sglang") == truth["iterations"] == 82
        assert truth["idle_ns"] <= page.total(IDLE, rank=rank) * 1e9

    def test_idleness_grows_while_it_lasts(self, exporter: Exporter, folder: Path) -> None:
        """No request comes for a minute."""
        rank = fresh_rank()
        with engine(folder, rank, "--bursts=1", "--idle-ms=60000") as process:
            first = eventually(lambda: exporter.scrape().total(IDLE, rank=rank), "it is idle")
            eventually(lambda: exporter.scrape().total(IDLE, rank=rank) > first + 1, "it goes on")
            process.kill()

    def test_program_without_the_title_of_an_engine_is_none(self, exporter: Exporter, folder: Path) -> None:
        """It makes the same calls."""
        rank = fresh_rank()
        with engine(folder, rank, "--bursts=1", "--idle-ms=3600000", title="server") as process:
            page = eventually(lambda: self._with_calls(exporter, rank), "its calls are counted")
            process.kill()

        assert not [sample for sample in page.samples if "engine" in sample.name and sample.labels.get("rank") == rank]

    @staticmethod
    def _with_calls(exporter: Exporter, rank: str) -> Scrape | None:
        page = exporter.scrape()
        return page if page.total("gpustall_cuda_operations_total", rank=rank) else None
