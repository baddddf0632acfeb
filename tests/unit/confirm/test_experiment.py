"""experiment: which culprits are paused and how, and the steps between two scrapes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.chains.chain import Present
from exporter.confirm.eligibility import ProcessFacts
from exporter.confirm.experiment import Plan, consent_lines, is_unchanged, make_plan, names, seconds_without
from exporter.confirm.intervention import PauseMethod
from exporter.confirm.outcome import Steps
from exporter.errors import BadInput, ProcessGone
from exporter.host.processes import Processes
from tests.support.history import an_event

JOB, HOG = 100, 777
STARTED = 5
"""Start time of every process here, in ticks."""


def facts(tgid: int, comm: str = "stress-ng") -> ProcessFacts:
    return ProcessFacts(tgid, comm, 7, (1,), ("/",))


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """/proc with the job, this process and init, each in a cgroup of its own."""
    for tgid, parent, cgroup in ((JOB, 1, "/job"), (os.getpid(), 1, "/shell"), (1, 0, "/init.scope")):
        add(tmp_path, tgid, parent, cgroup)
    return tmp_path


def add(proc: Path, tgid: int, parent: int, cgroup: str, comm: str = "stress-ng") -> None:
    folder = proc / str(tgid)
    folder.mkdir()
    fields = ["S", str(parent), *["0"] * 17, "5", *["0"] * 30]
    (folder / "stat").write_text(f"{tgid} ({comm}) {' '.join(fields)}\n")
    (folder / "comm").write_text(f"{comm}\n")
    (folder / "cgroup").write_text(f"0::{cgroup}\n")


class TestMakePlan:
    def test_culprit_in_another_cgroup_is_stopped(self, proc: Path) -> None:
        """A scheduling policy counts within one cgroup only."""
        add(proc, HOG, 1, "/hogs")
        plan = make_plan(an_event(), Processes(proc))

        assert ([one.tgid for one in plan.processes], plan.method) == ([HOG], PauseMethod.SIGSTOP)

    def test_given_method_is_used(self, proc: Path) -> None:
        add(proc, HOG, 1, "/hogs")

        assert make_plan(an_event(), Processes(proc), PauseMethod.SCHED_IDLE).method is PauseMethod.SCHED_IDLE

    def test_excluded_culprits_are_listed_with_the_reason(self, proc: Path) -> None:
        add(proc, HOG, 1, "/hogs")
        add(proc, 778, 1, "/system.slice/cron.service", "cron")
        plan = make_plan(an_event(culprit_tgids=(HOG, 778), culprit_start_ticks=(STARTED, STARTED)), Processes(proc))

        assert plan.excluded == ("cron (778): it is a system service",)

    def test_without_a_culprit_to_pause_it_is_refused(self, proc: Path) -> None:
        """The only one has ended."""
        with pytest.raises(BadInput, match="no culprit of chain 11111111 can be paused: they have ended") as raised:
            make_plan(an_event(), Processes(proc))

        assert "explain --chain=11111111" in raised.value.remedy

    @pytest.mark.parametrize("start_ticks", [(), (0,)])
    def test_culprit_without_a_recorded_start_is_refused(self, proc: Path, start_ticks: tuple[int, ...]) -> None:
        """An older version recorded pids alone."""
        add(proc, HOG, 1, "/hogs")

        with pytest.raises(BadInput, match=r"stress-ng \(777\): the history does not say when it was started"):
            make_plan(an_event(culprit_start_ticks=start_ticks), Processes(proc))

    def test_process_that_has_the_pid_of_the_culprit_now_is_refused(self, proc: Path) -> None:
        """The culprit ended, and its id was reused."""
        add(proc, HOG, 1, "/hogs", "sensor")

        with pytest.raises(BadInput, match=r"sensor \(777\): it is another process, to which the pid belongs now"):
            make_plan(an_event(culprit_start_ticks=(STARTED - 1,)), Processes(proc))

    def test_process_that_has_the_pid_of_the_job_now_is_not_the_job(self, proc: Path) -> None:
        add(proc, HOG, 1, "/hogs")

        with pytest.raises(ProcessGone):
            make_plan(an_event(start_ticks=STARTED + 1), Processes(proc))

    @pytest.mark.parametrize(
        ("cgroup", "comm", "words"),
        [
            ("/../../system.slice/sshd.service", "x", "cannot be followed to the root"),
            ("/hogs/../system.slice/a.service", "x", "cannot be followed to the root"),
            ("/shell", "x", "its cgroup contains process"),
            ("/", "x", "it is in the root cgroup"),
            ("/exporters", "x", "its cgroup contains process 900 \\(gpu-stall-expor"),
            ("/docker/a/kubelet/b", "x", "a system service"),
            ("/a/system.slice/b", "x", "a system service"),
            ("/hogs", "sshd-session", "the name of a program that the machine needs"),
            ("/hogs", "containerd-shim", "the name of a program that the machine needs"),
            ("/hogs", "kubelet", "the name of a program that the machine needs"),
        ],
    )
    def test_what_the_machine_needs_is_refused(self, proc: Path, cgroup: str, comm: str, words: str) -> None:
        """A tenant had its program recorded as the culprit, and the pid or the cgroup leads elsewhere."""
        add(proc, 900, 1, "/exporters/a", "gpu-stall-expor")
        add(proc, HOG, 1, cgroup, comm)

        with pytest.raises(BadInput, match=words):
            make_plan(an_event(), Processes(proc))

    def test_without_cgroups_the_culprit_is_refused_and_the_job_has_not_ended(self, proc: Path) -> None:
        """A kernel that has none: the files are missing, and the pids and start times are those that were recorded."""
        add(proc, HOG, 1, "/hogs")
        for file in proc.glob("*/cgroup"):
            file.unlink()

        with pytest.raises(
            BadInput, match=r"can be paused: stress-ng \(777\): it has no cgroup, so it may be a service"
        ):
            make_plan(an_event(), Processes(proc))

    def test_cgroup_is_resolved_from_the_root(self, proc: Path) -> None:
        """In a namespace it has dots in front."""
        add(proc, HOG, 1, "/../../system.slice/sshd.service")

        with pytest.raises(BadInput, match="a system service"):
            make_plan(an_event(), Processes(proc), resolve=lambda text: (text[3:].strip().replace("/../..", ""),))

    def test_plan_changes_when_a_process_moves(self, proc: Path) -> None:
        add(proc, HOG, 1, "/hogs")
        before = make_plan(an_event(), Processes(proc))
        (proc / str(HOG) / "cgroup").write_text("0::/elsewhere\n")

        assert is_unchanged(before, before)
        assert not is_unchanged(before, make_plan(an_event(), Processes(proc)))

    def test_job_that_has_ended_raises(self, tmp_path: Path) -> None:
        with pytest.raises(ProcessGone):
            make_plan(an_event(), Processes(tmp_path))


class TestConsent:
    def test_processes_are_grouped_by_name(self) -> None:
        assert names([facts(777), facts(9, "cron"), facts(778)]) == "stress-ng (777, 778), cron (9)"

    def test_name_that_is_not_plain_is_quoted(self) -> None:
        assert names([facts(777, "a (1), sshd")]) == "'a (1), sshd' (777)"

    def test_lines_name_processes_method_and_exclusions(self) -> None:
        plan = Plan((facts(777),), ("cron (778): it is a system service",), PauseMethod.SIGSTOP)

        assert consent_lines(plan) == (
            "stress-ng (777) will be stopped (SIGSTOP) for 2 s and then resume, whatever happens to this command.",
            "Not paused: cron (778): it is a system service.",
        )


class TestSecondsWithout:
    """How long a step is expected to take while the culprit is paused; the baseline is 14 ms."""

    def test_only_chain_leaves_the_baseline(self) -> None:
        """28 ms, since steps take twice as long."""
        assert seconds_without(an_event(slowdown=1.0), Steps(50, 0.028)) == pytest.approx(0.014)

    def test_chain_on_top_leaves_what_the_other_one_costs(self) -> None:
        """Steps took 28 ms before it began, and take 42 ms now: half as long again."""
        assert seconds_without(an_event(slowdown=0.5), Steps(50, 0.042)) == pytest.approx(0.028)

    def test_chain_that_was_worse_leaves_no_less_than_the_baseline(self) -> None:
        """The slowdown of a chain is that of its worst time."""
        assert seconds_without(an_event(slowdown=3.0), Steps(50, 0.021)) == pytest.approx(0.014)

    def test_slowdown_of_now_counts_and_not_that_of_the_worst_time(self) -> None:
        """Four times as long at its worst, twice as long now, with another chain beside it."""
        event = an_event(slowdown=3.0, now=Present(0.4, 1.0, ()))

        assert seconds_without(event, Steps(50, 0.042)) == pytest.approx(0.021)

    def test_without_steps_it_is_the_baseline(self) -> None:
        assert seconds_without(an_event(slowdown=None), Steps(0, None)) == pytest.approx(0.014)
