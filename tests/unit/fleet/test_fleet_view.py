"""fleet.fleet_view: the workloads of all nodes as one view."""

from __future__ import annotations

from exporter.chains.chain import Severity
from exporter.fleet.asking import NodeAnswer
from exporter.fleet.failure import NodeFailure, NodeFailureKind
from exporter.fleet.fleet_view import fleet_view
from exporter.fleet.node import Node
from exporter.fleet.node_view import NodeView
from exporter.model import Identity
from exporter.scrape.view import FailedNode, OpenChain, Workload

RANK_3 = Identity("", "3", "", "", "")
WORKLOADS = (Workload(RANK_3, (), 20.0),)


def answer(name: str, *chains: OpenChain, is_recording: bool = True) -> NodeAnswer[NodeView]:
    return NodeAnswer(Node(name, name), NodeView(is_recording, WORKLOADS, chains), 0.1)


def chain(severity: Severity) -> OpenChain:
    return OpenChain(RANK_3, "lock", "step", severity)


class TestView:
    def test_identities_have_the_names_of_their_nodes(self) -> None:
        found = fleet_view([answer("gpu2"), answer("gpu1")], 1000.0)

        assert [(one.identity.node, one.identity.rank) for one in found.workloads] == [("gpu1", "3"), ("gpu2", "3")]
        assert (found.at_unix_seconds, found.window_seconds) == (1000.0, 30.0)

    def test_worst_chain_of_all_nodes_is_the_first(self) -> None:
        found = fleet_view([answer("gpu1", chain(Severity.LOW)), answer("gpu2", chain(Severity.HIGH))], 0.0)

        assert [one.identity.node for one in found.chains] == ["gpu2", "gpu1"]

    def test_node_that_failed_is_named(self) -> None:
        failed = NodeFailure(Node("gpu3", "gpu3"), NodeFailureKind.TOO_SLOW, "no complete answer within 10 s")
        found = fleet_view([answer("gpu1"), failed], 0.0)

        assert found.failed_nodes == (FailedNode("gpu3", "too_slow", "no complete answer within 10 s"),)
        assert found.failed_nodes[0].line == "gpu3: too slow: no complete answer within 10 s"

    def test_node_whose_exporter_has_stopped_is_a_note(self) -> None:
        assert fleet_view([answer("gpu1", is_recording=False)], 0.0).notes == (
            "gpu1: no exporter writes its history now",
        )
