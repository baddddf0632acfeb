"""A live `demo`: a real job with a real fault and real probes on this machine."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.exporter_process import COMMAND
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.traced import only

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
    need_tracing()


class TestLive:
    """The shortest demo, with a fault that other load of the machine cannot resemble."""

    def test_missing_rank_is_named(self) -> None:
        """It ends with one chain, of the rank that hangs."""
        command = [*COMMAND, "demo", "hang", "--duration=22s", "--format=json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
        document = json.loads(done.stdout)
        hangs = [chain for chain in document["chains"] if chain["cause"] == "nccl_hang"]

        assert "Live: a training job on a stand-in GPU, real probes, a real fault" in done.stderr
        assert only(hangs)["rank"] == "1"
