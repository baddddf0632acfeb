"""grace_periods: expedited inside the block only."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.kernel.grace_periods import expedited


class TestExpedited:
    @pytest.mark.parametrize("before", ["0\n", "1\n"])
    def test_setting_is_1_inside_and_restored_after(self, tmp_path: Path, before: str) -> None:
        """Also if it was 1 before."""
        setting = tmp_path / "rcu_expedited"
        setting.write_text(before)

        with expedited(setting):
            within = setting.read_text()

        assert (within, setting.read_text()) == ("1\n", before)

    def test_setting_is_restored_after_an_error(self, tmp_path: Path) -> None:
        setting = tmp_path / "rcu_expedited"
        setting.write_text("0\n")

        with pytest.raises(ZeroDivisionError), expedited(setting):
            raise ZeroDivisionError

        assert setting.read_text() == "0\n"

    def test_without_the_setting_nothing_changes(self, tmp_path: Path) -> None:
        """The file is missing, or is not writable."""
        with expedited(tmp_path / "rcu_expedited"):
            pass

        assert list(tmp_path.iterdir()) == []
