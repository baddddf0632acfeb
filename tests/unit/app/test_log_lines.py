"""app.log_lines: lines on a pipe that is not read, and then is read again."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from exporter.app import log_lines
from exporter.app.log_lines import LINES_MAX, LogLines
from exporter.host import capabilities
from tests.support.traced import eventually

PIPE_BYTES = 1 << 16
LINE = b"x" * 1023  # and a line break


class Pipe:
    """reported: numbers of dropped lines."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.reported: list[int] = []
        self.lines = LogLines(self.writer, self.reported.append)

    def read(self, length: int) -> bytes:
        """So many bytes."""
        found = b""
        while len(found) < length:
            found += os.read(self.reader, length - len(found))
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)
    pipe.lines.stop()
    os.close(pipe.writer)


class TestPut:
    def test_lines_are_written_in_order(self, pipe: Pipe) -> None:
        for line in (b"first", b"second"):
            pipe.lines.put(line)

        assert pipe.read(13) == b"first\nsecond\n"

    def test_line_without_room_is_dropped_and_counted(self, pipe: Pipe) -> None:
        """The pipe is full, then one line is being written, then the queue is full."""
        in_pipe = PIPE_BYTES // len(LINE + b"\n") + 1
        for _ in range(in_pipe):
            pipe.lines.put(LINE)
        eventually(lambda: not pipe.lines._lines, "the last of them is being written")
        for _ in range(LINES_MAX + 7):
            pipe.lines.put(LINE)

        assert (pipe.lines.dropped, pipe.reported) == (7, [])
        assert pipe.read((in_pipe + LINES_MAX) * 1024) == (LINE + b"\n") * (in_pipe + LINES_MAX)
        eventually(lambda: pipe.reported == [7], "it is reported when there is room again")

    def test_line_that_cannot_be_written_is_counted(self) -> None:
        """Its reader has exited."""
        reader, writer = os.pipe()
        os.close(reader)
        lines = LogLines(writer)
        lines.put(LINE)

        assert lines.stop()
        assert lines.dropped == 1
        os.close(writer)


class TestStop:
    def test_what_waits_is_written(self, pipe: Pipe) -> None:
        for _ in range(23):
            pipe.lines.put(b"line")

        assert pipe.lines.stop()
        assert pipe.read(23 * 5) == b"line\n" * 23

    def test_pipe_that_is_full_is_not_waited_for(self, pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_lines, "STOP_SECONDS", 0.05)
        pipe.lines.put(b"x" * (PIPE_BYTES + 1))

        assert not pipe.lines.stop()


class TestCapabilities:
    def test_lines_are_written_where_none_can_be_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Under a filter of system calls."""

        def refused(_wanted: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted", "capset")

        monkeypatch.setattr(capabilities, "keep_only", refused)
        reader, writer = os.pipe()
        lines = LogLines(writer)
        lines.put(b"line")

        assert lines.stop()
        assert os.read(reader, 100) == b"line\n"
        for fd in (reader, writer):
            os.close(fd)
