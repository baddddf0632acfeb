"""Kernel lockdown in mode confidentiality, which forbids programs that read kernel memory. Other tests run in mode integrity."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from exporter.kernel.refusals import lockdown_mode
from tests.support.exporter_process import COMMAND

pytestmark = pytest.mark.kernel
PATIENCE_SECONDS = 120  # emulated
RUN = ("run", "--web.listen-address=127.0.0.1:0", "--history.path=none")


@pytest.fixture(autouse=True)
def _skip_in_another_mode() -> None:
    """Skip, naming what is missing."""
    if lockdown_mode() != "confidentiality":
        pytest.skip("the kernel is not in lockdown mode confidentiality: boot with lockdown=confidentiality")


def done(*words: str) -> subprocess.CompletedProcess[str]:
    """A command of the exporter that ends."""
    command: Sequence[str] = (*COMMAND, *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


class TestConfidentiality:
    def test_run_ends_with_one_line_that_names_lockdown(self) -> None:
        ended = done(*RUN)

        assert (ended.returncode, ended.stderr.count("\n")) == (3, 1)
        assert "kernel lockdown is in confidentiality mode" in ended.stderr

    def test_check_names_lockdown(self) -> None:
        ended = done("check")

        assert ended.returncode == 3
        assert "confidentiality: the kernel loads no program that reads its memory" in " ".join(ended.stdout.split())
