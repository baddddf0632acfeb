"""host.patient_files: files that are read in limited time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.host.patient_files import PatientFiles
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture
def files() -> Iterator[PatientFiles]:
    files = PatientFiles(PATIENCE_SECONDS)
    yield files
    files.close()


class TestRead:
    def test_content_is_the_file_s(self, files: PatientFiles, tmp_path: Path) -> None:
        """Every byte."""
        (tmp_path / "file").write_bytes(bytes(range(256)))

        assert files.read(tmp_path / "file", 256) == bytes(range(256))

    def test_longer_file_is_refused(self, files: PatientFiles, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(bytes(257))

        with pytest.raises(ValueError, match="larger than 256 bytes"):
            files.read(tmp_path / "file", 256)

    def test_pipe_is_refused(self, files: PatientFiles, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")

        with pytest.raises(ValueError, match="not a regular file"):
            files.read(tmp_path / "pipe", 256)

    def test_file_that_is_not_there_is_refused(self, files: PatientFiles, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"^No such file or directory$"):
            files.read(tmp_path / "file", 256)


class TestHanging:
    def test_read_that_is_not_answered_fails(self, tmp_path: Path) -> None:
        """A stopped reader stands for a file that does not answer. The next read succeeds with another one."""
        (tmp_path / "file").write_bytes(b"x")
        files = PatientFiles(PATIENCE_SECONDS)
        files.read(tmp_path / "file", 1)
        os.kill(files._child.tgid, signal.SIGSTOP)
        files._patience_seconds = 0.1
        with pytest.raises(TimeoutError, match="does not answer"):
            files.read(tmp_path / "file", 1)
        assert files._hanging is not None
        files._hanging.wait(PATIENCE_SECONDS)
        files._patience_seconds = PATIENCE_SECONDS
        content = files.read(tmp_path / "file", 1)
        files.close()

        assert content == b"x"
