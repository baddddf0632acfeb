"""A line on standard error that shows how far a live demo is."""

from __future__ import annotations

import sys

from exporter.demo.live import Progress

_BAR_WIDTH = 24
_CLEAR = "\r\033[K"


class ProgressLine:
    """A progress bar on a terminal; nothing elsewhere."""

    def __init__(self, duration_seconds: float, *, is_terminal: bool) -> None:
        self._duration_seconds = duration_seconds
        self._is_terminal = is_terminal

    def show(self, progress: Progress) -> None:
        elapsed_seconds, step_seconds = progress.elapsed_seconds, progress.step_seconds
        step = f"step of {1000 * step_seconds:.1f} ms" if step_seconds else "no step yet"
        state = f"{step}{', with the fault' if progress.is_faulty else ''}"
        done = min(int(elapsed_seconds / self._duration_seconds * _BAR_WIDTH), _BAR_WIDTH)
        bar = f"[{'#' * done}{'.' * (_BAR_WIDTH - done)}]"
        self._write(f"{_CLEAR}{bar} {elapsed_seconds:4.1f} s  {state}")

    def clear(self) -> None:
        self._write(_CLEAR)

    def _write(self, text: str) -> None:
        if self._is_terminal:
            sys.stderr.write(text)
            sys.stderr.flush()
