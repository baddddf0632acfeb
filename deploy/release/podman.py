"""Podman with a storage of its own, so that neither images of this machine nor what is made here get in each other's way."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from deploy.release.tree import NotPossible

CERTIFICATES: Final = "/run/secrets/certificates"
"""Where a build finds the certificates of a private package index."""


class Podman:
    """The podman command.

    storage: a folder for its images, made if missing. flags: in front of every subcommand. patience_seconds: for what may fail.
    """

    def __init__(self, storage: Path, *flags: str, patience_seconds: float | None = None) -> None:
        """Raises NotPossible without Podman."""
        if shutil.which("podman") is None:
            raise NotPossible("podman is missing: apt-get install podman uidmap, or leave the image out with IMAGE=no")
        # vfs compares folders file by file; overlay's layers are not the same with and without root.
        self._command = ["podman", f"--root={storage}/store", f"--runroot={storage}/run", "--storage-driver=vfs"]
        self._command += ["--events-backend=none", *flags]
        self._patience_seconds = patience_seconds

    def attempt(self, *arguments: str | Path) -> tuple[int, str]:
        """Exit code and output of a subcommand that may fail."""
        done = subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, timeout=self._patience_seconds, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def run(self, *arguments: str | Path) -> str:
        """The output of a subcommand. Raises NotPossible with the end of what it printed."""
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotPossible(f"podman {arguments[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout.strip()

    def remove_images(self) -> None:
        """Leaves the storage without files of other users, so that its folder can be removed."""
        self.attempt("image", "rm", "--all", "--force")


def pip_secrets(folder: Path) -> dict[str, Path]:
    """pip's configuration on this machine for the build, and the certificates it names. Neither stays in the image."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    options = {
        name: str(ast.literal_eval(value))
        for name, value in re.findall(r"^[\w:.]*\.([\w-]+)=(.*)$", listed, flags=re.MULTILINE)
    }
    options.pop("find-links", None)  # folders of this machine
    secrets = {"pip": folder / "pip.conf"}
    if "cert" in options:
        secrets["certificates"] = Path(options["cert"])
        options["cert"] = CERTIFICATES
    lines = ["[global]", *(f"{name} = {value.strip()}".replace("\n", "\n  ") for name, value in options.items())]
    secrets["pip"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return secrets
