"""environments: the wanted variables of a process, and of one that has written over them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from exporter.host.environments import environment, is_whole
from exporter.host.processes import ENVIRON_BYTES_MAX, Processes
from tests.unit.host.process_tree import process


class TestEnvironment:
    def environ(self, tmp_path: Path, content: bytes, *names: str) -> dict[str, str]:
        """The wanted variables of a process whose environment is `content`."""
        return environment(process(tmp_path, 7, environ=content), 7, frozenset(names))

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


class TestOverwritten:
    @pytest.mark.parametrize("area", [b"A=1\0", b"A=1\0B=\0", b"A=\0"])
    def test_area_with_nothing_but_variables_is_whole(self, area: bytes) -> None:
        assert is_whole(area)

    @pytest.mark.parametrize(
        "area", [b"", b"\0", bytes(64), b"title\0\0\0", b"title    \0", b"A=1\0title\0", b"A=1", b"A=1\0\0B=2\0"]
    )
    def test_area_with_a_title_or_what_pads_it_is_not(self, area: bytes) -> None:
        """PostgreSQL pads with zeros, others with spaces."""
        assert not is_whole(area)

    def test_what_is_left_counts_where_the_copy_cannot_be_read(self, tmp_path: Path) -> None:
        """Without permission to read its memory."""
        found = environment(process(tmp_path, 7, environ=b"title\0\0RANK=3\0"), 7, frozenset({"RANK"}))

        assert found == {"RANK": "3"}


class TestRealProc:
    def test_environment_of_a_child_is_read_whole(self) -> None:
        """Sixteen variables of 120 KiB come before the wanted one."""
        variables = {f"X{number}": "x" * 120 * 1024 for number in range(16)} | {"RANK": "5"}
        command = [sys.executable, "-c", "print(flush=True); input()"]
        with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            found = environment(Processes(), child.pid, frozenset({"RANK"}))
            child.communicate(b"\n")

        assert found == {"RANK": "5"}

    @pytest.mark.parametrize(("started_with", "rank"), [({}, "5"), ({"SLURM_PROCID": "0"}, "5"), ({"RANK": "3"}, "3")])
    def test_variable_that_the_program_has_set_itself_is_found_if_none_is_there(
        self, started_with: dict[str, str], rank: str
    ) -> None:
        """As a worker of torch.multiprocessing.spawn() does before its first CUDA call."""
        set_late = "import os; os.environ['RANK'] = '5'; print(flush=True); input()"
        with subprocess.Popen(
            [sys.executable, "-c", set_late],
            env={"PATH": "/usr/bin", **started_with},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            wanted, expected = frozenset({"RANK", "SLURM_PROCID"}), frozenset({"RANK"})
            unexpected = environment(Processes(), child.pid, wanted)
            found = environment(Processes(), child.pid, wanted, expected=expected)
            child.communicate(b"\n")

        assert unexpected == started_with
        assert found == {**started_with, "RANK": rank}
