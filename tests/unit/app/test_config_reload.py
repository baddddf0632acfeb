"""app.config_reload: every request gets an answer."""

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


class TestRunRequested:
    """The loop's side."""

    def test_every_request_gets_the_flags_that_need_a_restart(self) -> None:
        """Two requests before the loop runs them."""
        reloads = Reloads(lambda: ("node",), lambda: None)
        requests = [reloads.request(), reloads.request()]
        reloads.run_requested()

        assert [one.result(0) for one in requests] == [("node",), ("node",)]

    def test_refused_configuration_is_an_error_of_the_request(self) -> None:
        """With the message of the refusal; the loop goes on."""
        reloads = Reloads(refuses, lambda: None)
        request = reloads.request()
        reloads.run_requested()

        with pytest.raises(BadInput, match="unknown key 'a'"):
            request.result(0)

    def test_defect_is_logged_and_an_error_of_the_request(self, caplog: pytest.LogCaptureFixture) -> None:
        """It counts as a failure, and the loop goes on."""
        failed: list[bool] = []
        reloads = Reloads(breaks, lambda: failed.append(True))
        request = reloads.request()
        reloads.run_requested()

        with pytest.raises(ExporterError, match="ZeroDivisionError, an internal error"):
            request.result(0)
        assert failed == [True]
        assert [record.getMessage() for record in caplog.records] == [
            "configuration not reloaded, the old one stays in force: internal error (bug)"
        ]


class TestClose:
    """When the loop ends."""

    def test_no_request_is_left_waiting(self) -> None:
        """Neither one from before nor a later one."""
        reloads = Reloads(tuple, lambda: None)
        before = reloads.request()
        reloads.close()

        for request in (before, reloads.request()):
            with pytest.raises(ExporterError, match="the exporter is stopping"):
                request.result(0)
