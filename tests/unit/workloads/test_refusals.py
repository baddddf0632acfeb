"""refusals: counted by owner, logged once."""

from __future__ import annotations

import pytest

from exporter.workloads import refusals
from exporter.workloads.owner import Owner
from exporter.workloads.refusals import OWNERS_MAX, Refusals

OWNER = Owner("uid 1000", "uid 1000")


class TestRefusals:
    def test_first_refusal_of_an_owner_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """What it was refused, and where to read on."""
        refused = Refusals()
        for _ in range(3):
            refused.add("errors", OWNER, 7)

        assert refused.sums() == {("errors", "uid 1000"): 21}
        assert caplog.messages == [
            "limit reached: errors for uid 1000: it has used up its share of this table, and its further rows are not recorded;"
            " see docs/limits.md (`gpu-stall-exporter assets`)"
        ]

    def test_nothing_refused_is_no_series(self) -> None:
        refused = Refusals()
        refused.add("errors", OWNER, 0)

        assert refused.sums() == {}

    def test_owners_beyond_the_limit_are_other(self) -> None:
        """Names of containers are new every time."""
        refused = Refusals()
        for number in range(OWNERS_MAX + 5):
            refused.add(refusals.SERIES, Owner(f"container {number}", f"c{number}"))

        assert len(refused.sums()) == OWNERS_MAX + 1
        assert refused.sums()["series", "other"] == 5

    def test_owner_refused_nothing_for_long_makes_room(self) -> None:
        """After a quarter of an hour; its refusals are then those of `other`."""
        now = [0.0]
        refused = Refusals(lambda: now[0])
        for number in range(OWNERS_MAX):
            refused.add(refusals.SERIES, Owner(f"container {number}", f"c{number}"), 2)
        now[0] = 899.0
        refused.add(refusals.SERIES, Owner("container 0", "c0"))
        refused.add(refusals.SERIES, OWNER)
        now[0] = 900.0
        refused.add(refusals.SERIES, OWNER, 5)
        sums = refused.sums()

        assert (sums["series", "c0"], sums["series", "other"], sums["series", "uid 1000"]) == (3, 1 + 2, 5)
        assert ("series", "c1") not in sums
        assert len(sums) == OWNERS_MAX + 1
