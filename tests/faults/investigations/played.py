"""A job with a fault, the exporter and `serve` beside it, and a client that asks while the fault is there."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.faults.investigations.cases import Case
from tests.faults.investigations.investigator import Findings, investigate
from tests.faults.shapes import SHAPES
from tests.faults.shapes.shape import InsideFault
from tests.faults.trials.job import TrialJob, started
from tests.faults.trials.outside.neighbour import weigh
from tests.faults.trials.outside.registry import OUTSIDE
from tests.faults.trials.trial import FIRST_STEPS, LEARN_SECONDS, START_SECONDS
from tests.support.exporter_process import Exporter, running
from tests.support.serving import Serving, serving

ASKED_AFTER_SECONDS: Final = 25.0
"""After the fault began."""


def a_while(_exporter: Exporter) -> None:
    """Until a person has noticed that a job is slow."""
    time.sleep(ASKED_AFTER_SECONDS)


def play(case: Case, libraries: Path, wait: Callable[[Exporter], None] = a_while) -> Findings:
    """libraries: of private_standin(). wait: from the begin of the fault to the first question.

    Raises NotPossible where the machine cannot have the fault.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as parent:
        folder, history = Path(parent, "job"), Path(parent, "history", "history.sqlite")
        folder.mkdir()
        with (
            running(f"--history.path={history}") as exporter,
            serving(history, Path(parent)) as server,
            started(SHAPES[case.shape], folder, libraries, seed=1, extra=case.extra) as job,
        ):
            weigh(job.groups["cpu"], case.job_weight)
            job.running.wait_for_steps(FIRST_STEPS, START_SECONDS)
            time.sleep(LEARN_SECONDS)
            with _brought(job, case):
                wait(exporter)
                return asyncio.run(_asked(server))


def _brought(job: TrialJob, case: Case) -> AbstractContextManager[object]:
    planned = case.planned
    if planned.is_inside:
        return job.running.fault(InsideFault(planned.name), planned.share, planned.rank)
    return OUTSIDE[planned.name].bring(job, planned.share)


async def _asked(server: Serving) -> Findings:
    headers = {"Authorization": f"Bearer {server.tokens['admin']}"}
    async with (
        httpx2.AsyncClient(headers=headers, verify=server.trusting(), timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
    ):
        return await investigate(client)
