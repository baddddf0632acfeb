"""Which kernels can hurt a process that is probed, and what can be probed on them without harm?

In: the machine, the kernel's release, and how a child of ours fared under a return probe (filtered_child.py). Out: Judgement.

seccomp. On x86-64 the kernel has a probed function return through a system call of its own, `uretprobe`, since 6.11 (commit
ff474a78cef5). A seccomp filter that allows known calls only answers it as it answers any other: by ending the process, or with
an error that sends the process to a wrong address. Container runtimes set such filters. From commit cf6cb56ef244 on ("seccomp:
passthrough uretprobe systemcall without filtering") filters do not see the call: in 6.14-rc2, 6.13.3 and 6.12.14 (stable commit
5a262628f4cf); 6.11 ended without it. The system call `uprobe`, for entries, came in 6.18 together with its own exception
(89d1d8434d24). A probe sits on a file, not on a process, and a process may set its filter long after we have attached: so on
such a kernel no return is probed at all, of nobody.

arm64. Entries are probed by a single step out of line, of every instruction that the kernel does not simulate. That step has
been reported to resume a process at a wrong address, on GB300 machines (DataDog/datadog-agent, pull request 54291, July 2026).
Neither the fault nor a version without it has been found in the kernel's history, so all of arm64 counts as affected until
it has been.
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
"""Series of stable kernels -> the first release that has the repair."""
_REPAIRED_UPSTREAM = (6, 14, 0)
_BEFORE_REPAIR = re.compile(r"6\.14\.0-(?:0\.)?rc1(?!\d)")
_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_DEADLY = {-number for number in (signal.SIGSYS, signal.SIGSEGV, signal.SIGILL, signal.SIGBUS, signal.SIGTRAP)}


COLLECTORS_WITHOUT_RETURNS = ("cuda", "engine", "block", "memory", "cpu", "process", "network", "device")
"""Those that have something to tell where calls are seen as they begin and never as they return."""
WITHOUT_RETURNS = (
    "CUDA calls are counted by operation as they begin, and that is all: no durations, errors, bytes or memory, nothing of NCCL,"
    " and no thread time or lost time"
)
RETURNS_REMEDY = (
    "use a kernel with the repair (6.12.14, 6.13.3, 6.14 or newer); or --probes.returns=always where no job is filtered"
)
ARM64_FAULT = "on arm64 a fault of the kernel has been reported to resume probed programs at a wrong address"


class Fate(enum.StrEnum):
    """What becomes of a process under a strict seccomp filter when a function with a return probe returns."""

    SURVIVES = "survives"
    DIES = "dies"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether returns can be probed. why: a clause that says how that is known."""

    fate: Fate
    why: str

    @property
    def is_safe(self) -> bool:
        """Only a fate that is known is safe."""
        return self.fate is Fate.SURVIVES


def fate_by_version(machine: str, release: str) -> Fate:
    """What the release says by itself. A distribution may have repaired its 6.11, or taken the fault into an older kernel.

    release: of uname(2), such as `6.12.12-amd64`; what follows the number is the distribution's.
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
    """What becomes of a child of ours; about 0.2 s. UNKNOWN where the experiment cannot be made."""
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
    """The experiment decides, since it is right on a distribution's kernel too; the version where it cannot be made."""
    if machine != "x86_64":
        return Judgement(Fate.SURVIVES, f"a return is no system call on {machine}")
    fate = experiment()
    if fate is Fate.SURVIVES:
        return Judgement(fate, "a child under a strict seccomp filter has survived them")
    if fate is Fate.DIES:
        return Judgement(
            fate, f"kernel {release} ends a process under a seccomp filter at one: a child of ours died of it"
        )
    fate = fate_by_version(machine, release)
    if fate is Fate.SURVIVES:
        return Judgement(fate, f"kernel {release} is none of those that end a process under a seccomp filter at one")
    return Judgement(
        fate, f"kernel {release} may end a process under a seccomp filter at one, and it could not be tried"
    )


def may_single_step_wrongly(machine: str = platform.machine()) -> bool:
    """Whether a probe, even of an entry, may corrupt the process: the fault of arm64."""
    return machine == "aarch64"
