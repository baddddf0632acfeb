"""recording: both runs of an episode in a file."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from exporter.recording.codec import Tick
from tests.faults.job import Step
from tests.faults.recording import OtherLayout, RecordedRun, Recording, load

A = b"\0\0\0\1"


class TestFile:
    """On the disk and back."""

    RUN = RecordedRun(
        (Step(0, 1, 10, 20, 0, 0, 0, 0), Step(1, 1, 11, 21, 0, 0, 0, 0)),
        ((12, 18),),
        {0: 4711, 1: 4712},
        (Tick(5, {"blame": {A: b"\x01"}}), Tick(9, {}), Tick(13, {"blame": {A: None}})),
    )
    RECORDING = Recording("quiet", RecordedRun((), (), {}, ()), RUN)

    def test_it_comes_back(self, tmp_path: Path) -> None:
        """Both runs."""
        assert load(self.RECORDING.save(tmp_path)) == self.RECORDING

    def test_same_recording_is_the_same_file(self, tmp_path: Path) -> None:
        """No time of day in it."""
        first = self.RECORDING.save(tmp_path).read_bytes()

        assert self.RECORDING.save(tmp_path).read_bytes() == first

    def test_other_layout_is_refused(self, tmp_path: Path) -> None:
        """With the command that makes it again."""
        path = self.RECORDING.save(tmp_path)
        text = lzma.decompress(path.read_bytes()).replace(b'"layout":[', b'"layout":[1,')
        path.write_bytes(lzma.compress(text))

        with pytest.raises(OtherLayout, match=r"tests\.faults\.judge quiet --out"):
            load(path)
