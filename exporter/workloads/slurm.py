"""The Slurm job of a process, and the names of that job.

In: a few environment variables of the process, and the job id in its cgroup. Out: a SlurmJob, "" for unknown. Slurm sets the
cgroup, while the user may set the environment: its names count only if its job is that of the cgroup, or if the cgroup has none.
A cgroup with a SLUID has no number. The number that the environment claims is not used then, and its names count unless it has
another SLUID.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exporter.model import label_value

_ID: Final = re.compile(r"[0-9]{1,10}")
_JOB: Final = ("SLURM_JOB_ID", "SLURM_JOBID")
_SLUID: Final = "SLURM_JOB_SLUID"
_NAME, _PARTITION, _ACCOUNT = "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT"

ENVIRONMENT_NAMES: Final[frozenset[str]] = frozenset({*_JOB, _SLUID, _NAME, _PARTITION, _ACCOUNT})


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """id: decimal digits, or a SLUID. name, partition, account: chosen by the user, printable, cut to the length of a label."""

    id: str = ""
    name: str = ""
    partition: str = ""
    account: str = ""


def slurm_job(environment: Mapping[str, str], cgroup_job_id: str) -> SlurmJob:
    """cgroup_job_id: "" when the cgroup has no job."""
    claimed = next((environment[name] for name in _JOB if _ID.fullmatch(environment.get(name, ""))), "")
    is_sluid = cgroup_job_id != "" and not _ID.fullmatch(cgroup_job_id)
    is_same = environment.get(_SLUID, cgroup_job_id) == cgroup_job_id if is_sluid else cgroup_job_id in ("", claimed)
    if not claimed or not is_same:
        return SlurmJob(cgroup_job_id)
    return SlurmJob(
        cgroup_job_id or claimed, *(label_value(environment.get(name, "")) for name in (_NAME, _PARTITION, _ACCOUNT))
    )
