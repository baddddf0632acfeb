"""selection: which processes --workload selects."""

from __future__ import annotations

import pytest

from exporter.errors import BadInput
from exporter.history.selection import Selection
from exporter.model import Identity

RANK = Identity(node="gpu7", rank="3", container="0123456789ab", pod="trainer-0")


class TestSelection:
    @pytest.mark.parametrize(
        "text", ["", "3", "0123", "trainer", "rank=3", "rank=3,container=0123456789ab", "pid=100", "node=gpu7, rank=3"]
    )
    def test_rank_prefix_or_labels_select_a_process(self, text: str) -> None:
        """A rank must match as a whole, a container or pod by a prefix."""
        assert Selection.of(text).matches(RANK, 100)

    @pytest.mark.parametrize("text", ["30", "rank=0", "rank=3,pid=101", "container=0123", "23456"])
    def test_other_values_do_not_select_it(self, text: str) -> None:
        """All pairs must match."""
        assert not Selection.of(text).matches(RANK, 100)

    @pytest.mark.parametrize("text", ["rnak=3", "rank=3,", "=3", "rank=3,pod"])
    def test_invalid_text_is_refused(self, text: str) -> None:
        with pytest.raises(BadInput, match="--workload"):
            Selection.of(text)
