"""witness: what a tick asks for is told at a later one."""

from __future__ import annotations

from exporter.stacks.collector import WAITING_MAX, Evidence
from tests.support.chains import a_chain
from tests.support.traced import eventually
from tests.support.witnessing import STUCK, WHOSE, Scene


class TestWitness:
    """Of one chain."""

    def test_evidence_is_told_at_a_later_tick(self) -> None:
        """With the chain as it is by then, and whose it was when it was looked at."""
        scene = Scene(STUCK)
        assert scene.tick(a_chain(), opened=True) == []
        worse = a_chain(lost_share=0.9)

        assert scene.told(worse) == Evidence(
            worse,
            WHOSE,
            (
                "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
                "  f3005",
                "inside of cudaStreamSynchronize it is at",
                "  f1000",
            ),
        )
        assert scene.results == ["named"]

    def test_chain_that_is_over_by_then_is_told_as_it_was(self) -> None:
        """The job was killed meanwhile."""
        scene = Scene(STUCK)
        scene.tick(a_chain(), opened=True)

        assert scene.told().chain == a_chain()

    def test_without_bcc_it_is_located(self) -> None:
        """Files are all that is known."""
        scene = Scene(STUCK, by_bcc=False)
        scene.tick(a_chain(), opened=True)
        scene.told()

        assert scene.results == ["located"]

    def test_process_that_ends_meanwhile_leaves_its_call(self) -> None:
        """Addresses say nothing any more."""
        scene = Scene(STUCK)
        scene.is_gone = True
        scene.tick(a_chain(), opened=True)

        (line,) = scene.told().lines
        assert line.endswith("where, nobody knows: the process has ended")
        assert scene.results == ["unnamed"]

    def test_thread_that_ended_is_counted_and_not_told(self) -> None:
        """There was no stack to be had."""
        scene = Scene(None)
        scene.tick(a_chain(), opened=True)
        eventually(lambda: scene.results, "it is counted")

        assert scene.results == ["failed"]
        assert scene.tick(a_chain()) == []

    def test_threads_are_not_read_while_no_chain_is_due(self) -> None:
        """It takes milliseconds on a full node."""
        scene = Scene(STUCK)
        scene.tick()
        scene.tick(a_chain(), opened=True)
        scene.tick(a_chain(), at=11.25)

        assert scene.reads == [{1}]

    def test_next_case_is_looked_at_after_a_defect(self) -> None:
        """Which is logged."""
        scene = Scene(STUCK)
        scene.is_broken = True
        scene.tick(a_chain(), opened=True)
        eventually(lambda: not scene.witness._waiting and scene.witness._thread is None, "the defect is over")
        scene.is_broken = False
        other = a_chain(id="2" * 32)
        scene.tick(other, opened=True)

        assert scene.told(other).chain == other


class TestBounds:
    """A node on which everything stands still."""

    def test_what_is_too_much_is_left_out_and_counted(self) -> None:
        """One is being looked at, as many wait as may."""
        scene = Scene(STUCK)
        scene.may_go_on.clear()
        first = a_chain(id="f" * 32)
        scene.tick(first, opened=True)
        eventually(lambda: scene.witness._waiting == 0, "the first one is being looked at")
        chains = [a_chain(id=f"{number:032}", process=number) for number in range(1, WAITING_MAX + 3)]
        scene.tick(*chains, opened=True)

        assert scene.results == ["left_out", "left_out"]
        scene.may_go_on.set()
        eventually(lambda: len(scene.results) == 2 + 1 + WAITING_MAX, "all others are looked at")

    def test_close_waits_for_nobody_for_long(self) -> None:
        """What waits is not begun any more."""
        scene = Scene(STUCK)
        scene.tick(a_chain(), opened=True)
        scene.told(a_chain())
        scene.witness.close()
        scene.tick(a_chain(id="2" * 32), opened=True)

        assert scene.is_closed
        assert scene.results == ["named"]
