"""Names and links of workloads."""

from __future__ import annotations

from exporter.history.selection import Selection
from exporter.model import Identity
from exporter.serve.pages.workload_links import selected


class TestSelected:
    def test_it_selects_that_workload(self) -> None:
        identity = Identity(node="gpu7", rank="3", pod="trainer-0")

        assert selected(identity, 100) == "pid=100,rank=3,pod=trainer-0,node=gpu7"
        assert Selection.of(selected(identity, 100)).matches(identity, 100)

    def test_name_that_cannot_stand_in_it_is_left_out(self) -> None:
        identity = Identity(rank="3", pod="a,rank=4")

        assert selected(identity, 0) == "rank=3"
        assert Selection.of(selected(identity, 0)).matches(identity, 0)
