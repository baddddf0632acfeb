"""report: what is said of a chain, as a document and back."""

from __future__ import annotations

import json

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, End, Transition
from exporter.chains.event import ChainEvent
from exporter.chains.remedies import ProcessContext
from exporter.clock import Moment
from exporter.model import Identity
from tests.support.chains import SECOND, a_chain

NOW = Moment(monotonic_ns=11 * SECOND, unix_ns=1_800_000_000 * SECOND)
RANK = Identity(node="gpu7", rank="3", container="0123456789ab")
PLACE = ProcessContext(100, "/docker/abc", "0-3", (777, 778))


def a_report(
    chain: Chain | None = None, change: Change = Change.OPENED, identity: Identity | None = RANK
) -> ChainEvent:
    """Of a chain that has just been opened."""
    return ChainEvent.from_transition(Transition(change, chain or a_chain()), identity, PLACE, NOW)


class TestReport:
    """Of a transition."""

    def test_begin_is_told_in_the_time_of_day(self) -> None:
        """It was slower for a second when that was certain."""
        report = a_report()

        assert report.began_unix_ns == 1_799_999_999 * SECOND
        assert report.duration_ns == 1 * SECOND

    def test_clock_that_was_set_does_not_bend_the_duration(self) -> None:
        """An episode of 15 s, within which somebody set the clock back by an hour."""
        transition = a_chain().resolved(25 * SECOND, End.RECOVERED)
        report = ChainEvent.from_transition(
            transition, RANK, PLACE, Moment(25 * SECOND, (1_800_000_000 - 3600) * SECOND)
        )

        assert report.duration_ns == 15 * SECOND
        assert report.at_unix_ns - report.began_unix_ns == 15 * SECOND

    def test_commands_have_the_real_numbers(self) -> None:
        """Of the place."""
        assert a_report().commands[0] == "ps -o pid,psr,pcpu,cgroup,args -p 777,778"


class TestDocument:
    """For files and other programs."""

    @pytest.mark.parametrize(
        "report",
        [
            a_report(),
            a_report(identity=None),
            a_report(a_chain().resolved(25 * SECOND, End.RECOVERED).chain, Change.RESOLVED),
            a_report(a_chain(cause=Cause.NCCL_HANG, slowdown=None, culprits=(), peer="3")),
            ChainEvent.from_transition(
                Transition(Change.EVIDENCE, a_chain()), RANK, PLACE, NOW, ("called by", "  step+0x1 (trainer)")
            ),
        ],
        ids=["opened", "held back", "resolved", "without a slowdown", "evidence"],
    )
    def test_comes_back_from_json_as_it_was(self, report: ChainEvent) -> None:
        """Nothing is lost on the way."""
        assert ChainEvent.from_document(json.loads(json.dumps(report.to_document()))) == report

    def test_document_of_before_there_was_evidence_has_none(self) -> None:
        """Files are older than the program that reads them."""
        document = a_report().to_document()
        del document["evidence"]

        assert ChainEvent.from_document(document) == a_report()

    @pytest.mark.parametrize("change", [{"cause": "bad_luck"}, {"severity": 3}, {"shares": "lock"}, {"new_field": 1}])
    def test_what_no_report_became_is_refused(self, change: dict[str, object]) -> None:
        """With one of the errors that are named."""
        with pytest.raises((KeyError, TypeError, ValueError)):
            ChainEvent.from_document(json.loads(json.dumps(a_report().to_document())) | change)


class TestSentence:
    """What is known, and nothing else."""

    def test_missing_rank_is_named(self) -> None:
        """No step ends, so that nothing can be said of how long they take."""
        chain = a_chain(cause=Cause.NCCL_HANG, slowdown=None, lost_share=1.0, culprits=(), peer="3")

        assert a_report(chain).sentence == "nccl_hang: 100% of the time is lost, rank 3 is late"

    def test_cause_alone_is_enough(self) -> None:
        """Out of memory."""
        chain = a_chain(cause=Cause.CUDA_OOM, slowdown=None, lost_share=0.0, culprits=())

        assert a_report(chain).sentence == "cuda_oom"
