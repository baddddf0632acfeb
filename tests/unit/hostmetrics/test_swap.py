"""swap: how much of a process is swapped out."""

from __future__ import annotations

from pathlib import Path

from exporter.host.processes import Processes
from exporter.hostmetrics.swap import SwapReader
from tests.unit.host.process_tree import process


def test_kilobytes_become_bytes(tmp_path: Path) -> None:
    """VmSwap."""
    process(tmp_path, 10, status=b"Name:\tx\nVmSwap:\t      12 kB\n")

    assert SwapReader(Processes(tmp_path)).bytes_of(10) == 12_288


def test_ended_process_is_none(tmp_path: Path) -> None:
    assert SwapReader(Processes(tmp_path)).bytes_of(10) is None


def test_node_without_swap_has_none(tmp_path: Path) -> None:
    """A total of 0, and a missing file."""
    swap = SwapReader(Processes(tmp_path))
    without_file = swap.has_any()
    (tmp_path / "meminfo").write_text("SwapTotal:  0 kB\n", encoding="ascii")
    without_swap = swap.has_any()
    (tmp_path / "meminfo").write_text("SwapTotal:  4 kB\n", encoding="ascii")

    assert (without_file, without_swap, swap.has_any()) == (False, False, True)
