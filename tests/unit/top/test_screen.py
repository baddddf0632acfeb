"""top.screen: keys and the resulting choices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.model import Identity
from exporter.scrape.view import CauseLoss, Process, View, Workload
from exporter.top.screen import FILTER_CHARACTERS_MAX, Key, Screen, Sort, after_key, arranged, selected_of
from tests.support.views import FINE, JOB, RANK_0, RANK_1, SLOW


def after(*keys: str, screen: Screen | None = None, view: View = JOB) -> Screen:
    """The screen after these keys, none of which quits."""
    now = screen or Screen()
    for key in keys:
        then = after_key(now, key, view)
        assert then is not None
        now = then
    return now


def ranks(screen: Screen, view: View) -> list[str]:
    """The ranks of the workloads, in their order."""
    return [workload.identity.rank for workload in arranged(screen, view)]


class TestKeys:
    """The effect of each key."""

    def test_q_quits(self) -> None:
        """Also with the help or a detail open."""
        assert after_key(Screen(), "q", JOB) is None
        assert after_key(after("h"), "q", JOB) is None
        assert after_key(after(Key.ENTER), "q", JOB) is None

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
        """Not reversed."""
        assert after("R", key) == Screen(sort=Sort(sort))

    def test_selection_moves_and_stops_at_the_ends(self) -> None:
        """From the first row on."""
        assert after("j").selected == RANK_1
        assert after(Key.DOWN, Key.DOWN, Key.DOWN).selected == RANK_1
        assert after("G", "k", "k").selected == RANK_0
        assert after(Key.END, Key.HOME).selected == RANK_0
        assert after(Key.PAGE_DOWN, Key.PAGE_UP).selected == RANK_0

    def test_selection_stays_with_its_workload(self) -> None:
        """Whatever the order."""
        screen = after("j", "R")

        assert ranks(screen, JOB) == ["1", "0"]
        assert selected_of(screen, arranged(screen, JOB)) == FINE

    def test_first_workload_is_selected_when_the_selected_one_ends(self) -> None:
        view = replace(JOB, workloads=(SLOW,))

        assert selected_of(after("j"), arranged(Screen(), view)) == SLOW

    def test_keys_change_nothing_without_workloads(self) -> None:
        empty = replace(JOB, workloads=())

        assert after("j", Key.ENTER, "k", view=empty) == Screen()

    def test_enter_opens_the_selected_one_and_escape_closes_it(self) -> None:
        """The first if none was selected; it stays open when the order changes."""
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
        """Without another effect."""
        assert after("h", "s") == Screen()
        assert after("?").is_help

    def test_unknown_key_changes_nothing(self) -> None:
        """Nor does the empty key of a resize."""
        assert after("x", "\x00", "") == Screen()


class TestFilter:
    """The filter after a slash."""

    def test_filter_is_applied_while_it_is_typed(self) -> None:
        """Letters are not keys then."""
        screen = after("/", *"rank=1")

        assert (screen.filter, screen.typed) == ("", "rank=1")
        assert ranks(screen, JOB) == ["1"]

    def test_enter_keeps_it_and_escape_forgets_it(self) -> None:
        """The previous filter is back."""
        assert after("/", "q", Key.ENTER) == Screen(filter="q")
        assert after("/", "q", Key.ESCAPE) == Screen()

    def test_backspace_takes_the_last_letter(self) -> None:
        """An empty filter stays empty."""
        assert after("/", "a", "b", Key.BACKSPACE).typed == "a"
        assert after("/", Key.BACKSPACE).typed == ""

    def test_escape_clears_the_filter(self) -> None:
        """Outside the detail."""
        assert after(Key.ESCAPE, screen=Screen(filter="lock")) == Screen()

    def test_length_of_the_filter_is_bounded(self) -> None:
        """However long a key is held."""
        assert len(after("/", *"a" * 1000).typed or "") == FILTER_CHARACTERS_MAX

    @pytest.mark.parametrize("text", ["RANK=0", "stress", "Lock", "4026", "node=gpu7 rank=0"])
    def test_filter_matches_labels_processes_causes_and_culprits(self, text: str) -> None:
        """Case-insensitively."""
        assert ranks(Screen(filter=text), JOB) == ["0"]


class TestOrder:
    """The order of workloads."""

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
    def test_largest_first_and_numbers_in_names_in_numeric_order(self, sort: str, expected: list[str]) -> None:
        """Unknown figures come last, like zero; 10 comes after 9."""
        assert ranks(Screen(sort=Sort(sort)), self.JOB) == expected

    def test_equal_workloads_are_ordered_by_rank(self) -> None:
        """So that rows do not move."""
        view = View(
            0.0, 2.0, tuple(Workload(Identity(rank=rank), (Process("1", "a"),), 2.0) for rank in ("11", "2", "1")), ()
        )

        assert ranks(Screen(), view) == ["1", "2", "11"]
