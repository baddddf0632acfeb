"""awaited: who was waited for."""

from __future__ import annotations

import pytest

from exporter.accounting.awaited import AwaitedShares, AwaitedSleeps, awaited_name
from exporter.kernel.abi import Awaited, ThreadState
from exporter.kernel.awaited_rows import AwaitedBy, AwaitedKey
from tests.support.stacks import a_thread
from tests.support.tables import states_of

SECOND = 1_000_000_000
TEE = AwaitedBy(4711, Awaited.PROCESS, b"tee")
LOCK, OUTPUT = ThreadState.LOCK, ThreadState.OUTPUT


class TestSleeps:
    """What was slept since the last update."""

    def test_only_what_is_new_counts(self) -> None:
        """The kernel's sums are cumulative."""
        sleeps = AwaitedSleeps()
        sleeps.update({AwaitedKey(1, OUTPUT, TEE): 20}, ())

        assert sleeps.update({AwaitedKey(1, OUTPUT, TEE): 23}, ()) == {1: {(OUTPUT, TEE): 3}}

    def test_evicted_row_begins_again(self) -> None:
        """It was missing in the last reading."""
        sleeps = AwaitedSleeps()
        sleeps.update({AwaitedKey(1, OUTPUT, TEE): 20}, ())
        sleeps.update({}, ())

        assert sleeps.update({AwaitedKey(1, OUTPUT, TEE): 3}, ()) == {1: {(OUTPUT, TEE): 3}}

    def test_blocked_write_that_goes_on_counts_since_it_began(self) -> None:
        """Its reader is stopped, and wakes no thread."""
        blocked = a_thread(reader=TEE, open_ns=states_of({OUTPUT: 5 * SECOND}))

        assert AwaitedSleeps().update({}, [blocked]) == {1: {(OUTPUT, TEE): 5 * SECOND}}

    def test_thread_that_is_not_blocked_says_nothing(self) -> None:
        """It has no reader."""
        assert AwaitedSleeps().update({}, [a_thread()]) == {}


class TestNames:
    """Label values."""

    @pytest.mark.parametrize(
        ("by", "name"),
        [
            (TEE, "tee"),
            (AwaitedBy(0, Awaited.THREAD, b"pt_autograd_0"), "pt_autograd_0"),
            (AwaitedBy(0, Awaited.OUTSIDE, b""), "outside"),
            (AwaitedBy(1, Awaited.PROCESS, b"a\nb"), "a\ufffdb"),
            (AwaitedBy(1, Awaited.PROCESS, b""), "other"),
            (AwaitedBy(0, Awaited.UNKNOWN, b""), ""),
        ],
    )
    def test_name_is_printable(self, by: AwaitedBy, name: str) -> None:
        """Whatever the program or thread calls itself; without a kind there is none."""
        assert awaited_name(by) == name


class TestShares:
    """By state, for five seconds."""

    def test_states_have_shares_of_their_own(self) -> None:
        """A reader holds no lock."""
        shares = AwaitedShares()
        shares.update({OUTPUT: {(Awaited.PROCESS, "tee"): 3}}, 0)

        assert dict(shares.of(OUTPUT)) == {(Awaited.PROCESS, "tee"): 3}
        assert dict(shares.of(LOCK)) == {}

    def test_shares_are_forgotten(self) -> None:
        """After more than five seconds without a sleep."""
        shares = AwaitedShares()
        shares.update({OUTPUT: {(Awaited.PROCESS, "tee"): 3}}, 0)
        shares.update({}, 5 * SECOND)
        assert not shares.is_at_rest
        shares.update({}, 6 * SECOND)

        assert shares.is_at_rest
