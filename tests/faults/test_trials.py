"""Faults and decoys from outside: nothing of them is left, however their block ends."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.faults.injectors import NotPossible, cgroups
from tests.faults.shapes.shape import Shape
from tests.faults.trials.extra import Extra
from tests.faults.trials.fault import OutsideFault
from tests.faults.trials.job import TrialJob, started
from tests.faults.trials.outside.registry import OUTSIDE
from tests.support.standin_gpu import built

pytestmark = [pytest.mark.end_to_end, pytest.mark.whole_machine]
MARK = "GPU_STALL_TRIAL"
PATIENCE_SECONDS = 10.0
LOOP = """
import json, os, time
log = os.open(os.environ["STEP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range(10**9):
    start_ns = time.monotonic_ns()
    while time.monotonic_ns() < start_ns + 5_000_000: pass
    time.sleep(0.015)
    line = {"rank": 0, "step": number, "tgid": os.getpid(), "start_ns": start_ns, "end_ns": time.monotonic_ns()}
    os.write(log, json.dumps(line).encode() + b"\\n")
"""
SHAPE = Shape("loop", "5 ms of computation, 15 of sleep", (sys.executable, "-c", LOOP), 0.02, frozenset())
LIMITS = ("cpu.cfs_quota_us", "cpu.max", "memory.limit_in_bytes", "memory.max", "freezer.state", "cgroup.freeze")
THROTTLES = ("blkio.throttle.read_bps_device", "io.max")


class Interrupted(Exception):
    """Raised in the block."""


def state(job: TrialJob) -> dict[str, object]:
    """What a fault may have changed of a job."""
    found: dict[str, object] = {}
    for group in job.groups.values():
        found |= {name: group.read(name) for name in (*LIMITS, *THROTTLES) if (group.path / name).exists()}
    for tgid in job.tgids():
        found[f"cpus {tgid}"] = os.sched_getaffinity(tgid)
        found[f"stopped {tgid}"] = "T (stopped)" in Path(f"/proc/{tgid}/status").read_text()
    return found


def marked() -> set[int]:
    """Processes that were started with the mark in their environment, but for this one."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_marked = f"{MARK}=1".encode() in (folder / "environ").read_bytes()
        except OSError:
            continue
        if is_marked and int(folder.name) != os.getpid():
            found.add(int(folder.name))
    return found


def mounts() -> list[str]:
    """Mounts in this namespace."""
    return Path("/proc/self/mounts").read_text().splitlines()


def soon(condition: object, expected: object) -> object:
    """The value of condition() once it is as expected, or at the end of patience: a killed process takes a moment to go."""
    assert callable(condition)
    until = time.monotonic() + PATIENCE_SECONDS
    while (value := condition()) != expected and time.monotonic() < until:
        time.sleep(0.02)
    return value


@pytest.fixture(params=OUTSIDE.values(), ids=OUTSIDE.keys())
def fault(request: pytest.FixtureRequest) -> OutsideFault:
    """Each one."""
    fault: OutsideFault = request.param
    return fault


class TestOutside:
    """One fault, whose block is left by an exception."""

    def test_nothing_is_left(self, fault: OutsideFault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """No limit, no process, no control group, no mount."""
        monkeypatch.setenv(MARK, "1")
        before = mounts()
        cpus = "0" if fault.is_of_one_cpu else ""
        try:
            with started(SHAPE, tmp_path, built(), seed=1, extra=fault.extra or Extra.NONE, cpus=cpus) as job:
                job.running.wait_for_steps(20)
                unchanged, others = state(job), marked()
                with pytest.raises(Interrupted), fault.bring(job, 1.0):
                    raise Interrupted

                assert soon(marked, others) == others
                assert state(job) == unchanged
        except NotPossible as reason:
            pytest.skip(str(reason))
        assert soon(marked, set()) == set()
        assert cgroups.left_behind() == []
        assert mounts() == before
