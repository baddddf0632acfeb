"""remedies.culprits: acts on what holds the job's CPUs, none on the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.causes import Cause
from exporter.chains.remedies import ProcessContext, remedy_of
from exporter.chains.remedies.context import ManagedBy, RunningProcess
from tests.support.chains import a_chain
from tests.unit.chains.remedies.contexts import (
    CONTAINER,
    CROWDED,
    CULPRIT,
    IN_CONTAINER,
    IN_UNIT,
    JOB,
    NODE,
    TRAINER,
    groups,
)

SHOWN = "ps -o pid,lstart,psr,ni,pcpu,cgroup,args -p 777"
SCOPE = f"/system.slice/docker-{CONTAINER}.scope"
SERVICE = "/system.slice/backup.service"
JOB_IN_SYSTEM = replace(JOB, groups=groups("/system.slice/train.service"))


def commands(culprit: RunningProcess, context: ProcessContext) -> tuple[str, ...]:
    """Behind the one that shows the culprit."""
    first, *acts = remedy_of(a_chain(), context._replace(culprits=(culprit,))).commands

    assert first == SHOWN
    return tuple(acts)


class TestWithFreeCpus:
    """CPUs 2 and 3: the culprit moves there."""

    def test_process_is_moved(self) -> None:
        remedy = remedy_of(a_chain(), TRAINER)

        assert remedy.what == "stress-ng is using the job's CPUs. Move it to CPUs 2-3, which no GPU process uses."
        assert remedy.commands == (SHOWN, "taskset -acp 2-3 777")

    def test_container_is_moved_as_a_whole(self) -> None:
        culprit = replace(CULPRIT, managed_by=IN_CONTAINER, groups=groups(SCOPE))

        assert commands(culprit, TRAINER) == (f"docker update --cpuset-cpus 2-3 {CONTAINER}",)

    @pytest.mark.parametrize(
        ("runtime", "tool"),
        [("podman", "podman"), ("containerd", "crictl"), ("crio", "crictl"), ("kubernetes", "crictl")],
    )
    def test_each_runtime_has_its_own_program(self, runtime: str, tool: str) -> None:
        culprit = replace(CULPRIT, managed_by=ManagedBy(CONTAINER, runtime), groups=groups(f"/x/{CONTAINER}"))

        assert commands(culprit, TRAINER) == (f"{tool} update --cpuset-cpus 2-3 {CONTAINER}",)

    def test_unit_is_moved_as_a_whole(self) -> None:
        culprit = replace(CULPRIT, managed_by=IN_UNIT, groups=groups(SERVICE))

        assert commands(culprit, TRAINER) == ("systemctl set-property --runtime backup.service AllowedCPUs=2-3",)

    def test_unit_has_no_cpus_in_version_1(self) -> None:
        """The process is moved."""
        culprit = replace(CULPRIT, managed_by=IN_UNIT, groups=groups(SERVICE, 1))
        context = TRAINER._replace(job=replace(JOB, groups=groups("/kubepods/pod1", 1)))

        assert commands(culprit, context) == ("taskset -acp 2-3 777",)

    def test_process_moves_to_cpus_of_its_group_only(self) -> None:
        """The kernel refuses others."""
        assert commands(replace(CULPRIT, cpuset=frozenset((0, 3))), TRAINER) == ("taskset -acp 3 777",)

    def test_process_whose_group_has_no_free_cpu_is_lowered(self) -> None:
        culprit = replace(CULPRIT, cpuset=frozenset((0, 1)))

        assert commands(culprit, TRAINER) == ("echo 1 > /sys/fs/cgroup/other/cpu.weight",)

    def test_culprit_that_was_moved_is_not_moved_again(self) -> None:
        context = TRAINER._replace(culprits=(replace(CULPRIT, cpus=frozenset((2, 3))),))
        remedy = remedy_of(a_chain(), context)

        assert "may run on other CPUs only" in remedy.what
        assert not [one for one in remedy.commands if not one.startswith("ps ")]

    def test_one_command_for_two_processes_of_a_container(self) -> None:
        culprit = replace(CULPRIT, managed_by=IN_CONTAINER, groups=groups(SCOPE))
        context = TRAINER._replace(culprits=(culprit, replace(culprit, tgid=778)))

        assert remedy_of(a_chain(), context).commands == (
            f"{SHOWN},778",
            f"docker update --cpuset-cpus 2-3 {CONTAINER}",
        )


class TestWithoutFreeCpus:
    """Weights and priorities compare within one group only."""

    def test_advice_says_why(self) -> None:
        what = remedy_of(a_chain(), CROWDED).what

        assert "No CPU is free of GPU processes: lower its priority, or give the job dedicated CPUs." in what

    @pytest.mark.parametrize("path", ["", "/kubepods", "/kubepods/pod1/abc"])
    def test_process_in_the_jobs_group_or_above_gets_the_lowest_priority(self, path: str) -> None:
        """Each of its threads: renice changes one."""
        culprit = replace(CULPRIT, groups=groups(path), autogroup="/autogroup-1")

        assert commands(culprit, CROWDED) == ("renice -n 19 -p $(ls /proc/777/task)",)

    def test_session_in_the_root_group_gets_it_as_well(self) -> None:
        """The kernel groups its processes, unless they are those of the job."""
        assert commands(replace(CULPRIT, groups=groups("")), CROWDED) == (
            "renice -n 19 -p $(ls /proc/777/task); echo 19 > /proc/777/autogroup",
        )

    @pytest.mark.parametrize(
        "unit",
        [
            "kubelet.service",
            "containerd.service",
            "ssh.service",
            "systemd-journald.service",
            "slurmd.service",
            "init.scope",
        ],
    )
    def test_unit_that_the_node_needs_is_not_slowed_down(self, unit: str) -> None:
        """The node would leave the cluster. It is shown, and advice is left."""
        culprit = replace(CULPRIT, groups=groups(f"/system.slice/{unit}"), managed_by=ManagedBy(unit=unit))
        for process in (culprit, replace(culprit, is_realtime=True)):
            assert commands(process, CROWDED) == ()

    @pytest.mark.parametrize(("path", "controlled"), [("/user.slice", "/user.slice"), ("/user.slice/a", "/user.slice")])
    def test_group_that_has_other_programs_is_left_alone(self, path: str, controlled: str) -> None:
        """A slice, and the group above the culprit's own: the culprit itself gets the lowest priority."""
        of_slice = groups(path)
        of_slice["cpu"] = of_slice["cpu"]._replace(controlled=controlled)

        assert commands(replace(CULPRIT, groups=of_slice), CROWDED) == ("renice -n 19 -p $(ls /proc/777/task)",)

    def test_container_of_another_gpu_process_is_left_alone(self) -> None:
        """It would be slowed down as well."""
        context = CROWDED._replace(job_paths=frozenset((SCOPE,)))

        culprit = replace(CULPRIT, groups=groups(SCOPE), managed_by=IN_CONTAINER)

        assert not any("docker" in one for one in commands(culprit, context))

    def test_group_beside_one_of_the_jobs_gets_the_lowest_weight(self) -> None:
        assert commands(CULPRIT, CROWDED) == ("echo 1 > /sys/fs/cgroup/other/cpu.weight",)

    def test_group_in_another_branch_gets_a_quota(self) -> None:
        """Its weight compares with that of its neighbours, and the job is none."""
        culprit = replace(CULPRIT, groups=groups("/user/1000"))

        assert commands(culprit, CROWDED) == ("echo '20000 100000' > /sys/fs/cgroup/user/1000/cpu.max",)

    @pytest.mark.parametrize(
        ("path", "setting"), [("/b", "2 > {}/cpu.shares"), ("/b/c", "20000 > {}/cpu.cfs_quota_us")]
    )
    def test_version_1_has_other_files(self, path: str, setting: str) -> None:
        culprit = replace(CULPRIT, groups=groups(path, 1))
        context = CROWDED._replace(job=replace(JOB, groups=groups("/a", 1)))

        assert commands(culprit, context) == (f"echo {setting.format('/sys/fs/cgroup/cpu' + path)}",)

    def test_unit_beside_the_jobs_gets_the_lowest_weight(self) -> None:
        culprit = replace(CULPRIT, managed_by=IN_UNIT, groups=groups(SERVICE))

        assert commands(culprit, CROWDED._replace(job=JOB_IN_SYSTEM)) == (
            "systemctl set-property --runtime backup.service CPUWeight=1",
        )

    def test_unit_in_another_slice_gets_a_quota(self) -> None:
        culprit = replace(CULPRIT, managed_by=IN_UNIT, groups=groups(SERVICE))

        assert commands(culprit, CROWDED) == ("systemctl set-property --runtime backup.service CPUQuota=20%",)

    @pytest.mark.parametrize(
        ("runtime", "path", "limit"),
        [
            ("docker", "/kubepods/{}", "--cpu-shares 2"),
            ("docker", "/docker/{}", "--cpus 0.2"),
            ("crio", "/kubepods/{}", "--cpu-share 2"),
            ("crio", "/kubepods/pod2/{}", "--cpu-quota 20000 --cpu-period 100000"),
        ],
    )
    def test_container_gets_a_weight_or_a_quota(self, runtime: str, path: str, limit: str) -> None:
        culprit = replace(CULPRIT, managed_by=ManagedBy(CONTAINER, runtime), groups=groups(path.format(CONTAINER)))
        tool = "docker" if runtime == "docker" else "crictl"

        assert commands(culprit, CROWDED) == (f"{tool} update {limit} {CONTAINER}",)

    def test_realtime_process_gets_the_default_policy(self) -> None:
        """Neither nice values nor weights apply to it."""
        culprit = replace(CULPRIT, is_realtime=True)

        assert commands(culprit, CROWDED) == ("chrt --all-tasks --other --pid 0 777",)


class TestOfTheJob:
    """The victim is never acted on."""

    def test_unit_of_the_job_is_not_acted_on(self) -> None:
        culprit = replace(CULPRIT, managed_by=IN_UNIT, groups=groups(SERVICE), autogroup="/autogroup-1")
        context = TRAINER._replace(job=replace(JOB, groups=groups(f"{SERVICE}/train"), managed_by=IN_UNIT))

        assert commands(culprit, context) == ("taskset -acp 2-3 777",)
        assert commands(culprit, context._replace(free_cpus=frozenset())) == ("renice -n 19 -p $(ls /proc/777/task)",)

    def test_container_of_the_job_is_not_acted_on(self) -> None:
        culprit = replace(CULPRIT, managed_by=IN_CONTAINER, groups=groups(f"{SCOPE}/init"))
        context = TRAINER._replace(job=replace(JOB, groups=groups(SCOPE), managed_by=IN_CONTAINER))

        assert commands(culprit, context) == ("taskset -acp 2-3 777",)

    def test_other_gpu_process_is_not_acted_on(self) -> None:
        remedy = remedy_of(a_chain(), TRAINER._replace(culprits=(replace(CULPRIT, is_of_a_job=True),)))

        assert "give each of them CPUs of its own" in remedy.what
        assert remedy.commands == (SHOWN,)

    def test_thread_of_the_kernel_is_not_acted_on(self) -> None:
        remedy = remedy_of(a_chain(), TRAINER._replace(culprits=(replace(CULPRIT, is_kernel_thread=True),)))

        assert "thread of the kernel" in remedy.what
        assert remedy.commands == (SHOWN, "cat /proc/interrupts /proc/softirqs")


MOST_CPU = "ps -eo pid,lstart,psr,ni,pcpu,comm --sort=-pcpu | head -n 20"


class TestWithoutCulprit:
    def test_culprit_that_has_ended_is_not_acted_on(self) -> None:
        remedy = remedy_of(a_chain(), TRAINER._replace(culprits=()))

        assert "Its process has ended: check what started it" in remedy.what
        assert remedy.commands == (MOST_CPU,)

    def test_culprit_is_not_known_in_another_pid_namespace(self) -> None:
        """Its id is one of the machine."""
        context = TRAINER._replace(culprits=(), node=replace(NODE, has_machine_ids=False))

        assert "Its process is not known" in remedy_of(a_chain(), context).what

    @pytest.mark.parametrize(
        "name",
        ["outside", "other", "make (children)", "sshd.service (cgroup)", "user@1000.service", "session-3.scope"],
    )
    def test_unknown_culprit_is_looked_for(self, name: str) -> None:
        chain = a_chain(culprits=((name, 0.9),))
        remedy = remedy_of(chain, TRAINER._replace(culprits=(), culprit_tgids=()))

        assert "Its process is not known: check what uses those CPUs" in remedy.what
        assert remedy.commands == (MOST_CPU,)

    def test_unit_whose_programs_come_and_go_is_moved(self) -> None:
        """Its name is no program's: those in the form of a unit are marked."""
        chain = a_chain(culprits=(("cron.service", 0.9),))
        context = TRAINER._replace(culprits=(), culprit_tgids=())
        shown = "systemctl show cron.service -p ActiveState,MainPID,CPUUsageNSec"

        assert remedy_of(chain, context).commands == (
            shown,
            "systemctl set-property --runtime cron.service AllowedCPUs=2-3",
        )
        assert remedy_of(chain, context._replace(free_cpus=frozenset())).commands == (
            shown,
            "systemctl set-property --runtime cron.service CPUQuota=20%",
        )

    def test_unit_around_the_job_is_not_acted_on(self) -> None:
        job = replace(JOB, groups=groups("/system.slice/train.service"))
        context = TRAINER._replace(job=job, culprits=(), culprit_tgids=())

        assert remedy_of(a_chain(culprits=(("train.service", 0.9),)), context).commands == (MOST_CPU,)


class TestDisk:
    def test_culprit_comes_after_others(self) -> None:
        """Each of its threads."""
        assert "ionice -c 3 -p $(ls /proc/777/task)" in remedy_of(a_chain(cause=Cause.BLOCK_IO), TRAINER).commands

    def test_scheduler_without_classes_is_not_given_one(self) -> None:
        node = replace(NODE, has_io_classes=False)
        commands_of_disk = remedy_of(a_chain(cause=Cause.BLOCK_IO), TRAINER._replace(node=node)).commands

        assert not [one for one in commands_of_disk if "ionice" in one]
