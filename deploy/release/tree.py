"""The files of a release and their time: what git tracks, and the time of the last commit."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path


class NotPossible(Exception):
    """A release cannot be made here and now; the message gives the reason."""


def epoch(root: Path) -> int:
    """The time of every file, in seconds since 1970: that of the last commit, or SOURCE_DATE_EPOCH where it is set."""
    text = os.environ.get("SOURCE_DATE_EPOCH") or _git(root, "log", "-1", "--format=%ct")
    return int(text)


def files(root: Path, *, with_uncommitted: bool) -> list[str]:
    """Paths below the root, sorted. Raises NotPossible for uncommitted changes, unless they are wanted."""
    if not with_uncommitted and (changed := _git(root, "status", "--porcelain")):
        raise NotPossible(f"not committed: {', '.join(line[2:].strip() for line in changed.splitlines()[:5])}")
    others = ("--others", "--exclude-standard") if with_uncommitted else ()
    found = _git(root, "ls-files", "-z", "--cached", *others).split("\0")
    return sorted({name for name in found if name and (root / name).is_file()})


def revision(root: Path) -> str:
    """The last commit, marked if files have changed since."""
    commit = _git(root, "rev-parse", "HEAD")
    return f"{commit}-changed" if _git(root, "status", "--porcelain") else commit


def copy(root: Path, names: Iterable[str], to: Path, epoch: int) -> None:
    """Copies files, all with the same time and with mode 755 or 644. A symbolic link becomes the file it names."""
    for name in names:
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
        target.chmod(0o755 if (root / name).stat().st_mode & 0o100 else 0o644)
        os.utime(target, (epoch, epoch))


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise NotPossible("git is missing") from None
    except subprocess.CalledProcessError as error:
        raise NotPossible(f"git {arguments[0]}: {error.stderr.strip()}") from None
    return done.stdout.strip()
