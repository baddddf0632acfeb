"""clock_warnings: which clocks are off, or whether it is rather that of this machine."""

from __future__ import annotations

from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.clock_warnings import clock_warnings

MS = 1_000_000
GOOD = ClockOffset(MS, MS, None)


def ahead(milliseconds: int) -> ClockOffset:
    return ClockOffset(milliseconds * MS, MS, None)


class TestWarnings:
    def test_clocks_that_are_not_off_have_none(self) -> None:
        assert clock_warnings({"gpu1": GOOD, "gpu2": ahead(-9)}) == []
        assert clock_warnings({}) == []

    def test_each_clock_that_is_off_has_one(self) -> None:
        found = clock_warnings({"gpu1": GOOD, "gpu2": ahead(52), "gpu3": GOOD, "gpu4": ahead(-40)})

        assert [one.partition(",")[0] for one in found] == [
            "the clock of gpu2 is 52.0 ms ahead",
            "the clock of gpu4 is 40.0 ms behind",
        ]

    def test_where_most_are_off_alike_it_is_rather_that_of_this_machine(self) -> None:
        """Three of five are ahead; the fourth is behind, and has a line of its own."""
        found = clock_warnings(
            {"gpu1": ahead(200), "gpu2": ahead(300), "gpu3": ahead(250), "gpu4": ahead(-40), "gpu5": GOOD}
        )

        assert found[0] == (
            "the clocks of 3 of 5 nodes are 200 ms to 300 ms ahead; the clock of this machine may be the wrong one;"
            " check `chronyc tracking` here"
        )
        assert [one.partition(",")[0] for one in found[1:]] == ["the clock of gpu4 is 40.0 ms behind"]

    def test_two_of_two_may_both_be_wrong(self) -> None:
        assert len(clock_warnings({"gpu1": ahead(200), "gpu2": ahead(300)})) == 2

    def test_number_of_lines_is_bounded(self) -> None:
        """Eleven are off, thirty are not."""
        off = {f"gpu{number}": ahead(50) for number in range(11)}
        found = clock_warnings(off | {f"cpu{number}": GOOD for number in range(30)})

        assert (len(found), found[-1]) == (9, "the clocks of 3 more nodes are off")
