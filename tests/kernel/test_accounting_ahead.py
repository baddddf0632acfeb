"""Jobs that work ahead: a stall is hidden as long as the GPU has work, and a thread that makes data is no holder of a lock."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.accounting.accountant import Accountant
from exporter.kernel.abi import ThreadState, Victim, Waker
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import Tracer, tracer

MS = 1_000_000
STEPS = 50


@pytest.fixture
def ahead_program(tmp_path: Path) -> Path:
    return accounts.compiled(Path(__file__).with_name("ahead.c"), tmp_path)


CALLS = ("cudaLaunchKernel", "cudaEventSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaMemcpyAsync")


def _run(tracer: Tracer, program: Path, *arguments: str, before: Sequence[str] = ()) -> Account:
    tracer.attach(accounts.Api.RUNTIME, program, CALLS)
    return accounts.run(tracer, *before, program, *arguments)


def _lost_ns(account: Account) -> int:
    accountant = Accountant()
    accountant.update(account.accounts, {1: "job"}, 1)
    return sum(accountant.times()[1].lost.values())


@pytest.mark.idle_machine
class TestAheadOfGpu:
    """Each step takes 6 ms on the GPU, and waits for the one before."""

    @pytest.mark.parametrize("how", ["gpu", "poll", "turns", "copy"])
    def test_stall_is_lost_beyond_what_the_gpu_still_has_to_do(
        self, account_tracer: Tracer, ahead_program: Path, how: str
    ) -> None:
        """Stalls of 15 ms: about 9 ms of each is lost, whichever way it waits."""
        account = _run(account_tracer, ahead_program, how, str(STEPS), "15000")

        assert account.truth["lost_ns"] >= STEPS * 8.5 * MS
        assert _lost_ns(account) == pytest.approx(account.truth["lost_ns"], rel=0.15)

    def test_so_it_is_in_copies_of_a_process_older_than_the_exporter(self, ahead_program: Path) -> None:
        """Which memory is pinned is unknown there, but not how long a copy took."""
        line = ("sh", "-c", f'read begin; exec "$0" copy {STEPS} 15000', ahead_program)
        with (
            subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
            tracer() as late,
        ):
            late.attach(accounts.Api.RUNTIME, ahead_program, CALLS)
            output, _ = process.communicate("\n", timeout=PATIENCE_SECONDS)
            account = accounts.read(late, json.loads(output))

        assert _lost_ns(account) == pytest.approx(account.truth["lost_ns"], rel=0.15)

    @pytest.mark.parametrize("how", ["gpu", "poll", "turns", "copy"])
    def test_shorter_stall_is_hidden(self, account_tracer: Tracer, ahead_program: Path, how: str) -> None:
        """Stalls of 2 ms, a twentieth of which at most is lost. In so many steps what is lost does not matter until the length of
        a step is known.

        That takes five steps at the begin, and some again after a delay by something else.
        """
        steps = 12 * STEPS

        assert _lost_ns(_run(account_tracer, ahead_program, how, str(steps), "2000")) <= steps * 0.1 * MS

    def test_preemption_that_the_gpu_hides_is_not_lost(
        self, account_tracer: Tracer, ahead_program: Path, cpu: int
    ) -> None:
        """Beside a shell on the same CPU that starts programs every 3 ms: returns are late by a millisecond or two, and the next
        wait is shorter by that. What was lost is what the program measures, with an error of a fifth of the stalls and delays."""
        alone = ("taskset", "-c", str(cpu))
        with accounts.running(*alone, "sh", "-c", "while :; do for i in $(seq 200); do :; done; sleep 0.003; done"):
            account = _run(account_tracer, ahead_program, "gpu", str(STEPS), "2000", before=alone)

        assert abs(_lost_ns(account) - max(account.truth["lost_ns"], 0)) <= 40 * MS


@pytest.mark.acceptance
class TestAheadOfStepThread:
    """A thread of the process on which the step thread waits."""

    def _waited_ns(self, account: Account, waker: Waker) -> int:
        return sum(
            row.resolved_ns
            for key, row in account.accounts.wakeups.items()
            if (key.victim, key.state, key.waker) == (Victim.STEP, ThreadState.LOCK, waker)
        )

    def test_thread_that_was_ahead_makes_data(self, account_tracer: Tracer, ahead_program: Path) -> None:
        """For five seconds its queue is full; then each of 50 steps waits for 15 ms longer than it takes itself."""
        account = _run(account_tracer, ahead_program, "thread", "5", "20000")

        assert self._waited_ns(account, Waker.LOADER) >= 0.6 * STEPS * 15 * MS
        assert self._waited_ns(account, Waker.THREAD) <= 0.1 * STEPS * 15 * MS

    def test_thread_that_is_always_waited_for_holds_a_lock(self, account_tracer: Tracer, ahead_program: Path) -> None:
        """From the first step on, for five seconds."""
        account = _run(account_tracer, ahead_program, "lock", "5", "5000")

        assert self._waited_ns(account, Waker.LOADER) == 0
        assert self._waited_ns(account, Waker.THREAD) >= STEPS * 4 * MS
