"""eligibility: which processes may be paused."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.confirm.eligibility import ProcessFacts, read_facts, reason_to_exclude
from exporter.errors import ProcessGone
from exporter.host.processes import Processes
from tests.unit.host.process_tree import process

JOB = ProcessFacts(100, "python", 5, (90, 80, 1), ("/docker/job", "/"))
OWN = {70, 60, 1}


def neighbour(
    tgid: int = 500, ancestors: tuple[int, ...] = (400, 1), cgroups: tuple[str, ...] = ("/docker/other", "/")
) -> ProcessFacts:
    """A process of another container."""
    return ProcessFacts(tgid, "stress-ng", 7, ancestors, cgroups)


class TestReasonToExclude:
    def test_process_of_another_container_may_be_paused(self) -> None:
        """Both are in the root cgroup of one hierarchy."""
        assert reason_to_exclude(neighbour(), JOB, OWN) == ""

    @pytest.mark.parametrize(
        ("one", "words"),
        [
            (neighbour(tgid=1, ancestors=()), "init"),
            (neighbour(tgid=2, ancestors=()), "kernel thread"),
            (neighbour(ancestors=(2,)), "kernel thread"),
            (neighbour(tgid=100), "belongs to the job"),
            (neighbour(ancestors=(100, 90, 1)), "belongs to the job"),
            (neighbour(tgid=90), "belongs to the job"),
            (neighbour(cgroups=("/", "/docker/job")), "the job's cgroup"),
            (neighbour(tgid=70), "this command runs below it"),
            (neighbour(cgroups=("/system.slice/sshd.service",)), "system service"),
            (neighbour(cgroups=("/init.scope",)), "system service"),
        ],
        ids=["init", "kthreadd", "kernel", "job", "worker", "launcher", "container", "shell", "service", "systemd"],
    )
    def test_reason_names_why_it_is_excluded(self, one: ProcessFacts, words: str) -> None:
        assert words in reason_to_exclude(one, JOB, OWN)

    def test_process_with_one_cgroup_in_common_may_be_paused(self) -> None:
        """The cgroup of one of several hierarchies may be that of the whole machine."""
        assert reason_to_exclude(neighbour(cgroups=("/hogs", "/docker/job", "/")), JOB, OWN) == ""

    def test_process_in_the_root_cgroup_is_refused(self) -> None:
        """Whether the job is there too: where no program has a cgroup of its own, sshd and a batch job look alike."""
        job = ProcessFacts(100, "python", 5, (90, 80, 1), ("/", "/"))

        assert "it is in the root cgroup" in reason_to_exclude(neighbour(cgroups=("/", "/")), JOB, OWN)
        assert "it is in the root cgroup" in reason_to_exclude(neighbour(cgroups=("/", "/")), job, OWN)

    def test_job_in_the_root_cgroup_has_culprits_that_may_be_paused(self) -> None:
        """They are known by pid and start time; only where they are themselves says what they are."""
        job = ProcessFacts(100, "python", 5, (90, 80, 1), ("/", "/"))

        assert reason_to_exclude(neighbour(), job, OWN) == ""

    def test_deep_descendant_is_not_judged(self) -> None:
        """The job could be the ancestor that is not read."""
        assert "64 ancestors" in reason_to_exclude(neighbour(ancestors=tuple(range(1000, 1064))), JOB, OWN)

    def test_process_without_a_cgroup_is_refused(self) -> None:
        assert "it has no cgroup" in reason_to_exclude(neighbour(cgroups=()), JOB, OWN)

    def test_cgroup_above_that_of_a_protected_process_is_refused(self) -> None:
        """In every hierarchy; a group of its own in one of them is enough."""
        shell = ProcessFacts(600, "bash", 7, (1,), ("/a/shell", "/"))

        assert "its cgroup contains process 600 (bash)" in reason_to_exclude(
            neighbour(cgroups=("/a", "/")), JOB, OWN, [shell]
        )
        assert reason_to_exclude(neighbour(cgroups=("/a/shel", "/")), JOB, OWN, [shell]) == ""
        assert reason_to_exclude(neighbour(cgroups=("/a", "/b")), JOB, OWN, [shell]) == ""

    def test_different_hierarchies_are_not_compared(self) -> None:
        shell = ProcessFacts(600, "bash", 7, (1,), ("/shell",))

        assert reason_to_exclude(neighbour(), JOB, OWN, [shell])

    def test_cgroup_of_services_matches_as_a_whole_name(self) -> None:
        assert reason_to_exclude(neighbour(cgroups=("/system.slices",)), JOB, OWN) == ""


class TestReadFacts:
    def test_cgroup_of_every_hierarchy_is_read(self, tmp_path: Path) -> None:
        processes = process(tmp_path, 100, cgroup=b"7:cpu,cpuacct:/docker/abc\n0::/x:y\n")
        (tmp_path / "100" / "comm").write_text("python\n")
        found = read_facts(processes, 100)

        assert (found.tgid, found.comm, found.cgroups) == (100, "python", ("/docker/abc", "/x:y"))

    def test_process_on_a_kernel_without_cgroups_has_none(self, tmp_path: Path) -> None:
        """It has not ended, though its file is missing."""
        processes = process(tmp_path, 100, comm=b"python\n")

        assert read_facts(processes, 100).cgroups == ()

    def test_process_that_has_ended_raises(self, tmp_path: Path) -> None:
        with pytest.raises(ProcessGone):
            read_facts(Processes(tmp_path), 100)
