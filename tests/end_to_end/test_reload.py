"""SIGHUP and POST /-/reload: what changes, what is refused, and what needs a restart."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.exporter_process import Exporter, running
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.traced import eventually, only

pytestmark = pytest.mark.end_to_end
SUCCESS = "gpustall_exporter_config_last_reload_success"


class Configured(NamedTuple):
    """An exporter and its configuration file, which is empty at first. begin: of the test's part of the log."""

    exporter: Exporter
    file: Path
    begin: int = 0

    @property
    def logs(self) -> str:
        return self.exporter.logs[self.begin :]

    def hang_up(self, text: str) -> None:
        """SIGHUP with another file."""
        self.file.write_text(text)
        self.exporter.process.send_signal(signal.SIGHUP)

    def posted(self, text: str) -> tuple[int, str]:
        """POST /-/reload with another file."""
        self.file.write_text(text)
        return posted(self.exporter)

    def has_succeeded(self) -> bool:
        """Whether the last reload succeeded, by its metric."""
        return only(self.exporter.scrape().matching(SUCCESS)).value == 1


def posted(exporter: Exporter) -> tuple[int, str]:
    request = urllib.request.Request(exporter.url.rpartition("/")[0] + "/-/reload", method="POST")  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:  # noqa: S310 - our own
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    need_tracing()
    file = tmp_path_factory.mktemp("reload") / "exporter.toml"
    file.write_text("")
    with running(f"--config.file={file}", "--web.enable-lifecycle") as found:
        yield Configured(found, file)


@pytest.fixture
def configured(shared: Configured) -> Iterator[Configured]:
    """The same for all tests, with the same configuration."""
    yield shared._replace(begin=len(shared.exporter.logs))
    assert shared.posted("")[0] == 200


class TestReload:
    def test_sighup_reads_the_file_again(self, configured: Configured) -> None:
        """The log level changes at once."""
        configured.hang_up('log.level = "debug"\n')
        eventually(lambda: "configuration reloaded" in configured.logs, "a log line")
        eventually(lambda: "level=debug" in configured.logs, "a line of the new level")

    def test_invalid_file_is_logged_and_changes_nothing(self, configured: Configured) -> None:
        """A metric has the failure, too, for an alert."""
        configured.hang_up('log.levl = "debug"\n')
        eventually(lambda: "configuration not reloaded" in configured.logs, "a log line")
        assert not configured.has_succeeded()
        configured.hang_up("")
        eventually(configured.has_succeeded, "a reload succeeds")

        assert "unknown key 'log.levl'" in configured.logs
        assert "level=debug" not in configured.logs

    def test_what_needs_a_restart_is_named(self, configured: Configured) -> None:
        configured.hang_up('node = "other"\n')
        eventually(lambda: "restart the exporter to apply the changes to node" in configured.logs, "a log line")

    def test_page_names_what_needs_a_restart(self, configured: Configured) -> None:
        assert configured.posted('node = "other"\n') == (200, "reloaded; restart for the changes of node\n")

    def test_deeply_nested_file_is_refused(self, configured: Configured) -> None:
        """5,000 nested arrays exceed the recursion limit of the parser."""
        code, text = configured.posted("a = " + "[" * 5000)

        assert (code, "is nested too deeply" in text) == (500, True)
        assert not configured.has_succeeded()
        assert "Traceback" not in configured.logs

    def test_page_answers_when_the_reload_is_done(self, configured: Configured) -> None:
        """Or why it failed."""
        good = configured.posted("")
        code, text = configured.posted("tick.interval = 5\n")

        assert good == (200, "reloaded\n")
        assert code == 500
        assert "tick.interval in" in text
        assert "want a positive duration, such as 250ms" in text

    @pytest.mark.acceptance
    def test_stop_does_not_wait_for_reload_requests(self, tmp_path: Path) -> None:
        """A receiver that hangs delays the last push for two seconds. Requests are then answered at once, or not at all."""
        need_tracing()
        file = tmp_path / "exporter.toml"
        file.write_text("")
        with socket.create_server(("127.0.0.1", 0)) as hanging:
            receiver = f"--otlp.endpoint=http://127.0.0.1:{hanging.getsockname()[1]}"
            with running(f"--config.file={file}", "--web.enable-lifecycle", receiver) as exporter:
                exporter.process.send_signal(signal.SIGTERM)
                before = time.monotonic()
                with contextlib.suppress(OSError):
                    while exporter.process.poll() is None:
                        posted(exporter)
                exporter.process.wait(PATIENCE_SECONDS)
                took_seconds = time.monotonic() - before

        assert took_seconds < 8
