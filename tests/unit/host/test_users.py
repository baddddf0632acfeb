"""host.users: the user who answers for a process, also for one in a user namespace of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from exporter.errors import ProcessGone
from exporter.host.processes import Processes
from exporter.host.users import uid_of
from tests.support.requirements import need_command
from tests.unit.host.process_tree import process


class TestUid:
    def test_own_process(self) -> None:
        assert uid_of(Processes(), os.getpid()) == os.getuid()

    def test_real_user_of_another_proc(self, tmp_path: Path) -> None:
        """The first of four: real, effective, saved and of files."""
        processes = process(tmp_path, 7, status=b"Name:\tx\nUid:\t1000\t0\t0\t0\n")

        assert uid_of(processes, 7) == 1000

    def test_process_that_has_ended_is_gone(self, tmp_path: Path) -> None:
        with pytest.raises(ProcessGone):
            uid_of(Processes(tmp_path), 7)

    @pytest.mark.skipif(os.getuid() != 0, reason="needs root to start a process as another user")
    def test_user_who_made_the_namespace_counts(self) -> None:
        """In it the process is another one of thousands."""
        need_command("unshare", "util-linux")
        script = "read line"
        command = (
            "setpriv",
            "--reuid=65534",
            "--clear-groups",
            "unshare",
            "--user",
            "--map-root-user",
            "unshare",
            "--user",
        )
        with subprocess.Popen([*command, "sh", "-c", f"echo ready; {script}"], stdin=-1, stdout=-1, text=True) as other:
            assert other.stdout is not None
            ready = other.stdout.readline()
            if ready != "ready\n":
                pytest.skip("this kernel lets users make no user namespaces")
            found = uid_of(Processes(), other.pid)
            other.kill()

        assert found == 65534
