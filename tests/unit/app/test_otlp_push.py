"""app.otlp_push: receivers of the configuration in force, replaced at a reload."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.app.otlp_push import OtlpPush
from exporter.clock import Moment
from exporter.errors import BadInput
from exporter.model import Snapshot
from exporter.own_metrics.store import OwnMetrics
from tests.support.receiver import receiver
from tests.unit.config.command_line import loaded

RECEIVER = "--otlp.endpoint=http://127.0.0.1:4318"
WINDOWS = "--otlp.windows=true"


def push(*flags: str) -> OtlpPush:
    """No receiver is started by it."""
    return OtlpPush(loaded(*flags), lambda: Snapshot(Moment(0, 0), ()), OwnMetrics())


class TestOtlpPush:
    """Nothing is sent where start() is not called."""

    def test_without_a_receiver_there_is_nothing_to_push(self) -> None:
        """Chain events are dropped, and finish() returns at once."""
        made = push()
        made.finish()

        assert not made.is_wanted

    def test_receiver_is_wanted(self) -> None:
        """One endpoint is one receiver."""
        assert push(RECEIVER).is_wanted

    def test_unchanged_settings_replace_nothing(self) -> None:
        """A reload for another setting does not interrupt a push."""
        made = push(RECEIVER)
        made.prepare(loaded(RECEIVER, "--log.level=debug"))()

        assert made.is_wanted

    def test_windows_are_wanted_by_a_receiver_that_takes_them(self) -> None:
        """None does by default."""
        assert [push(*flags).wants_windows for flags in ((), (RECEIVER,), (RECEIVER, WINDOWS))] == [False, False, True]

    def test_reload_may_change_whether_windows_are_wanted(self) -> None:
        """Here there was no receiver before."""
        made = push()
        with receiver() as found:
            made.prepare(loaded(f"--otlp.endpoint={found.url}", WINDOWS))()
            is_wanted = made.wants_windows
            made.finish()

        assert is_wanted

    def test_unusable_certificate_leaves_the_old_receiver(self, tmp_path: Path) -> None:
        """The reload fails."""
        (tmp_path / "ca.pem").write_text("not a certificate")
        made = push(RECEIVER)
        with pytest.raises(BadInput, match=r"ca\.pem"):
            made.prepare(loaded("--otlp.endpoint=https://127.0.0.1:4318", f"--otlp.ca-file={tmp_path}/ca.pem"))

        assert made.is_wanted
