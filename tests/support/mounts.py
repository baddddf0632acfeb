"""Mounts in a mount namespace of their own, which ends with the test whatever happens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_command


@dataclass(frozen=True)
class MountNamespace:
    """Exists as long as its holder, a process that ends when its input does: with the test's process at the latest."""

    holder: int

    @property
    def enter(self) -> tuple[str, ...]:
        """Prefix of a command that runs inside."""
        return ("nsenter", f"--mount=/proc/{self.holder}/ns/mnt")

    def run(self, *command: str | Path) -> None:
        """Run a command inside, which must succeed."""
        subprocess.run(
            [*self.enter, *command], check=True, timeout=PATIENCE_SECONDS, capture_output=True, stdin=subprocess.DEVNULL
        )

    def seen(self, path: Path) -> Path:
        """The path outside of a path inside."""
        return Path(f"/proc/{self.holder}/root{path}")

    def mount(self, kind: str, source: str | Path, where: Path, *options: str) -> Path:
        """Mount inside, on a folder that is created; returns it."""
        self.run("mkdir", "-p", where)
        self.run("mount", "-t", kind, *(("-o", ",".join(options)) if options else ()), source, where)
        return where

    def overlay(self, name: str, lower: Path, base: Path, *options: str) -> Path:
        """A container's view of a layer: an overlay over `lower`, with changes in `base`; returns the merged folder."""
        upper, work = base / f"{name}.upper", base / f"{name}.work"
        self.run("mkdir", "-p", upper, work)
        layers = (f"lowerdir={lower}", f"upperdir={upper}", f"workdir={work}")
        return self.mount("overlay", "overlay", base / name, *layers, *options)


@contextmanager
def mount_namespace() -> Iterator[MountNamespace]:
    """A mount namespace; every process in it must have ended when the block is left."""
    need_command("unshare", "util-linux")
    need_command("nsenter", "util-linux")
    process = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo ready; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:  # closes its input
        assert process.stdout.readline() == "ready\n"
        yield MountNamespace(process.pid)
