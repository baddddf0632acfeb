"""Starts the ranks of a job, as torchrun does: this program again, with RANK, WORLD_SIZE and LOCAL_RANK."""

import os
import subprocess
import sys
import tempfile

from steps import end_at_sigterm


def launch(world: int) -> None:
    """Returns in the ranks only, of which none outlives another. They share a new file, RENDEZVOUS, to find each other."""
    if "RANK" in os.environ:
        return
    end_at_sigterm()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.environ["STEP_LOG"]), prefix="ranks-") as folder:  # noqa: PTH120
        shared = {"WORLD_SIZE": str(world), "RENDEZVOUS": f"{folder}/file", "GLOO_SOCKET_IFNAME": "lo"}
        for rank in range(world):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "LAUNCHER": str(os.getpid())}
            subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **shared, **own})
        _tgid, status = os.wait()
    sys.exit(os.waitstatus_to_exitcode(status))
