"""A program on a pseudo-terminal, and the picture that it draws there.

The terminal is a VT100 without colours. It knows what that kind's description lets curses send, and nothing else: an unknown
sequence is an error, so that no picture is wrong without notice.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

KIND = "vt100"
_SEQUENCE = re.compile(r"\x1b(?:\[(\??[0-9;]*)([A-Za-z])|([()].)|([=>78DEM]))")


class Picture:
    """The screen of a VT100."""

    def __init__(self, columns: int, lines: int) -> None:
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size and clear the screen: curses redraws it."""
        self.columns, self.lines = columns, lines
        self.cells = [[" "] * columns for _ in range(lines)]
        self.x = self.y = self.top = 0
        self.bottom = lines - 1
        self._pending = ""

    def __str__(self) -> str:
        """All lines."""
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def feed(self, text: str) -> None:
        """Apply the output of a program."""
        text, self._pending = self._pending + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._character(text[at])
                at += 1
                continue
            found = _SEQUENCE.match(text, at)
            if found is None:
                assert len(text) - at < 16, f"unknown sequence {text[at : at + 16]!r}"
                self._pending = text[at:]
                return
            self._sequence(found)
            at = found.end()

    def _character(self, character: str) -> None:
        if character == "\r":
            self.x = 0
        elif character == "\b":
            self.x = max(self.x - 1, 0)
        elif character == "\t":
            self.x = min((self.x // 8 + 1) * 8, self.columns - 1)
        elif character == "\n":
            self._line_feed()
        elif character.isprintable():
            if self.x == self.columns:  # the margin holds the cursor until the next character
                self.x = 0
                self._line_feed()
            self.cells[self.y][self.x] = character
            self.x += 1
        else:
            assert character in "\0\a\x0e\x0f", f"unknown control character {character!r}"

    def _line_feed(self) -> None:
        if self.y == self.bottom:
            self.cells.insert(self.bottom + 1, [" "] * self.columns)
            del self.cells[self.top]
        else:
            self.y = min(self.y + 1, self.lines - 1)

    def _sequence(self, found: re.Match[str]) -> None:
        numbers, letter, _charset, other = found.groups()
        if other == "M":
            if self.y == self.top:
                del self.cells[self.bottom]
                self.cells.insert(self.top, [" "] * self.columns)
            else:
                self.y = max(self.y - 1, 0)
        elif other == "D":
            self._line_feed()
        elif letter and not numbers.startswith("?"):
            self._controls[letter](self, [int(number or 0) for number in numbers.split(";")])

    def _move(self, x: int, y: int) -> None:
        self.x, self.y = min(max(x, 0), self.columns - 1), min(max(y, 0), self.lines - 1)

    def _erase(self, numbers: Sequence[int], *, whole_lines: bool) -> None:
        first, behind = (0, self.x + 1) if numbers[0] == 1 else (self.x, self.columns)
        self.cells[self.y][first:behind] = [" "] * (min(behind, self.columns) - first)
        if whole_lines:
            for y in range(self.y) if numbers[0] == 1 else range(self.y + 1, self.lines):
                self.cells[y] = [" "] * self.columns

    def _margins(self, numbers: Sequence[int]) -> None:
        self.top = (numbers[0] or 1) - 1
        self.bottom = min(numbers[1] if len(numbers) > 1 else self.lines, self.lines) - 1
        self._move(0, 0)

    def _position(self, numbers: Sequence[int]) -> None:
        self._move((numbers[1] if len(numbers) > 1 else 1) - 1, (numbers[0] or 1) - 1)

    _controls: Mapping[str, Callable[[Any, Sequence[int]], None]] = {
        "A": lambda self, n: self._move(self.x, self.y - (n[0] or 1)),
        "B": lambda self, n: self._move(self.x, self.y + (n[0] or 1)),
        "C": lambda self, n: self._move(self.x + (n[0] or 1), self.y),
        "D": lambda self, n: self._move(self.x - (n[0] or 1), self.y),
        "H": _position,
        "J": lambda self, n: self._erase(n, whole_lines=True),
        "K": lambda self, n: self._erase(n, whole_lines=False),
        "h": lambda self, n: None,
        "l": lambda self, n: None,
        "m": lambda self, n: None,
        "r": _margins,
    }


def _session(leader: int) -> Iterator[int]:
    """Its processes, of which some may outlive the leader."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if os.getsid(int(process.name)) == leader:
                yield int(process.name)


class Seat:
    """A user at the terminal. modes: the terminal's modes before the program began."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int, theirs: int, size: tuple[int, int]) -> None:
        self.process = process
        self.modes = termios.tcgetattr(theirs)
        self._ours = ours
        self._theirs = theirs
        self._picture = Picture(*size)
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    @property
    def picture(self) -> str:
        """The current picture."""
        with self._lock:
            assert self._failure is None, self._failure
            return str(self._picture)

    def awaited(self, *texts: str, without: Sequence[str] = ()) -> str:
        """Wait for a picture with these texts and without those; returns that very one."""

        def picture() -> str:
            now = self.picture
            return now if all(t in now for t in texts) and not any(t in now for t in without) else ""

        try:
            found: str = eventually(picture, "the picture")
        except AssertionError:
            raise AssertionError(f"never seen: {texts} without {tuple(without)}; instead:\n{self.picture}") from None
        return found

    def forgets(self) -> None:
        """Clear the screen, so that the next picture is drawn after this call."""
        with self._lock:
            self._picture.resize(self._picture.columns, self._picture.lines)

    def types(self, text: str) -> None:
        """Keys; Ctrl-C is "\\x03"."""
        os.write(self._ours, text.encode())

    def resizes(self, columns: int, lines: int) -> None:
        """Resize the window."""
        with self._lock:
            self._picture.resize(columns, lines)
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.killpg(os.tcgetpgrp(self._ours), signal.SIGWINCH)

    def ends(self) -> int:
        """Waits for the end of the program; returns its exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def modes_now(self) -> list[Any]:
        """The modes of the terminal."""
        return termios.tcgetattr(self._theirs)

    def leave(self) -> None:
        """Kill the program, and what it has started at this terminal."""
        for tgid in _session(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(tgid, signal.SIGKILL)
        self.process.wait()
        os.close(self._theirs)
        self._thread.join()
        os.close(self._ours)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            try:
                found = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                return
            with self._lock:
                try:
                    self._picture.feed(decoder.decode(found))
                except (AssertionError, IndexError) as failure:
                    self._failure = failure
                    return


def _log_in(terminal: int) -> None:
    """A session on the terminal. A shell that runs the tests in the background has them ignore what Ctrl-C sends."""
    os.login_tty(terminal)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@contextmanager
def seat(
    command: Sequence[str], size: tuple[int, int] = (100, 30), environment: Mapping[str, str] | None = None
) -> Iterator[Seat]:
    """A program with a terminal of its own; killed at the end of the block."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    keep = os.dup(theirs)
    variables = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS", "NO_COLOR")}
    variables |= {"TERM": KIND, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1", **(environment or {})}
    process = subprocess.Popen(
        command,
        env=variables,
        preexec_fn=lambda: _log_in(theirs),  # noqa: PLW1509 - login_tty() is for the process itself
        pass_fds=(theirs,),
    )
    os.close(theirs)
    found = Seat(process, ours, keep, size)
    try:
        yield found
    finally:
        found.leave()
