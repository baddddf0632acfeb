"""Reports of ranks as documents: what survives, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.fleet.rank_report import RANKS_OF_NODE_MAX, decoded
from exporter.text.untrusted import Untrusted
from tests.support.rank_reports import a_chain, a_node, a_place, a_rank

HASH = (1 << 64) - 1


def document(**changes: Any) -> dict[str, Any]:
    """A rank with a chain, with changes of its members."""
    found: dict[str, Any] = json.loads(json.dumps(a_node(a_rank(chains=(a_chain(),))).to_document()))
    found["ranks"][0] |= changes
    return found


def test_report_survives() -> None:
    """A hash has 64 bits."""
    report = a_node(a_rank(places=(a_place(communicator=HASH),), chains=(a_chain(),)), truncated=2)

    assert decoded(json.dumps(report.to_document()).encode()) == report


def test_text_of_another_node_becomes_printable() -> None:
    """An escape sequence and a very long line."""
    chain = document()["ranks"][0]["chains"][0]
    found = decoded(json.dumps(document(comm="\x1b[2J", chains=[chain | {"line": "x" * 5000}])).encode())

    assert "\x1b" not in found.ranks[0].comm
    assert len(found.ranks[0].chains[0].line) == 1024


@pytest.mark.parametrize(
    "changes",
    [
        {"places": [["g" * 16, 0, 4, 1, 0.0]]},
        {"places": [["a" * 15, 0, 4, 1, 0.0]]},
        {"places": [["a" * 16, 4, 4, 1, 0.0]]},
        {"places": [["a" * 16, 0, 1 << 40, 1, 0.0]]},
        {"places": [["a" * 16, 0, 4, 1, -1.0]]},
        {"places": [["a" * 16, 0, 4, 1, 0.0]] * 17},
        {"slices": [[0.0, 15.0, 1, 1.0, 0.0, 0.0, {"lock": -1.0}]]},
        {"slices": [[0.0, 15.0, 1.5, 1.0, 0.0, 0.0, {}]]},
        {"slices": [[]] * 41},
        {"chains": [{}]},
        {"identity": 5},
        {"is_gone": "no"},
    ],
)
def test_what_is_no_report_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Untrusted):
        decoded(json.dumps(document(**changes)).encode())


@pytest.mark.parametrize("changes", [{"cause": "magic"}, {"state": "unknown"}, {"severity": 5}])
def test_words_of_chains_are_of_closed_sets(changes: dict[str, Any]) -> None:
    chain = document()["ranks"][0]["chains"][0]

    with pytest.raises(Untrusted):
        decoded(json.dumps(document(chains=[chain | changes])).encode())


def test_another_version_is_refused() -> None:
    with pytest.raises(Untrusted, match="ranks of version 2, not 1"):
        decoded(json.dumps(document() | {"version": 2}).encode())


def test_number_of_ranks_is_bounded() -> None:
    found = document()

    with pytest.raises(Untrusted):
        decoded(json.dumps(found | {"ranks": found["ranks"] * (RANKS_OF_NODE_MAX + 1)}).encode())


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"{}", b"\xff", b"[" * 10_000])
def test_other_content_is_refused(raw: bytes) -> None:
    with pytest.raises(Untrusted):
        decoded(raw)
