"""exporter.demo.live: whether live demos are installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import gpustall_standin.live
from exporter.demo.live import find_play


class TestFindPlay:
    """Only where the distribution gpu-stall-exporter-standin is installed."""

    def test_installed_module_is_imported(self) -> None:
        assert find_play() is gpustall_standin.live.play

    def test_missing_distribution_is_none(self) -> None:
        assert find_play("no_such_distribution.live") is None

    def test_missing_dependency_of_it_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Otherwise a broken installation would look like a missing one."""
        (tmp_path / "broken_live.py").write_text("import no_such_dependency\n")
        monkeypatch.syspath_prepend(tmp_path)

        with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
            find_play("broken_live")
        assert "broken_live" not in sys.modules
