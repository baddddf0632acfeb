"""Privileges: the capabilities of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.host import capabilities
from exporter.host.capabilities import Capability
from exporter.host.privileges import NEEDS


def check(_config: Config) -> Iterator[Check]:
    """Capabilities."""
    yield needed_capabilities(capabilities.has)


def needed_capabilities(has: Callable[[Capability], bool]) -> Check:
    """has: whether this process has a capability."""
    missing = [need for need in NEEDS if not has(need.capability)]
    if not missing:
        return Check("capabilities", CheckState.OK, ", ".join(need.capability.label for need in NEEDS))
    found = "; ".join(f"without {need.capability.label} {need.cost}" for need in missing)
    state = CheckState.FAILED if any(need.is_vital for need in missing) else CheckState.WARNING
    return Check(
        "capabilities",
        state,
        found,
        "run it as root, or grant them: docs/security.md (`gpu-stall-exporter assets`) says what each is for",
    )
