"""Standard output and error of a command, whatever they are connected to.

In: the streams that the interpreter has made. Out: streams that print any text, and an error that names standard output when it
cannot be written: a full disk, a closed descriptor.
"""

from __future__ import annotations

import codecs
import errno
import io
import locale
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from exporter.errors import ExporterError

_REPLACEMENTS: Final = {"→": "->", "…": "...", "µ": "u", "±": "+/-", "·": "|", "—": "-", "“": '"', "”": '"'}
"""Characters of the program's own texts, for an encoding that lacks them."""

_ERRORS: Final = "gpustall-replace"
_STDIN, _STDOUT, _STDERR = range(3)


class OutputFailed(ExporterError):
    """Standard output takes no more."""


class _StandardOutput(io.FileIO):
    """Descriptor 1. A reader that has exited stays a BrokenPipeError; any other failure names the stream."""

    def write(self, piece: Any, /) -> int:
        try:
            return super().write(piece)
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise OutputFailed(f"cannot write to standard output: {reason}") from error


def prepare() -> None:
    """Called once, before anything is printed."""
    codecs.register_error(_ERRORS, _replace)
    _reopen_closed()
    if sys.stdout is sys.__stdout__:  # else a caller collects what is printed
        encoding = sys.stdout.encoding if sys.stdout else locale.getencoding()
        is_terminal = os.isatty(_STDOUT)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_StandardOutput(_STDOUT, "w", closefd=False)),
            encoding=encoding,
            errors=_ERRORS,
            line_buffering=is_terminal,
            write_through=bool(os.environ.get("PYTHONUNBUFFERED")),
        )
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ERRORS)
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the life of the process
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors=_ERRORS)


@contextmanager
def flushed() -> Iterator[None]:
    """What the block prints is written at its end. Raises OutputFailed or BrokenPipeError if it is not."""
    try:
        yield
    finally:
        sys.stdout.flush()


def discard() -> None:
    """After a failure: what is still buffered must not fail again when the interpreter ends."""
    if sys.stdout.fileno() == _STDOUT:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, _STDOUT)
        os.close(nowhere)


def _reopen_closed() -> None:
    """A closed standard descriptor would become that of the next file, and printing would write into it.

    Its replacement refuses what it is for, so that output to nowhere is an error; lost messages are none.
    """
    modes = {_STDIN: os.O_WRONLY, _STDOUT: os.O_RDONLY, _STDERR: os.O_WRONLY}
    for descriptor, mode in modes.items():
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # the lowest free number: this one


def _replace(error: UnicodeError) -> tuple[str, int]:
    """The handler of characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    text = "".join(_REPLACEMENTS.get(one) or one.encode("ascii", "backslashreplace").decode() for one in missing)
    return text, error.end
