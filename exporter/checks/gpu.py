"""GPUs: the driver, and what NVML reports. One query per GPU; calls that hang are abandoned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.gpu.nvml import Nvml
from exporter.gpu.sampler import GpuSampler

_DRIVER_VERSION = Path("/proc/driver/nvidia/version")


def check(config: Config) -> Iterator[Check]:
    """Driver, NVML."""
    yield driver(_DRIVER_VERSION)
    yield nvml(config, GpuSampler(Nvml()))


def driver(version: Path) -> Check:
    """version: the file of /proc that a loaded driver has."""
    try:
        return Check(
            "NVIDIA driver", CheckState.OK, version.read_text(encoding="utf-8", errors="replace").splitlines()[0]
        )
    except (OSError, IndexError):
        remedy = "to try the exporter without a GPU: `gpu-stall-exporter demo`"
        return Check("NVIDIA driver", CheckState.WARNING, "not loaded", remedy)


def nvml(config: Config, sampler: GpuSampler) -> Check:
    """Asks the driver once."""
    if "device" not in config.collectors.enabled:
        found = "no GPU metrics: disabled by --collector.device=false"
        return Check("NVML", CheckState.WARNING, found, "leave --collector.device on")
    sampler.round()
    sampler.stop()
    if sampler.absent_reason:
        found = f"{sampler.absent_reason}; no GPU metrics, all others are complete"
        return Check(
            "NVML",
            CheckState.WARNING,
            found,
            "in a container: mount the driver's library; docs/deployment.md (`gpu-stall-exporter assets`) says how",
        )
    known = sampler.reading().records
    answering = [one.facts for one in known if one.sample is not None]
    if len(answering) < len(known) or not known:
        found = f"{len(answering)} of {len(known)} GPUs answer: {sampler.last_failure or 'the driver reports no GPU'}"
        return Check("NVML", CheckState.WARNING, found, "read the kernel log (dmesg)")
    models = ", ".join(dict.fromkeys(one.model for one in answering))
    return Check("NVML", CheckState.OK, f"driver {answering[0].driver_version}, {len(answering)} GPUs: {models}")
