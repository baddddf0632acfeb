"""pipeline.chain_events and chain_log: one event for whatever happens to a chain, and its line in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change, End, Transition
from exporter.chains.event import ChainProcess
from exporter.clock import Moment
from exporter.model import Identity
from exporter.pipeline.chain_events import ChainEvents
from exporter.pipeline.chain_log import ChainLog
from exporter.stacks.collector import Evidence
from tests.support.chains import SECOND, a_chain
from tests.unit.host.process_tree import process

RANK = Identity(node="gpu7", rank="3", container="0123456789ab")
NOW = Moment(monotonic_ns=11 * SECOND, unix_ns=1_800_000_000 * SECOND)
CGROUPS = b"7:cpu,cpuacct:/docker/abc/\n1:memory:/other\n0::/unified\n"


class Sampled:
    """Stacks that have been sampled already."""

    def __init__(self, found: list[Evidence]) -> None:
        self.found = found

    def tick(self, *_arguments: object) -> list[Evidence]:
        return self.found


def record_of(
    caplog: pytest.LogCaptureFixture, proc: Path, transition: Transition, identity: Identity | None = RANK
) -> logging.LogRecord:
    """The record of a transition of process 100."""
    caplog.set_level(logging.INFO)
    processes = process(proc, 100, cgroup=CGROUPS)
    (proc / "100" / "status").write_text("Name:\tpython\nCpus_allowed_list:\t0-3,8\n")
    ChainEvents(processes, [ChainLog()]).transition(transition, ChainProcess(identity, 100, (777,)), NOW)
    (record,) = caplog.records
    return record


class TestLine:
    """One for each transition."""

    def test_opening_says_how_much_is_lost_and_to_what(self, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
        """As a warning."""
        record = record_of(caplog, tmp_path, Transition(Change.OPENED, a_chain()))

        assert record.levelname == "WARNING"
        assert record.getMessage() == (
            "chain opened: cpu_contention: steps take 2.0 times as long, 50% of the time is lost, 90% of it to stress-ng"
        )

    def test_opening_has_fields_for_machines(self, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
        """With what to do: the CPUs and the processes are the real ones."""
        record = record_of(caplog, tmp_path, Transition(Change.OPENED, a_chain()))

        assert record.__dict__["fields"] == {
            "chain_id": "1" * 32,
            "cause": "cpu_contention",
            "effect": "gap",
            "severity": "high",
            "rank": "3",
            "container": "0123456789ab",
            "pid": "100",
            "culprit": "stress-ng",
            "lost_share": "0.500",
            "contribution": "0.970",
            "open_seconds": "1.00",
            "remedy": "stress-ng is using the job's CPUs. Pin it elsewhere, lower its priority, or give the job dedicated CPUs.",
            "commands": "ps -o pid,psr,pcpu,cgroup,args -p 777; taskset -acp 0-3,8 100; renice -n 19 -p 777",
        }

    def test_cgroup_of_cpus_is_named(self, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
        """Where controllers have hierarchies of their own."""
        record = record_of(caplog, tmp_path, Transition(Change.OPENED, a_chain(cause=Cause.CPU_QUOTA, culprits=())))

        assert "/sys/fs/cgroup/docker/abc/cpu.max" in record.__dict__["fields"]["commands"]

    def test_evidence_is_one_line(self, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
        """Callers one behind the other; two threads, of which the second is in no function that is known."""
        lines = (
            "thread 1 has been in ncclAllReduce for 2.3 s, called by",
            "  inner",
            "  outer",
            "inside of it it is at",
        )
        more = ("  read", "thread 2 is at", "  0x1000")
        found = Evidence(a_chain(), ChainProcess(RANK, 100, (777,)), lines + more)
        events = ChainEvents(process(tmp_path, 100, cgroup=CGROUPS), [ChainLog()], Sampled([found]))
        events.evidence([a_chain()], [], lambda _chain: ChainProcess(RANK, 100, (777,)), NOW)
        (record,) = caplog.records

        assert record.levelname == "WARNING"
        assert record.getMessage().startswith("chain evidence: cpu_contention: steps take")
        assert record.__dict__["fields"]["evidence"] == (
            "thread 1 has been in ncclAllReduce for 2.3 s, called by inner < outer; inside of it it is at read;"
            " thread 2 is at 0x1000"
        )

    def test_end_is_information(self, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
        """How long it lasted and why it is over, without a remedy."""
        record = record_of(caplog, tmp_path, a_chain().resolved(25 * SECOND, End.RECOVERED), None)
        fields = record.__dict__["fields"]

        assert record.levelname == "INFO"
        assert (fields["open_seconds"], fields["end"]) == ("15.00", "recovered")
        assert not {"remedy", "commands", "rank"} & fields.keys()

    def test_process_that_has_ended_has_no_context(self, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
        """Unknown CPUs stay a placeholder in the command."""
        events = ChainEvents(process(tmp_path, 100), [ChainLog()])
        events.transition(Transition(Change.OPENED, a_chain()), ChainProcess(RANK, 101, ()), NOW)

        assert "taskset -acp CPUS 101" in caplog.records[0].__dict__["fields"]["commands"]
