"""The kernel programs that the settings want, loaded as far as this machine can run them.

In: Config. Out: a loaded Kernel and the collectors that work; what is missing is logged and counted.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from exporter import catalog
from exporter.config import Config
from exporter.config.probes import ReturnProbes
from exporter.errors import BadInput, NotPossibleHere
from exporter.kernel import hazards, loader
from exporter.kernel.abi import Api
from exporter.kernel.apis import SUBJECT_OF
from exporter.kernel.event_source import EventSource
from exporter.kernel.hazards import Judgement
from exporter.kernel.loader import Kernel
from exporter.own_metrics.store import OwnMetrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """kernel: closed with the resources. collectors: those that work. impaired: those that lack a program."""

    kernel: Kernel
    collectors: tuple[str, ...]
    impaired: frozenset[str]
    with_returns: bool

    @property
    def apis(self) -> frozenset[Api]:
        """APIs that the collectors need probed."""
        subjects = loader.subjects_of(self.collectors)
        return frozenset(api for api, subject in SUBJECT_OF.items() if subject in subjects)


def load(
    config: Config, own: OwnMetrics, resources: ExitStack, event_source: EventSource, returns: Judgement | None = None
) -> Loaded:
    """Raises NotPossibleHere when no collector would work, and KernelRefused."""
    with_returns, wanted = _wanted(config, returns or judged_returns(config))
    kernel = loader.load(
        wanted=config.probes.attach,
        subjects=loader.subjects_of(wanted, ("pages",) if config.collectors.page_allocations else ()),
        with_launches=config.probes.with_launches,
        with_returns=with_returns,
        hash_key=hash_key(config.hash_key_file),
        event_source=event_source,
    )
    resources.callback(kernel.close)
    _report_failures(kernel, wanted, own)
    failed = {loader.subject_of(name) for name in kernel.failures}
    return Loaded(
        kernel,
        tuple(name for name in wanted if name not in failed),
        frozenset(loader.collector_of(subject) for subject in failed),
        with_returns,
    )


def hash_key(file: Path | None) -> bytes:
    """The key of hashes of communicators, made from the contents of a file of any length. Raises BadInput."""
    if file is None:
        return loader.NO_KEY
    try:
        secret = file.read_bytes()
    except OSError as error:
        raise BadInput(
            f"--nccl.hash-key-file: cannot read {file}: {error.strerror}",
            remedy="make it readable for the exporter's user",
        ) from error
    return hashlib.sha256(secret).digest()[: loader.HASH_KEY_BYTES]


def may_probe(config: Config, machine: str) -> bool:
    """Whether libraries may be probed on this architecture; logs why not. machine: as in `uname -m`."""
    if not hazards.may_single_step_wrongly(machine):
        return True
    if config.probes.on_arm64:
        log.warning("probing libraries because of --probes.on-arm64, although %s", hazards.ARM64_FAULT)
        return True
    log.warning("no library is probed: %s; set --probes.on-arm64 to probe anyway", hazards.ARM64_FAULT)
    return False


def judged_returns(config: Config) -> Judgement | None:
    """Whether return probes are safe here; None if none are wanted. The experiment takes what single probes take."""
    return None if config.probes.returns is ReturnProbes.NEVER else hazards.judge_returns()


def _wanted(config: Config, judgement: Judgement | None) -> tuple[bool, Sequence[str]]:
    """Whether returns are probed, and the collectors that then work."""
    if judgement is None:
        why = "--probes.returns=never"
    else:
        if config.probes.returns is ReturnProbes.ALWAYS and not judgement.is_safe:
            log.warning("probing returns because of --probes.returns=always, although %s", judgement.why)
        if config.probes.returns is ReturnProbes.ALWAYS or judgement.is_safe:
            return True, config.collectors.enabled
        why = judgement.why
    log.warning("returns are not probed (%s): %s", why, hazards.WITHOUT_RETURNS)
    collectors = [name for name in config.collectors.enabled if name in hazards.COLLECTORS_WITHOUT_RETURNS]
    if "cuda" not in collectors:
        raise NotPossibleHere(
            f"no collector would work: returns are not probed ({why}), and the cuda collector is off",
            remedy="leave --collector.cuda on",
        )
    return False, collectors


def _report_failures(kernel: Kernel, collectors: Sequence[str], own: OwnMetrics) -> None:
    for name, failure in kernel.failures.items():
        subject = loader.subject_of(name)
        if subject in loader.OPTIONAL:
            log.warning(
                "cannot load BPF program %s: %s; without it, %s", name, failure.one_line(), loader.OPTIONAL[subject]
            )
            continue
        log.error(
            "cannot load BPF program %s: %s; metrics that need it are missing or incomplete until a restart",
            name,
            failure.one_line(),
        )
        collector = loader.collector_of(subject)
        if collector in collectors:  # its metrics are missing or incomplete until a restart
            own.add(catalog.own.COLLECTOR_ERRORS, 1, collector)
            own.set(catalog.own.COLLECTOR_SUCCESS, 0, collector)
