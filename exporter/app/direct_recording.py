"""Recordings of single calls without a running exporter: loads what traces calls, and attaches it to what runs now.

In: root. Out: a Recorded, as the running exporter has one, as long as the block lasts.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from exporter.app import open_files
from exporter.errors import ExporterError, NotPossibleHere
from exporter.host.cgroup_paths import CgroupPaths
from exporter.host.processes import Processes
from exporter.host.users import uid_of
from exporter.kernel import hazards, loader
from exporter.kernel.abi import Api
from exporter.kernel.share_rows import Shares
from exporter.kernel.tables import Tables
from exporter.kernel.thread_rows import THREADS_ADOPT
from exporter.model import Identity
from exporter.probes.discovery import Discovery
from exporter.probes.looks import Looks
from exporter.recording.single_calls import Recorded
from exporter.text.printable import printable
from exporter.workloads.owner import owner_of

_SUBJECTS = (*loader.ALWAYS, "cuda", "nccl", "sched", "threads")
FIRST_CALL_SECONDS: Final = 2.0
"""How long processes that run have to make a call by which they are known."""
_LOOK_SECONDS: Final = 0.05


@contextmanager
def tracing(overhead_limit: float) -> Iterator[Recorded]:
    """Raises NotPossibleHere, KernelRefused."""
    if os.geteuid() != 0:
        raise NotPossibleHere("no exporter answers, and to record without one takes root", remedy="run it as root")
    judgement = hazards.judge_returns()
    if not judgement.is_safe:
        raise NotPossibleHere(f"returns cannot be probed here: {judgement.why}", remedy="see `check`")
    open_files.raise_limit()
    with ExitStack() as resources:
        kernel = loader.load(subjects=_SUBJECTS)
        resources.callback(kernel.close)
        processes = Processes(Path("/proc"), CgroupPaths.of_machine(Path("/proc")).from_root)
        discovery = Discovery(
            kernel, processes, frozenset(Api), with_launches=True, owner_of=lambda tgid: _owner(processes, tgid)
        )
        resources.callback(discovery.close)
        looks = Looks(discovery, processes, None, lambda tgid: _owner(processes, tgid), interval_seconds=3600.0)
        resources.callback(looks.close)
        looks.walk_now()
        if not discovery.probed():
            raise NotPossibleHere("no process has mapped a CUDA or NCCL library", remedy="start the job first")
        tables = Tables(kernel.maps, kernel.iterate, Shares(kernel.maps, kernel.request_share))
        _wait_for_calls(tables)
        kernel.iterate(THREADS_ADOPT)
        node = socket.gethostname()
        yield Recorded(
            kernel,
            node,
            overhead_limit,
            attachments=lambda: [one.attachment for one in discovery.probed() if one.attachment],
            workloads=lambda: {
                number: (Identity(node=node), row.tgid) for number, row in tables.read_processes().items()
            },
            names=lambda: {
                number: printable(row.comm.rstrip(b"\0").decode(errors="replace"))
                for number, row in tables.read_processes().items()
            },
            threads=tables.read_threads,
        )


def _wait_for_calls(tables: Tables) -> None:
    until = time.monotonic() + FIRST_CALL_SECONDS
    while time.monotonic() < until and not tables.read_processes():
        time.sleep(_LOOK_SECONDS)


def _owner(processes: Processes, tgid: int) -> str:
    try:
        return owner_of(processes.cgroup(tgid), uid_of(processes, tgid)).key
    except ExporterError:
        return ""
