"""The live table: draws lines and reads keys with curses.

The terminal is restored after a key, a signal or a defect. curses handles SIGTSTP, SIGCONT and SIGWINCH.
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
from exporter.top import terminal_text
from exporter.top.layout import Line, Style
from exporter.top.rendering import ScrapeStatus, lines_of
from exporter.top.scrape_thread import ScrapeThread
from exporter.top.screen import Key, Screen, after_key

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
    scrapes: ScrapeThread,
    view: View,
    screen: Screen,
    shown_url: str,
    *,
    with_colour: bool,
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Display the table until a key or a signal ends it. Returns the exit code: 0, or 128 plus the number of the signal.

    view: the first one. Raises NotPossibleHere when curses does not know the terminal.
    """
    locale.setlocale(locale.LC_CTYPE, "")  # curses uses it
    try:
        curses.setupterm()
    except curses.error as error:
        raise NotPossibleHere(
            f"this terminal cannot be used: {error}", remedy="set TERM, such as TERM=xterm, or pipe the output"
        ) from None
    curses.set_escdelay(_ESCAPE_PATIENCE_MS)
    with _ended_by() as signals:
        scrapes.start()
        curses.wrapper(
            lambda window: _Terminal(window, with_colour, now).loop(scrapes, view, screen, shown_url, signals)
        )
    return 128 + signals[0] if signals else 0


@contextmanager
def _ended_by() -> Iterator[list[int]]:
    """The signals that have arrived; their handler only records them, so that a drawing is not interrupted."""
    received: list[int] = []

    def record(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, record) for number in _ENDING}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Terminal:
    """The whole screen as one window."""

    def __init__(self, window: curses.window, with_colour: bool, now: Callable[[], float]) -> None:
        self._window = window
        self._now = now
        self._encoding = locale.getencoding()
        self._glyphs = terminal_text.glyphs_for(self._encoding)
        self._attributes = dict(_ATTRIBUTES)
        window.timeout(_KEY_PATIENCE_MS)
        with suppress(curses.error):  # not every terminal can hide its cursor
            curses.curs_set(0)
        if with_colour and curses.has_colors():
            curses.use_default_colors()
            for pair, (style, colour) in enumerate(_COLOURS.items(), 1):
                curses.init_pair(pair, colour, -1)
                self._attributes[style] = self._attributes.get(style, curses.A_NORMAL) | curses.color_pair(pair)

    def loop(self, scrapes: ScrapeThread, view: View, screen: Screen, shown_url: str, signals: Sequence[int]) -> None:
        """Redraw until a key or a signal ends it."""
        newest, failure = view, ""  # newest: not displayed during a pause
        fresh_at = self._now()
        drawn_at = -1.0
        while not signals:
            result = scrapes.latest()
            if result:
                failure = result.failure
                if result.view:
                    newest, fresh_at = result.view, self._now()
            if not screen.is_paused:
                view = newest
            key = self._key()
            if key:
                after = after_key(screen, key, view)
                if after is None:
                    return
                screen = after
            if result or key is not None or self._now() - drawn_at >= 1:
                drawn_at = self._now()
                at = terminal_text.time_of_day(view.at_unix_seconds)
                status = ScrapeStatus(shown_url, at, failure, drawn_at - fresh_at)
                self._draw(view, screen, status)

    def _key(self) -> str | None:
        """None without a key in time; "" for a key that only redraws, such as a resize."""
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
            text = terminal_text.encodable(span.text, self._encoding)
            with suppress(curses.error):  # the cursor has no place after the last cell of the last line
                self._window.addstr(y, x, text, self._attributes.get(span.style, curses.A_NORMAL))
            x += terminal_text.width_of(text)
