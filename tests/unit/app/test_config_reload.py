"""reloads: who asked is answered, whatever becomes of it."""

from __future__ import annotations

import pytest

from exporter.app.config_reload import Reloads
from exporter.errors import BadInput, ExporterError


def refuses() -> tuple[str, ...]:
    """A configuration that cannot be used."""
    raise BadInput("unknown key 'a'")


def breaks() -> tuple[str, ...]:
    """A defect of ours."""
    raise ZeroDivisionError


class TestObey:
    """obey()."""

    def test_everybody_who_asked_is_told_what_needs_a_restart(self) -> None:
        """Once each."""
        reloads = Reloads(lambda: ("node",), lambda: None)
        asked = [reloads.ask(), reloads.ask()]
        reloads.obey()

        assert [one.result(0) for one in asked] == [("node",), ("node",)]

    def test_refusal_is_told(self) -> None:
        """As it was said; the loop goes on."""
        reloads = Reloads(refuses, lambda: None)
        asked = reloads.ask()
        reloads.obey()

        with pytest.raises(BadInput, match="unknown key 'a'"):
            asked.result(0)

    def test_defect_is_told_and_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """It counts as a failure, and the loop goes on."""
        failed: list[bool] = []
        reloads = Reloads(breaks, lambda: failed.append(True))
        asked = reloads.ask()
        reloads.obey()

        with pytest.raises(ExporterError, match="a defect, ZeroDivisionError"):
            asked.result(0)
        assert failed == [True]
        assert [record.getMessage() for record in caplog.records] == ["the configuration stays as it was"]


class TestClose:
    """close()."""

    def test_nobody_is_kept_waiting(self) -> None:
        """Neither who has asked, nor who comes later."""
        reloads = Reloads(tuple, lambda: None)
        before = reloads.ask()
        reloads.close()

        for asked in (before, reloads.ask()):
            with pytest.raises(ExporterError, match="the exporter is stopping"):
                asked.result(0)
