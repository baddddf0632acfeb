"""event: an event of a chain, as a document and back, and as a sentence."""

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
from tests.unit.chains.remedies.contexts import TRAINER

NOW = Moment(monotonic_ns=11 * SECOND, unix_ns=1_800_000_000 * SECOND)
RANK = Identity(node="gpu7", rank="3", container="0123456789ab")
CONTEXT = ProcessContext(100, "/docker/abc", "0-3", (777, 778))


def an_event(
    chain: Chain | None = None, change: Change = Change.OPENED, identity: Identity | None = RANK
) -> ChainEvent:
    return ChainEvent.from_transition(Transition(change, chain or a_chain()), identity, CONTEXT, NOW)


class TestFromTransition:
    def test_begin_is_in_time_of_day(self) -> None:
        """The chain began one second before it was opened."""
        event = an_event()

        assert event.began_unix_ns == 1_799_999_999 * SECOND
        assert event.duration_ns == 1 * SECOND

    def test_duration_does_not_change_when_the_clock_is_set(self) -> None:
        """A chain of 15 s, during which the clock was set back by an hour."""
        transition = a_chain().resolved(25 * SECOND, End.RECOVERED)
        event = ChainEvent.from_transition(
            transition, RANK, CONTEXT, Moment(25 * SECOND, (1_800_000_000 - 3600) * SECOND)
        )

        assert event.duration_ns == 15 * SECOND
        assert event.at_unix_ns - event.began_unix_ns == 15 * SECOND

    def test_commands_are_those_of_the_remedy(self) -> None:
        """For a process that runs on this node."""
        event = ChainEvent.from_transition(Transition(Change.OPENED, a_chain()), RANK, TRAINER, NOW)

        assert event.commands[-1] == "taskset -acp 2-3 777"

    def test_commands_name_the_pod(self) -> None:
        pod = Identity("gpu7", namespace="ml", pod="train-0")
        event = ChainEvent.from_transition(Transition(Change.OPENED, a_chain(cause=Cause.CPU_QUOTA)), pod, TRAINER, NOW)

        assert event.commands[-1] == "kubectl -n ml describe pod train-0"


class TestOlderDocument:
    def test_event_without_start_times_is_read(self) -> None:
        """They are not known, then."""
        document = json.loads(json.dumps(an_event().to_document()))
        del document["start_ticks"], document["culprit_start_ticks"]
        event = ChainEvent.from_document(document)

        assert (event.culprit_tgids, event.start_ticks, event.culprit_start_ticks) == ((777, 778), 0, ())

    def test_event_without_lost_time_is_read(self) -> None:
        """It has none, then."""
        document = json.loads(json.dumps(an_event(a_chain(lost_ns=3 * SECOND)).to_document()))
        del document["lost_ns"]

        assert ChainEvent.from_document(document).lost_ns == 0


class TestDocument:
    @pytest.mark.parametrize(
        "event",
        [
            an_event(),
            an_event(identity=None),
            an_event(a_chain().resolved(25 * SECOND, End.RECOVERED).chain, Change.RESOLVED),
            an_event(a_chain(cause=Cause.OWN_CODE, lost_ns=3 * SECOND)),
            an_event(a_chain(cause=Cause.NCCL_HANG, slowdown=None, culprits=(), peer="3")),
            ChainEvent.from_transition(
                Transition(Change.EVIDENCE, a_chain()), RANK, CONTEXT, NOW, ("called by", "  step+0x1 (trainer)")
            ),
        ],
        ids=["opened", "no labels yet", "resolved", "with lost time", "without a slowdown", "evidence"],
    )
    def test_survives_json(self, event: ChainEvent) -> None:
        assert ChainEvent.from_document(json.loads(json.dumps(event.to_document()))) == event

    def test_ids_of_processes_are_called_pid_in_documents(self) -> None:
        document = an_event().to_document()

        assert (document["pid"], document["culprit_pids"]) == (100, (777, 778))
        assert not {"tgid", "culprit_tgids"} & document.keys()

    def test_document_without_evidence_is_accepted(self) -> None:
        """Recordings may be older than the program that reads them."""
        document = an_event().to_document()
        del document["evidence"]

        assert ChainEvent.from_document(document) == an_event()

    @pytest.mark.parametrize("change", [{"cause": "bad_luck"}, {"severity": 3}, {"shares": "lock"}, {"new_field": 1}])
    def test_other_documents_are_refused(self, change: dict[str, object]) -> None:
        with pytest.raises((KeyError, TypeError, ValueError)):
            ChainEvent.from_document(json.loads(json.dumps(an_event().to_document())) | change)


class TestSentence:
    def test_hang_names_the_missing_rank(self) -> None:
        """No step ends, so a slowdown is not known."""
        chain = a_chain(cause=Cause.NCCL_HANG, slowdown=None, lost_share=1.0, culprits=(), peer="3")

        assert an_event(chain).sentence == "nccl_hang: 100 % of the time is lost to it, rank 3 is late"

    def test_cause_stands_alone_without_other_facts(self) -> None:
        chain = a_chain(cause=Cause.CUDA_OOM, slowdown=None, lost_share=0.0, culprits=())

        assert an_event(chain).sentence == "cuda_oom"
