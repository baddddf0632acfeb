"""site_sums: slow calls by line, of processes and of chains."""

from __future__ import annotations

from dataclasses import replace

from exporter.explain.chain_summary import ChainSummary
from exporter.explain.site_sums import PLACES_MAX, ChainSites, SiteSums
from exporter.history.recorded_chains import KnownState
from exporter.history.run import RecordedWindows
from exporter.history.window import Window
from exporter.python.call_site import OTHER_STACKS
from tests.support.history import NOON, SECOND, a_call_site, a_window, an_event


class TestSums:
    def test_calls_of_one_place_are_added_up(self) -> None:
        sums = SiteSums()
        sums.add([a_call_site(calls=4)])
        sums.add([a_call_site(calls=23), a_call_site(7, calls=30)])

        assert [one.calls for one in sums.largest_first()] == [30, 27]

    def test_those_without_a_line_come_last(self) -> None:
        """However long they took."""
        sums = SiteSums()
        sums.add([a_call_site(calls=90, stack=OTHER_STACKS), a_call_site(calls=1)])

        assert [one.calls for one in sums.largest_first()] == [1, 90]

    def test_many_places_become_few(self) -> None:
        """Those with the most time stay, and no call is left out."""
        sums = SiteSums()
        for line in range(1, 3 * PLACES_MAX):
            sums.add([a_call_site(line, calls=1000 - line)])
        found = sums.largest_first()

        assert len(found) <= PLACES_MAX
        assert found[0] == a_call_site(1, calls=999)
        assert sum(one.calls for one in found) == sum(1000 - line for line in range(1, 3 * PLACES_MAX))


class TestChains:
    def chain(self, digit: str = "1") -> ChainSummary:
        """Open from 100 s to 200 s."""
        event = an_event(100.0, chain_id=digit * 32)
        return ChainSummary(1, event, KnownState.OPEN, NOON + 200 * SECOND)

    def sites_of(self, chains: list[ChainSummary], *windows: Window) -> list[ChainSummary]:
        sites = ChainSites(chains)
        recorded = [RecordedWindows(1, one.began_unix_ns, one.ended_unix_ns, [one]) for one in windows]
        assert list(sites.watched(recorded)) == recorded
        return sites.chains()

    def test_chain_has_the_slow_calls_of_its_process_while_it_was_open(self) -> None:
        """Two of the windows that end at 100, 110, 205 and 215 s overlap with it."""
        windows = [a_window(ended, call_sites=(a_call_site(),)) for ended in (100.0, 110.0, 205.0, 215.0)]
        (chain,) = self.sites_of([self.chain()], *windows)

        assert chain.call_sites == (a_call_site(calls=46),)

    def test_other_processes_are_left_out(self) -> None:
        window = a_window(150.0, call_sites=(a_call_site(),), labels=a_window().labels._replace(tgid=101))
        (chain,) = self.sites_of([self.chain()], window)

        assert chain.call_sites == ()

    def test_chains_that_wait_for_another_have_theirs(self) -> None:
        waiting = self.chain("2")
        (chain,) = self.sites_of(
            [replace(self.chain(), waiting=(waiting,))], a_window(150.0, call_sites=(a_call_site(),))
        )

        assert chain.waiting[0].call_sites == (a_call_site(),)
