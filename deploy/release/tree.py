"""Which files make a release, and as of when? Those that git has; as of its last commit."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path


class NotPossible(Exception):
    """A release cannot be made here and now; the message says why."""


def epoch(root: Path) -> int:
    """Seconds since 1970 of the last commit, which every file bears; SOURCE_DATE_EPOCH where that is set."""
    said = os.environ.get("SOURCE_DATE_EPOCH") or _git(root, "log", "-1", "--format=%ct")
    return int(said)


def files(root: Path, *, with_uncommitted: bool) -> list[str]:
    """Paths below the root, sorted. Raises NotPossible where something is not committed, unless that is wanted."""
    if not with_uncommitted and (changed := _git(root, "status", "--porcelain")):
        raise NotPossible(f"not committed: {', '.join(line[3:] for line in changed.splitlines()[:5])}")
    others = ("--others", "--exclude-standard") if with_uncommitted else ()
    found = _git(root, "ls-files", "-z", "--cached", *others).split("\0")
    return sorted({name for name in found if name and (root / name).is_file()})


def copy(root: Path, names: Iterable[str], to: Path, epoch: int) -> None:
    """The files, with their times and rights made equal."""
    for name in names:
        there = to / name
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, there)
        there.chmod(0o755 if (root / name).stat().st_mode & 0o100 else 0o644)
        os.utime(there, (epoch, epoch))


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise NotPossible("git is missing") from None
    except subprocess.CalledProcessError as error:
        raise NotPossible(f"git {arguments[0]}: {error.stderr.strip()}") from None
    return done.stdout.strip()
