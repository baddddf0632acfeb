"""perf_events: the kernel's list of CPUs. The events themselves are tested in tests/kernel."""

from __future__ import annotations

import pytest

from exporter.kernel.perf_events import cpu_numbers


class TestCpuNumbers:
    """/sys/devices/system/cpu/online."""

    @pytest.mark.parametrize(
        ("text", "numbers"),
        [
            ("0\n", [0]),
            ("0-3\n", [0, 1, 2, 3]),
            ("0-3,8\n", [0, 1, 2, 3, 8]),
            ("1,4-5,7\n", [1, 4, 5, 7]),
            ("10-10", [10]),
        ],
    )
    def test_ranges_and_single_numbers(self, text: str, numbers: list[int]) -> None:
        """CPUs that are offline leave gaps."""
        assert cpu_numbers(text) == numbers
