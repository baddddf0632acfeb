"""app.open_files: how far the limit is raised."""

from __future__ import annotations

import logging
import resource

import pytest

from exporter.app import open_files

UNLIMITED = resource.RLIM_INFINITY


class TestRaiseLimit:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ((1024, 524_288), (65_536, 524_288)),
            ((1024, 4096), (4096, 4096)),
            ((1024, UNLIMITED), (65_536, UNLIMITED)),
            ((100_000, 524_288), None),
            ((UNLIMITED, UNLIMITED), None),
        ],
        ids=str,
    )
    def test_soft_limit_is_raised_as_far_as_the_hard_one_allows(
        self, monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: tuple[int, int] | None
    ) -> None:
        """And never lowered."""
        found: list[tuple[int, int]] = []
        monkeypatch.setattr(resource, "getrlimit", lambda _: before)
        monkeypatch.setattr(resource, "setrlimit", lambda _, limits: found.append(limits))
        open_files.raise_limit()

        assert found == ([] if after is None else [after])

    def test_too_low_a_limit_is_a_warning(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (512, 512))
        open_files.raise_limit()

        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "the limit of open files is 512: the exporter needs 1024" in caplog.text
