"""Kernels on which a probe can kill the probed process, and which probes are safe there.

In: the machine, the kernel's release, and the result of a return probe on a child (filtered_child.py). Out: Judgement.

seccomp. On x86-64, since 6.11 (commit ff474a78cef5), a probed function returns through a system call of the kernel's own,
`uretprobe`. A seccomp filter with an allow list rejects it as any unknown call: it kills the process, or returns an error that
sends the process to a wrong address. Container runtimes set such filters. Since commit cf6cb56ef244 ("seccomp: passthrough
uretprobe systemcall without filtering") filters do not get this call: in 6.14-rc2, 6.13.3 and 6.12.14 (stable commit
5a262628f4cf); 6.11 ended without it. The system call `uprobe`, for entries, came in 6.18 together with its own exception
(89d1d8434d24). A probe is on a file, not on a process, and a process may set its filter long after the exporter has attached:
so on such a kernel no return is probed at all.

arm64. The kernel single-steps the probed instruction out of line unless it simulates it. That step has been reported to resume
a process at a wrong address, on GB300 machines (DataDog/datadog-agent, pull request 54291, July 2026). Neither the fault nor
its repair is known in the kernel's history, so all of arm64 counts as affected until it is.
"""

from __future__ import annotations

import enum
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHILD = Path(__file__).with_name("filtered_child.py")
_PATIENCE_SECONDS = 20
_RETURN_THROUGH_A_CALL = (6, 11, 0)
_REPAIRED = {(6, 12): 14, (6, 13): 3}
"""Series of stable kernels -> the first release with the repair."""
_REPAIRED_UPSTREAM = (6, 14, 0)
_BEFORE_REPAIR = re.compile(r"6\.14\.0-(?:0\.)?rc1(?!\d)")
_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_DEADLY = {-number for number in (signal.SIGSYS, signal.SIGSEGV, signal.SIGILL, signal.SIGBUS, signal.SIGTRAP)}


COLLECTORS_WITHOUT_RETURNS = ("cuda", "engine", "block", "memory", "cpu", "process", "network", "device")
"""Collectors that still work if only entries are probed."""
WITHOUT_RETURNS = (
    "CUDA calls are only counted, by operation: no durations, errors, bytes or memory, no NCCL,"
    " no thread time, no lost time"
)
RETURNS_REMEDY = (
    "use a kernel with the repair (6.12.14, 6.13.3, 6.14 or newer),"
    " or --probes.returns=always if no job has a seccomp filter"
)
ARM64_FAULT = "on arm64, a kernel fault has been reported to resume probed programs at a wrong address"


class Fate(enum.StrEnum):
    """What happens to a process under a strict seccomp filter at a return probe."""

    SURVIVES = "survives"
    DIES = "dies"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether returns can be probed. why: a clause with the reason."""

    fate: Fate
    why: str

    @property
    def is_safe(self) -> bool:
        return self.fate is Fate.SURVIVES


def fate_by_version(machine: str, release: str) -> Fate:
    """Judged by the release alone. A distribution may have backported the repair, or the fault.

    release: of uname(2), such as `6.12.12-amd64`; the suffix is the distribution's.
    """
    if machine != "x86_64":
        return Fate.SURVIVES
    numbers = _RELEASE.match(release)
    if not numbers:
        return Fate.UNKNOWN
    major, minor, patch = int(numbers[1]), int(numbers[2]), int(numbers[3] or 0)
    version = (major, minor, patch)
    if version < _RETURN_THROUGH_A_CALL or patch >= _REPAIRED.get((major, minor), patch + 1):
        return Fate.SURVIVES
    is_repaired = version >= _REPAIRED_UPSTREAM and not _BEFORE_REPAIR.match(release)
    return Fate.SURVIVES if is_repaired else Fate.DIES


def fate_by_experiment() -> Fate:
    """Tries it on a child; about 0.2 s. UNKNOWN if that is not possible."""
    try:
        child = subprocess.run(
            [sys.executable, "-I", "-S", CHILD],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return Fate.UNKNOWN
    if child.returncode in _DEADLY:
        return Fate.DIES
    return Fate.SURVIVES if child.returncode == 0 and child.stdout == b"survived\n" else Fate.UNKNOWN


def judge_returns(
    experiment: Callable[[], Fate] = fate_by_experiment,
    machine: str = platform.machine(),
    release: str = platform.release(),
) -> Judgement:
    """By experiment, which is also right on a distribution's kernel; by version if the experiment is not possible."""
    if machine != "x86_64":
        return Judgement(Fate.SURVIVES, f"a return probe makes no system call on {machine}")
    fate = experiment()
    if fate is Fate.SURVIVES:
        return Judgement(fate, "a child under a strict seccomp filter has survived a return probe")
    if fate is Fate.DIES:
        return Judgement(
            fate, f"kernel {release} kills a process under a seccomp filter at a return probe: a test child died"
        )
    fate = fate_by_version(machine, release)
    if fate is Fate.SURVIVES:
        return Judgement(fate, f"kernel {release} does not kill a process under a seccomp filter at a return probe")
    return Judgement(
        fate,
        f"kernel {release} may kill a process under a seccomp filter at a return probe, and a test was not possible",
    )


def may_single_step_wrongly(machine: str = platform.machine()) -> bool:
    """Whether a probe, even on an entry, may corrupt the process."""
    return machine == "aarch64"
