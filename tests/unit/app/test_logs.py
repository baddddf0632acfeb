"""logs: one line an event, whatever it says."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from exporter.app import logs
from exporter.config.log import LogFormat, LogLevel

CREATED_SECONDS = 1_700_000_000.25  # 2023-11-14T22:13:20.250Z


def record(message: str, *arguments: object, level: int = logging.INFO, error: bool = False) -> logging.LogRecord:
    """A record at a known moment; `error` adds a ValueError being handled."""
    exc_info = None
    if error:
        try:
            raise ValueError("two\nlines")
        except ValueError:
            exc_info = sys.exc_info()
    made = logging.LogRecord("exporter", level, __file__, 1, message, arguments, exc_info)
    made.created, made.msecs = CREATED_SECONDS, 250.0
    return made


class TestLogfmt:
    """ts, level and msg, quoted where needed."""

    def test_line_begins_with_time_and_level(self) -> None:
        """UTC with milliseconds."""
        line = logs.LogfmtFormatter().format(record("stopped"))

        assert line == "ts=2023-11-14T22:13:20.250Z level=info msg=stopped"

    @pytest.mark.parametrize(
        ("message", "written"),
        [
            ("two words", '"two words"'),
            ("", '""'),
            ("a=b", '"a=b"'),
            ('say "hi"', r'"say \"hi\""'),
            ("back\\slash", r'"back\\slash"'),
            ("näher", "näher"),
        ],
    )
    def test_value_is_quoted_where_a_reader_would_stumble(self, message: str, written: str) -> None:
        """Spaces, quotes, equal signs, backslashes, and nothing at all."""
        assert logs.LogfmtFormatter().format(record("%s", message)).partition("msg=")[2] == written

    @pytest.mark.parametrize(
        "control", ["\n", "\r", "\x1b[31m", "\x7f", "\x85", "\x9b31m", "\u2028", "\u202e", "\ud800"]
    )
    def test_control_characters_are_escaped(self, control: str) -> None:
        """A path made by a traced process can neither start a new line nor colour a terminal."""
        line = logs.LogfmtFormatter().format(record("attached to %s", f"/tmp/{control}x"))

        assert line.isprintable()

    def test_traceback_is_a_field(self) -> None:
        """A line stays a line."""
        line = logs.LogfmtFormatter().format(record("tick failed", level=logging.ERROR, error=True))

        assert "level=error" in line
        assert r"ValueError: two\nlines" in line
        assert "\n" not in line


class TestFields:
    """What machines read of a record."""

    def test_they_follow_the_message(self) -> None:
        """In both formats."""
        made = record("chain opened")
        made.__dict__["fields"] = {"cause": "block_io", "commands": "iostat -x 1; ps"}

        assert (
            logs.LogfmtFormatter().format(made).endswith('msg="chain opened" cause=block_io commands="iostat -x 1; ps"')
        )
        assert json.loads(logs.JsonFormatter().format(made))["cause"] == "block_io"


class TestJson:
    """The same fields as an object."""

    def test_line_is_one_object(self) -> None:
        """Three fields."""
        found = json.loads(logs.JsonFormatter().format(record("attached to %s", "libcudart.so.12")))

        assert found == {"ts": "2023-11-14T22:13:20.250Z", "level": "info", "msg": "attached to libcudart.so.12"}

    def test_traceback_is_a_field(self) -> None:
        """On the same line."""
        line = logs.JsonFormatter().format(record("tick failed", error=True))

        assert "ValueError: two\nlines" in json.loads(line)["error"]
        assert "\n" not in line


class TestSetUp:
    """Where the log goes."""

    @pytest.fixture(autouse=True)
    def _root_logger_comes_back(self) -> Iterator[None]:
        root = logging.getLogger()
        before = root.handlers[:], root.level
        yield
        root.handlers[:] = before[0]
        root.setLevel(before[1])

    def test_log_goes_to_standard_error_in_the_format_asked_for(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Standard output belongs to commands."""
        logs.set_up(LogLevel.INFO, LogFormat.JSON)
        logging.getLogger("exporter.test").info("hello")

        output = capsys.readouterr()
        assert (output.out, json.loads(output.err)["msg"]) == ("", "hello")

    def test_less_severe_is_not_logged(self, capsys: pytest.CaptureFixture[str]) -> None:
        """--log.level=warning."""
        logs.set_up(LogLevel.WARNING, LogFormat.LOGFMT)
        logging.getLogger("exporter.test").info("hello")

        assert capsys.readouterr().err == ""

    def test_setting_up_twice_logs_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The handler replaces the one before."""
        logs.set_up(LogLevel.INFO, LogFormat.LOGFMT)
        logs.set_up(LogLevel.INFO, LogFormat.LOGFMT)
        logging.getLogger("exporter.test").warning("hello")

        assert capsys.readouterr().err.count("hello") == 1
