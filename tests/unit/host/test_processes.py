"""processes: files of one process in /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import ENVIRON_BYTES_MAX, Processes

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


class TestEnvironment:
    def environ(self, tmp_path: Path, content: bytes, *names: str) -> dict[str, str]:
        """The wanted variables of a process whose environment is `content`."""
        return process(tmp_path, 7, environ=content).environ(7, frozenset(names))

    def test_only_wanted_names_are_returned(self, tmp_path: Path) -> None:
        """An environment holds passwords."""
        content = b"RANK=3\0PASSWORD=x\0WORLD_SIZE=8\0"

        assert self.environ(tmp_path, content, "RANK", "WORLD_SIZE", "ABSENT") == {"RANK": "3", "WORLD_SIZE": "8"}

    def test_name_inside_of_another_name_or_value_does_not_count(self, tmp_path: Path) -> None:
        """LOCAL_RANK ends in RANK."""
        assert self.environ(tmp_path, b"LOCAL_RANK=1\0X=RANK=2\0RANKS=3\0", "RANK") == {}

    def test_first_of_two_counts(self, tmp_path: Path) -> None:
        """As in getenv(3)."""
        assert self.environ(tmp_path, b"RANK=1\0RANK=2\0", "RANK") == {"RANK": "1"}

    def test_value_may_be_empty_hold_equal_signs_and_lack_its_end(self, tmp_path: Path) -> None:
        """A program that overwrites its arguments may leave no zero at the end."""
        assert self.environ(tmp_path, b"A=\0B=x=y\0C=z", "A", "B", "C") == {"A": "", "B": "x=y", "C": "z"}

    def test_value_is_made_printable_and_cut_at_256_characters(self, tmp_path: Path) -> None:
        """Invalid UTF-8, a newline, and a long value."""
        content = b"A=\xff\n\0B=" + "ä".encode() * 300 + b"\0"

        assert self.environ(tmp_path, content, "A", "B") == {"A": "\ufffd\ufffd", "B": "ä" * 256}

    def test_environment_of_2_mib_is_read_to_its_end(self, tmp_path: Path) -> None:
        """The last variable of exactly 2 MiB is found."""
        content = b"X=".ljust(ENVIRON_BYTES_MAX - 8, b"x") + b"\0RANK=7\0"
        assert len(content) == ENVIRON_BYTES_MAX

        assert self.environ(tmp_path, content, "RANK") == {"RANK": "7"}

    def test_variable_cut_at_2_mib_is_not_used(self, tmp_path: Path) -> None:
        """RANK=77 cut to RANK=7 would be a wrong rank."""
        content = b"X=".ljust(ENVIRON_BYTES_MAX - 7, b"x") + b"\0RANK=77\0"

        assert self.environ(tmp_path, content, "RANK") == {}

    def test_one_variable_of_3_mib_gives_nothing(self, tmp_path: Path) -> None:
        """Its end is beyond the limit."""
        assert self.environ(tmp_path, b"RANK=" + b"1" * 3 * 2**20, "RANK") == {}


class TestCgroup:
    def test_cgroup_is_text_of_any_bytes(self, tmp_path: Path) -> None:
        """Input of parse_cgroup()."""
        assert process(tmp_path, 7, cgroup=b"0::/a\xff\n").cgroup(7) == "0::/a\ufffd\n"


class TestRealProc:
    """The same on the /proc here."""

    def test_own_process_is_read(self) -> None:
        """Compared with what Python knows."""
        processes, tgid = Processes(), os.getpid()

        assert tgid in processes.tgids()
        assert processes.stat(tgid).parent_tgid == os.getppid()
        assert processes.cgroup(tgid) == Path("/proc/self/cgroup").read_text()

    def test_environment_of_a_child_is_read_whole(self) -> None:
        """Sixteen variables of 120 KiB come before the wanted one."""
        environment = {f"X{number}": "x" * 120 * 1024 for number in range(16)} | {"RANK": "5"}
        command = [sys.executable, "-c", "print(flush=True); input()"]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            found = Processes().environ(child.pid, frozenset({"RANK"}))
            child.communicate(b"\n")

        assert found == {"RANK": "5"}

    def test_ended_process_is_gone(self) -> None:
        """After it was waited for, its tgid leads nowhere."""
        with subprocess.Popen(["true"]) as child:
            child.wait()

        with pytest.raises(ProcessGone):
            Processes().stat(child.pid)
