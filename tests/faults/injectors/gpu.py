"""A GPU that the driver says something of, and a program that uses it as well.

The driver is the stand-in's libnvidia-ml.so.1, which answers from a file (tests/standin/src/nvml/state.h). The job's own
--fault=gpu sets how much slower its GPU becomes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import gpustall_standin as standin
from tests.faults.job import Job

STATE = "STANDIN_NVML_STATE"
SW_POWER_CAP = 0x4
"""Bits of nvmlClocksEventReasons."""
NEIGHBOUR = "serve"
_USED_BYTES = 10 << 30


class Driver:
    """Its values. path: of the state file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.tell()

    def tell(self, *, tgids: Sequence[int] = (), reasons: int = 0) -> None:
        """GPU 0 is used by these processes, and its clocks are held down for these reasons."""
        lines = ["devices 1", f"gpu 0 reasons {reasons}"]
        lines += [f"gpu 0 process {tgid} {_USED_BYTES}" for tgid in tgids]
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(self._path)

    @contextmanager
    def throttling(self, job: Job) -> Iterator[None]:
        """By the limit of its power."""
        tgid = job.rank_tgid(0)
        self.tell(tgids=[tgid], reasons=SW_POWER_CAP)
        try:
            yield
        finally:
            self.tell(tgids=[tgid])

    @contextmanager
    def shared(self, job: Job) -> Iterator[None]:
        """With a program that launches kernels of its own."""
        tgid = job.rank_tgid(0)
        with _neighbour(job) as neighbour_tgid:
            self.tell(tgids=[tgid, neighbour_tgid])
            yield
        self.tell(tgids=[tgid])


@contextmanager
def driver() -> Iterator[Driver]:
    """In this process: a sampler samples this GPU while the block lasts."""
    ctypes.CDLL(str(standin.build_dir() / "libnvidia-ml.so.1"), ctypes.RTLD_GLOBAL)  # so that it is the one of its name
    with tempfile.TemporaryDirectory() as folder:
        os.environ[STATE] = str(Path(folder) / "state")
        try:
            yield Driver(Path(os.environ[STATE]))
        finally:
            del os.environ[STATE]


@contextmanager
def _neighbour(job: Job) -> Iterator[int]:
    """The trainer under another name, beside the job's own; most of the time it waits for its GPU. The tgid of its rank."""
    assert isinstance(job.process.args, list)
    trainer = next(Path(str(word)) for word in job.process.args if str(word).endswith("/trainer"))
    program = shutil.copy2(trainer, trainer.with_name(NEIGHBOUR))
    flags = ("--ranks=1", "--sync=block", "--quiet", "--loader-workers=0", "--pace-us=20000", "--evaluate-every=0")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(trainer.parent)}
    with subprocess.Popen([program, *flags], env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            yield _rank_of(process)
        finally:
            process.terminate()


def _rank_of(process: subprocess.Popen[bytes]) -> int:
    """The process of its only rank, which it starts first."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        ranks = children.read_text().split()
        if ranks:
            return int(ranks[0])
    raise RuntimeError("the neighbour ended before it began")
