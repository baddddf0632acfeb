"""pid_namespaces: the last id of the line NSpid."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import ProcessGone
from exporter.host.pid_namespaces import innermost_tgid
from exporter.host.processes import Processes


def process(proc: Path, status: str) -> Processes:
    (proc / "500").mkdir()
    (proc / "500" / "status").write_text(status)
    return Processes(proc)


class TestInnermostTgid:
    @pytest.mark.parametrize(
        ("line", "tgid"), [("NSpid:\t500\n", 500), ("NSpid:\t500\t7\n", 7), ("NSpid:\t500\t70\t1\n", 1), ("", 500)]
    )
    def test_it_is_the_last_one(self, tmp_path: Path, line: str, tgid: int) -> None:
        """The kernel shows the line since 4.1."""
        assert innermost_tgid(process(tmp_path, f"Name:\ttrainer\n{line}VmPeak:\t4 kB\n"), 500) == tgid

    def test_process_that_has_ended_has_none(self, tmp_path: Path) -> None:
        with pytest.raises(ProcessGone):
            innermost_tgid(Processes(tmp_path), 500)
