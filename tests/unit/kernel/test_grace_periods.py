"""The kernel is asked to hurry for a moment, and then no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.kernel.grace_periods import expedited


class TestExpedited:
    """The setting, a file of the kernel."""

    @pytest.mark.parametrize("before", ["0\n", "1\n"])
    def test_it_is_set_within_and_as_before_afterwards(self, tmp_path: Path, before: str) -> None:
        """Also when somebody had set it."""
        setting = tmp_path / "rcu_expedited"
        setting.write_text(before)

        with expedited(setting):
            within = setting.read_text()

        assert (within, setting.read_text()) == ("1\n", before)

    def test_it_is_as_before_after_an_error(self, tmp_path: Path) -> None:
        """Whatever happens within."""
        setting = tmp_path / "rcu_expedited"
        setting.write_text("0\n")

        with pytest.raises(ZeroDivisionError), expedited(setting):
            raise ZeroDivisionError

        assert setting.read_text() == "0\n"

    def test_without_the_setting_nothing_changes(self, tmp_path: Path) -> None:
        """A kernel without it, or one that may not be written to."""
        with expedited(tmp_path / "rcu_expedited"):
            pass

        assert list(tmp_path.iterdir()) == []
