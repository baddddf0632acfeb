"""heap: the calls are accepted by the C library here, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from tests.support.patience import PATIENCE_SECONDS

PROGRAM = """
import threading
from exporter.host import heap

heap.share_one_heap()
kept = [bytearray(1 << 12) for _ in range(20_000)]
thread = threading.Thread(target=lambda: kept.extend(bytearray(1 << 12) for _ in range(1_000)))
thread.start()
thread.join()
resident = lambda: int(open("/proc/self/statm").read().split()[1])
kept.clear()
before = resident()
heap.give_back()
print(resident() <= before)
"""


def test_memory_can_be_given_back_after_the_heap_is_shared() -> None:
    """The resident set does not grow by it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )

    assert done.stdout == "True\n"
