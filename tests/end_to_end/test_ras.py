"""NCCL's own view of a job that hangs: a stand-in of its RAS socket, which the job's processes hold, and the running exporter.

The stand-in NCCL has no RAS. So a server of the test answers on a socket that the job has inherited: by its descriptors, the
job's processes listen.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.support.exporter_process import Exporter, running
from tests.support.hanging_job import HANGS_AT, Job, evidence_of_hang, hanging_job
from tests.support.held_calls import held_calls
from tests.support.ras_answers import a_communicator, a_missing_rank, a_rank, in_json
from tests.support.ras_server import answering, ras_server
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]
SWITCHED_ON = "--nccl.ras=true"


@pytest.fixture(autouse=True)
def _possible_here() -> None:
    need_tracing()


def of_ras(exporter: Exporter, job: Job) -> str:
    """What the evidence of the hang has of NCCL's RAS."""
    return "; ".join(one for one in evidence_of_hang(exporter, job.hung_tgid) if one.startswith("NCCL RAS: "))


def queries(exporter: Exporter) -> dict[str, float]:
    """How many there were, by result; those without any are left out."""
    found = exporter.scrape().by("result", "gpustall_exporter_nccl_ras_total")
    return {result: count for result, count in found.items() if count}


class TestHang:
    """Rank 1 does not enter a collective."""

    def test_evidence_names_the_rank_that_is_missing_for_nccl(self) -> None:
        """Its process, and where it runs, as NCCL knows them; the job is queried once."""
        jobs: list[Job] = []

        def status() -> bytes:
            first, second = jobs[0].tgids
            return in_json(a_communicator([a_rank(0, first)], [a_missing_rank(1, second)]))

        with ExitStack() as stack:
            stack.enter_context(held_calls())
            server = stack.enter_context(ras_server([answering(status)]))
            host, port = server.address
            exporter = stack.enter_context(running("--log.format=json", SWITCHED_ON))
            variables = {"NCCL_RAS_ADDR": f"{host}:{port}"}
            job = stack.enter_context(hanging_job(variables, [server.listening.fileno()]))
            jobs.append(job)
            eventually(lambda: job.step >= HANGS_AT - 1, "the job hangs")
            evidence = eventually(lambda: of_ras(exporter, job), "NCCL's view of the hang")

            missing = f"rank 1 (process {job.hung_tgid} on 10.0.0.2) of 2 in communicator ae94423cfbb2ef4a"
            assert f"NCCL RAS: {missing} does not answer" in evidence.split("; ")
            assert queries(exporter) == {"answered": 1}
            assert len(server.connections) == 1

    def test_job_without_ras_is_named_as_such(self) -> None:
        """The stand-in listens on no port, as NCCL before 2.24."""
        with held_calls(), running("--log.format=json", SWITCHED_ON) as exporter, hanging_job() as job:
            eventually(lambda: job.step >= HANGS_AT - 1, "the job hangs")
            evidence = eventually(lambda: of_ras(exporter, job), "why NCCL has no view")

            assert "no process of the job listens on port 28028" in evidence
            assert queries(exporter) == {"absent": 1}
