"""Frames of a recording of single calls, and what is wrong with bytes that are none."""

from __future__ import annotations

import io
import json

import pytest

from exporter.errors import BadInput, NotPossibleHere
from exporter.model import Identity
from exporter.recording import call_stream
from exporter.recording.call_stream import (
    FrameKind,
    RecordedJob,
    RecordedThread,
    RecordingEnd,
    RecordingHead,
    end_frame,
    end_of,
    failure_frame,
    failure_of,
    frames,
    head_frame,
    head_of,
    threads_frame,
    threads_of,
)

HEAD = RecordingHead("gpu7", 5, 7)
END = RecordingEnd(
    9,
    "time",
    2,
    {3: RecordedJob(Identity(rank="1"), 100, "python", 23, 5, 0, 1), 4: RecordedJob(None, 0, "", 1, 0, 0, 0)},
)
THREAD = RecordedThread(3, 101, 100, 0, 65535, 8, 6, "python")


def contents(raw: bytes) -> list[tuple[FrameKind, bytes]]:
    return list(frames(io.BytesIO(raw).read))


class TestFrames:
    def test_what_was_written_is_read(self) -> None:
        (_, head), (_, threads), (_, end) = contents(head_frame(HEAD) + threads_frame([THREAD]) + end_frame(END))

        assert head_of(head) == HEAD
        assert threads_of(threads) == [THREAD]
        assert end_of(end) == END

    def test_refusal_keeps_its_exit_code(self) -> None:
        ((kind, content),) = contents(failure_frame(BadInput("no process matches", remedy="see `top`")))
        error = failure_of(content)

        assert kind is FrameKind.FAILURE
        assert (error.exit_code, error.one_line()) == (2, "no process matches; see `top`")

    @pytest.mark.parametrize(
        "raw",
        [
            head_frame(HEAD)[:3],
            head_frame(HEAD)[:-1],
            b"?\0\0\0\0",
            b"P\xff\xff\xff\xff",
            b"HTTP/1.1 400 Bad RecordingRequest\r\n",
        ],
    )
    def test_stream_that_is_cut_or_none_is_refused(self, raw: bytes) -> None:
        with pytest.raises(NotPossibleHere) as refused:
            contents(raw)

        assert "ended early" in refused.value.one_line()

    def test_recording_of_another_version_is_refused(self) -> None:
        """Its numbers of operations mean something else."""
        document = json.loads(contents(head_frame(HEAD))[0][1]) | {"version": "9.9", "layout": 1}
        with pytest.raises(BadInput) as refused:
            head_of(json.dumps(document).encode())

        assert "the running exporter is version 9.9" in refused.value.one_line()

    @pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff"])
    def test_head_that_is_no_document_is_refused(self, content: bytes) -> None:
        with pytest.raises(NotPossibleHere):
            head_of(content)

    def test_piece_of_the_ring_fits_a_frame(self) -> None:
        assert call_stream.FRAME_BYTES_MAX == 4 << 20
