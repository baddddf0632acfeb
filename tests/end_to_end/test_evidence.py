"""A rank that does not join a collective, with the running exporter: a chain, the same in log, metrics and what is pushed.

Other work on the machine may open chains of other causes. It cannot make this one, end it, or keep it from opening.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.exporter_process import Exporter, running
from tests.support.exposition import Scrape
from tests.support.hanging_job import HANGS_AT, evidence_of_hang, hanging_job, lines_about
from tests.support.held_calls import held_calls
from tests.support.otlp_records import ReceivedLog, ReceivedSpan, read_logs_json, read_spans_json
from tests.support.receiver import Receiver, receiver
from tests.support.requirements import need_tracing
from tests.support.traced import eventually, only

pytestmark = pytest.mark.end_to_end
BCC = Path("/usr/lib/python3/dist-packages/bcc")
CAUSE = "nccl_hang"


class Hang(NamedTuple):
    """What was reported of the chain until the job was killed. page: while it was open. lines: of the log."""

    exporter: Exporter
    evidence: str
    page: Scrape
    lines: list[dict[str, str]]
    logs: list[ReceivedLog]
    span: ReceivedSpan


@pytest.fixture(scope="module")
def hang() -> Iterator[Hang]:
    need_tracing()
    with (
        receiver() as found,
        held_calls(),
        running(
            *("--log.format=json", f"--otlp.endpoint={found.url}", "--otlp.interval=1s"),
            environment={"NO_PROXY": "*", "no_proxy": "*"},
        ) as exporter,
    ):
        with hanging_job() as job:
            eventually(lambda: job.step >= HANGS_AT - 1, "the job hangs")
            tgid = job.hung_tgid
            evidence = "; ".join(eventually(lambda: evidence_of_hang(exporter, tgid), "evidence of the hang"))
            page = eventually(lambda: _with_chain(exporter), "the chain is scraped")
        span = only(eventually(lambda: _spans(found), "its span is pushed"))
        logs = eventually(lambda: _logs_to_the_end(found, span.trace_id), "its end is pushed")
        lines = [line for line in lines_about(exporter, tgid, "chain ") if line["cause"] == CAUSE]
        yield Hang(exporter, evidence, page, lines, logs, span)


def _with_chain(exporter: Exporter) -> Scrape | None:
    page = exporter.scrape()
    return page if page.total("gpustall_chain_severity", cause=CAUSE) else None


def _spans(found: Receiver) -> list[ReceivedSpan]:
    requests = [request for request in found.requests if request.path == "/v1/traces"]
    return [one for request in requests for one in read_spans_json(request.content) if one.name == CAUSE]


def _logs_to_the_end(found: Receiver, chain_id: str) -> list[ReceivedLog]:
    """Those of a chain, once the last one has come."""
    requests = [request for request in found.requests if request.path == "/v1/logs"]
    logs = [one for request in requests for one in read_logs_json(request.content) if one.trace_id == chain_id]
    return logs if logs and logs[-1].event_name == "gpustall.chain.resolved" else []


class TestChain:
    def test_log_scrape_and_push_have_the_same_chain(self, hang: Hang) -> None:
        """Its id, its cause, and the rank that is missing."""
        scraped = only(hang.page.matching("gpustall_chain_severity", cause=CAUSE))

        assert {line["chain_id"] for line in hang.lines} == {hang.span.trace_id}
        assert {scraped.labels["rank"], *(line["rank"] for line in hang.lines)} == {"1"}
        assert hang.logs[-1].attributes["gpustall.chain.cause"] == CAUSE

    def test_it_is_critical_everywhere(self, hang: Hang) -> None:
        severity = only(hang.page.matching("gpustall_chain_severity", cause=CAUSE)).value

        assert (severity, hang.lines[-1]["severity"]) == (4, "critical")
        assert hang.span.attributes["gpustall.chain.severity"] == "critical"

    def test_it_ends_with_the_job(self, hang: Hang) -> None:
        assert hang.lines[-1]["msg"].startswith(f"chain resolved: {CAUSE}")
        assert hang.span.attributes["gpustall.chain.end"] == "job_ended"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="callers are known on x86-64 only")
@pytest.mark.skipif(not BCC.exists(), reason="no bcc: apt-get install python3-bpfcc")
class TestEvidence:
    """Stacks of the rank that the other one waits for."""

    def test_hung_rank_names_its_caller(self, hang: Hang) -> None:
        """The backward thread is in fault_before_backward(), called by step_backward(); the step thread in backward_run()."""
        threads = {part.split(" (")[1].partition(")")[0]: part for part in hang.evidence.split("; thread ")}
        backward, step = threads["pt_autograd_0"], threads["trainer"]

        assert "fault_before_backward" in backward.partition(" < step_backward")[0]
        assert "backward_run" in step.partition(" < step_run")[0]

    def test_both_stacks_are_counted(self, hang: Hang) -> None:
        eventually(
            lambda: hang.exporter.scrape().by("result", "gpustall_exporter_stacks_total").get("named", 0) >= 2,
            "both are counted",
        )
