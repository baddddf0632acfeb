"""privileges: which capabilities stay, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from exporter.host import capabilities
from exporter.host.capabilities import Capability
from tests.support.patience import PATIENCE_SECONDS

NEEDED = {
    Capability.BPF,
    Capability.PERFMON,
    Capability.SYS_PTRACE,
    Capability.DAC_READ_SEARCH,
    Capability.CHECKPOINT_RESTORE,
    Capability.LEASE,
}


def left(*calls: str) -> set[Capability]:
    """The capabilities that a process has after these calls."""
    program = "\n".join(
        [
            "from exporter.host import capabilities, privileges",
            *(f"privileges.{call}" for call in calls),
            "print(capabilities.effective())",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    return {one for one in Capability if int(done.stdout) >> one & 1}


def of_ours(wanted: set[Capability]) -> set[Capability]:
    """Those that this process has itself, and can pass on."""
    return {one for one in wanted if capabilities.has(one)}


@pytest.mark.parametrize(
    ("calls", "kept"),
    [
        (["drop()"], NEEDED),
        (["drop(with_network_namespaces=True)"], NEEDED | {Capability.SYS_ADMIN}),
        (["drop()", "drop_after_attaching()"], {Capability.SYS_PTRACE, Capability.DAC_READ_SEARCH}),
        (["drop()", "drop(with_network_namespaces=True)"], NEEDED),
    ],
    ids=["at start", "with network namespaces", "after attaching", "dropped for good"],
)
def test_only_needed_capabilities_are_left(calls: list[str], kept: set[Capability]) -> None:
    assert left(*calls) == of_ours(kept)
