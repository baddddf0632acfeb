"""Which nodes a server may ask."""

from __future__ import annotations

import logging

import pytest

from exporter.config.fleet_flags import FleetFlags
from exporter.config.orchestrator import OrchestratorSettings
from exporter.errors import BadInput, NotPossibleHere
from exporter.fleet.node import Node
from exporter.serve.tools.fleet_nodes import check_nodes, chosen, nodes_of

NODES = [Node("gpu01", "gpu01"), Node("gpu02", "gpu02"), Node("login", "login")]


def flags(nodes: str) -> FleetFlags:
    return FleetFlags(
        *(nodes, 5.0, None, None, None, None),
        is_insecure=False,
        is_all_required=False,
        orchestrator=OrchestratorSettings(),
    )


class TestChosen:
    def test_without_names_all(self) -> None:
        assert chosen(NODES, " ") == NODES

    def test_names_are_in_the_notation_of_slurm(self) -> None:
        assert [one.name for one in chosen(NODES, "login,gpu[01-02]")] == ["login", "gpu01", "gpu02"]

    def test_node_that_is_named_twice_counts_once(self) -> None:
        assert [one.name for one in chosen(NODES, "gpu01,gpu01")] == ["gpu01"]

    def test_address_that_is_no_node_is_refused(self) -> None:
        """A call cannot make the server send its token elsewhere."""
        with pytest.raises(BadInput, match=r"there is no node 'evil\.example:10479'") as refused:
            chosen(NODES, "evil.example:10479")

        assert refused.value.remedy == "there are 3: gpu01, gpu02, login"

    def test_near_name_is_suggested(self) -> None:
        with pytest.raises(BadInput) as refused:
            chosen(NODES, "gpu03")

        assert refused.value.remedy == "did you mean gpu02?"

    @pytest.mark.parametrize("text", ["gpu[01", "a,,b", "gpu[2-1]", "gpu[0-99999]"])
    def test_names_that_cannot_be_read_are_refused(self, text: str) -> None:
        with pytest.raises(BadInput, match=r"^nodes: "):
            chosen(NODES, text)


class TestNodesOf:
    def test_nodes_of_the_flags(self) -> None:
        assert [one.name for one in nodes_of(flags("gpu[01-02]"), {}, "gpu02").nodes] == ["gpu02"]

    def test_file_of_the_server_that_is_gone_is_no_mistake_of_the_caller(self) -> None:
        with pytest.raises(NotPossibleHere, match=r"fleet\.toml"):
            nodes_of(flags("@/nowhere/fleet.toml"), {}, "")

    def test_name_without_an_address_is_not_possible_now(self) -> None:
        with pytest.raises(NotPossibleHere, match=r"^dns:a\.invalid: "):
            nodes_of(flags("dns:a.invalid"), {}, "")


class TestCheck:
    def test_mistake_in_the_flags_is_refused_at_the_start(self) -> None:
        with pytest.raises(BadInput, match="gpu1"):
            check_nodes(flags("gpu1,gpu1"), {})

    def test_server_starts_without_an_answer_of_dns(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            check_nodes(flags("dns:a.invalid"), {})

        assert "cannot find the nodes, retrying" in caplog.text
