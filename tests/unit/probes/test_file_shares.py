"""probes.file_shares: how many library files each owner may have known."""

from __future__ import annotations

from exporter.probes.file_shares import FileShares, capacity_of


def taken_by(shares: FileShares, owner: str) -> int:
    """Files that an owner gets who wants as many as possible."""
    while shares.may_take(owner):
        shares.take(owner)
    return shares.taken(owner)


class TestShares:
    def test_each_next_greedy_owner_gets_half_of_what_is_free(self) -> None:
        shares = FileShares(100)

        assert [taken_by(shares, owner) for owner in ("a", "b", "c")] == [50, 25, 13]

    def test_every_owner_gets_eight(self) -> None:
        """Even if nothing is free."""
        shares = FileShares(16)
        taken_by(shares, "a")
        taken_by(shares, "b")

        assert taken_by(shares, "c") == 8

    def test_files_that_are_given_back_are_free(self) -> None:
        shares = FileShares(100)
        taken_by(shares, "a")
        for _ in range(50):
            shares.give_back("a")

        assert taken_by(shares, "b") == 50


class TestCapacity:
    def test_a_sixty_fourth_of_the_memory_is_used(self) -> None:
        """64 GiB: 1 GiB of 320 KiB each would be 3,276 files, but no node has as many. 8 GiB: 128 MiB."""
        assert [capacity_of(one << 30) for one in (64, 8, 1)] == [1024, 409, 128]
