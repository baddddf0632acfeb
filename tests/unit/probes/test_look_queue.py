"""probes.look_queue: whose process is looked at next."""

from __future__ import annotations

from exporter.probes.look_queue import Look, LookQueue


def queue_of(*looks: tuple[int, str]) -> LookQueue:
    queue = LookQueue()
    for tgid, owner in looks:
        queue.add(Look(tgid, owner), now=0.0)
    return queue


def taken(queue: LookQueue, now: float = 0.0) -> list[int]:
    """Processes that may be looked at now, in this order."""
    found = []
    while (look := queue.take(now)) is not None:
        found.append(look.tgid)
    return found


class TestTurns:
    def test_owners_take_turns(self) -> None:
        queue = queue_of((1, "a"), (2, "a"), (3, "a"), (9, "b"))

        assert taken(queue) == [1, 9, 2, 3]

    def test_process_that_waits_is_looked_at_once(self) -> None:
        assert taken(queue_of((1, "a"), (1, "a"))) == [1]

    def test_process_that_waits_is_looked_at_as_it_is_now(self) -> None:
        """It has mapped another library since."""
        queue = LookQueue()
        queue.add(Look(1, "a", iter(())), now=0.0)
        queue.add(Look(1, "a"), now=0.0)

        assert queue.take(0.0) == Look(1, "a", None)

    def test_nothing_waits_in_an_empty_queue(self) -> None:
        queue = LookQueue()

        assert (queue.take(0.0), queue.seconds_until_next(0.0)) == (None, None)

    def test_processes_of_one_owner_beyond_the_limit_are_left_to_the_next_walk(self) -> None:
        queue = LookQueue()
        are_waiting = [queue.add(Look(tgid, "a"), now=0.0) for tgid in range(4_100)]

        assert (are_waiting.count(False), len(taken(queue))) == (4, 4_096)

    def test_optional_looks_wait_behind_few_others_only(self) -> None:
        """A job of short workers, whose libraries are probed already: a walk looks at those that stay."""
        queue = LookQueue()
        are_waiting = [queue.add(Look(tgid, "a", is_optional=True), now=0.0) for tgid in range(100)]
        queue.add(Look(200, "a"), now=0.0)

        assert are_waiting.count(False) == 0
        assert taken(queue) == [*range(64), 200]

    def test_optional_look_that_has_begun_goes_on(self) -> None:
        """After the turn of another owner."""
        queue = queue_of(*((tgid, "a") for tgid in range(64)))
        queue.add(Look(200, "a", iter(()), is_optional=True), now=0.0)

        assert taken(queue)[-1] == 200


class TestTime:
    """An owner has one second, which fills by a fiftieth of a second in each second."""

    def test_owner_without_time_waits(self) -> None:
        queue = queue_of((1, "a"), (9, "b"))
        queue.spent("a", 1.5, now=0.0)

        assert taken(queue) == [9]
        assert queue.seconds_until_next(0.0) == 25.0

    def test_time_comes_back_slowly(self) -> None:
        queue = queue_of((1, "a"))
        queue.spent("a", 1.5, now=0.0)

        assert (taken(queue, now=24.0), taken(queue, now=26.0)) == ([], [1])

    def test_owner_that_is_not_known_has_time(self) -> None:
        queue = LookQueue()
        queue.spent("a", 1.5, now=0.0)

        assert [queue.has_time(owner, now=0.0) for owner in ("a", "b")] == [False, True]
        assert (queue.has_owner_without_time(now=0.0), queue.has_owner_without_time(now=100.0)) == (True, False)

    def test_it_does_not_pile_up(self) -> None:
        """After an hour of rest there is one second, not seventy."""
        queue = queue_of((1, "a"))
        queue.spent("a", 0.5, now=0.0)
        queue.spent("a", 1.5, now=3600.0)

        assert taken(queue, now=3600.0) == []
