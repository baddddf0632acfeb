"""explain --confirm: a program that uses the job's CPUs is paused for two seconds, and always resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.confirm.eligibility import read_facts
from exporter.confirm.intervention import FREEZER, PauseMethod, paused
from exporter.host.processes import Processes
from gpustall_standin.job import SPIN
from gpustall_standin.scenarios import HOST_BOUND
from tests.faults.injectors import cgroups
from tests.faults.injectors.cpu import named_shell
from tests.support.exporter_process import COMMAND, running
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
HOG = "confirm-hog"
STEPS_TO_LEARN = 800


@contextmanager
def hogs(count: int) -> Iterator[list[int]]:
    """Processes that always use the CPU, in a cgroup with the weight of three programs on each CPU."""
    with cgroups.group("cpu", "hogs") as others, named_shell(HOG, SPIN, count=count, groups=[others.path]) as started:
        if others.version == 1:
            others.write("cpu.shares", 3 * 1024 * len(os.sched_getaffinity(0)))
        else:
            others.write("cpu.weight", min(3 * 100 * len(os.sched_getaffinity(0)), 10_000))
        eventually(lambda: all(comm_of(one.pid) == HOG for one in started), "they have their name")
        yield [one.pid for one in started]


def comm_of(tgid: int) -> str:
    return Path(f"/proc/{tgid}/comm").read_text().strip()


def state_of(tgid: int) -> str:
    """`T` if it is stopped."""
    return Processes().stat(tgid).state


@contextmanager
def job() -> Iterator[list[int]]:
    """One rank whose steps are host-bound; yields the number of its last step."""
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
    """Whether every chain that was opened is resolved."""
    return logs.count("chain opened: ") == logs.count("chain resolved: ")


def explain(history: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "explain", f"--history.path={history}", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS
    )


def open_chain_of_hogs(history: Path) -> str | None:
    """Its id."""
    found = json.loads(explain(history, "--format=json").stdout or '{"chains": []}')
    for one in found["chains"]:
        if (one["state"], one["cause"]) == ("open", "cpu_contention") and HOG in str(one["culprits"]):
            return str(one["chain_id"])
    return None


@pytest.mark.acceptance
@pytest.mark.whole_machine  # the job needs a CPU of its own to be undisturbed before the hogs come
class TestExperiment:
    def test_contention_is_confirmed_and_recorded(self, tmp_path: Path) -> None:
        """The hogs run before and after it; without consent nothing happens."""
        need_tracing()
        history = tmp_path / "state" / "history.sqlite"
        with running(f"--history.path={history}") as exporter, job() as step:
            eventually(lambda: step[0] > STEPS_TO_LEARN, "there is a baseline")
            # On a busy machine another chain may be open already, and would stay open.
            eventually(lambda: is_calm(exporter.logs), "no chain is open")
            with hogs(len(os.sched_getaffinity(0))) as tgids:
                chain_id = eventually(lambda: open_chain_of_hogs(history), "a chain with the hogs as culprit is open")
                chain = chain_id[:8]
                without_consent = explain(history, f"--confirm={chain}", f"--url={exporter.url}")
                done = explain(history, f"--confirm={chain}", f"--url={exporter.url}", "--yes")
                states = [state_of(tgid) for tgid in tgids]
                after = json.loads(explain(history, "--format=json").stdout)["chains"]

        assert without_consent.returncode == 2
        assert "standard input is not a terminal" in without_consent.stderr
        assert done.stdout.splitlines()[-1].startswith("confirmed: steps took "), done.stdout + done.stderr
        assert "T" not in states
        assert [one["confirmation"]["result"] for one in after if one["chain_id"] == chain_id] == ["confirmed"]

    def test_unknown_chain_is_an_error(self, tmp_path: Path) -> None:
        need_tracing()
        history = tmp_path / "state" / "history.sqlite"
        with running(f"--history.path={history}"):
            eventually(history.exists, "there is a history")
            done = eventually(lambda: explain(history, "--confirm=0123456789"), "it answers")

        assert done.returncode == 2
        assert "no open chain begins with '0123456789'; no chain is open" in done.stderr


class TestFreezer:
    """Processes are always resumed."""

    def test_processes_are_paused_while_the_block_lasts(self) -> None:
        """By SIGSTOP, and by SCHED_IDLE."""
        with hogs(2) as tgids:
            processes = [read_facts(Processes(), tgid) for tgid in tgids]
            with paused(processes, PauseMethod.SIGSTOP, 600.0):
                stopped = [state_of(tgid) for tgid in tgids]
            with paused(processes, PauseMethod.SCHED_IDLE, 600.0):
                policies = [os.sched_getscheduler(tgid) for tgid in tgids]
            after = [(state_of(tgid) == "T", os.sched_getscheduler(tgid)) for tgid in tgids]

        assert stopped == ["T", "T"]
        assert policies == [os.SCHED_IDLE, os.SCHED_IDLE]
        assert after == [(False, os.SCHED_OTHER), (False, os.SCHED_OTHER)]

    def test_time_limit_resumes_them(self) -> None:
        with hogs(1) as (tgid,), freezing([tgid], seconds=0.5) as freezer:
            freezer.wait(PATIENCE_SECONDS)

            assert state_of(tgid) != "T"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_signal_resumes_them(self, number: signal.Signals) -> None:
        with hogs(1) as (tgid,), freezing([tgid], seconds=600) as freezer:
            freezer.send_signal(number)
            freezer.wait(PATIENCE_SECONDS)

            assert state_of(tgid) != "T"

    def test_sigkill_of_the_parent_resumes_them(self) -> None:
        with hogs(1) as (tgid,):
            code = (
                "import sys, time; from exporter.confirm.intervention import PauseMethod, paused;"
                "from exporter.confirm.eligibility import read_facts; from exporter.host.processes import Processes;"
                f"block = paused([read_facts(Processes(), {tgid})], PauseMethod.SIGSTOP, 600); block.__enter__();"
                "print('paused', flush=True);"
                "time.sleep(600)"
            )
            parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"paused\n"
            was_paused = state_of(tgid)
            parent.kill()
            parent.wait()
            eventually(lambda: state_of(tgid) != "T", "it is resumed")
            parent.stdout.close()

        assert was_paused == "T"

    def test_sigkill_of_the_freezer_resumes_them(self) -> None:
        """The parent does it instead."""
        with hogs(1) as (tgid,):
            processes = [read_facts(Processes(), tgid)]
            with paused(processes, PauseMethod.SIGSTOP, 600.0):
                was_paused = state_of(tgid)
                for child in children_of(os.getpid()):
                    if str(FREEZER) in Path(f"/proc/{child}/cmdline").read_text():
                        os.kill(child, signal.SIGKILL)
            is_paused = state_of(tgid)

        assert (was_paused, is_paused == "T") == ("T", False)

    def test_process_with_another_start_time_is_not_touched(self) -> None:
        """Its id was reused."""
        with hogs(1) as (tgid,), freezing([tgid], seconds=600, is_another=True):
            assert state_of(tgid) != "T"


def children_of(tgid: int) -> list[int]:
    """Children of all threads of a process."""
    found = []
    for task in Path(f"/proc/{tgid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


@contextmanager
def freezing(tgids: Sequence[int], *, seconds: float, is_another: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A freezer that has paused these when the block begins. is_another: with a wrong start time."""
    processes = [(tgid, Processes().start_time_ticks(tgid) + is_another) for tgid in tgids]
    freezer = subprocess.Popen([sys.executable, "-I", str(FREEZER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert freezer.stdin is not None
    assert freezer.stdout is not None
    try:
        freezer.stdin.write(
            json.dumps({"method": "sigstop", "seconds": seconds, "processes": processes}).encode() + b"\n"
        )
        freezer.stdin.flush()
        assert freezer.stdout.readline() == b"paused\n"
        if not is_another:
            eventually(
                lambda: freezer.poll() is not None or all(state_of(tgid) == "T" for tgid in tgids),
                "they are paused, or were",
            )
        yield freezer
    finally:
        freezer.terminate()
        freezer.wait(PATIENCE_SECONDS)
        freezer.stdin.close()
        freezer.stdout.close()
