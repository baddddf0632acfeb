"""pipeline.chain_log: a line in the log for each change of a chain."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.pipeline.chain_log import ChainLog
from tests.support.history import an_event, resolved


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Any:
    """Event -> (level, message, fields) of its line."""
    caplog.set_level(logging.INFO)

    def log(event: ChainEvent) -> tuple[str, str, dict[str, str]]:
        ChainLog().on_chain_event(event)
        (record,) = caplog.records
        return record.levelname, record.getMessage(), record.__dict__["fields"]

    return log


class TestChainLog:
    def test_opening_says_how_much_is_lost_and_to_what(self, logged: Any) -> None:
        """As a warning."""
        level, message, _ = logged(an_event())

        assert level == "WARNING"
        assert message == (
            "chain opened: cpu_contention: 46 % of the time is lost to it, steps take 1.9 times as long, culprit"
            " stress-ng (94 %)"
        )

    def test_opening_has_fields_for_machines(self, logged: Any) -> None:
        """With what to do."""
        _, _, fields = logged(an_event())

        assert fields == {
            "chain_id": "1" * 32,
            "cause": "cpu_contention",
            "effect": "gap",
            "severity": "high",
            "rank": "3",
            "pid": "100",
            "culprit": "stress-ng",
            "lost_share": "0.460",
            "contribution": "0.970",
            "open_seconds": "1.00",
            "remedy": "stress-ng is using the job's CPUs. Pin it elsewhere.",
            "commands": "taskset -acp 0-3 100; renice -n 19 -p 777",
        }

    def test_lost_time_is_in_seconds(self, logged: Any) -> None:
        """Since the chain began."""
        _, _, fields = logged(an_event(lost_ns=1_234_000_000))

        assert fields["lost_seconds"] == "1.23"

    def test_evidence_is_one_line(self, logged: Any) -> None:
        """Callers one behind the other; two threads, of which the second is in no function that is known."""
        lines = (
            "thread 1 has been in ncclAllReduce for 2.3 s, called by",
            "  inner",
            "  outer",
            "inside of it it is at",
            "  read",
            "thread 2 is at",
            "  0x1000",
        )
        level, message, fields = logged(an_event(change=Change.EVIDENCE, evidence=lines))

        assert level == "WARNING"
        assert message.startswith("chain evidence: cpu_contention: 46 % of")
        assert fields["evidence"] == (
            "thread 1 has been in ncclAllReduce for 2.3 s, called by inner < outer; inside of it it is at read;"
            " thread 2 is at 0x1000"
        )

    def test_end_is_information(self, logged: Any) -> None:
        """How long it lasted and why it is over, without a remedy."""
        level, _, fields = logged(resolved(an_event(), 15.0))

        assert level == "INFO"
        assert (fields["open_seconds"], fields["end"]) == ("15.00", "recovered")
        assert not {"remedy", "commands"} & fields.keys()

    def test_lasting_change_is_information(self, logged: Any) -> None:
        """Nothing has to be done about it."""
        level, message, _ = logged(
            an_event(
                cause=Cause.CHANGED, slowdown=None, lost_share=0.0, culprits=(), detail="steps take 12.0 ms (+20 %)"
            )
        )

        assert (level, message) == ("INFO", "chain opened: changed: steps take 12.0 ms (+20 %)")
