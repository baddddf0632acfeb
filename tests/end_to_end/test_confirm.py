"""explain --confirm: a neighbour that takes the job's CPUs is held for two seconds, and goes on whatever happens."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.confirm.eligibility import facts_of
from exporter.confirm.intervention import GUARDIAN, How, held
from exporter.host.processes import Processes
from gpustall_standin.job import SPIN
from gpustall_standin.scenarios import HOST_BOUND
from tests.faults.injectors import cgroups
from tests.faults.injectors.cpu import named_shell
from tests.support.exporter_process import COMMAND, running
from tests.support.requirements import need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
HOG = "confirm-hog"
STEPS_TO_LEARN = 800
PATIENCE_SECONDS = 60.0


@contextmanager
def hogs(count: int) -> Iterator[list[int]]:
    """Processes that never stop using the CPU, in a control group of their own that is worth three programs on each."""
    with cgroups.group("cpu", "hogs") as others, named_shell(HOG, SPIN, count=count, groups=[others.path]) as started:
        if others.version == 1:
            others.write("cpu.shares", 3 * 1024 * (os.cpu_count() or 1))
        else:
            others.write("cpu.weight", min(3 * 100 * (os.cpu_count() or 1), 10_000))
        eventually(lambda: all(comm_of(one.pid) == HOG for one in started), "they have their name")
        yield [one.pid for one in started]


def comm_of(tgid: int) -> str:
    """Of a living process."""
    return Path(f"/proc/{tgid}/comm").read_text().strip()


def state_of(tgid: int) -> str:
    """`T` for stopped."""
    return Processes().stat(tgid).state


@contextmanager
def job() -> Iterator[list[int]]:
    """One rank whose steps are host-bound; the number of its last step."""
    built()
    command = standin.trainer_command("--ranks=1", "--seed=1", "--evaluate-every=0", "--allocate-every=0", *HOST_BOUND)
    process = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.PIPE, text=True)
    step = [0]

    def follow() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                step[0] = json.loads(line).get("step", step[0])

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield step
    finally:
        process.kill()
        process.wait()
        follower.join()


def is_calm(logs: str) -> bool:
    """Whether every chain that was opened is over."""
    return logs.count("chain opened: ") == logs.count("chain resolved: ")


def explain(history: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, to its end."""
    command = [*COMMAND, "explain", f"--history.path={history}", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS
    )


class TestProof:
    """By the real exporter, of a real contention."""

    def test_contention_is_confirmed_and_stamped(self, tmp_path: Path) -> None:
        """The hogs run before and afterwards; without consent nothing happens."""
        need_tracing()
        history = tmp_path / "state" / "history.sqlite"
        with running(f"--history.path={history}") as exporter, job() as step:
            eventually(lambda: step[0] > STEPS_TO_LEARN, "the usual is known", PATIENCE_SECONDS)
            # Of a machine that is busy itself: a chain that is open already would be that one's, and go on.
            eventually(lambda: is_calm(exporter.logs), "no chain is open", PATIENCE_SECONDS)
            with hogs(os.cpu_count() or 1) as tgids:
                line = eventually(
                    lambda: re.search(rf"chain \w+: cpu_contention.* chain_id=(\w+) .*culprit={HOG}", exporter.logs),
                    "a chain is open, and it is of the hogs",
                    PATIENCE_SECONDS,
                )
                chain = line[1][:8]
                eventually(lambda: chain in explain(history).stdout, "it is in the history", PATIENCE_SECONDS)
                refused = explain(history, f"--confirm={chain}", f"--url={exporter.url}")
                done = explain(history, f"--confirm={chain}", f"--url={exporter.url}", "--yes")
                states = [state_of(tgid) for tgid in tgids]
                afterwards = explain(history).stdout

        assert (refused.returncode, "standard input is no terminal" in refused.stderr) == (2, True), refused.stderr
        assert done.stdout.splitlines()[-1].startswith("confirmed: steps took "), done.stdout + done.stderr
        assert "T" not in states
        assert "proof   confirmed by intervention at " in afterwards

    def test_chain_that_is_not_open_is_named(self, tmp_path: Path) -> None:
        """With those that are."""
        need_tracing()
        history = tmp_path / "state" / "history.sqlite"
        with running(f"--history.path={history}"):
            eventually(history.exists, "there is a history")
            done = eventually(lambda: explain(history, "--confirm=0123456789"), "it answers")

        assert done.returncode == 2
        assert "no open chain begins with '0123456789'; no chain is open" in done.stderr


class TestGuardian:
    """Whatever happens, they go on."""

    def test_they_are_held_while_the_block_lasts(self) -> None:
        """By a stop, and by a policy."""
        with hogs(2) as tgids:
            subjects = [facts_of(Processes(), tgid) for tgid in tgids]
            with held(subjects, How.FREEZE, 5.0):
                stopped = [state_of(tgid) for tgid in tgids]
            with held(subjects, How.WEIGHT, 5.0):
                policies = [os.sched_getscheduler(tgid) for tgid in tgids]
            afterwards = [(state_of(tgid) == "T", os.sched_getscheduler(tgid)) for tgid in tgids]

        assert stopped == ["T", "T"]
        assert policies == [os.SCHED_IDLE, os.SCHED_IDLE]
        assert afterwards == [(False, os.SCHED_OTHER), (False, os.SCHED_OTHER)]

    def test_time_ends_it(self) -> None:
        """Although nobody says so."""
        with hogs(1) as (tgid,), guarded([tgid], seconds=0.5) as guardian:
            guardian.wait(PATIENCE_SECONDS)

            assert state_of(tgid) != "T"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_signal_ends_it(self, number: signal.Signals) -> None:
        """At once."""
        with hogs(1) as (tgid,), guarded([tgid], seconds=600) as guardian:
            guardian.send_signal(number)
            guardian.wait(PATIENCE_SECONDS)

            assert state_of(tgid) != "T"

    def test_death_of_who_asked_ends_it(self) -> None:
        """By SIGKILL."""
        with hogs(1) as (tgid,):
            code = (
                "import sys, time; from exporter.confirm.intervention import How, held;"
                "from exporter.confirm.eligibility import facts_of; from exporter.host.processes import Processes;"
                f"block = held([facts_of(Processes(), {tgid})], How.FREEZE, 600); block.__enter__(); print('held', flush=True);"
                "time.sleep(600)"
            )
            asking = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
            assert asking.stdout is not None
            assert asking.stdout.readline() == b"held\n"
            was_held = state_of(tgid)
            asking.kill()
            asking.wait()
            eventually(lambda: state_of(tgid) != "T", "it goes on", PATIENCE_SECONDS)
            asking.stdout.close()

        assert was_held == "T"

    def test_death_of_the_guardian_ends_it(self) -> None:
        """Who asked lets go in its place."""
        with hogs(1) as (tgid,):
            subjects = [facts_of(Processes(), tgid)]
            with held(subjects, How.FREEZE, 600.0):
                was_held = state_of(tgid)
                for child in children_of(os.getpid()):
                    if str(GUARDIAN) in Path(f"/proc/{child}/cmdline").read_text():
                        os.kill(child, signal.SIGKILL)
            is_held = state_of(tgid)

        assert (was_held, is_held == "T") == ("T", False)

    def test_reused_number_is_left_alone(self) -> None:
        """Its start time is another one."""
        with hogs(1) as (tgid,), guarded([tgid], seconds=600, is_another=True):
            assert state_of(tgid) != "T"


def children_of(tgid: int) -> list[int]:
    """Of all its threads."""
    found = []
    for task in Path(f"/proc/{tgid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


@contextmanager
def guarded(tgids: Sequence[int], *, seconds: float, is_another: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A guardian that holds these, as soon as the block begins."""
    processes = [(tgid, Processes().start_time_ticks(tgid) + is_another) for tgid in tgids]
    guardian = subprocess.Popen([sys.executable, "-I", str(GUARDIAN)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    try:
        guardian.stdin.write(json.dumps({"how": "freeze", "seconds": seconds, "processes": processes}).encode() + b"\n")
        guardian.stdin.flush()
        assert guardian.stdout.readline() == b"held\n"
        if not is_another:
            eventually(lambda: all(state_of(tgid) == "T" for tgid in tgids), "they are held")
        yield guardian
    finally:
        guardian.terminate()
        guardian.wait(PATIENCE_SECONDS)
        guardian.stdin.close()
        guardian.stdout.close()
