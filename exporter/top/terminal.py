"""The live table on a terminal: draws lines, reads keys. The only code that knows curses.

In: a Watcher, a first View. Out: whatever the user sees. The terminal is restored however this ends: by a key, a signal or a
defect. SIGTSTP, SIGCONT and SIGWINCH are handled by curses itself.
"""

from __future__ import annotations

import curses
import locale
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from exporter.errors import NotPossibleHere
from exporter.scrape.view import View
from exporter.top import wording
from exporter.top.layout import Line, Style
from exporter.top.rendering import ScrapeStatus, lines_of
from exporter.top.screen import Key, Screen, pressed
from exporter.top.watching import Watcher

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KEY_PATIENCE_MS: Final = 100
_ESCAPE_PATIENCE_MS: Final = 25
_KEYS: Final = {
    curses.KEY_UP: Key.UP,
    curses.KEY_DOWN: Key.DOWN,
    curses.KEY_PPAGE: Key.PAGE_UP,
    curses.KEY_NPAGE: Key.PAGE_DOWN,
    curses.KEY_HOME: Key.HOME,
    curses.KEY_END: Key.END,
    curses.KEY_ENTER: Key.ENTER,
    curses.KEY_BACKSPACE: Key.BACKSPACE,
}
_KEY_OF_CHARACTER: Final = {
    "\n": Key.ENTER,
    "\r": Key.ENTER,
    "\x1b": Key.ESCAPE,
    "\x7f": Key.BACKSPACE,
    "\b": Key.BACKSPACE,
}
_ATTRIBUTES: Final = {
    Style.DIM: curses.A_DIM,
    Style.BOLD: curses.A_BOLD,
    Style.TITLE: curses.A_REVERSE,
    Style.HEADING: curses.A_UNDERLINE,
    Style.SELECTED: curses.A_REVERSE,
    Style.WARNING: curses.A_BOLD,
    Style.HIGH: curses.A_BOLD,
    Style.CRITICAL: curses.A_BOLD | curses.A_REVERSE,
}
_COLOURS: Final = {
    Style.WARNING: curses.COLOR_YELLOW,
    Style.LOW: curses.COLOR_CYAN,
    Style.MEDIUM: curses.COLOR_YELLOW,
    Style.HIGH: curses.COLOR_RED,
    Style.CRITICAL: curses.COLOR_RED,
    Style.CAUSE_1: curses.COLOR_YELLOW,
    Style.CAUSE_2: curses.COLOR_CYAN,
    Style.CAUSE_3: curses.COLOR_MAGENTA,
    Style.CAUSE_4: curses.COLOR_BLUE,
}


def show(
    watcher: Watcher,
    view: View,
    screen: Screen,
    shown_url: str,
    *,
    with_colour: bool,
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Show it until a key or a signal ends it. Returns the exit code: 0, or 128 and the number of the signal.

    Raises NotPossibleHere when the terminal is of a kind that nobody knows.
    """
    locale.setlocale(locale.LC_CTYPE, "")  # which curses goes by
    try:
        curses.setupterm()
    except curses.error as error:
        raise NotPossibleHere(
            f"this terminal cannot be used: {error}", remedy="set TERM to what it is, such as xterm, or pipe the output"
        ) from None
    curses.set_escdelay(_ESCAPE_PATIENCE_MS)
    with _ended_by() as signals:
        watcher.start()
        curses.wrapper(
            lambda window: _Terminal(window, with_colour, now).loop(watcher, view, screen, shown_url, signals)
        )
    return 128 + signals[0] if signals else 0


@contextmanager
def _ended_by() -> Iterator[list[int]]:
    """The signals that came and mean the end; they only set a mark, so that nothing is left half done."""
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in _ENDING}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Terminal:
    """One window, the whole screen."""

    def __init__(self, window: curses.window, with_colour: bool, now: Callable[[], float]) -> None:
        self._window = window
        self._now = now
        self._encoding = locale.getencoding()
        self._glyphs = wording.glyphs_for(self._encoding)
        self._attributes = dict(_ATTRIBUTES)
        window.timeout(_KEY_PATIENCE_MS)
        with suppress(curses.error):  # not every terminal can hide its cursor
            curses.curs_set(0)
        if with_colour and curses.has_colors():
            curses.use_default_colors()
            for pair, (style, colour) in enumerate(_COLOURS.items(), 1):
                curses.init_pair(pair, colour, -1)
                self._attributes[style] = self._attributes.get(style, curses.A_NORMAL) | curses.color_pair(pair)

    def loop(self, watcher: Watcher, view: View, screen: Screen, shown_url: str, signals: Sequence[int]) -> None:
        """Until a key or a signal."""
        held, failure = view, ""  # held: what a pause holds back
        fresh_at = self._now()
        drawn_at = -1.0
        while not signals:
            news = watcher.latest()
            if news:
                failure = news.failure
                if news.view:
                    held, fresh_at = news.view, self._now()
            if not screen.is_paused:
                view = held
            key = self._key()
            if key:
                after = pressed(screen, key, view)
                if after is None:
                    return
                screen = after
            if news or key is not None or self._now() - drawn_at >= 1:
                drawn_at = self._now()
                at = wording.time_of_day(view.at_unix_seconds)
                status = ScrapeStatus(shown_url, at, failure, drawn_at - fresh_at)
                self._draw(view, screen, status)

    def _key(self) -> str | None:
        """None for none in time; "" for one that only asks for a new picture."""
        try:
            pressed_key = self._window.get_wch()
        except curses.error:
            return None
        if isinstance(pressed_key, str):
            return _KEY_OF_CHARACTER.get(pressed_key, pressed_key)
        if pressed_key == curses.KEY_RESIZE:
            curses.update_lines_cols()
        return _KEYS.get(pressed_key, "")

    def _draw(self, view: View, screen: Screen, status: ScrapeStatus) -> None:
        lines, columns = self._window.getmaxyx()
        self._window.erase()
        for y, line in enumerate(lines_of(view, screen, status, (columns, lines), self._glyphs)[:lines]):
            self._draw_line(y, line)
        self._window.refresh()

    def _draw_line(self, y: int, line: Line) -> None:
        x = 0
        for span in line:
            text = wording.shown(span.text, self._encoding)
            with suppress(curses.error):  # behind the last cell of the last line there is no place for the cursor
                self._window.addstr(y, x, text, self._attributes.get(span.style, curses.A_NORMAL))
            x += wording.width_of(text)
