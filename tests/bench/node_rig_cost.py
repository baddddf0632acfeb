"""How long after its deadline does a command return, of sixteen nodes of which one takes no connection and two answer too slowly?

The deadline begins when the command has read its flags, a moment before a node accepts the first connection. What comes before is
the start of the interpreter, and is measured apart.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.node_rig import FAILING, NODES, NodeRig, node_rig

DEADLINE_SECONDS: Final = 5
ROUNDS: Final = 10


class RigCosts(NamedTuple):
    """The slowest of some rounds. late_seconds: after the deadline. start_seconds: from its start to the first connection.

    is_right: whether exactly those nodes have failed that were to fail.
    """

    late_seconds: float
    start_seconds: float
    is_right: bool


def rig_costs() -> RigCosts:
    with tempfile.TemporaryDirectory() as folder, node_rig(Path(folder)) as rig:
        costs = [_asked(rig) for _ in range(1 + ROUNDS)][1:]  # the first one compiles
    return RigCosts(
        max(one.late_seconds for one in costs),
        max(one.start_seconds for one in costs),
        all(one.is_right for one in costs),
    )


def _asked(rig: NodeRig) -> RigCosts:
    rig.forget_connections()
    command = rig.command(
        "query", f"--nodes.deadline={DEADLINE_SECONDS}s", "--format=json", "select rank from workloads"
    )
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, check=False)
    ended = time.monotonic()
    first = rig.first_connection_at()
    rows = json.loads(done.stdout)
    failed = {one["node"] for one in rows if "failure" in one}
    is_right = done.returncode == 4 and failed == {*FAILING} and len(rows) == NODES
    return RigCosts(ended - first - DEADLINE_SECONDS, first - began, is_right)


if __name__ == "__main__":
    print(rig_costs())
