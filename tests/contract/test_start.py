"""The installed command starts with its own modules, whatever the user's Python environment holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter import __version__
from tests.support.patience import PATIENCE_SECONDS

COMMAND = Path(sys.executable).with_name("gpu-stall-exporter")
RAISES = "raise SystemExit('the wrong module')\n"
FOREIGN = ("exporter.py", "sitecustomize.py", "usercustomize.py", "typing.py", "google/__init__.py", "argparse.py")


def started(cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`explain --help`, which imports a good part of the program."""
    return subprocess.run(
        [COMMAND, "explain", "--help"],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def is_right(done: subprocess.CompletedProcess[str]) -> bool:
    return (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("usage: gpu-stall-exporter explain ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Modules of others, with names of the program's, of the interpreter's and of packages that it uses."""
    for name in FOREIGN:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(RAISES)
    return tmp_path


class TestStart:
    @pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE"])
    def test_variables_of_the_interpreter_are_not_used(self, folder: Path, variable: str) -> None:
        assert is_right(started(Path("/"), **{variable: str(folder)}))

    def test_modules_in_the_working_directory_are_not_used(self, folder: Path) -> None:
        assert is_right(started(folder))

    def test_link_to_the_command_starts_it(self, folder: Path) -> None:
        """As in /usr/local/bin."""
        link = folder / "linked"
        link.symlink_to(COMMAND)
        done = subprocess.run(
            [link, "--version"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )

        assert done.stdout == f"gpu-stall-exporter {__version__}\n"

    def test_without_an_interpreter_beside_it_one_with_the_package_is_found(self, tmp_path: Path) -> None:
        """As after an installation without a virtual environment."""
        copy = tmp_path / "bin" / COMMAND.name
        copy.parent.mkdir()
        copy.write_bytes(COMMAND.read_bytes())
        copy.chmod(0o755)
        path = f"{COMMAND.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            [copy, "--version"],
            env={"PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert (done.stdout, done.stderr) == (f"gpu-stall-exporter {__version__}\n", "")

    def test_without_the_package_it_is_one_line(self, tmp_path: Path) -> None:
        """No interpreter at all."""
        for name in ("dirname", "readlink"):
            (tmp_path / name).symlink_to(f"/usr/bin/{name}")
        copy = tmp_path / COMMAND.name
        copy.write_bytes(COMMAND.read_bytes())
        done = subprocess.run(
            ["/bin/sh", copy, "--version"],
            env={"PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert done.returncode == 3
        assert done.stderr.startswith("gpu-stall-exporter: no Python 3.11 or newer has this program's package")
        assert done.stderr.count("\n") == 1
