"""The id that a process has in its own PID namespace: what it knows itself by, and names itself by to others.

Source: proc_pid_status(5); NSpid is there since Linux 4.1.
"""

from __future__ import annotations

import re
from typing import Final

from exporter.host.processes import Processes

_STATUS_BYTES_MAX: Final = 16 * 1024
_IDS: Final = re.compile(rb"^NSpid:[\t ]*(?:[0-9]{1,9}[\t ]+)*([0-9]{1,9})$", re.MULTILINE)


def innermost_tgid(processes: Processes, tgid: int) -> int:
    """The tgid itself where the process has no PID namespace of its own. Raises ProcessGone, NotPossibleHere."""
    found = _IDS.search(processes.read(tgid, "status", _STATUS_BYTES_MAX))
    return int(found[1]) if found else tgid
