"""The user's choices, and how a key changes them. Pure.

In: keys, by name or as characters. Out: a frozen Screen; and the workloads of a View that it selects, in its order.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from exporter.model import Identity
from exporter.scrape.view import View, Workload

FILTER_CHARACTERS_MAX: Final = 64


class Sort(enum.StrEnum):
    """The order of workloads."""

    LOST = "lost"
    STEP = "step"
    LATE = "late"
    CALLS = "calls"
    RANK = "rank"
    NODE = "node"


class Key(enum.StrEnum):
    """Keys that are not characters."""

    UP = "up"
    DOWN = "down"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    HOME = "home"
    END = "end"
    ENTER = "enter"
    ESCAPE = "escape"
    BACKSPACE = "backspace"


@dataclass(frozen=True, slots=True)
class Screen:
    """filter: text that a workload must contain. typed: the filter while it is typed, else None. selected: None: the first row.

    is_detail: one workload's operations fill the screen, from number `scroll` on.
    """

    sort: Sort = Sort.LOST
    is_reversed: bool = False
    filter: str = ""
    typed: str | None = None
    selected: Identity | None = None
    is_detail: bool = False
    scroll: int = 0
    is_paused: bool = False
    is_help: bool = False


PAGE: Final = 10
_STEPS: Final[dict[str, int]] = {
    Key.UP: -1,
    "k": -1,
    Key.DOWN: 1,
    "j": 1,
    Key.PAGE_UP: -PAGE,
    Key.PAGE_DOWN: PAGE,
    Key.HOME: -(1 << 30),
    "g": -(1 << 30),
    Key.END: 1 << 30,
    "G": 1 << 30,
}
_SORT_OF_LETTER: Final = {
    "l": Sort.LOST,
    "t": Sort.STEP,
    "a": Sort.LATE,
    "c": Sort.CALLS,
    "r": Sort.RANK,
    "n": Sort.NODE,
}


def after_key(screen: Screen, key: str, view: View) -> Screen | None:
    """The screen after a key; None: quit. Unknown keys change nothing."""
    if screen.typed is not None:
        return _typed(screen, screen.typed, key)
    if key == "q":
        return None
    if screen.is_help:
        return replace(screen, is_help=False)
    if key in _STEPS:
        return _moved(screen, _STEPS[key], view)
    if key in _SORT_OF_LETTER:
        return replace(screen, sort=_SORT_OF_LETTER[key], is_reversed=False)
    return _PLAIN_KEYS.get(key, _unchanged)(screen, view)


def _unchanged(screen: Screen, _view: View) -> Screen:
    return screen


def _next_sort(screen: Screen, _view: View) -> Screen:
    order = list(Sort)
    return replace(screen, sort=order[(order.index(screen.sort) + 1) % len(order)], is_reversed=False)


def _detail(screen: Screen, view: View) -> Screen:
    chosen = selected_of(screen, arranged(screen, view))
    if chosen is None or screen.is_detail:
        return replace(screen, is_detail=False, scroll=0)
    return replace(screen, is_detail=True, scroll=0, selected=chosen.identity)


def _back(screen: Screen, _view: View) -> Screen:
    """Undo one choice: the detail, else the filter, else the selection."""
    if screen.is_detail:
        return replace(screen, is_detail=False, scroll=0)
    return replace(screen, filter="") if screen.filter else replace(screen, selected=None)


_PLAIN_KEYS: Final[dict[str, Callable[[Screen, View], Screen]]] = {
    "s": _next_sort,
    "R": lambda screen, _view: replace(screen, is_reversed=not screen.is_reversed),
    "/": lambda screen, _view: replace(screen, typed=screen.filter),
    "p": lambda screen, _view: replace(screen, is_paused=not screen.is_paused),
    " ": lambda screen, _view: replace(screen, is_paused=not screen.is_paused),
    "h": lambda screen, _view: replace(screen, is_help=True),
    "?": lambda screen, _view: replace(screen, is_help=True),
    Key.ENTER: _detail,
    Key.ESCAPE: _back,
}


def _typed(screen: Screen, typed: str, key: str) -> Screen:
    if key == Key.ENTER:
        return replace(screen, filter=typed, typed=None)
    if key == Key.ESCAPE:
        return replace(screen, typed=None)
    if key == Key.BACKSPACE:
        return replace(screen, typed=typed[:-1])
    if len(key) == 1 and key.isprintable() and len(typed) < FILTER_CHARACTERS_MAX:
        return replace(screen, typed=typed + key)
    return screen


def _moved(screen: Screen, by: int, view: View) -> Screen:
    rows = arranged(screen, view)
    chosen = selected_of(screen, rows)
    if chosen is None:
        return screen
    if screen.is_detail:
        return replace(screen, scroll=min(max(screen.scroll + by, 0), max(len(chosen.operations) - 1, 0)))
    at = min(max(rows.index(chosen) + by, 0), len(rows) - 1)
    return replace(screen, selected=rows[at].identity)


def selected_of(screen: Screen, rows: Sequence[Workload]) -> Workload | None:
    """The selected row; the first if none is selected or the selected one has ended."""
    return next((row for row in rows if row.identity == screen.selected), rows[0] if rows else None)


def arranged(screen: Screen, view: View) -> tuple[Workload, ...]:
    """The workloads that match the filter, also while it is typed, in the selected order."""
    wanted = (screen.filter if screen.typed is None else screen.typed).casefold()
    rows = [workload for workload in view.workloads if wanted in _text_of(workload)] if wanted else list(view.workloads)
    rows.sort(key=_natural)
    rows.sort(key=_ORDERS[screen.sort])
    return tuple(reversed(rows) if screen.is_reversed else rows)


def _text_of(workload: Workload) -> str:
    """The text that a filter is matched with: `node=gpu7 rank=3 … trainer 4027 cpu_contention stress-ng`."""
    identity = workload.identity
    labels = zip(("node", "rank", "container", "namespace", "pod"), identity.values(), strict=True)
    causes = [" ".join((loss.cause, *(name for name, _ in loss.culprits))) for loss in workload.lost or ()]
    processes = [f"{process.comm} {process.pid}" for process in workload.processes]
    return " ".join([*(f"{name}={value}" for name, value in labels), *processes, *causes]).casefold()


def _natural(workload: Workload) -> tuple[Any, ...]:
    """By rank as a number, then by the other labels."""
    return (*_numbered(workload.identity.rank), *map(_numbered, workload.identity.values()))


def _numbered(text: str) -> tuple[tuple[int, int, str], ...]:
    """gpu10 sorts after gpu9; empty text sorts last."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", text)
    found = tuple((0, int(piece), "") if piece.isascii() and piece.isdigit() else (1, 0, piece) for piece in pieces)
    return found or ((2, 0, ""),)


_ORDERS: Final[dict[Sort, Callable[[Workload], Any]]] = {
    Sort.LOST: lambda workload: -(workload.lost_share or 0.0),
    Sort.STEP: lambda workload: -(workload.step_seconds or 0.0),
    Sort.LATE: lambda workload: -(workload.late_seconds or 0.0),
    Sort.CALLS: lambda workload: -workload.calls_per_second,
    Sort.RANK: lambda workload: 0,
    Sort.NODE: lambda workload: _numbered(workload.identity.node),
}
