"""Kernel: version, architecture and BTF."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.kernel import loader, refusals

OLDEST = (5, 15)  # bpf_get_attach_cookie() of a uprobe, task storage
OLDEST_TESTED = (6, 1)  # see tests/kernels


def check(_config: Config) -> Iterator[Check]:
    """Kernel, BTF, lockdown."""
    yield version(platform.release(), platform.machine())
    yield btf(loader.BTF)
    yield from lockdown(refusals.lockdown_mode())


def version(release: str, machine: str) -> Check:
    """release: as uname(2) has it, such as `6.12.12-amd64`."""
    found = f"{release} on {machine}"
    if machine not in ("x86_64", "aarch64"):
        return Check("kernel", CheckState.FAILED, found, "use x86-64 or arm64")
    numbers = tuple(int(part) for part in release.partition("-")[0].split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        return Check("kernel", CheckState.FAILED, found, "use kernel 5.15 or newer, with BTF")
    if numbers < OLDEST_TESTED:
        return Check("kernel", CheckState.OK, f"{found}; older than 6.1, the oldest tested kernel")
    return Check("kernel", CheckState.OK, found)


def btf(path: Path) -> Check:
    """Type information of the kernel, without which no program loads."""
    try:
        with path.open("rb"):
            return Check("BTF", CheckState.OK, f"{path}, {path.stat().st_size:,} bytes")
    except PermissionError as error:
        remedy = "allow reading it: a security module forbids that (`dmesg`, `ausearch -m AVC`)"
        return Check("BTF", CheckState.FAILED, f"cannot read {path}: {error.strerror}", remedy)
    except OSError:
        pass
    return Check("BTF", CheckState.FAILED, f"no {path}", "use a kernel built with CONFIG_DEBUG_INFO_BTF=y")


def lockdown(mode: str) -> Iterator[Check]:
    """Nothing without lockdown."""
    if mode == refusals.CONFIDENTIALITY:
        found = "confidentiality: the kernel loads no program that reads its memory"
        yield Check("lockdown", CheckState.FAILED, found, "boot with lockdown=integrity, or without lockdown")
    elif mode != "none":
        yield Check("lockdown", CheckState.OK, f"{mode}: no limit for the exporter")
