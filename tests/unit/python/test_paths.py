"""python.paths: paths as they are shown in tables."""

from __future__ import annotations

import pytest

from exporter.python.paths import is_installed, short_path, without_folders


class TestShortPath:
    @pytest.mark.parametrize(
        ("file", "shown"),
        [
            ("/opt/venv/lib/python3.12/site-packages/torch/autograd/graph.py", "torch/autograd/graph.py"),
            ("/usr/lib/python3/dist-packages/numpy/core/numeric.py", "numpy/core/numeric.py"),
            ("/a/site-packages/b/site-packages/c.py", "c.py"),
            ("/usr/lib/python3.11/asyncio/events.py", "asyncio/events.py"),
            ("/opt/lib64/python3.13t/threading.py", "threading.py"),
            ("/opt/lib/python312.zip/encodings/utf_8.py", "encodings/utf_8.py"),
            ("/home/a/train/main.py", "main.py"),
            ("/home/a/train/lib/data.py", "lib/data.py"),
            ("/home/a/trainer/main.py", "/home/a/trainer/main.py"),
            ("/home/a/train", "/home/a/train"),
            ("/home/a/train/", "/home/a/train/"),
            ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
            ("main.py", "main.py"),
            ("", ""),
            ("/opt/site-packages/", "/opt/site-packages/"),
        ],
    )
    def test_path_of_a_process_in_a_folder(self, file: str, shown: str) -> None:
        """Its working directory is /home/a/train."""
        assert short_path(file, "/home/a/train") == shown

    @pytest.mark.parametrize("folder", ["", "/"])
    def test_root_is_no_folder_to_leave_out(self, folder: str) -> None:
        assert short_path("/main.py", folder) == "/main.py"

    def test_folder_may_end_with_a_slash(self) -> None:
        assert short_path("/home/a/main.py", "/home/a/") == "main.py"


class TestWithoutFolders:
    @pytest.mark.parametrize(
        ("file", "shown"),
        [
            ("/opt/venv/lib/python3.12/site-packages/torch/autograd/graph.py", "…/site-packages/graph.py"),
            ("/usr/lib/python3.11/asyncio/events.py", "…/lib/python3.11/events.py"),
            ("/home/a/train/main.py", "main.py"),
            ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
            ("", ""),
        ],
    )
    def test_name_says_whether_the_file_is_installed(self, file: str, shown: str) -> None:
        """And in which way, without the folders of this machine."""
        assert without_folders(file) == shown
        assert is_installed(without_folders(file)) == is_installed(file)
