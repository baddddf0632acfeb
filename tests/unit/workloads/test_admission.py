"""admission: which workloads have series of their own, by owner."""

from __future__ import annotations

from exporter.model import Identity
from exporter.workloads.admission import Admission
from exporter.workloads.owner import Owner
from exporter.workloads.refusals import Refusals

GREEDY, SMALL = Owner("uid 65534", "uid 65534"), Owner("uid 1000", "uid 1000")


def rank(number: int, container: str = "") -> Identity:
    return Identity("gpu7", str(number), container)


def admission(most: int) -> tuple[Admission, Refusals]:
    refused = Refusals()
    return Admission(most, refused), refused


class TestRoom:
    def test_owner_alone_may_have_all(self) -> None:
        """Four of four; the fifth is refused."""
        four, refused = admission(4)
        running = {rank(number) for number in range(4)}
        admitted = [four.admit(rank(number), GREEDY, lambda: running) for number in range(5)]

        assert admitted == [rank(0), rank(1), rank(2), rank(3), None]
        assert refused.sums() == {("workloads", "uid 65534"): 1}

    def test_later_owner_gets_places_until_both_have_as_many(self) -> None:
        """Ended ones first; of those that run the last one."""
        four, refused = admission(4)
        for number in range(4):
            four.admit(rank(number), GREEDY, set)
        running = {rank(0), rank(2), rank(3), rank(0, "own"), rank(1, "own")}
        admitted = [four.admit(rank(number, "own"), SMALL, lambda: running) for number in range(3)]

        assert admitted == [rank(0, "own"), rank(1, "own"), None]
        assert four.take_evicted() == [rank(1), rank(3)]
        assert refused.sums() == {("workloads", "uid 65534"): 2, ("workloads", "uid 1000"): 1}

    def test_evicted_are_given_out_once(self) -> None:
        two, _ = admission(2)
        for number in range(2):
            two.admit(rank(number), GREEDY, set)
        two.admit(rank(0, "own"), SMALL, set)
        two.take_evicted()

        assert two.take_evicted() == []

    def test_places_that_are_not_kept_are_free(self) -> None:
        one, _ = admission(1)
        one.admit(rank(0), GREEDY, set)
        one.keep([])

        assert one.admit(rank(1), GREEDY, set) == rank(1)


class TestEnded:
    """Workloads that have ended make room first."""

    def test_own_one_that_ended_first_makes_room(self) -> None:
        """Its series end before their time, which is counted."""
        three, refused = admission(3)
        for number in (0, 1, 2):
            three.admit(rank(number), SMALL, set)
        for number in (1, 0):
            three.tick()
            three.end(rank(number), set, is_brief=False)
        admitted = [three.admit(rank(number), SMALL, lambda: {rank(2), rank(3), rank(4)}) for number in (3, 4, 5)]

        assert (admitted, three.take_evicted()) == ([rank(3), rank(4), None], [rank(1), rank(0)])
        assert refused.sums() == {("workloads", "uid 1000"): 3}

    def test_one_of_an_owner_that_has_more_makes_room(self) -> None:
        """Each job in a container of its own, say."""
        three, _ = admission(3)
        for number in range(3):
            three.admit(rank(number), Owner(f"container {number}", f"c{number}"), set)
            three.end(rank(number), set, is_brief=False)

        assert three.admit(rank(3), SMALL, lambda: {rank(3)}) == rank(3)
        assert three.take_evicted() == [rank(0)]

    def test_one_of_an_owner_that_has_no_more_makes_room_after_a_minute(self) -> None:
        """A program that starts thousands of others must not end the series of a job the moment it is over."""
        two, _ = admission(2)
        two.admit(rank(0), SMALL, set)
        two.admit(rank(1), GREEDY, set)
        two.end(rank(0), set, is_brief=False)
        early = two.admit(rank(2), GREEDY, lambda: {rank(1)})
        for _ in range(240):
            two.tick()

        assert (early, two.admit(rank(2), GREEDY, lambda: {rank(1)})) == (None, rank(2))

    def test_process_that_has_ended_itself_takes_no_place_of_its_owner(self) -> None:
        """Thousands of short ones would end each other's series."""
        one, _ = admission(1)
        one.admit(rank(0), GREEDY, set)
        one.end(rank(0), set, is_brief=False)

        assert one.admit(rank(1), GREEDY, set, is_running=False) is None

    def test_owner_without_room_is_refused_at_once_until_something_changes(self) -> None:
        """Thousands of its processes may start in one tick."""
        one, refused = admission(1)
        asked: list[int] = []

        def living() -> set[Identity]:
            asked.append(1)
            return {rank(0)}

        one.admit(rank(0), GREEDY, living)
        for number in range(1, 1000):
            one.admit(rank(number), GREEDY, living)
        searches = len(asked)
        one.tick()
        one.admit(rank(1), GREEDY, living)

        assert (searches, len(asked)) == (1, 2)
        assert refused.sums() == {("workloads", "uid 65534"): 1000}

    def test_second_attempt_is_not_counted_again(self) -> None:
        one, refused = admission(1)
        one.admit(rank(0), GREEDY, set)
        for is_retry in (False, True, True):
            one.admit(rank(1), GREEDY, lambda: {rank(0)}, is_retry=is_retry)

        assert refused.sums() == {("workloads", "uid 65534"): 1}

    def test_end_and_free_places_are_changes(self) -> None:
        """After which it is worth asking again."""
        two, _ = admission(2)
        two.admit(rank(0), GREEDY, set)
        seen = [two.changes]
        two.end(rank(0), set, is_brief=False)
        seen.append(two.changes)
        two.keep([rank(0)])
        seen.append(two.changes)
        two.keep([])

        assert [*seen, two.changes] == [0, 1, 1, 2]


class TestClaims:
    def test_labels_of_another_owner_are_not_shared(self) -> None:
        """The second is exported with the name of its owner as container."""
        some, refused = admission(4)
        some.admit(rank(0), SMALL, set)

        assert some.admit(rank(0), GREEDY, set) == rank(0, "uid 65534")
        assert refused.sums() == {("claimed_labels", "uid 65534"): 1}

    def test_claim_within_a_container_has_no_series_of_its_own(self) -> None:
        """Two users in one service."""
        some, _ = admission(4)
        some.admit(rank(0, "ssh.service"), SMALL, set)

        assert some.admit(rank(0, "ssh.service"), GREEDY, set) is None

    def test_owner_has_one_series_for_processes_with_equal_labels(self) -> None:
        some, refused = admission(4)

        assert some.admit(rank(0), SMALL, set) == some.admit(rank(0), SMALL, set) == rank(0)
        assert refused.sums() == {}

    def test_labels_are_free_when_the_series_have_ended(self) -> None:
        """A job that is restarted by another user."""
        some, _ = admission(4)
        some.admit(rank(0), SMALL, set)
        some.keep([])

        assert some.admit(rank(0), GREEDY, set) == rank(0)


class TestBriefWorkloads:
    def test_last_32_that_ran_briefly_keep_their_series(self) -> None:
        """A program with another rank every time."""
        many, refused = admission(256)
        for number in range(35):
            many.admit(rank(number), GREEDY, set)
            many.end(rank(number), set, is_brief=True)

        assert many.take_surplus() == [rank(0), rank(1), rank(2)]
        assert refused.sums() == {("brief_workloads", "uid 65534"): 3}

    def test_workload_that_lasted_is_kept(self) -> None:
        """Its rank has crashed at once after a restart."""
        many, _ = admission(256)
        many.admit(rank(0), GREEDY, set)
        many.end(rank(0), set, is_brief=False)
        for number in range(35):
            many.admit(rank(number), GREEDY, set)
            many.end(rank(number), set, is_brief=True)

        assert many.take_surplus() == [rank(1), rank(2)]

    def test_workload_that_runs_again_is_kept(self) -> None:
        many, _ = admission(256)
        for number in range(35):
            many.admit(rank(number), GREEDY, set)
            many.end(rank(number), lambda: {rank(0), rank(2)}, is_brief=True)

        assert many.take_surplus() == [rank(1)]

    def test_owners_are_counted_apart(self) -> None:
        many, _ = admission(256)
        for number in range(35):
            owner = (GREEDY, SMALL)[number % 2]
            many.admit(rank(number), owner, set)
            many.end(rank(number), set, is_brief=True)

        assert many.take_surplus() == []
