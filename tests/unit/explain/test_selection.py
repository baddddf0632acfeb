"""explanation.selection: whom --workload means."""

from __future__ import annotations

import pytest

from exporter.errors import BadInput
from exporter.explain.selection import Selection
from exporter.model import Identity

RANK = Identity(node="gpu7", rank="3", container="0123456789ab", pod="trainer-0")


class TestSelection:
    """By labels, or by what one has at hand."""

    @pytest.mark.parametrize(
        "text", ["", "3", "0123", "trainer", "rank=3", "rank=3,container=0123456789ab", "pid=100", "node=gpu7, rank=3"]
    )
    def test_it_is_meant(self, text: str) -> None:
        """A rank is meant as a whole, a container or a pod by its begin."""
        assert Selection.of(text).matches(RANK, 100)

    @pytest.mark.parametrize("text", ["30", "rank=0", "rank=3,pid=101", "container=0123", "23456"])
    def test_another_one_is_meant(self, text: str) -> None:
        """All pairs must be so."""
        assert not Selection.of(text).matches(RANK, 100)

    @pytest.mark.parametrize("text", ["rnak=3", "rank=3,", "=3", "rank=3,pod"])
    def test_what_selects_nothing_is_refused(self, text: str) -> None:
        """With the keys there are."""
        with pytest.raises(BadInput, match="--workload"):
            Selection.of(text)
