"""wakers: which of the things that wakers did explain what was lost while step threads slept."""

from __future__ import annotations

import pytest

from exporter.accounting.wakers import Did, Wakers
from exporter.kernel.abi import ThreadState, Waker
from exporter.kernel.thread_rows import WakeupRow
from tests.support.lost_time import states_of

SECOND = 1_000_000_000
FOR_REQUESTS: Did = (Waker.THREAD, ThreadState.POLL)
OF_HOLDER: Did = (Waker.HOLDER, ThreadState.SLEEP)


class Server:
    """Its thread waits for requests, and may wait for a lock."""

    def __init__(self) -> None:
        self.wakers = Wakers()
        self._now_ns = 0
        self._slept: dict[Did, int] = {}

    def go_on(self, seconds: int, *, lost: int = 0, **slept: int) -> dict[Did | None, int]:
        """How 1,000 ns are divided after so many seconds. lost, requests, lock: in each of them."""
        for _ in range(seconds):
            self._now_ns += SECOND
            for did, name in ((FOR_REQUESTS, "requests"), (OF_HOLDER, "lock")):
                self._slept[did] = self._slept.get(did, 0) + slept.get(name, 0)
            rows = {
                waker: WakeupRow(1, ns, 0, states_of({state: ns})) for (waker, state), ns in self._slept.items() if ns
            }
            self.wakers.update(rows, lost, self._now_ns)
        return self.wakers.share(1_000)

    def pass_by(self, seconds: int) -> None:
        """No sleep ends in this time."""
        self._now_ns += seconds * SECOND


@pytest.fixture
def server() -> Server:
    """It has waited for requests for ten seconds, 800 ns in each, at no cost."""
    server = Server()
    server.go_on(10, requests=800)
    return server


class TestShare:
    def test_sleeps_that_cost_nothing_before_explain_nothing(self, server: Server) -> None:
        """It still waits for requests for as long, and for a lock besides."""
        assert server.go_on(3, requests=800, lock=300, lost=300) == {OF_HOLDER: 1_000}

    def test_sleeps_that_became_longer_count_with_what_they_are_longer_by(self, server: Server) -> None:
        """100 beside 300."""
        assert server.go_on(3, requests=900, lock=300, lost=400) == {OF_HOLDER: 750, FOR_REQUESTS: 250}

    def test_all_sleeps_count_where_growth_does_not_explain_half(self, server: Server) -> None:
        """A tenth as much as was lost: work that hid the waits is gone."""
        assert server.go_on(3, requests=760, lock=40, lost=400) == {FOR_REQUESTS: 950, OF_HOLDER: 50}

    def test_sleeps_that_had_a_cost_before_have_it_still(self) -> None:
        """A quarter of them: 200 of 500. What is lost beyond that is the lock's."""
        server = Server()
        server.go_on(10, requests=800, lost=200)

        assert server.go_on(3, requests=800, lock=300, lost=500) == {OF_HOLDER: 600, FOR_REQUESTS: 400}

    def test_fewer_of_them_cost_less(self) -> None:
        """A server that loses all of its waits, and waits for a lock instead of requests: half as long for these."""
        server = Server()
        server.go_on(10, requests=800, lost=800)

        assert server.go_on(3, requests=400, lock=600, lost=1_000) == {OF_HOLDER: 600, FOR_REQUESTS: 400}

    def test_a_fault_of_seconds_is_not_the_usual(self, server: Server) -> None:
        """The cheaper half of 20 seconds is that before it."""
        assert server.go_on(9, requests=800, lock=300, lost=300) == {OF_HOLDER: 1_000}

    def test_all_sleeps_count_before_six_seconds_are_known(self) -> None:
        server = Server()
        server.go_on(6, requests=800)

        assert server.go_on(1, requests=750, lock=250, lost=400) == {FOR_REQUESTS: 750, OF_HOLDER: 250}

    def test_time_without_a_change_is_not_that_of_the_sleeps(self, server: Server) -> None:
        """An hour in which the server was not looked at makes none of its waits rarer."""
        server.pass_by(3_600)

        assert server.go_on(3, requests=800, lock=300, lost=300) == {OF_HOLDER: 1_000}

    def test_what_is_lost_before_any_sleep_is_of_unknown_wakers(self) -> None:
        assert Wakers().share(10) == {None: 10}
