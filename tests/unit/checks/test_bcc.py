"""checks.bcc: bcc in the distribution's interpreter."""

from __future__ import annotations

from pathlib import Path

from exporter.checks.bcc import bcc
from exporter.checks.check import Check, CheckState


class TestBcc:
    def test_version_and_interpreter_are_shown(self, tmp_path: Path) -> None:
        python = tmp_path / "python3"
        python.write_text("#!/bin/sh\necho 0.26.0\n")
        python.chmod(0o755)

        assert bcc(python) == Check("bcc", CheckState.OK, f"0.26.0 in {python}: names the functions of stuck threads")

    def test_interpreter_without_it_is_a_warning(self, tmp_path: Path) -> None:
        check = bcc(tmp_path / "python3")

        assert (check.state, check.remedy) == (CheckState.WARNING, "apt-get install python3-bpfcc")
