"""Settings of the probes on CUDA and NCCL: how they attach, what they time, what they may cost."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from exporter.config.parsers import choice, choice_or_none, duration, share, switch
from exporter.config.setting import setting


class AttachKind(enum.StrEnum):
    """How function entries and returns are probed, best first. Entries alone: as MULTI or SINGLE, with one of their two."""

    SESSION = "session"  # one program for both, one link per library; kernel 6.13
    MULTI = "multi"  # two links per library; kernel 6.6
    SINGLE = "single"  # two perf events per function; every kernel


class LaunchMode(enum.StrEnum):
    """Which kernel launches are timed: all, while the overhead limit allows it; one in 64; none, and none is counted."""

    FULL = "full"
    SAMPLED = "sampled"
    OFF = "off"


class ReturnProbes(enum.StrEnum):
    """When function returns are probed. AUTO: unless this kernel may kill a job with a seccomp filter for it."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """attach: None for the best that the kernel has. overhead_limit: share of one CPU, of one process."""

    attach: AttachKind | None = setting(
        "probes.attach",
        "auto",
        choice_or_none(AttachKind, none="auto"),
        "KIND",
        "how to attach: auto, session (kernel 6.13 or newer), multi (6.6 or newer), single",
    )
    launch_mode: LaunchMode = setting(
        "probes.launch",
        "full",
        choice(LaunchMode),
        "MODE",
        "launches to time: full, sampled (1 in 64) or off (launches are not probed at all)",
    )
    overhead_limit: float = setting(
        "probes.overhead-limit",
        "1%",
        share,
        "SHARE",
        "share of a CPU that probes may cost a process before its launches are sampled",
        is_reloadable=True,
    )
    returns: ReturnProbes = setting(
        "probes.returns",
        "auto",
        choice(ReturnProbes),
        "WHEN",
        "probe returns: auto (off where unsafe), always, never",
    )
    on_arm64: bool = setting(
        "probes.on-arm64", "false", switch, "BOOL", "probe on arm64 despite a kernel bug that can crash processes"
    )
    attaches_once: bool = setting(
        "probes.attach-once", "false", switch, "BOOL", "attach at startup only, then drop the capabilities for it"
    )
    discovery_interval_seconds: float = setting(
        "probes.discovery-interval",
        "30s",
        duration,
        "DURATION",
        "time between scans of /proc for CUDA and NCCL libraries",
        is_reloadable=True,
    )

    @property
    def with_launches(self) -> bool:
        """Whether launches are probed at all."""
        return self.launch_mode is not LaunchMode.OFF
