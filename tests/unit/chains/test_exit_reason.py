"""What is a crash, and what is not?"""

from __future__ import annotations

import signal

import pytest

from exporter.causes import Cause
from exporter.chains.exit_reason import CallError, Ending

S = 1_000_000_000


class TestCause:
    """The cause of an end."""

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE])
    def test_signal_that_means_an_error_is_a_crash(self, number: int) -> None:
        """They are sent for no other reason."""
        assert Ending(number, 0).cause is Cause.CRASH

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
    def test_signal_sent_by_another_process_is_none(self, number: int) -> None:
        """A scheduler that ends a job, an operator."""
        assert Ending(number, 0).cause is None

    @pytest.mark.parametrize("code", [0, 129, 130, 137, 143])
    def test_code_of_a_wished_end_is_none(self, code: int) -> None:
        """128 plus the signal's number: a program that ended in order on request."""
        assert Ending(0, code).cause is None

    @pytest.mark.parametrize("code", [1, 2, 134, 139])
    def test_other_codes_are_a_crash(self, code: int) -> None:
        """1 is what Python ends with after an exception; 139 is how a shell reports SIGSEGV of its child."""
        assert Ending(0, code).cause is Cause.CRASH

    def test_victim_of_the_kernel_is_no_crash_of_its_own(self) -> None:
        """SIGKILL because memory ran out."""
        assert Ending(signal.SIGKILL, 0, is_victim=True).cause is Cause.OOM_KILLED


class TestSentence:
    """The sentence about the end."""

    def test_last_error_has_its_age(self) -> None:
        """Half a second before."""
        ending = Ending(signal.SIGABRT, 0, at_ns=10 * S, error=CallError("cudaMemcpy", 700, 9 * S + S // 2))

        assert ending.sentence == "ended by SIGABRT; cudaMemcpy had returned error 700 0.5 s before"

    def test_error_of_the_last_moment_has_no_age(self) -> None:
        """Rounded it would be 0.0 s."""
        ending = Ending(signal.SIGABRT, 0, at_ns=10 * S, error=CallError("cudaMemcpy", 700, 10 * S - S // 100))

        assert ending.sentence == "ended by SIGABRT; cudaMemcpy had returned error 700 immediately before"

    def test_old_error_is_left_out(self) -> None:
        """Two minutes before: it has been lived with."""
        assert (
            Ending(0, 1, at_ns=200 * S, error=CallError("cudaMalloc", 2, 80 * S)).sentence == "ended with exit code 1"
        )

    def test_signal_without_a_name_has_its_number(self) -> None:
        """A real-time signal has a number only."""
        assert Ending(40, 0).sentence == "ended by signal 40"
