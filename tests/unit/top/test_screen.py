"""screen: keys, one after the other, and what is shown then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.model import Identity
from exporter.scrape.view import CauseLoss, Process, View, Workload
from exporter.top.screen import FILTER_CHARACTERS_MAX, Key, Screen, Sort, arranged, pressed, selected_of
from tests.support.views import FINE, JOB, RANK_0, RANK_1, SLOW


def after(*keys: str, screen: Screen | None = None, view: View = JOB) -> Screen:
    """The screen after these keys, none of which may end it."""
    now = screen or Screen()
    for key in keys:
        then = pressed(now, key, view)
        assert then is not None
        now = then
    return now


def ranks(screen: Screen, view: View) -> list[str]:
    """Of the workloads in their order."""
    return [workload.identity.rank for workload in arranged(screen, view)]


class TestKeys:
    """What each does."""

    def test_q_quits(self) -> None:
        """Also with the help or a detail open."""
        assert pressed(Screen(), "q", JOB) is None
        assert pressed(after("h"), "q", JOB) is None
        assert pressed(after(Key.ENTER), "q", JOB) is None

    def test_s_goes_through_every_order_and_comes_back(self) -> None:
        """The first is by lost time."""
        screen, seen = Screen(), []
        for _ in Sort:
            seen.append(screen.sort)
            screen = after("s", screen=screen)

        assert seen == ["lost", "step", "late", "calls", "rank", "node"]
        assert screen == Screen()

    @pytest.mark.parametrize(
        ("key", "sort"), [("l", "lost"), ("t", "step"), ("a", "late"), ("c", "calls"), ("r", "rank"), ("n", "node")]
    )
    def test_a_letter_chooses_an_order(self, key: str, sort: str) -> None:
        """The usual way round."""
        assert after("R", key) == Screen(sort=Sort(sort))

    def test_selection_moves_and_stops_at_the_ends(self) -> None:
        """From the first row on."""
        assert after("j").selected == RANK_1
        assert after(Key.DOWN, Key.DOWN, Key.DOWN).selected == RANK_1
        assert after("G", "k", "k").selected == RANK_0
        assert after(Key.END, Key.HOME).selected == RANK_0
        assert after(Key.PAGE_DOWN, Key.PAGE_UP).selected == RANK_0

    def test_selection_stays_with_its_workload(self) -> None:
        """Wherever the order puts it."""
        screen = after("j", "R")

        assert ranks(screen, JOB) == ["1", "0"]
        assert selected_of(screen, arranged(screen, JOB)) == FINE

    def test_a_selected_workload_that_has_gone_gives_way_to_the_first(self) -> None:
        """No row is not there."""
        view = replace(JOB, workloads=(SLOW,))

        assert selected_of(after("j"), arranged(Screen(), view)) == SLOW

    def test_keys_do_no_harm_without_workloads(self) -> None:
        """Nothing to move to, nothing to open."""
        empty = replace(JOB, workloads=())

        assert after("j", Key.ENTER, "k", view=empty) == Screen()

    def test_enter_opens_the_selected_one_and_escape_closes_it(self) -> None:
        """The first, where none was selected: it stays that one, whatever becomes of the order."""
        opened = after(Key.ENTER)

        assert opened == Screen(selected=RANK_0, is_detail=True)
        assert after(Key.ESCAPE, screen=opened) == Screen(selected=RANK_0)

    def test_a_detail_scrolls_within_its_operations(self) -> None:
        """There are three."""
        opened = after(Key.ENTER)

        assert after("j", screen=opened).scroll == 1
        assert after("j", "j", "j", "j", screen=opened).scroll == 2
        assert after("G", "k", "k", "k", screen=opened).scroll == 0

    def test_p_pauses_and_goes_on(self) -> None:
        """So does the space bar."""
        assert after("p").is_paused
        assert not after("p", " ").is_paused

    def test_any_key_leaves_the_help(self) -> None:
        """And does nothing else."""
        assert after("h", "s") == Screen()
        assert after("?").is_help

    def test_a_key_without_a_meaning_changes_nothing(self) -> None:
        """A resized window is told by an empty one."""
        assert after("x", "\x00", "") == Screen()


class TestFilter:
    """Typed behind a slash."""

    def test_it_is_in_force_while_it_is_typed(self) -> None:
        """Letters that are keys elsewhere are letters here."""
        screen = after("/", *"rank=1")

        assert (screen.filter, screen.typed) == ("", "rank=1")
        assert ranks(screen, JOB) == ["1"]

    def test_enter_keeps_it_and_escape_forgets_it(self) -> None:
        """What was in force before is in force again."""
        assert after("/", "q", Key.ENTER) == Screen(filter="q")
        assert after("/", "q", Key.ESCAPE) == Screen()

    def test_backspace_takes_the_last_letter(self) -> None:
        """And nothing from nothing."""
        assert after("/", "a", "b", Key.BACKSPACE).typed == "a"
        assert after("/", Key.BACKSPACE).typed == ""

    def test_escape_clears_one_that_is_in_force(self) -> None:
        """Outside of a detail."""
        assert after(Key.ESCAPE, screen=Screen(filter="lock")) == Screen()

    def test_it_has_an_end(self) -> None:
        """However long a key is held."""
        assert len(after("/", *"a" * 1000).typed or "") == FILTER_CHARACTERS_MAX

    @pytest.mark.parametrize("text", ["RANK=0", "stress", "Lock", "4026", "node=gpu7 rank=0"])
    def test_it_looks_at_labels_processes_causes_and_culprits(self, text: str) -> None:
        """Capitals do not matter."""
        assert ranks(Screen(filter=text), JOB) == ["0"]


class TestOrder:
    """Of the workloads."""

    JOB = View(
        0.0,
        2.0,
        tuple(
            Workload(
                Identity(node=node, rank=rank), (), 2.0, step, lost=lost, late_seconds=late, calls_per_second=calls
            )
            for node, rank, step, lost, late, calls in (
                ("gpu10", "10", 0.3, None, None, 5.0),
                ("gpu9", "9", 0.1, (CauseLoss("lock", 0.2),), 0.1, 7.0),
                ("gpu9", "", None, (CauseLoss("irq", 0.1), CauseLoss("lock", 0.2)), 0.2, 6.0),
            )
        ),
        (),
    )

    @pytest.mark.parametrize(
        ("sort", "expected"),
        [
            ("lost", ["", "9", "10"]),
            ("step", ["10", "9", ""]),
            ("late", ["", "9", "10"]),
            ("calls", ["9", "", "10"]),
            ("rank", ["9", "10", ""]),
            ("node", ["9", "", "10"]),
        ],
    )
    def test_most_first_and_names_as_people_count(self, sort: str, expected: list[str]) -> None:
        """What is not known comes last, as nothing does; 10 comes behind 9."""
        assert ranks(Screen(sort=Sort(sort)), self.JOB) == expected

    def test_equals_stand_by_rank(self) -> None:
        """So that they do not jump about."""
        view = View(
            0.0, 2.0, tuple(Workload(Identity(rank=rank), (Process("1", "a"),), 2.0) for rank in ("11", "2", "1")), ()
        )

        assert ranks(Screen(), view) == ["1", "2", "11"]
