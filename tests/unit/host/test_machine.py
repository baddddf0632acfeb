"""machine: CPU times and swap of the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.host.machine import CpuTimes, cpu_times, kilobytes, swap_bytes


class TestCpuTimes:
    """/proc/stat."""

    def test_hundredths_of_a_second_are_ten_million_nanoseconds(self, tmp_path: Path) -> None:
        """user nice system idle iowait irq softirq steal guest guest_nice."""
        (tmp_path / "stat").write_text("cpu  10 20 30 40 50 3 7 11 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n", encoding="ascii")

        assert cpu_times(tmp_path) == CpuTimes(irq_ns=30_000_000, softirq_ns=70_000_000, steal_ns=110_000_000)

    @pytest.mark.parametrize("text", ["", "cpu  1 2 3\n", "cpu0 1 1 1 1 1 1 1 1 1\n", "cpu  a b c d e f g h\n"])
    def test_file_without_these_times_is_none(self, tmp_path: Path, text: str) -> None:
        """An old kernel, or a file that is not the kernel's."""
        (tmp_path / "stat").write_text(text, encoding="ascii")

        assert cpu_times(tmp_path) is None

    def test_missing_file_is_none(self, tmp_path: Path) -> None:
        assert cpu_times(tmp_path) is None


class TestKilobytes:
    """Lines with a name, a number and kB."""

    def test_line_is_found_by_its_whole_name(self) -> None:
        """1,024 bytes each."""
        assert kilobytes("VmSwapX:  9 kB\nVmSwap:\t   12 kB\n", "VmSwap") == 12_288

    def test_missing_line_is_none(self) -> None:
        """A kernel thread has no memory."""
        assert kilobytes("Name:\tkthreadd\n", "VmSwap") is None

    def test_swap_of_the_node_is_swaptotal(self, tmp_path: Path) -> None:
        """/proc/meminfo."""
        (tmp_path / "meminfo").write_text("MemTotal: 7 kB\nSwapTotal:  4 kB\n", encoding="ascii")

        assert swap_bytes(tmp_path) == 4096
