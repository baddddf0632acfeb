"""Interpreters of this machine, up to Python 3.14, for tests that read a live one.

`python -m tests.support.interpreters` downloads one that few machines have: a static build of 3.14, out of a Go module.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST, NEWEST = (3, 7), (3, 14)
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
MODULE = "github.com/kluctl/go-embed-python@v0.0.0-3.14.6-20260610-1"
"""python-build-standalone as a Go module, since the Go proxy is reached where its own releases are not."""
SUM = "h1:oGUS7++Wm3LgxUfD6AmJgKbKQD2wdQFO9PzyJv6T+E4="
DOWNLOADED = ROOT / "build" / "interpreters" / "3.14.6"
_PLATFORMS = {"x86_64": "linux-amd64", "aarch64": "linux-arm64"}
_ASK = "import sys, sysconfig; print('%d.%d.%d' % sys.version_info[:3], int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))))"


def interpreters(oldest: tuple[int, int] = (3, 9)) -> list[tuple[str, Path]]:
    """(name, path) of each interpreter, each file once; the one that runs the tests comes first and is always there.

    Before: ~/.pyenv/versions/3.9.18/bin/python3. After: ("pyenv-3.9.18", that path).
    """
    return [(name, path) for name, path in _all() if _numbers(name.rpartition("-")[2])[:2] >= oldest]


@cache
def _all() -> list[tuple[str, Path]]:
    found: dict[Path, tuple[str, Path]] = {}
    for origin, path in _candidates():
        version = _version(path)
        if version is not None and path.resolve() not in found:
            found[path.resolve()] = (f"{origin}-{version}", path)
    return list(found.values())


def of_version(version: str) -> tuple[str, Path]:
    """An interpreter of 3.N; the test is skipped without one."""
    for name, path in interpreters():
        if name.rpartition("-")[2].startswith(f"{version}."):
            return name, path
    hint = ": python -m tests.support.interpreters downloads one" if version == "3.14" else ""
    pytest.skip(f"Python {version} is not on this machine{hint}")


def _candidates() -> list[tuple[str, Path]]:
    running = Path(sys._base_executable)  # type: ignore[attr-defined] # outside of a virtual environment
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    installed = (
        sorted(pyenv.glob("3.*/bin/python3"), key=lambda path: _numbers(path.parts[-3])) if pyenv.is_dir() else []
    )
    return [
        ("running", running),
        *(("pyenv", path) for path in installed if OLDEST <= _numbers(path.parts[-3])[:2] <= NEWEST),
        ("system", Path("/usr/bin/python3")),
        ("standalone", DOWNLOADED / "bin" / "python3"),
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _version(path: Path) -> str | None:
    """3.N.M of an interpreter that runs, with a `t` if it is free-threaded; None for one that is too old or too new."""
    try:
        done = subprocess.run([path, "-I", "-S", "-c", _ASK], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    version, free_threaded = done.stdout.split()
    return version + "t" * int(free_threaded) if OLDEST <= _numbers(version)[:2] <= NEWEST else None


def _extract(source: Path, target: Path) -> None:
    """source: files as the module keeps them, some compressed, some links, and a list of them all."""
    for entry in json.loads((source / "files.json").read_text(encoding="utf-8"))["files"]:
        file = target / entry["name"]
        file.parent.mkdir(parents=True, exist_ok=True)
        if "symlink" in entry:
            file.symlink_to(entry["symlink"])
        elif entry.get("compressed"):
            file.write_bytes(gzip.decompress((source / f"{entry['name']}.gz").read_bytes()))
            file.chmod(entry["perm"] & 0o777)
        elif (source / entry["name"]).is_file():
            file.write_bytes((source / entry["name"]).read_bytes())
            file.chmod(entry["perm"] & 0o777)


def main() -> int:
    """Download the interpreter, unless it is there. Exit status 0 without it as well: its tests are skipped, with the reason."""
    if DOWNLOADED.exists():
        return 0
    machine = _PLATFORMS.get(platform.machine())
    if shutil.which("go") is None or machine is None:
        print("interpreters: 3.14 left out: no Go, or no build for this machine")
        return 0
    done = subprocess.run(["go", "mod", "download", "-json", MODULE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"interpreters: 3.14 left out: {done.stdout}{done.stderr}")
        return 0
    module = json.loads(done.stdout)
    assert module["Sum"] == SUM, f"another module than the one that was examined: {module['Sum']}"
    DOWNLOADED.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DOWNLOADED.parent) as folder:
        _extract(Path(module["Dir"], "python/internal/data", machine), Path(folder, "made"))
        Path(folder, "made").rename(DOWNLOADED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
