"""Commands of remedies, pasted into a shell: none fails, none changes the job for the worse, twice is as once.

Those against a culprit are judged by what the kernel says of its CPUs, priority and control group, and not by times.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from exporter.chains.remedies import remedy_of
from exporter.chains.remedies.commands import CPUSET
from exporter.chains.remedies.context import ControlGroup, ManagedBy, NodeContext, ProcessContext
from exporter.host.processes import Processes
from exporter.model import Identity
from exporter.pipeline.node_context import node_context
from exporter.pipeline.running_processes import RunningProcesses
from tests.support.acted_on import (
    STANDINS,
    Shell,
    Standing,
    context_of,
    groups,
    machine_processes,
    sleeping,
    standing,
)
from tests.support.chains import a_chain

CONTAINER = "0123456789abcdef" * 4
UNIT = ManagedBy(unit="backup.service", runtime="systemd")
POD = Identity("n", namespace="ml", pod="train-0")
SHOWS = ("ps ", "cat ", "systemctl show ")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@dataclass
class Scene:
    """A job and a culprit, each in a control group; the node that commands are made for."""

    shell: Shell
    node: NodeContext
    job: int
    culprit: int
    job_group: Path | None
    culprit_group: Path | None

    def context(self, cause: Cause = Cause.CPU_CONTENTION) -> ProcessContext:
        """As the pipeline reads it now."""
        running = RunningProcesses(machine_processes(), self.node)
        return running.add_to(context_of(self.job, self.culprit), cause, (self.job,))

    def standings(self) -> tuple[Standing, Standing]:
        """The job's, the culprit's."""
        return standing(self.job, self.job_group), standing(self.culprit, self.culprit_group)

    def acts(self, context: ProcessContext, cause: Cause = Cause.CPU_CONTENTION) -> list[str]:
        """Commands that do more than show something."""
        return [one for one in remedy_of(a_chain(cause=cause), context).commands if not one.startswith(SHOWS)]

    def paste_twice(self, context: ProcessContext) -> None:
        """The one act: the culprit is behind the job after it, and stays so; the job is as before."""
        (act,) = self.acts(context)
        job, culprit = self.standings()

        assert self.shell.paste(act) == 0, act
        after = self.standings()
        assert after[0] == job, act
        assert after[1].is_behind(culprit, job), act
        assert self.shell.paste(act) == 0, act
        assert self.standings() == after, act


def a_scene(
    shell: Shell, stack: ExitStack, *, where: tuple[str, str] = ("job", "near"), is_pinned: bool = False
) -> Scene:
    """where: the groups of job and culprit, "" for the root. is_pinned: the job may use one CPU, the culprit all."""
    cpus = os.sched_getaffinity(0)
    made = stack.enter_context(groups())
    job_group, culprit_group = (made.get(name) for name in where)
    if any(where) and not made:
        pytest.skip("needs the cpu controller of control groups")
    job = stack.enter_context(sleeping({min(cpus)} if is_pinned else cpus, job_group))
    culprit = stack.enter_context(sleeping(cpus, culprit_group))
    return Scene(
        shell,
        replace(node_context(folders=shell.folders), has_machine_ids=True),
        job,
        culprit,
        job_group,
        culprit_group,
    )


class TestAgainstCulprits:
    """On CPUs."""

    def test_process_leaves_the_jobs_cpus(self, shell: Shell, stack: ExitStack, two_cpus: tuple[int, int]) -> None:
        """Each of its threads."""
        scene = a_scene(shell, stack, is_pinned=True)
        scene.paste_twice(scene.context())

        assert not standing(scene.culprit).cpus & standing(scene.job).cpus
        assert scene.acts(scene.context()) == []  # nothing is left to do

    @pytest.mark.parametrize("where", [("", ""), ("job", "")], ids="-".join)
    def test_process_gets_the_lowest_priority(self, shell: Shell, stack: ExitStack, where: tuple[str, str]) -> None:
        """Each of its threads, and its session. No CPU is free."""
        scene = a_scene(shell, stack, where=where)
        scene.paste_twice(scene.context())

        assert set(standing(scene.culprit).nice) == {19}
        assert not scene.node.has_autogroups or standing(scene.culprit).autogroup.strip().endswith("nice 19")

    @pytest.mark.parametrize("where", [("job", "near"), ("", "near"), ("job", "far")], ids="-".join)
    def test_control_group_gets_a_weight_or_a_quota(
        self, shell: Shell, stack: ExitStack, where: tuple[str, str]
    ) -> None:
        scene = a_scene(shell, stack, where=where)
        scene.paste_twice(scene.context())

    def test_process_in_the_jobs_own_group_gets_the_lowest_priority(self, shell: Shell, stack: ExitStack) -> None:
        """The group is the job's as well, and stays as it is."""
        scene = a_scene(shell, stack, where=("job", "job"))
        scene.paste_twice(scene.context())

        assert set(standing(scene.culprit).nice) == {19}

    def test_realtime_process_gets_the_default_policy(self, shell: Shell, stack: ExitStack) -> None:
        scene = a_scene(shell, stack, where=("", ""))
        for task in Path(f"/proc/{scene.culprit}/task").iterdir():
            try:
                os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))
            except PermissionError:
                pytest.skip("needs the permission to give a process a real-time policy")
        scene.paste_twice(scene.context())

    def test_both_processes_of_a_culprit_move(self, shell: Shell, stack: ExitStack, two_cpus: tuple[int, int]) -> None:
        scene = a_scene(shell, stack, is_pinned=True)
        other = stack.enter_context(sleeping(set(two_cpus)))
        running = RunningProcesses(machine_processes(), scene.node)
        context = running.add_to(context_of(scene.job, scene.culprit, other), Cause.CPU_CONTENTION, (scene.job,))
        for act in scene.acts(context):
            assert shell.paste(act) == 0

        assert not (standing(other).cpus | standing(scene.culprit).cpus) & standing(scene.job).cpus

    def test_cpus_of_other_gpu_processes_are_not_free(
        self, shell: Shell, stack: ExitStack, two_cpus: tuple[int, int]
    ) -> None:
        """The culprit would slow those instead."""
        scene = a_scene(shell, stack, is_pinned=True)
        other_rank = stack.enter_context(sleeping({max(two_cpus)}))
        cpus = os.sched_getaffinity(0) - {min(os.sched_getaffinity(0)), max(two_cpus)}
        running = RunningProcesses(machine_processes(), scene.node)
        context = running.add_to(context_of(scene.job, scene.culprit), Cause.CPU_CONTENTION, (scene.job, other_rank))

        assert context.free_cpus == cpus

    def test_child_of_the_job_is_not_acted_on(self, shell: Shell, stack: ExitStack) -> None:
        """It works for the job: this process is the parent of both, and counts as the job here."""
        scene = a_scene(shell, stack, where=("", ""))
        running = RunningProcesses(machine_processes(), scene.node)
        context = running.add_to(context_of(os.getpid(), scene.culprit), Cause.CPU_CONTENTION, ())

        assert scene.acts(context) == []

    def test_disk_of_the_job_is_left_to_others(self, shell: Shell, stack: ExitStack) -> None:
        scene = a_scene(shell, stack, where=("", ""))
        scene.node = replace(scene.node, has_io_classes=True)
        context = scene.context(Cause.BLOCK_IO)
        (act,) = [one for one in scene.acts(context, Cause.BLOCK_IO) if one.startswith("ionice")]

        assert [shell.paste(act), shell.paste(act)] == [0, 0]
        for task in Path(f"/proc/{scene.culprit}/task").iterdir():
            assert shell.paste(f'[ "$(ionice -p {task.name})" = idle ]') == 0


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "full"])
class TestThroughManagers:
    """Runtimes and systemd are stand-ins, which check their arguments."""

    @pytest.mark.parametrize("runtime", ["docker", "podman", "containerd", "crio", "kubernetes"])
    @pytest.mark.parametrize("parent", ["", "/machine"])
    def test_container_is_updated(
        self, shell: Shell, stack: ExitStack, runtime: str, parent: str, is_free: bool
    ) -> None:
        scene, context = self.at(shell, stack, f"{parent}/{CONTAINER}", ManagedBy(CONTAINER, runtime), is_free=is_free)
        (act,) = scene.acts(context)
        tool = {"docker": "docker", "podman": "podman"}.get(runtime, "crictl")

        assert act.startswith(f"{tool} update --cpu")
        assert ("--cpuset-cpus" in act) == is_free
        assert [shell.paste(act), shell.paste(act)] == [0, 0]

    @pytest.mark.parametrize("parent", ["", "/system.slice"])
    def test_unit_gets_a_property_until_the_next_boot(
        self, shell: Shell, stack: ExitStack, parent: str, is_free: bool
    ) -> None:
        scene, context = self.at(shell, stack, f"{parent}/backup.service", UNIT, is_free=is_free)
        (act,) = scene.acts(context)
        is_near = parent == ""
        setting = "AllowedCPUs=" if is_free else "CPUWeight=1" if is_near else "CPUQuota=20%"

        assert act.startswith("systemctl set-property --runtime backup.service ")
        assert setting in act
        assert [shell.paste(act), shell.paste(act)] == [0, 0]

    def at(
        self, shell: Shell, stack: ExitStack, path: str, managed_by: ManagedBy, *, is_free: bool
    ) -> tuple[Scene, ProcessContext]:
        """The culprit is in a control group of version 2 with this path, and the job in another branch."""
        scene = a_scene(shell, stack, where=("", ""))
        context = scene.context()
        assert context.job is not None
        (culprit,) = context.culprits
        mount = "/sys/fs/cgroup"
        job = {name: ControlGroup(mount, 2, "/job/a", "/job/a") for name in ("cpu", CPUSET)}
        return scene, context._replace(
            node=replace(scene.node, has_systemd=True),
            job=replace(context.job, groups=job),
            culprits=(replace(culprit, managed_by=managed_by, groups={"cpu": ControlGroup(mount, 2, path, path)}),),
            free_cpus=frozenset((7,)) if is_free else frozenset(),
        )


class TestEveryCommand:
    """Each remedy, on a node with all programs."""

    @pytest.mark.parametrize("cause", CHAIN_CAUSES)
    def test_succeeds_twice_and_leaves_the_job_as_it_is(self, shell: Shell, stack: ExitStack, cause: Cause) -> None:
        """In a pod, in a batch job, and as a unit; with a culprit, without one, and after the end of the job."""
        scene = a_scene(shell, stack)
        node = replace(scene.node, has_systemd=True, exporter="gpu-stall-exporter")
        alive = scene.context(cause)._replace(node=node)
        assert alive.job is not None
        unit, batch = (
            alive._replace(job=replace(alive.job, managed_by=one)) for one in (UNIT, ManagedBy(slurm_job="7"))
        )
        over = alive._replace(job=None, culprits=())
        commands = dict.fromkeys(
            command
            for context in (alive, alive._replace(culprits=()), unit, batch, over)
            for identity in (POD, Identity("n", container="job_7"), Identity("n", container="train.service"))
            for command in remedy_of(a_chain(cause=cause, peer="3"), context, identity).commands
        )
        job, _ = scene.standings()
        failed = [command for command in commands for _ in range(2) if shell.paste(command) != 0]

        assert failed == []
        assert scene.standings()[0] == job

    @pytest.mark.parametrize("program", sorted(STANDINS))
    def test_program_that_is_absent_is_not_called(self, tmp_path: Path, program: str) -> None:
        """Remedies call only programs that the node has."""
        programs = Shell(tmp_path, without=program).programs
        node = node_context(folders=(str(programs),), own_program=programs / program)

        assert node.commands == STANDINS.keys() - {program, "gpu-stall-exporter"}
        assert node.exporter == ("gpu-stall-exporter" if program != "gpu-stall-exporter" else "")

    def test_culprit_that_has_ended_is_in_no_command(self, shell: Shell, stack: ExitStack) -> None:
        """Nor is another process that has got its id."""
        scene = a_scene(shell, stack, where=("", ""))
        running = RunningProcesses(machine_processes(), scene.node)
        with sleeping(os.sched_getaffinity(0)) as culprit:
            context = context_of(scene.job, culprit)
        ended = running.add_to(context, Cause.CPU_CONTENTION, (scene.job,))
        reused = context._replace(culprit_tgids=(scene.culprit,), culprit_start_ticks=(0,))
        commands = remedy_of(a_chain(), ended).commands

        assert ended.culprits == running.add_to(reused, Cause.CPU_CONTENTION, (scene.job,)).culprits == ()
        assert [one for one in commands if str(culprit) in one.split()] == []
        assert [shell.paste(one) for one in commands] == [0] * len(commands)


def test_first_process_of_the_machine_is_read() -> None:
    """Also a thread of the kernel, where this PID namespace has them."""
    running = RunningProcesses(Processes(), NodeContext(has_machine_ids=True))
    context = running.add_to(context_of(os.getpid(), 1), Cause.CPU_CONTENTION, ())

    assert [one.tgid for one in context.culprits] == [1]
