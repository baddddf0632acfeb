"""The Slurm job of a process, and the names of that job.

In: a few environment variables of the process, and the job id in its cgroup. Out: a SlurmJob, "" for unknown. Slurm sets the
cgroup, while the user may set the environment: its names count only if its job is that of the cgroup, or if the cgroup has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exporter.model import label_value

_ID: Final = re.compile(r"[0-9]{1,10}")
_JOB: Final = ("SLURM_JOB_ID", "SLURM_JOBID")
_NAME, _PARTITION, _ACCOUNT = "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT"

ENVIRONMENT_NAMES: Final[frozenset[str]] = frozenset({*_JOB, _NAME, _PARTITION, _ACCOUNT})


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """id: decimal digits. name, partition, account: chosen by the user, printable, cut to the length of a label."""

    id: str = ""
    name: str = ""
    partition: str = ""
    account: str = ""


def slurm_job(environment: Mapping[str, str], cgroup_job_id: str) -> SlurmJob:
    """cgroup_job_id: "" when the cgroup has no job."""
    claimed = next((environment[name] for name in _JOB if _ID.fullmatch(environment.get(name, ""))), "")
    if not claimed or cgroup_job_id not in ("", claimed):
        return SlurmJob(cgroup_job_id)
    return SlurmJob(claimed, *(label_value(environment.get(name, "")) for name in (_NAME, _PARTITION, _ACCOUNT)))
