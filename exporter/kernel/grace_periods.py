"""Expedited RCU grace periods while many perf events are removed.

Each perf event of a uprobe is removed on its own, after an RCU grace period: 30 ms each on kernel 6.1, which is seconds for a
library. An expedited grace period interrupts every CPU instead and takes 6 ms on the same (emulated) machine. The setting
affects the whole machine, so it is set only while probes must be removed quickly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SETTING = Path("/sys/kernel/rcu_expedited")

log = logging.getLogger(__name__)


@contextmanager
def expedited(setting: Path = SETTING) -> Iterator[None]:
    """Grace periods are expedited inside the block, and as before after it. Changes nothing if the setting cannot be written."""
    try:
        before = setting.read_text(encoding="ascii")
        setting.write_text("1\n", encoding="ascii")
    except OSError as error:
        log.info(
            "removing probes is slow: expedited RCU is not available (cannot write %s: %s)", setting, error.strerror
        )
        yield
        return
    try:
        yield
    finally:
        setting.write_text(before, encoding="ascii")
