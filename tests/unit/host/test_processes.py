"""processes: files of one process in /proc."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes

from .process_tree import process, stat_line


class TestList:
    def test_only_numbers_are_processes_and_they_ascend(self, tmp_path: Path) -> None:
        """/proc also has self, sys and others."""
        for name in ("12", "7", "self", "sys", "1x", "\u0663"):
            (tmp_path / name).mkdir()

        assert Processes(tmp_path).tgids() == [7, 12]

    def test_missing_proc_is_reported(self, tmp_path: Path) -> None:
        """A container without the node's /proc."""
        with pytest.raises(NotPossibleHere, match="cannot list"):
            Processes(tmp_path / "absent").tgids()


class TestStat:
    @pytest.mark.parametrize(
        ("raw", "shown"),
        [
            (b"python", "python"),
            (b"a) S 1 (b", "a) S 1 (b"),
            (b"(sd-pam)", "(sd-pam)"),
            (b"two words", "two words"),
            (b"a\nb\x1b\x7f", "a\ufffdb\ufffd\ufffd"),
            (b"\xff\xed\xa0\x80", "\ufffd\ufffd\ufffd\ufffd"),
            (b"", ""),
            ("größe".encode(), "größe"),
        ],
    )
    def test_any_command_is_read_and_made_printable(self, raw: bytes, shown: str, tmp_path: Path) -> None:
        """The process chooses its command, of 15 bytes."""
        stat = process(tmp_path, 7, stat=stat_line(7, raw, 4711)).stat(7)

        assert (stat.comm, stat.state, stat.parent_tgid, stat.start_time_ticks) == (shown, "S", 1, 4711)

    def test_comm_is_read_from_its_own_file(self, tmp_path: Path) -> None:
        """The kernel ends it with a newline, which is not part of it."""
        assert process(tmp_path, 7, comm=b"pt_main_thread\n").comm(7) == "pt_main_thread"

    @pytest.mark.parametrize("text", [b"", b"7 (python", b"7 (python) S 1 7", stat_line(7).replace(b"4711", b"-1")])
    def test_cut_stat_counts_as_gone(self, text: bytes, tmp_path: Path) -> None:
        """A process that ends during the read gives half a line or none."""
        with pytest.raises(ProcessGone):
            process(tmp_path, 7, stat=text).start_time_ticks(7)

    def test_process_that_ended_is_gone(self, tmp_path: Path) -> None:
        """It ended between the list and the read."""
        with pytest.raises(ProcessGone, match="process 8 ended"):
            process(tmp_path, 7).stat(8)


class TestMainThreadEnded:
    """Process 7 whose main thread has ended while thread 9 goes on; thread 8 has ended as well."""

    @pytest.fixture
    def processes(self, tmp_path: Path) -> Processes:
        found = process(tmp_path, 7, maps=b"", stat=stat_line(7).replace(b") S", b") Z"), cgroup=b"4:memory:/\n0::/a\n")
        for tid, state in ((7, b"Z"), (8, b"X"), (9, b"S")):
            process(tmp_path / "7/task", tid, stat=stat_line(tid).replace(b") S", b") " + state))
        (tmp_path / "7/task/9/maps").write_bytes(b"of thread 9")
        (tmp_path / "7/task/9/cgroup").write_bytes(b"4:memory:/docker/a\n0::/a\n")
        (tmp_path / "7/task/9/exe").symlink_to("/usr/bin/python3")
        return found

    def test_files_are_those_of_a_thread_that_goes_on(self, processes: Processes) -> None:
        """Empty ones, missing ones and links. Version 1 shows an ended thread in the root cgroup."""
        assert processes.maps(7) == b"of thread 9"
        assert processes.link(7, "exe") == b"/usr/bin/python3"
        assert processes.cgroup(7) == "4:memory:/docker/a\n0::/a\n"
        assert processes.readable_id(7) == 9

    def test_process_that_has_ended_stays_ended(self, processes: Processes) -> None:
        """A zombie that its parent has not waited for."""
        (processes.proc / "7/task/9/stat").write_bytes(stat_line(9).replace(b") S", b") Z"))

        assert (processes.maps(7), processes.readable_id(7)) == (b"", 7)
        with pytest.raises(ProcessGone):
            processes.link(7, "exe")

    def test_main_thread_that_runs_stands_for_the_process(self, processes: Processes) -> None:
        (processes.proc / "7/stat").write_bytes(stat_line(7))

        assert (processes.maps(7), processes.readable_id(7)) == (b"", 7)


class TestCgroup:
    def test_cgroup_is_text_of_any_bytes(self, tmp_path: Path) -> None:
        """Input of parse_cgroup()."""
        assert process(tmp_path, 7, cgroup=b"0::/a\xff\n").cgroup(7) == "0::/a\ufffd\n"

    def test_paths_are_followed_to_the_root(self, tmp_path: Path) -> None:
        """In a cgroup namespace."""
        process(tmp_path, 7, cgroup=b"0::/../b\n")

        assert Processes(tmp_path, lambda text: text.replace("/../", "/a/")).cgroup(7) == "0::/a/b\n"


class TestRealProc:
    """The same on the /proc here."""

    def test_own_process_is_read(self) -> None:
        """Compared with what Python knows."""
        processes, tgid = Processes(), os.getpid()

        assert tgid in processes.tgids()
        assert processes.stat(tgid).parent_tgid == os.getppid()
        assert processes.cgroup(tgid) == Path("/proc/self/cgroup").read_text()

    def test_ended_process_is_gone(self) -> None:
        """After it was waited for, its tgid leads nowhere."""
        with subprocess.Popen(["true"]) as child:
            child.wait()

        with pytest.raises(ProcessGone):
            Processes().stat(child.pid)
