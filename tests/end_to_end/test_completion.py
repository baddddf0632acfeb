"""Completions in real shells, and the manual page in real formatters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.exporter_process import COMMAND
from tests.support.patience import PATIENCE_SECONDS
from tests.support.pseudo_terminal import seat
from tests.support.requirements import need_command

pytestmark = pytest.mark.end_to_end
SIZE = (100, 40)


def written(form: str) -> str:
    """The output of `completion`."""
    return subprocess.run(
        [*COMMAND, "completion", form], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    ).stdout


def shell_environment(folder: Path) -> dict[str, str]:
    """A home without settings, and the program on PATH."""
    return {"HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PS1": "$ "}


class TestBash:
    """bash itself, with readline on a terminal."""

    @pytest.mark.parametrize(
        ("keys", "line"),
        [
            ("gpu-stall-exporter che\t", "$ gpu-stall-exporter check"),
            ("gpu-stall-exporter top --so\t", "$ gpu-stall-exporter top --sort="),
            ("gpu-stall-exporter top --sort=la\t", "$ gpu-stall-exporter top --sort=late"),
            ("gpu-stall-exporter top --sort la\t", "$ gpu-stall-exporter top --sort late"),
            ("gpu-stall-exporter run --log.level=w\t", "$ gpu-stall-exporter run --log.level=warning"),
            (
                "gpu-stall-exporter run --otlp.protocol http/p\t",
                "$ gpu-stall-exporter run --otlp.protocol http/protobuf",
            ),
            ("gpu-stall-exporter run --no-collector.nc\t", "$ gpu-stall-exporter run --no-collector.nccl"),
            ("gpu-stall-exporter demo --replay cpu-\t", "$ gpu-stall-exporter demo --replay cpu-"),
            ("gpu-stall-exporter demo strag\t", "$ gpu-stall-exporter demo straggler"),
            ("gpu-stall-exporter rates --rates=pri\t", "$ gpu-stall-exporter rates --rates=prices.toml"),
        ],
    )
    def test_tab_completes(self, keys: str, line: str, tmp_path: Path) -> None:
        (tmp_path / "prices.toml").touch()
        script = tmp_path / "completion.bash"
        script.write_text(f"PS1='$ '\n{written('bash')}")
        command = ["bash", "-c", f"cd {tmp_path} && exec bash --noprofile --rcfile {script} -i"]
        with seat(command, SIZE, shell_environment(tmp_path)) as found:
            found.awaited("$")
            found.types(keys + " #")  # the line is read, and not run
            picture = found.awaited(" #")

        assert picture.splitlines()[0].replace(" #", "").rstrip() == line


class TestFish:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("gpu-stall-exporter che", ["check"]),
            ("gpu-stall-exporter top --sort=la", ["--sort=late"]),
            ("gpu-stall-exporter run --log.level=w", ["--log.level=warning"]),
            ("gpu-stall-exporter run --otlp.protocol http/", ["http/json", "http/protobuf"]),
            ("gpu-stall-exporter demo strag", ["straggler"]),
            ("gpu-stall-exporter explain --per-p", ["--per-process"]),
        ],
    )
    def test_fish_completes(self, line: str, expected: Sequence[str], tmp_path: Path) -> None:
        """By its own command `complete -C`."""
        need_command("fish", "fish")
        script = tmp_path / "completion.fish"
        script.write_text(written("fish"))
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
            env={**os.environ, **shell_environment(tmp_path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )

        assert done.stderr == ""
        assert [found.partition("\t")[0] for found in done.stdout.splitlines()] == expected


class TestZsh:
    @pytest.mark.parametrize(
        ("keys", "line"),
        [
            ("gpu-stall-exporter che\t", "$ gpu-stall-exporter check"),
            ("gpu-stall-exporter top --so\tla\t", "$ gpu-stall-exporter top --sort=late"),
            ("gpu-stall-exporter top --sort=la\t", "$ gpu-stall-exporter top --sort=late"),
            ("gpu-stall-exporter run --log.level=w\t", "$ gpu-stall-exporter run --log.level=warning"),
            (
                "gpu-stall-exporter check --otlp.protocol=http/p\t",
                "$ gpu-stall-exporter check --otlp.protocol=http/protobuf",
            ),
            ("gpu-stall-exporter demo strag\t", "$ gpu-stall-exporter demo straggler"),
        ],
    )
    def test_tab_completes(self, keys: str, line: str, tmp_path: Path) -> None:
        need_command("zsh", "zsh")
        (tmp_path / "_gpu-stall-exporter").write_text(written("zsh"))
        (tmp_path / ".zshrc").write_text(
            "fpath=($HOME $fpath)\nautoload -Uz compinit\ncompinit -u -D\nPS1='$ '\nsetopt interactive_comments\n"
        )
        environment = shell_environment(tmp_path) | {"ZDOTDIR": str(tmp_path)}
        with seat(["zsh", "-i", "--no-globalrcs"], SIZE, environment) as found:
            found.awaited("$")
            found.types(keys + " #")  # the line is read, and not run
            picture = found.awaited(" #")

        assert picture.splitlines()[0].replace(" #", "").rstrip() == line


class TestManual:
    def test_groff_formats_it_without_a_warning(self, tmp_path: Path) -> None:
        """Every flag of `run`, and the exit codes."""
        need_command("groff", "groff-base")
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tascii", "-P-cbou"],
            input=written("man"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        text = " ".join(done.stdout.split())

        assert done.stderr == ""
        assert "--log.level=LEVEL minimum severity: debug, info, warning or error [info]" in text
        assert "EXIT STATUS" in text

    def test_mandoc_finds_no_error(self, tmp_path: Path) -> None:
        """The formatter of other systems."""
        need_command("mandoc", "mandoc")
        path = tmp_path / "gpu-stall-exporter.1"
        path.write_text(written("man"))
        done = subprocess.run(
            ["mandoc", "-Tlint", "-Wwarning", path],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        # The page has no date: it is the same whenever it is made.
        assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []
        assert done.stderr == ""
