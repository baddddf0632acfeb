"""Every command with a standard output that is closed, full, gone or not UTF-8: real processes with real descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.__main__ import COMMANDS
from exporter.demo.scenarios import SCENARIOS
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import ROOT

RATES = ("rates", f"--rates={ROOT}/alerts/rates.toml")
RECORDING = f"--recording={SCENARIOS['hang'].recording}"
EVERY_HELP = """
from contextlib import suppress
from exporter.__main__ import COMMANDS, main
for command in COMMANDS:
    with suppress(SystemExit):
        main([command, "--help"])
"""
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
PRINTING = pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("run", "--help"),
        ("assets",),
        ("check", "--web.listen-address=127.0.0.1:0"),
        ("demo", "hang", "--replay"),
        ("explain", RECORDING),
        ("export", "--format=chrome", RECORDING),
        RATES,
    ],
    ids=" ".join,
)
FULL = "gpu-stall-exporter: cannot write to standard output: No space left on device\n"
CLOSED = "gpu-stall-exporter: cannot write to standard output: it is closed\n"


def shell(line: str, arguments: tuple[str, ...], **variables: str) -> subprocess.CompletedProcess[str]:
    """A line for bash, in which "$@" is the command."""
    command = ["bash", "-c", line, "bash", sys.executable, "-m", "exporter", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


class TestOutputThatFails:
    """One line on standard error, and an exit code."""

    @PRINTING
    def test_full_disk_is_one_line(self, arguments: tuple[str, ...]) -> None:
        done = shell('"$@" >/dev/full', arguments)

        assert (done.returncode, done.stderr) == (1, FULL)

    @PRINTING
    def test_closed_output_is_one_line(self, arguments: tuple[str, ...]) -> None:
        """Else a command that printed nothing would succeed."""
        done = shell('"$@" >&-', arguments)

        assert (done.returncode, done.stderr) == (1, CLOSED)

    @PRINTING
    def test_reader_that_has_exited_ends_the_command_silently(self, arguments: tuple[str, ...]) -> None:
        """As SIGPIPE would: `gpu-stall-exporter check | head -1`. The pipe has no reader before the command begins."""
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "exporter", *arguments],
            cwd=ROOT,
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        os.close(writer)

        assert (done.returncode, done.stderr) == (141, b"")

    def test_nothing_is_left_to_write_to(self) -> None:
        """The exit code remains."""
        assert shell('"$@" >/dev/full 2>/dev/full', RATES).returncode == 1
        assert shell('"$@" >&- 2>&- <&-', RATES).returncode == 1

    def test_closed_output_is_not_the_descriptor_of_another_file(self, tmp_path: Path) -> None:
        """The next file that is opened would get its number, and what is printed."""
        folder = tmp_path / "assets"
        done = shell('"$@" >&-', ("assets", f"--output={folder}"))

        assert (done.returncode, done.stderr) == (1, CLOSED)
        assert (folder / "alerts" / "README.md").read_bytes() == (ROOT / "alerts" / "README.md").read_bytes()


class TestEncoding:
    """A terminal or locale without UTF-8."""

    @PRINTING
    def test_ascii_replaces_arrows_and_ellipses(self, arguments: tuple[str, ...]) -> None:
        """No traceback, and nothing that looks like an escape sequence of Python."""
        self.assert_ascii(arguments)

    def test_ascii_replaces_those_of_json(self) -> None:
        self.assert_ascii(("check", "--format=json", "--web.listen-address=127.0.0.1:0"))

    def test_ascii_replaces_those_of_each_help(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", EVERY_HELP], cwd=ROOT, env={**os.environ, **ASCII}, capture_output=True, check=True
        )

        assert done.stderr == b""
        assert done.stdout.isascii()
        assert b"\\u" not in done.stdout
        assert done.stdout.count(b"usage: gpu-stall-exporter ") == len(COMMANDS)

    def assert_ascii(self, arguments: tuple[str, ...]) -> None:
        done = shell('"$@"', arguments, **ASCII)

        assert done.stderr == ""
        assert done.stdout.isascii()
        assert "\\u" not in done.stdout or "--format=json" in arguments

    def test_remedy_of_a_check_has_an_arrow_of_ascii(self) -> None:
        arguments = ("check", "--web.listen-address=127.0.0.1:0", "--path.procfs=/")
        done = shell('"$@"', arguments, **ASCII)

        assert "-> " in done.stdout

    def test_other_characters_are_escaped(self) -> None:
        """A path in an error may have them."""
        done = shell('"$@"', ("rates", "--rates=/löss"), LC_ALL="C.UTF-8", PYTHONIOENCODING="ascii")

        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith(r"gpu-stall-exporter: cannot read /l\xf6ss: No such file")
