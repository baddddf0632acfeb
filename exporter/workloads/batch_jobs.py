"""The batch job that a cgroup belongs to, by its path.

In: the path of a cgroup from the root of the hierarchy. Out: the manager, and what it calls the job; None for another cgroup.

A form is the whole path of a job's own cgroup, of which a batch manager has made each part as root. A tenant may make cgroups
below its own only, where no form begins.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from exporter.text.printable import printable

SLURM: Final = "slurm"
DEPTH_MAX: Final = 8

_SLICES: Final = r"(?!user\.slice/)(?:[^/]+\.slice/)*"
_NAME: Final = r"[A-Za-z0-9_.-]+"
_ALLOCATION: Final = r"(?P<allocation>[0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FORMS: Final = tuple(
    (manager, re.compile(path), name)
    for manager, path, name in (
        (SLURM, rf"{_SLICES}slurm(?:_{_NAME})?/(?:uid_[0-9]+/)?(?P<job>job_[0-9]{{1,10}})", r"\g<job>"),
        # a SLUID in base 32: since Slurm 26.05, unless cgroup.conf(5) has CgroupJobIdPaths
        (
            SLURM,
            rf"{_SLICES}(?:{_NAME}_)?slurmstepd\.scope/(?P<job>job_[0-9]{{1,10}}|s[0-9A-HJKMNP-TV-Z]{{13}})",
            r"\g<job>",
        ),
        # the allocation as `nomad status` shows it, and the task
        ("nomad", rf"nomad(?:/share|/reserve)?/{_ALLOCATION}\.(?P<task>[^/]+)", r"\g<allocation>.\g<task>"),
        (
            "nomad",
            rf"nomad\.slice/(?:share\.slice/|reserve\.slice/)?{_ALLOCATION}\.(?P<task>[^/]+)\.scope",
            r"\g<allocation>.\g<task>",
        ),
        # the slot as in condor_status, after the folder that it runs in
        (
            "htcondor",
            rf"{_SLICES}htcondor/condor[^/@]*_(?P<slot>[A-Za-z]+[0-9]+(?:_[0-9]+)?(?:@{_NAME})?)",
            r"\g<slot>",
        ),
        # as in qstat, an element of a job array with its index
        (
            "pbs",
            rf"(?:pbs_jobs|pbspro)\.service/(?:jobid|jobs)/(?P<job>[0-9]+(?:\[[0-9]*\])?(?:\.{_NAME})?)",
            r"\g<job>",
        ),
        ("torque", rf"torque/(?P<job>[0-9]+(?:\[[0-9]+\])?(?:\.{_NAME})?)", r"\g<job>"),
        ("yarn", r"hadoop-yarn/(?P<job>container(?:_e[0-9]+)?(?:_[0-9]+){4})", r"\g<job>"),
        ("lsf", r"lsf/[^/]+/job\.(?P<job>[0-9]+(?:\[[0-9]+\])?)\.[0-9.]+", r"job_\g<job>"),
        ("oar", rf"oar/{_NAME}_(?P<job>[0-9]+)", r"job_\g<job>"),
        ("oar", r"oar\.slice/oar-u[0-9]+\.slice/oar-u[0-9]+-j(?P<job>[0-9]+)\.slice", r"job_\g<job>"),
    )
)
MANAGERS: Final = frozenset(manager for manager, _, _ in _FORMS)


class BatchJob(NamedTuple):
    """manager: of MANAGERS. name: what the manager calls the job, printable; `job_4711` where it calls it 4711."""

    manager: str
    name: str


def batch_job(path: str) -> BatchJob | None:
    """path: without a slash in front; that of a cgroup below a job's own is none."""
    for manager, form, name in _FORMS:
        if found := form.fullmatch(path):
            return BatchJob(manager, printable(found.expand(name)))
    return None
