"""kernel_clock: what adjtimex(2) says."""

from __future__ import annotations

from typing import Any

from exporter.host.kernel_clock import KernelClock, kernel_clock


class TestKernelClock:
    def test_error_is_in_nanoseconds(self) -> None:
        def adjtimex(timex: Any) -> int:
            timex.maxerror, timex.status = 1_500, 0x2001  # STA_PLL, STA_NANO
            return 0

        assert kernel_clock(adjtimex) == KernelClock(is_synchronized=True, max_error_ns=1_500_000)

    def test_clock_without_a_daemon_is_not_synchronized(self) -> None:
        """TIME_ERROR, with STA_UNSYNC."""

        def adjtimex(timex: Any) -> int:
            timex.maxerror, timex.status = 16_000_000, 0x40
            return 5

        assert kernel_clock(adjtimex) == KernelClock(is_synchronized=False, max_error_ns=16_000_000_000)

    def test_refused_call_is_unknown(self) -> None:
        assert kernel_clock(lambda _timex: -1) == KernelClock(None, None)

    def test_kernel_answers(self) -> None:
        """The layout is right: this machine's error is below the kernel's own limit of 16 s."""
        found = kernel_clock()

        assert found == KernelClock(None, None) or 0 <= (found.max_error_ns or 0) <= 16_000_000_000
