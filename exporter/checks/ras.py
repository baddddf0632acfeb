"""NCCL's RAS: which jobs can be queried."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.host import capabilities
from exporter.host.capabilities import Capability


def check(config: Config) -> Iterator[Check]:
    """Nothing unless it is wanted."""
    if config.with_ras:
        yield namespaces(capabilities.has, is_allowed=config.collectors.network_namespaces)


def namespaces(has: Callable[[Capability], bool], *, is_allowed: bool) -> Check:
    """has: whether this process has a capability. is_allowed: whether `run` keeps the one that enters namespaces."""
    if is_allowed and has(Capability.SYS_ADMIN):
        return Check("NCCL RAS", CheckState.OK, "queried in the network namespace of each job")
    missing = "without CAP_SYS_ADMIN" if is_allowed else "without --collector.network.namespaces"
    return Check(
        "NCCL RAS",
        CheckState.WARNING,
        f"{missing} only jobs in the exporter's own network namespace are queried",
        "for jobs in others see --collector.network.namespaces in docs/security.md (`gpu-stall-exporter assets`)",
    )
