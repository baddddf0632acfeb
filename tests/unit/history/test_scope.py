"""Scope: what of a history a reader sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.history.reader import opened
from exporter.history.scope import EVERYTHING, Scope
from exporter.model import Identity
from exporter.text.untrusted import Untrusted
from tests.support.investigated import two_teams

TEAM_A = Scope(namespaces=frozenset(("team-a",)))


class TestScope:
    def test_everything_is_seen_without_limits(self) -> None:
        assert EVERYTHING.sees(Identity(namespace="team-b"))
        assert EVERYTHING.sees(None)

    def test_namespace(self) -> None:
        assert TEAM_A.sees(Identity(namespace="team-a"))
        assert not TEAM_A.sees(Identity(namespace="team-b"))

    def test_node_and_namespace_must_both_match(self) -> None:
        scope = Scope(frozenset(("gpu7",)), frozenset(("team-a",)))

        assert scope.sees(Identity(node="gpu7", namespace="team-a"))
        assert not scope.sees(Identity(node="gpu8", namespace="team-a"))
        assert not scope.sees(Identity(node="gpu7", namespace="team-b"))

    def test_process_without_labels_is_not_seen_with_limits(self) -> None:
        assert not TEAM_A.sees(None)
        assert not TEAM_A.sees(Identity())

    @pytest.mark.parametrize("document", [None, 1, [], [1], {}, [1, 2], [1, [["a"], 1, "x"]]])
    def test_what_is_no_window_is_refused(self, document: object) -> None:
        with pytest.raises(Untrusted):
            TEAM_A.sees_document(document)


class TestHistory:
    """The reader gives nothing of others away."""

    def test_chains(self, tmp_path: Path) -> None:
        with opened(two_teams(tmp_path), scope=TEAM_A) as history:
            found = history.events(0)

        assert [one.event.chain_id[0] for one in found] == ["1"]

    def test_windows(self, tmp_path: Path) -> None:
        with opened(two_teams(tmp_path), scope=TEAM_A) as history:
            found = [window.labels.identity.rank for one in history.windows(0) for window in one.windows]

        assert found == ["3"]

    def test_packed_windows(self, tmp_path: Path) -> None:
        """For `query`, which decodes them in processes of its own."""
        path = two_teams(tmp_path)
        with opened(path, scope=TEAM_A) as history:
            (seen,) = history.packed_windows(0)
        with opened(path) as history:
            (all_of_them,) = history.packed_windows(0)

        assert len(seen.blob) < len(all_of_them.blob)
