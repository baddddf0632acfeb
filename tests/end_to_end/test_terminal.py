"""What commands print on a terminal: words stay whole, colours can be refused, and waiting is announced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from exporter.output import protobuf
from tests.support.exporter_process import COMMAND
from tests.support.investigated import an_hour
from tests.support.metrics_page import page, responds
from tests.support.patience import PATIENCE_SECONDS
from tests.support.pseudo_terminal import seat

pytestmark = pytest.mark.end_to_end
CHECK = [*COMMAND, "check", "--web.listen-address=127.0.0.1:0"]
REPLAY = [*COMMAND, "demo", "--replay", "cpu-contention"]


def escape_sequences(*command: str, **variables: str) -> int:
    """How many a command sends to a terminal that has colours."""
    script = ["script", "--quiet", "--return", "--command", " ".join(command), "/dev/null"]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    done = subprocess.run(
        script, env=environment | variables, stdout=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=False
    )
    return done.stdout.count(b"\x1b[")


class TestWidth:
    @pytest.mark.parametrize("columns", [80, 100])
    def test_no_word_is_cut_at_the_margin(self, columns: int) -> None:
        """The words on the screen are those of a pipe, where no line is wrapped, and no command is suggested."""
        piped = subprocess.run(REPLAY, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout
        with seat(REPLAY, (columns, 60)) as found:
            assert found.ends() == 0
            picture = found.awaited("The GPU looks busy in every dashboard")

        assert picture.partition("next: ")[0].split() == piped.split()

    def test_check_fits_a_narrow_terminal(self) -> None:
        """A path that is longer than a line stays whole; everything else keeps the margin."""
        with seat(CHECK, (40, 200)) as found:
            found.ends()
            picture = found.awaited("run` can")

        assert re.search(r"^kernel +ok\n  \d+\.\d+", picture, re.MULTILINE)


class TestColours:
    def test_check_has_colours_on_a_terminal(self) -> None:
        assert escape_sequences(*CHECK) > 0

    def test_no_color_is_honored_by_check(self) -> None:
        assert escape_sequences(*CHECK, NO_COLOR="1") == 0

    def test_terminal_without_colours_gets_none(self) -> None:
        assert escape_sequences(*CHECK, TERM="dumb") == 0


class TestWaiting:
    @pytest.mark.parametrize("flags", [[], ["--once"]], ids=["live", "once"])
    def test_top_says_what_it_waits_for(self, flags: list[str]) -> None:
        """And since when, until the first scrape is there."""
        may_answer = threading.Event()
        body = protobuf.family("gpustall_exporter_build_info", "", protobuf.GAUGE, [])

        def respond(request: BaseHTTPRequestHandler) -> None:
            assert may_answer.wait(PATIENCE_SECONDS)
            responds(body)(request)

        with (
            page({"/metrics": respond}) as slow,
            seat([*COMMAND, "top", f"--url={slow.base}", "--interval=500ms", *flags]) as found,
        ):
            try:
                found.awaited(f"waiting for metrics of {slow.base}/metrics, ")
            finally:
                may_answer.set()
            found.awaited("top", "0 workloads", without=["waiting for"])


class TestStandin:
    def test_job_prints_a_line_per_second(self) -> None:
        """For a person; a pipe gets every step as JSON."""
        command = [sys.executable, "-m", "gpustall_standin", "run", "trainer", "--ranks=1", "--steps=40"]
        with seat(command) as found:
            assert found.ends() == 0
            picture = found.awaited("rank 0: ended after 40 steps")

        assert picture.startswith("rank 0: step 1 takes ")
        assert len(picture.split("\n\n")[0].splitlines()) < 40
        assert "{" not in picture


class TestSuggestions:
    @pytest.mark.parametrize(
        ("command", "suggested"),
        [
            (["query", "--list"], "next: gpu-stall-exporter query --name=open-chains"),
            (["query", "select 1", "--history.path={path}"], "next: gpu-stall-exporter query --list"),
            (["query", "--name=stacks", "--history.path={path}"], "query --name=open-chains --history.path={path}"),
            (["explain", "--history.path={path}"], "query --name=worst-chains --history.path={path}"),
            (["demo", "--replay"], "next: gpu-stall-exporter check"),
            (["serve", "--new-token=a"], "next: gpu-stall-exporter serve --web.token-file=FILE --web.config.file=FILE"),
        ],
    )
    def test_last_line_is_the_next_command(self, command: list[str], suggested: str, tmp_path: Path) -> None:
        """It reads the same history."""
        path = str(an_hour(tmp_path))
        with seat([*COMMAND, *(word.replace("{path}", path) for word in command)], (400, 100)) as found:
            assert found.ends() == 0
            found.awaited(suggested.replace("{path}", path))
