"""All faults and decoys from outside, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.faults.trials.fault import OutsideFault
from tests.faults.trials.outside import cpus, decoys, disks, limits, services

_FAULTS = (*cpus.FAULTS, *limits.FAULTS, *disks.FAULTS, *services.FAULTS)

OUTSIDE: Final[Mapping[str, OutsideFault]] = {fault.name: fault for fault in (*_FAULTS, *decoys.DECOYS)}
