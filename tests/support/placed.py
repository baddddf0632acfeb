"""A process that runs in a cgroup with a chosen name, and what the exporter says of it."""

from __future__ import annotations

from pathlib import Path

from tests.support.exporter_process import Exporter
from tests.support.exposition import Sample
from tests.support.held_calls import fresh_rank, held_calls
from tests.support.traced import eventually, only

ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
"""A script of sh: its first argument is the cgroup in which the others run as a command."""


def info_in(exporter: Exporter, cgroup: Path) -> Sample:
    """gpustall_workload_info of a process started in a cgroup."""
    rank = fresh_rank()
    with held_calls("cudaEventRecord:1", rank=rank, before=("sh", "-c", ENTER, str(cgroup))):
        found = eventually(lambda: exporter.scrape().matching("gpustall_workload_info", rank=rank), "it is exported")
    sample: Sample = only(found)
    return sample
