"""The limit of open files: maps and programs of the kernel take 500 descriptors, and single probes one each."""

from __future__ import annotations

import logging
import resource
from typing import Final

log = logging.getLogger(__name__)

WANTED: Final = 65_536
"""Enough for 80 libraries without links over many functions: two perf events per function."""
NEEDED: Final = 1_024
"""Without single probes."""


def raise_limit() -> None:
    """Raise the soft limit, which is 1,024 nearly everywhere for the sake of select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted < NEEDED:
        log.warning("the limit of open files is %d: the exporter needs %d, and more for single probes", wanted, NEEDED)
