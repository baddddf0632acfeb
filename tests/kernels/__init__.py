"""Which tests run in which kernels, other than the one of the machine at hand. README.md says how to add to either list."""

from __future__ import annotations

from pathlib import Path

_KERNEL = Path(__file__).parent.parent / "kernel"

KERNELS = ("6.1",)
"""Oldest first. Of each, the newest package that Debian's lists have."""

TESTS = (
    "tests/kernel/test_loading.py",
    "tests/kernel/test_cuda.py",
    "tests/kernel/test_nccl.py",
    "tests/kernel/test_late_start.py",
    "tests/kernel/test_mapped_files.py",
    "tests/kernel/test_stacks.py",
    "tests/kernel/test_one_call_once.py",
    "tests/kernel/test_seccomp.py",
    "tests/kernel/test_network.py",
    "tests/kernel/test_memory.py",
    "tests/kernel/test_engine.py::TestOutputs",
    *(f"tests/kernel/{path.name}" for path in sorted(_KERNEL.glob("test_accounting_*.py"))),
)
"""Files, or single tests by pytest's names. Those marked `hardware_speed` are left out."""
