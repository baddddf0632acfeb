"""The tests that also run in other kernels, and these kernels. README.md describes how to add to either list."""

from __future__ import annotations

from pathlib import Path

_KERNEL = Path(__file__).parent.parent / "kernel"

KERNELS = ("6.1",)
"""The oldest first; the newest Debian package of each."""

TESTS = {
    "": (
        "tests/kernel/test_loading.py",
        "tests/kernel/test_cuda.py",
        "tests/kernel/test_nccl.py",
        "tests/kernel/test_graph.py",
        "tests/kernel/test_late_start.py",
        "tests/kernel/test_mapped_files.py",
        "tests/kernel/test_mapping_watch.py",
        "tests/kernel/test_overwritten_files.py",
        "tests/kernel/test_interposed.py",
        "tests/kernel/test_unusual_processes.py::TestMainThreadEnded",
        "tests/kernel/test_cgroup_namespaces.py",
        "tests/kernel/test_stacks.py",
        "tests/kernel/test_python_frames.py",
        "tests/kernel/test_one_call_once.py",
        "tests/kernel/test_seccomp.py",
        "tests/kernel/test_network.py",
        "tests/kernel/test_group_shares.py",
        "tests/kernel/test_memory.py",
        "tests/kernel/test_remedies.py::TestAgainstCulprits",
        "tests/kernel/test_engine.py::TestOutputs",
        "tests/end_to_end/test_single_probes.py",
        *(f"tests/kernel/{path.name}" for path in sorted(_KERNEL.glob("test_accounting_*.py"))),
    ),
    "sysctl.kernel.yama.ptrace_scope=3": ("tests/kernel/test_python_frames.py::TestPtraceScope",),
    "lockdown=integrity": ("tests/kernel/test_loading.py",),
    "lockdown=confidentiality": ("tests/kernel/test_lockdown.py",),
}
"""What the kernel is booted with -> files, or single tests by pytest's names, without those marked `hardware_speed` or `soak`."""
