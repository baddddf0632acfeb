"""subjects: who may be held."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.confirm.eligibility import ProcessFacts, facts_of, reason_against
from tests.unit.host.process_tree import process

JOB = ProcessFacts(100, "python", 5, (90, 80, 1), ("/docker/job", "/"))
OURS = {70, 60, 1}


def somebody(
    tgid: int = 500, line: tuple[int, ...] = (400, 1), cgroups: tuple[str, ...] = ("/docker/other", "/")
) -> ProcessFacts:
    """A neighbour, unless said otherwise."""
    return ProcessFacts(tgid, "stress-ng", 7, line, cgroups)


class TestReason:
    """Against holding a process."""

    def test_neighbour_may_be_held(self) -> None:
        """In a container of its own; the root of a hierarchy is everybody's."""
        assert reason_against(somebody(), JOB, OURS) == ""

    @pytest.mark.parametrize(
        ("one", "words"),
        [
            (somebody(tgid=1, line=()), "the first process"),
            (somebody(tgid=2, line=()), "thread of the kernel"),
            (somebody(line=(2,)), "thread of the kernel"),
            (somebody(tgid=100), "belongs to the job"),
            (somebody(line=(100, 90, 1)), "belongs to the job"),
            (somebody(tgid=90), "belongs to the job"),
            (somebody(cgroups=("/", "/docker/job")), "the job's control group"),
            (somebody(tgid=70), "this command runs below it"),
            (somebody(cgroups=("/system.slice/sshd.service",)), "service of the machine"),
            (somebody(cgroups=("/init.scope",)), "service of the machine"),
        ],
        ids=["init", "kthreadd", "kernel", "job", "worker", "launcher", "container", "shell", "service", "systemd"],
    )
    def test_what_others_stand_on_is_left_alone(self, one: ProcessFacts, words: str) -> None:
        """With the reason."""
        assert words in reason_against(one, JOB, OURS)

    def test_neighbour_in_one_common_group_may_be_held(self) -> None:
        """Of several hierarchies: a limit on memory may be that of a whole machine."""
        assert reason_against(somebody(cgroups=("/hogs", "/docker/job", "/")), JOB, OURS) == ""

    def test_processes_of_a_bare_machine_may_be_held(self) -> None:
        """Where nobody has a control group."""
        job = ProcessFacts(100, "python", 5, (90, 80, 1), ("/", "/"))

        assert reason_against(somebody(cgroups=("/", "/")), job, OURS) == ""

    def test_slice_is_a_whole_name(self) -> None:
        """Not the begin of another."""
        assert reason_against(somebody(cgroups=("/system.slices",)), JOB, OURS) == ""


class TestFacts:
    """Of a process."""

    def test_they_are_read_from_proc(self, tmp_path: Path) -> None:
        """Every hierarchy has a path."""
        processes = process(tmp_path, 100, cgroup=b"7:cpu,cpuacct:/docker/abc\n0::/x:y\n")
        (tmp_path / "100" / "comm").write_text("python\n")
        found = facts_of(processes, 100)

        assert (found.tgid, found.comm, found.cgroups) == (100, "python", ("/docker/abc", "/x:y"))
