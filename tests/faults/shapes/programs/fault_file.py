"""The file that says what goes wrong in a job now: {"kind": "sleep", "share": 0.5, "rank": 0}.

share: by which part of its usual length a step takes longer, about. rank: the one that has the fault; without it all ranks do.
"""

import json
from typing import Any


def read(path: str) -> dict[str, Any] | None:
    """What is in the file; None without one."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - read in each worker's batch
            fault: dict[str, Any] = json.load(file)
    except (FileNotFoundError, json.JSONDecodeError):  # removed or not yet written
        return None
    return fault
