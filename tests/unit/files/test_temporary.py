"""files.temporary: what is temporary is removed."""

from __future__ import annotations

import tempfile

import pytest

from exporter.files.temporary import NoFolder, temporary_file, temporary_folder


class TestTemporaryFolder:
    def test_it_is_removed_with_what_is_in_it(self) -> None:
        with temporary_folder() as folder:
            (folder / "copy").write_bytes(b"x")

        assert not folder.exists()


class TestTemporaryFile:
    def test_it_can_be_written_and_read(self) -> None:
        with temporary_file() as file:
            file.write(b"content")
            file.seek(0)

            assert file.read() == b"content"

    def test_folder_that_cannot_be_written_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
        with (
            pytest.raises(NoFolder, match=r"^no folder for temporary files: No such file or directory$"),
            temporary_file(),
        ):
            pass
