"""Makes the kernel wait less before it forgets a probe, while many perf events are removed.

Each perf event of a uprobe is removed on its own, and the kernel first waits until nobody can still be in it: 30 ms each on
kernel 6.1, which is seconds for a library. Asked to hurry it interrupts every CPU instead, and takes 6 ms on the same (emulated)
machine. That is a setting of the whole machine, and so it holds only while probes must go at once.
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
    """Within, the kernel hurries; afterwards the setting is as it was. Where it cannot be written, nothing changes."""
    try:
        before = setting.read_text(encoding="ascii")
        setting.write_text("1\n", encoding="ascii")
    except OSError as error:
        log.info("the kernel takes its time to remove probes: cannot write %s: %s", setting, error.strerror)
        yield
        return
    try:
        yield
    finally:
        setting.write_text(before, encoding="ascii")
