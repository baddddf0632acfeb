"""SIGHUP and POST /-/reload: what changes, what is refused, and what needs a restart."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.exporter_process import Exporter, running
from tests.support.requirements import need_tracing
from tests.support.traced import eventually, only

pytestmark = pytest.mark.end_to_end
SUCCESS = "gpustall_exporter_config_last_reload_success"


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
    need_tracing()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file."""
    path = tmp_path / "exporter.toml"
    path.write_text('tick.interval = "250ms"\n')
    return path


@contextmanager
def configured(file: Path, *flags: str) -> Iterator[Exporter]:
    """An exporter with this file."""
    with running(f"--config.file={file}", *flags) as found:
        yield found


def posted(exporter: Exporter) -> tuple[int, str]:
    """POST /-/reload."""
    request = urllib.request.Request(exporter.url.rpartition("/")[0] + "/-/reload", method="POST")  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310 - our own
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def succeeded(exporter: Exporter) -> bool:
    """Whether the last reload succeeded, by its metric."""
    return only(exporter.scrape().matching(SUCCESS)).value == 1


class TestReload:
    def test_sighup_reads_the_file_again(self, file: Path) -> None:
        """The log level changes at once."""
        with configured(file) as exporter:
            file.write_text('log.level = "debug"\n')
            exporter.process.send_signal(signal.SIGHUP)
            eventually(lambda: "configuration reloaded" in exporter.logs, "a log line")
            eventually(lambda: "level=debug" in exporter.logs, "a line of the new level")

    def test_invalid_file_is_logged_and_changes_nothing(self, file: Path) -> None:
        """A metric has the failure, too, for an alert."""
        with configured(file) as exporter:
            file.write_text('log.levl = "debug"\n')
            exporter.process.send_signal(signal.SIGHUP)
            eventually(lambda: "configuration not reloaded" in exporter.logs, "a log line")
            assert not succeeded(exporter)
            file.write_text("")
            exporter.process.send_signal(signal.SIGHUP)
            eventually(lambda: succeeded(exporter), "a reload succeeds")
            logs = exporter.logs

        assert "unknown key 'log.levl'" in logs
        assert "level=debug" not in logs

    def test_what_needs_a_restart_is_named(self, file: Path) -> None:
        with configured(file) as exporter:
            file.write_text('node = "other"\n')
            exporter.process.send_signal(signal.SIGHUP)
            eventually(lambda: "restart the exporter to apply the changes to node" in exporter.logs, "a log line")

    def test_page_needs_a_flag(self, file: Path) -> None:
        with configured(file) as exporter:
            assert posted(exporter) == (403, "disabled; --web.enable-lifecycle enables it\n")

    def test_page_names_what_needs_a_restart(self, file: Path) -> None:
        with configured(file, "--web.enable-lifecycle") as exporter:
            file.write_text('node = "other"\n')

            assert posted(exporter) == (200, "reloaded; restart for the changes of node\n")

    def test_deeply_nested_file_is_refused(self, file: Path) -> None:
        """5,000 nested arrays exceed the recursion limit of the parser."""
        with configured(file, "--web.enable-lifecycle") as exporter:
            file.write_text("a = " + "[" * 5000)
            code, text = posted(exporter)

            assert (code, "is nested too deeply" in text) == (500, True)
            assert not succeeded(exporter)
            assert "Traceback" not in exporter.logs

    @pytest.mark.acceptance
    def test_stop_does_not_wait_for_reload_requests(self, file: Path) -> None:
        """A receiver that hangs delays the last push for two seconds. Requests are then answered at once, or not at all."""
        with socket.create_server(("127.0.0.1", 0)) as hanging:
            receiver = f"--otlp.endpoint=http://127.0.0.1:{hanging.getsockname()[1]}"
            with configured(file, "--web.enable-lifecycle", receiver) as exporter:
                exporter.process.send_signal(signal.SIGTERM)
                before = time.monotonic()
                with contextlib.suppress(OSError):
                    while exporter.process.poll() is None:
                        posted(exporter)
                exporter.process.wait(10)
                took_seconds = time.monotonic() - before

        assert took_seconds < 8

    def test_page_answers_when_the_reload_is_done(self, file: Path) -> None:
        """Or why it failed."""
        with configured(file, "--web.enable-lifecycle") as exporter:
            good = posted(exporter)
            file.write_text("tick.interval = 5\n")
            code, text = posted(exporter)

        assert good == (200, "reloaded\n")
        assert code == 500
        assert "tick.interval in" in text
        assert "want a positive duration, such as 250ms" in text
