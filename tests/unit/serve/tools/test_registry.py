"""The registry: what a model pays for, and names that it may get wrong."""

from __future__ import annotations

import json
import re

import pytest

from exporter.history.scope import EVERYTHING, Scope
from exporter.serve.mcp_server import listed_tool
from exporter.serve.tools.failure import UnknownName
from exporter.serve.tools.registry import TOOLS, Offer
from tests.support.investigated import an_hour

CHARACTERS_PER_TOKEN = 3.9
"""The list has 4.01 of them for each token of o200k_base, and 4.08 of cl100k_base."""
TOKENS_MAX = 2500
FLEET_TOKENS_MAX = 450
"""More, where a server knows other nodes."""
TEAM_A = Scope(namespaces=frozenset(("team-a",)))


def tokens_of(offer: Offer) -> float:
    """As clients of the protocol get them."""
    listed = [listed_tool(one).model_dump(by_alias=True, exclude_none=True) for one in offer.tools.values()]
    return len(json.dumps(listed, separators=(",", ":"))) / CHARACTERS_PER_TOKEN


class TestTools:
    def test_names_are_accepted_by_every_client(self) -> None:
        """Some refuse dots."""
        assert all(re.fullmatch(r"[a-z_]{1,32}", one.name) for one in TOOLS)

    def test_list_is_short(self) -> None:
        assert tokens_of(Offer()) < TOKENS_MAX
        assert tokens_of(Offer(has_fleet=True)) < TOKENS_MAX + FLEET_TOKENS_MAX

    @pytest.mark.parametrize("one", Offer().tools.values(), ids=lambda one: one.name)
    def test_answer_has_the_fields_of_its_schema(self, one, tmp_path) -> None:  # type: ignore[no-untyped-def]
        arguments = {"episode": {"chain_id": "2222"}, "query_sql": {"name": "stacks"}}.get(one.name, {})
        found = one.answer(an_hour(tmp_path), EVERYTHING, arguments)

        assert set(found) == set(one.output_schema()["required"])

    def test_unknown_tool_is_not_found(self) -> None:
        with pytest.raises(UnknownName) as refused:
            Offer().tool("explian")

        assert refused.value.remedy == "did you mean explain?"


class TestFleet:
    """The tool that asks other nodes."""

    def test_server_that_knows_nodes_has_it(self) -> None:
        offer = Offer(has_fleet=True)

        assert "fleet" in offer.tools
        assert "fleet asks other nodes" in offer.instructions

    def test_server_without_nodes_has_none(self) -> None:
        with pytest.raises(UnknownName, match="there is no tool 'fleet' without --nodes"):
            Offer().tool("fleet")
        assert "fleet" not in Offer().instructions

    def test_reader_with_limits_has_none(self) -> None:
        """Nodes show the server what its own token may see."""
        offer = Offer(TEAM_A, has_fleet=True)

        assert "fleet" not in offer.tools
        with pytest.raises(UnknownName, match="for this token, which has limits"):
            offer.tool("fleet")

    def test_reader_of_some_nodes_has_none(self) -> None:
        assert "fleet" not in Offer(Scope(nodes=frozenset(("gpu7",))), has_fleet=True).tools
