"""Stand-in programs that make their calls on request, so that a test can attach before and read after, and what they count."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpustall_standin as standin
from exporter.workloads.rank import ENVIRONMENT_NAMES
from tests.support.patience import PATIENCE_SECONDS, line_of

_ranks = itertools.count(os.getpid() % 1_000_000 * 8)


def fresh_rank() -> str:
    """A rank that no other process has, by which a test finds its process in the exposition."""
    return str(next(_ranks))


def without_rank() -> dict[str, str]:
    """This environment without ranks, because the tests may run in a batch job."""
    return {name: value for name, value in os.environ.items() if name not in ENVIRONMENT_NAMES}


@dataclass
class HeldCalls:
    """`calls --hold`, prepared and waiting. tgids: one for each rank."""

    process: subprocess.Popen[str]
    tgids: tuple[int, ...]
    truths: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> None:
        """Start its calls."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def made(self) -> dict[str, Any]:
        """Wait until all calls are made; returns the counts of the first rank. The process stays alive."""
        lines = [line_of(self.process) for _ in self.tgids]
        self.truths = sorted(map(json.loads, lines), key=lambda truth: truth["rank"])
        return self.truths[0]

    def make(self) -> dict[str, Any]:
        """Start its calls and wait for them."""
        self.begin()
        return self.made()

    def end(self) -> None:
        """Let it exit."""
        self.process.communicate("\n", timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0


@contextmanager
def held_calls(
    *orders: str,
    rank: str | None = None,
    environment: Mapping[str, str] | None = None,
    libraries: Path | None = None,
    before: Sequence[str] = (),
    executable: Path | None = None,
    **more: Any,
) -> Iterator[HeldCalls]:
    """`calls --hold` with orders, killed with its ranks at the end of the block.

    rank: in its environment. libraries: a directory to load CUDA and NCCL from. before: a command that executes the program.
    executable: another one than that of the stand-in. more: arguments of Popen.
    """
    variables = {**without_rank(), **(environment or {})}
    if rank is not None:
        variables["RANK"] = rank
    if libraries is not None:
        variables["LD_LIBRARY_PATH"] = str(libraries)
    process = subprocess.Popen(
        [*before, executable or standin.build_dir() / "calls", "--hold", *orders],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **more,
    )
    try:
        state, *tgids = line_of(process).split()
        assert state == "ready"
        yield HeldCalls(process, tuple(map(int, tgids)))
    finally:
        with process:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def program(
    name: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A running program of the stand-in, killed with its children at the end of the block."""
    process = subprocess.Popen(
        [standin.build_dir() / name, *arguments],
        env={**without_rank(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def trained(name: str) -> dict[str, Any]:
    """Runs thirty steps of one rank of a trainer of the stand-in; returns its own counts."""
    done = subprocess.run(
        [standin.build_dir() / name, "--ranks=1", "--steps=30", "--quiet"],
        env=without_rank(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    truth: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return truth
